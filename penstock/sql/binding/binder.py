"""Check a query against the catalog: tables, columns and conditions; set the types of its nodes.

The check runs on a copy in which tables have plain names and windowing functions are subqueries with their
three columns, as sqlglot's qualifier needs it. Where that cannot decide (unknown columns of a source, a
construct that it does not follow) nothing is reported: Spark's own analysis comes later. Nothing is decided by
guessing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import DefinitionError, InputError, UnsupportedError, did_you_mean
from penstock.catalog.model.table import Schema, Table, View
from penstock.catalog.model.types import LogicalType
from penstock.connector.options.legacy import translate_legacy_options
from penstock.sql.binding.checked_query import CheckedQuery, Columns, Output, known_view
from penstock.sql.binding.columns import (
    check_columns,
    give_alias,
    name_after_alias,
    name_relations,
    type_plain,
    unfolds_plain_values,
    unnamed_elements,
)
from penstock.sql.binding.functions import (
    names_columns,
    table_calls,
    table_function_errors,
    unknown_functions,
)
from penstock.sql.binding.grouping import grouping_errors
from penstock.sql.binding.hints import hint_errors
from penstock.sql.dialect.flink.trees import FLINK, named_tables, parse_query, table_options
from penstock.sql.dialect.spark.writer import write_spark
from penstock.sql.dialect.windows.group_windows import GROUP_WINDOW, translate_group_windows
from penstock.sql.dialect.windows.grouping_sets import session_error
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS, WindowTable, window_tables
from penstock.sql.syntax.parse_errors import NodeError
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.traversal import copy_tree, find_nodes

_TYPED = (exp.Column, exp.Literal, exp.Cast, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
"""Values whose types are exact: not those of all calls."""

_OPEN = (exp.DType.BOOLEAN, exp.DType.NULL, exp.DType.UNKNOWN, exp.DType.USERDEFINED)


def condition_errors(stand_in: exp.Expr, checking: CheckedQuery) -> Iterator[InputError]:
    """An error for each condition of a query's copy of another type, at its place in the original."""
    for condition, where in _conditions(stand_in):
        value = condition.unnest()
        kind = value.type
        if not isinstance(value, _TYPED) or kind is None or kind.is_type(*_OPEN):
            continue
        span = checking.span(value)
        if span is not None:
            yield DefinitionError(
                f"{where} takes a BOOLEAN, and this is {kind.sql(FLINK)}",
                hint="compare it with a value: amount > 0, name <> ''",
                span=span,
            )


def _conditions(query: exp.Expr) -> Iterator[tuple[exp.Expr, str]]:
    kinds = (exp.Where, exp.Having, exp.Join, exp.Case, exp.And, exp.Or, exp.Not)
    for node in find_nodes(query, *kinds):
        match node:
            case exp.Where() | exp.Having():
                yield node.this, node.key.upper()
            case exp.Join() if node.args.get("on") is not None:
                yield node.args["on"], "ON"
            case exp.Case() if node.this is None:
                for branch in node.args["ifs"]:
                    yield branch.this, "WHEN"
            case exp.And() | exp.Or():
                yield node.this, node.key.upper()
                yield node.expression, node.key.upper()
            case exp.Not():
                yield node.this, "NOT"


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What is known of a query: all that is wrong with it, and its columns unless they are unsure."""

    errors: tuple[InputError, ...] = ()
    output: tuple[tuple[str, exp.DataType | None], ...] | None = None


def bind_query(query: exp.Expr, namespace: Namespace) -> Bound:
    """Check `query` and type its nodes in place; its tables get their name as alias if they have none."""
    return _bind(query, CheckedQuery(namespace))


def _name_elements(query: exp.Expr, checking: CheckedQuery) -> None:
    """Name the columns of UNNESTs as Calcite does, where the query does not; what they unfold is tried on copies.

    One may stand on the element of another, so all are tried with their names first, and where a query is wrong then,
    as they are; and again as long as one gets its name.
    """
    while unnamed := unnamed_elements(query):
        if not any(_name_tried(query, unnamed, checking, named=named) for named in (True, False)):
            return


def _name_tried(
    query: exp.Expr, unnamed: list[exp.Unnest], checking: CheckedQuery, *, named: bool
) -> bool:
    trial = copy_tree(query)
    tried = unnamed_elements(trial)
    for node in tried if named else ():
        name_after_alias(node)
    _bind_named(trial, CheckedQuery(checking.namespace, checking.viewing))
    found = [
        node for node, typed in zip(unnamed, tried, strict=True) if unfolds_plain_values(typed)
    ]
    for node in found:
        name_after_alias(node)
    return bool(found)


def annotate(query: exp.Expr, namespace: Namespace) -> None:
    """Type the nodes of a query that is known to be right, such as one with its views written out.

    One that was checked, and has changed since in nothing but views of known types, is left as it is.
    """
    if not query.meta_get(BOUND):
        bind_query(query, namespace)


def view_body(view: View, namespace: Namespace) -> tuple[exp.Query, bool]:
    """Return the query of a view, for a caller to change; and whether its nodes have their types."""
    known = known_view(view, namespace, lambda: _checked_view(view, CheckedQuery(namespace)))
    return (parse_query(view.query), False) if known is None else (known.body(), True)


def forget_types(query: exp.Expr) -> None:
    """Make `annotate` type a query again: it was changed."""
    query.meta.pop(BOUND, None)


def columns_of_object(found: Table | View, namespace: Namespace) -> Columns | None:
    """The columns of a table or view; None where a view's are unknown."""
    return _columns_of(found, CheckedQuery(namespace))


def type_expression(expression: exp.Expr, columns: Columns) -> None:
    """Type the nodes of an expression over `columns` in place, as far as possible."""
    if type_plain(expression, columns):
        return
    checking = CheckedQuery(relations={"t0": columns})
    table = exp.Table(this=exp.Identifier(this="t0", quoted=True))
    stand_in = exp.select(exp.alias_(checking.copy(expression), "value")).from_(table)
    check_columns(stand_in, checking)


@cache
def data_type(text: str) -> exp.DataType:
    """The syntax tree of a type in Flink's spelling. It is shared: do not change it."""
    return exp.DataType.build(text, dialect=FLINK)


BOUND = "penstock.bound"
"""On the root of a query that was checked; copies carry it on."""


def _bind(query: exp.Expr, checking: CheckedQuery) -> Bound:
    _name_elements(query, checking)
    return _bind_named(query, checking)


def _bind_named(query: exp.Expr, checking: CheckedQuery) -> Bound:
    tables = name_relations(query)
    try:
        if translate_group_windows(query):
            tables = named_tables(query)
        windows = window_tables(query)
    except InputError as error:
        return Bound(errors=(error,))
    checking.errors += hint_errors(query)
    stand_in = checking.copy(query)
    for table, copied in zip(tables, named_tables(stand_in), strict=True):
        _resolve(table, copied, checking)
    if calls := table_calls(query):
        assert checking.namespace is not None, "functions are looked up in a namespace"
        checking.errors += table_function_errors(calls, checking.namespace)
        checking.unsure |= not all(names_columns(relation) for relation, _ in calls)
    if windows:
        for window in reversed(window_tables(stand_in)):
            _replace_window(window)
    output = None
    if not checking.errors:
        checking.errors += [e for window in windows if (e := _window_error(window, checking))]
        output = check_columns(stand_in, checking)
    if not checking.errors:
        checking.errors += grouping_errors(query, checking)
    if not checking.errors:
        _check_forms(stand_in, checking)
    if not checking.errors:
        query.meta[BOUND] = True
    return Bound(errors=tuple(checking.errors), output=None if checking.errors else output)


# --- tables ---


def _resolve(table: exp.Table, copied: exp.Table, checking: CheckedQuery) -> None:
    parts = tuple(part.name for part in table.parts)
    give_alias(copied)
    columns: Columns | None = None
    assert checking.namespace is not None, "tables are looked up in a namespace"
    try:
        identifier = checking.namespace.resolve(parts)
        found = checking.namespace.lookup(identifier)
        check_hints(table, found)
        columns = _columns_of(found, checking)
    except InputError as error:
        error.span = error.span or span_of(table)
        checking.errors.append(error)
    name = f"t{len(checking.relations)}"
    checking.unsure |= columns is None
    checking.relations[name] = checking.by_table[id(table)] = columns or {}
    copied.set("this", exp.Identifier(this=name, quoted=True))
    for part in ("db", "catalog", "hints", "version"):  # of versions the planner judges
        copied.set(part, None)


def check_hints(table: exp.Table, found: Table | View) -> None:
    """Refuse hints that a table, or a view, does not take: they would do nothing. Raises InputError."""
    for hint in table.args.get("hints") or []:
        for call in hint.expressions:
            if call.name.upper() != "OPTIONS":
                known = did_you_mean(call.name.upper(), ("OPTIONS",))
                raise UnsupportedError(
                    f"a table takes no hint {call.name}",
                    hint=known
                    or "a table takes OPTIONS('key'='value'); hints of joins follow SELECT",
                    span=span_of(hint),
                )
            if isinstance(found, View):
                raise UnsupportedError(
                    f"{found.identifier} is a view, which has no options",
                    hint="write the hint behind a table in the view's query",
                    span=span_of(hint),
                )
    if (note := translate_legacy_options(table_options(table)).note) is not None:
        log.warning("table %s: %s", found.identifier.name, note)


def _columns_of(found: Table | View, checking: CheckedQuery) -> Columns | None:
    if isinstance(found, Table):
        return schema_columns(found.schema)
    if found.identifier in checking.viewing:
        raise UnsupportedError(f"the view {found.identifier} is defined by itself")
    assert checking.namespace is not None, "views are looked up in a namespace"
    known = known_view(found, checking.namespace, lambda: _checked_view(found, checking))
    if known is None:
        return None
    names = found.columns or tuple(name for name, _ in known.output)
    return dict(zip(names, (kind for _, kind in known.output), strict=False))


def _checked_view(view: View, checking: CheckedQuery) -> tuple[exp.Query, Output] | None:
    """The query of a view with its types, and its columns; None where they are unknown."""
    inner = CheckedQuery(checking.namespace, (*checking.viewing, view.identifier))
    tree = parse_query(view.query)
    bound = _bind(tree, inner)
    return None if bound.errors or bound.output is None else (tree, bound.output)


def schema_columns(schema: Schema) -> Columns:
    """The columns of a schema with their types."""
    return {column.name: _tree(column.type) for column in schema.columns}


def _tree(kind: LogicalType | None) -> exp.DataType | None:
    return data_type(str(kind)) if kind is not None else None


def _replace_window(window: WindowTable) -> None:
    """TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), ...)) as (SELECT t.*, ... FROM t WHERE ts and keys are used)."""
    call = window.node.this
    used = [column for column in call.find_all(exp.Column) if _is_argument(column, window)]
    time = next(column for column in used if column.name == window.time_column)
    names = WINDOW_COLUMNS
    stamps = [
        exp.alias_(exp.cast(exp.null(), exp.DType.TIMESTAMPNTZ), name, quoted=True)
        for name in names[:2]
    ]
    inner = exp.select(exp.Star(), *stamps, exp.alias_(time.copy(), names[2], quoted=True))
    inner = inner.from_(window.input.copy(), copy=False)
    condition = exp.and_(*(exp.Is(this=column.copy(), expression=exp.null()) for column in used))
    alias = window.node.args.get("alias")
    subquery = exp.Subquery(this=inner.where(condition, copy=False), alias=alias)
    for key in ("joins", "laterals"):
        subquery.set(key, window.node.args.get(key))
    if not subquery.alias:
        subquery.set("alias", exp.TableAlias(this=exp.Identifier(this=f"w{id(call)}", quoted=True)))
    window.node.replace(subquery)


def _is_argument(column: exp.Column, window: WindowTable) -> bool:
    """Return whether a column stands in DESCRIPTOR or PARTITION BY, and not in the query that is read."""
    above = column.parent
    while above is not None and above is not window.node:
        if above is window.input:
            return False
        above = above.parent
    return True


def _window_error(window: WindowTable, checking: CheckedQuery) -> InputError | None:
    columns = checking.by_table.get(id(window.input), {})
    grouping = window.node.this.meta_get(GROUP_WINDOW)
    hidden = next((name for name in WINDOW_COLUMNS if name in columns), None)
    if (beside := session_error(window)) is not None:
        return beside
    if grouping and hidden is not None:
        return UnsupportedError(
            f"{window.kind} in GROUP BY is not supported over a table that has a column {hidden}",
            hint="leave it out, or use another name, in a query in FROM",
            span=window.span,
        )
    kind = columns.get(window.time_column)
    if kind is None or kind.is_type(exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPLTZ):
        return None
    return DefinitionError(
        f"{window.kind} needs a time column, and '{window.time_column}' is {kind.sql(FLINK)}",
        hint=f"name the column of the table's WATERMARK{'' if grouping else ' in DESCRIPTOR(...)'}",
        span=window.span,
    )


def _check_forms(stand_in: exp.Expr, checking: CheckedQuery) -> None:
    """Return whether Spark has a form for everything in the query; `stand_in` is used up."""
    checking.errors += unknown_functions(stand_in, checking)
    checking.errors += condition_errors(stand_in, checking)
    try:
        write_spark(stand_in, copy=False)
    except NodeError as error:
        span = checking.span(error.node) or span_of(checking.nodes[0])
        checking.errors.append(UnsupportedError(error.message, hint=error.hint, span=span))
