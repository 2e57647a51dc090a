"""Write Flink SQL as Spark SQL text of the same meaning, without a planner: `flink_to_spark`.

For users of sqlglot, who have text or a tree of the dialect `flink`. `sqlglot.transpile(..., write="spark")` is no way
to it: sqlglot writes a tree by the dialect that is asked for, takes Flink's functions for Spark's of the same name, and
leaves out nodes that it does not know.

Types of columns come from the schema of the call or from the tree (sqlglot's `annotate_types`). Without them, a tree is
written as if they were of one type and of another: where the texts differ, the right one is not known, and the tree is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import takewhile
from textwrap import shorten
from typing import Any

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.errors import UnsupportedError as SqlglotUnsupportedError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.resolver import Resolver
from sqlglot.optimizer.scope import traverse_scope
from sqlglot.schema import MappingSchema

from penstock.catalog.errors import InputError
from penstock.sql.dialect.flink.trees import FLINK
from penstock.sql.dialect.functions.table import FUNCTIONS
from penstock.sql.dialect.parser.calls import is_built_in
from penstock.sql.dialect.parser.table_functions import is_left, table_call, takes_values
from penstock.sql.dialect.rewrites.session_windows import rewrite_session_windows
from penstock.sql.dialect.rewrites.unfold_grouping_sets import unfold_group_ids
from penstock.sql.dialect.rewrites.window_queries import to_spark_text
from penstock.sql.dialect.spark.types import kind_of
from penstock.sql.dialect.spark.writer import TARGET, SparkWriter, write_unnest
from penstock.sql.dialect.windows.group_windows import translate_group_windows
from penstock.sql.dialect.windows.window_tables import WindowTable, window_tables
from penstock.sql.syntax.parse_errors import (
    OPTIMIZER_ERRORS,
    NodeError,
    is_refusal,
    refusals_ignored,
)
from penstock.sql.syntax.traversal import copy_tree

SHOWN = 80
"""Characters of a node's text that a message has."""

NAMES = (exp.Query, exp.Column, exp.Identifier, exp.DataType)
"""Nodes that depend on no type themselves, or are too large to be pointed at."""

OPAQUE = (exp.Column, exp.Dot, exp.Bracket, exp.Subquery)

KINDS = (
    "INT", "DOUBLE", "DECIMAL(10, 2)", "STRING", "BOOLEAN", "BYTES", "DATE", "TIME(0)", "TIMESTAMP(3)",
    "TIMESTAMP_LTZ(3)", "ARRAY<INT>", "ARRAY<ROW<f INT>>", "MAP<STRING, INT>",
    "MULTISET<STRING>", "ROW<f INT>",
)  # fmt: skip
"""One type of each sort that a form may depend on."""

WRITTEN = (
    exp.Query, exp.Values, exp.Insert, exp.Update, exp.Delete, exp.TruncateTable, exp.Condition,
    exp.DataType, exp.Alias,
)  # fmt: skip
"""What has a meaning in Spark SQL. Definitions have none: tables are those of Penstock's catalog."""

REMEDY = "Penstock runs it, or says what to write instead: penstock run FILE"


def flink_to_spark(
    sql: str | exp.Expr, schema: Mapping[str, object] | None = None, **options: Any
) -> str:
    """Return the Spark SQL of one statement, a query or a part of one. Raises sqlglot's SqlglotError.

    `schema` has the types of columns as sqlglot takes it: `{"table": {"column": "TYPE"}}`, names as in the text, with
    a level more for each part in front of a table's name. `options` are those of sqlglot's generator, such as `pretty`.
    What has no form in Spark SQL, or depends on a type that is not known, is sqlglot's UnsupportedError.
    """
    tree = sql if isinstance(sql, exp.Expr) else _parse(sql)
    if not isinstance(tree, WRITTEN):
        raise SqlglotUnsupportedError(
            f"{_words(tree)} has no form in Spark SQL: tables, settings and jobs are not Spark's"
        )
    tables = MappingSchema(dict(schema or {}), dialect=FLINK, normalize=False)
    try:
        return _written(tree, tables, options)
    except (NodeError, InputError) as error:
        hint = f"; {error.hint}" if error.hint else ""
        raise SqlglotUnsupportedError(f"{error.message}{hint}") from None


def _parse(sql: str) -> exp.Expr:
    trees = [tree for tree in FLINK.parse(sql) if tree is not None]
    if len(trees) != 1:
        raise ParseError(f"a call takes one statement, and this text has {len(trees)}")
    return trees[0]


def _written(tree: exp.Expr, tables: MappingSchema, options: dict[str, Any]) -> str:
    """Write a tree, or a part of one. Raises NodeError, InputError and sqlglot's UnsupportedError."""
    write = partial(
        _write, options={"identify": True, **options, "unsupported_level": ErrorLevel.RAISE}
    )
    _check(tree)
    tree = copy_tree(tree)
    translate_group_windows(tree)
    unfold_group_ids(tree)
    if tables.mapping:
        _put_types(tree, tables)
    typed = _typed(tree, None)
    text = _text(typed, write)
    for kind in _kinds() if _opaque(tree) else ():
        other = _typed(tree, kind)
        if _attempt(partial(_text, other, write), text) != text:
            raise _hanging(typed, other, write)
    return text


def _put_types(tree: exp.Expr, tables: MappingSchema) -> None:
    """Type the nodes from a schema; a column without its table gets it where one table alone has it."""
    windows = {id(window.node.find_ancestor(exp.Select)): window for window in window_tables(tree)}
    with refusals_ignored():
        for scope in traverse_scope(tree):
            resolver = Resolver(scope, tables)
            window = windows.get(id(scope.expression))
            for column in scope.columns:
                if window is not None:
                    _type_windowed(column, window, tables)
                elif not column.table:
                    column.set("table", resolver.get_table(column))
        annotate_types(tree, schema=tables, dialect=FLINK, overwrite_types=False)


def _type_windowed(column: exp.Column, window: WindowTable, tables: MappingSchema) -> None:
    """Type a column that a windowing function hands on, where nothing is joined with it."""
    joined = column.find_ancestor(exp.Select).args.get("joins")  # type: ignore[union-attr]  # its scope's
    if isinstance(window.input, exp.Table) and not joined:
        kind = tables.get_column_type(window.input, column.name)
        if not kind.is_type(exp.DType.UNKNOWN):
            column.type = kind


@cache
def _kinds() -> tuple[exp.DataType, ...]:
    return tuple(exp.DataType.build(text, dialect=FLINK) for text in KINDS)


def _write(part: exp.Expr, options: dict[str, Any]) -> str:
    return AloneWriter(dialect=TARGET, **options).generate(copy_tree(part), copy=False)


def _text(tree: exp.Expr, write: Callable[[exp.Expr], str]) -> str:
    return to_spark_text(rewrite_session_windows(copy_tree(tree)), write)


def _attempt(step: Callable[[], str], otherwise: str) -> str:
    """Write what may make no sense with the types that were supposed: then it is no difference."""
    try:
        return step()
    except (NodeError, InputError, SqlglotUnsupportedError):
        return otherwise
    except OPTIMIZER_ERRORS as error:
        if not is_refusal(error):
            raise
        return otherwise


def _hanging(typed: exp.Expr, other: exp.Expr, write: Callable[[exp.Expr], str]) -> NodeError:
    """Find the smallest part of a tree whose form depends on a type: two trees that differ in nothing else."""
    found = typed
    for one, two in reversed(list(zip(typed.walk(), other.walk(), strict=True))):
        if not isinstance(one, NAMES):
            text = _attempt(partial(write, one), "")
            if text and _attempt(partial(write, two), text) != text:
                found = one
                break
    shown = shorten(found.sql(FLINK), SHOWN, placeholder=" ...")
    return NodeError(
        f"the Spark form of {shown} depends on types that are not known",
        found,
        "give the types of its columns: flink_to_spark(sql, schema)",
    )


def _words(tree: exp.Expr) -> str:
    """Name a statement by the words that it begins with."""
    words = tree.sql(FLINK, comments=False).split()
    return " ".join(takewhile(lambda word: word.isalpha() and word.isupper(), words[:4]))


def _check(tree: exp.Expr) -> None:
    """Refuse what Spark's words say otherwise, or not at all. Raises NodeError."""
    for node in tree.find_all(exp.MatchRecognize):
        raise NodeError("MATCH_RECOGNIZE has no form in Spark SQL", node)
    if isinstance(tree, exp.Insert):
        if tree.args.get("overwrite"):
            raise NodeError(
                "INSERT OVERWRITE replaces other rows in Spark, where a table is partitioned",
                tree,
                REMEDY,
            )
        if tree.args.get("partition") or tree.args.get("conflict"):
            clause = "PARTITION (...)" if tree.args.get("partition") else "ON CONFLICT"
            raise NodeError(f"{clause} of an INSERT has no form in Spark SQL", tree, REMEDY)


def _opaque(tree: exp.Expr) -> list[exp.Expr]:
    """The nodes whose types only a catalog knows, and that have none."""
    return [
        node
        for node in tree.walk()
        if (isinstance(node, OPAQUE) or _is_users(node)) and kind_of(node) == exp.DType.UNKNOWN
    ]


def _is_users(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() not in FUNCTIONS


def _typed(tree: exp.Expr, kind: exp.DataType | None) -> exp.Expr:
    """Copy a tree, with the types of literals, of casts, and of what is made of them; what is opaque is of `kind`."""
    copied = copy_tree(tree)
    if kind is not None:
        for node in _opaque(copied):
            node.type = kind
    # a cast is of the type that it names, and sqlglot looks for none inside of it
    inside = [cast.this for cast in reversed(list(copied.find_all(exp.Cast)))]
    for part in (*inside, copied):
        with refusals_ignored():
            annotate_types(part, dialect=FLINK, overwrite_types=False)
    return copied


class AloneWriter(SparkWriter):
    """The planner's writer, without a planner: nothing is known of tables, and nobody reads their options."""

    def table_sql(self, expression: exp.Table, sep: str = " AS ") -> str:
        """A table, or a call of a user's table function; those that take tables are Flink's own."""
        if expression.args.get("hints"):
            raise NodeError("OPTIONS of a table have no form in Spark SQL", expression, REMEDY)
        if isinstance(expression.this, exp.Func):
            self._check_called(expression)
        return super().table_sql(expression, sep)

    def lateral_sql(self, expression: exp.Lateral) -> str:
        """LATERAL; a user's table function in a LEFT JOIN is one that Penstock has to register."""
        if table_call(expression) is not None:
            self._check_called(expression)
            if is_left(expression):
                raise NodeError(
                    "LEFT JOIN LATERAL TABLE(...) has no form in Spark SQL: rows would be lost",
                    expression,
                    REMEDY,
                )
        return super().lateral_sql(expression)

    @staticmethod
    def _check_called(relation: exp.Expr) -> None:
        call = table_call(relation)
        if call is None or not takes_values(call) or is_built_in(call.name):
            name = (call or relation.this).name.upper()
            raise NodeError(f"the table function {name} has no form in Spark SQL", relation)

    def hint_sql(self, expression: exp.Hint) -> str:
        """Join hints; a bound of the state is part of what a query gives."""
        for call in expression.expressions:
            if call.name == "STATE_TTL":
                raise NodeError("the hint STATE_TTL has no form in Spark SQL", call, REMEDY)
        return super().hint_sql(expression)

    def unnest_sql(self, expression: exp.Unnest) -> str:
        """UNNEST, its names unchecked: a type that is only tried must not choose the form of another."""
        return write_unnest(self, expression)

    def bracket_sql(self, expression: exp.Bracket) -> str:
        """x[1] of what may be an array or a map: Spark has a function that takes both."""
        index = expression.expressions[0]
        if index.is_int and int(index.name) > 0:
            return f"try_element_at({self.sql(expression, 'this')}, {self.sql(index)})"
        return super().bracket_sql(expression)
