"""Expressions of tables (computed columns, watermarks): what they read, their type, their Spark form.

They are Flink SQL text over the columns of one table; functions that are not deterministic, such as the clock, are
found in them. Their form for DuckDB, in which event time is evaluated before Spark runs, is in `duckdb_sql.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.table import Schema
from penstock.catalog.model.type_parser import parse_type
from penstock.catalog.model.types import (
    BooleanType,
    IntervalDaySecondType,
    IntervalYearMonthType,
    LogicalType,
    TimestampLtzType,
    TimestampType,
    VarCharType,
)
from penstock.sql.binding.binder import schema_columns, type_expression
from penstock.sql.dialect.flink.trees import FLINK, to_text
from penstock.sql.dialect.functions.row import FIRST, LAST
from penstock.sql.dialect.functions.table import FUNCTIONS, result_argument
from penstock.sql.dialect.spark.writer import write_spark
from penstock.sql.expressions.duckdb_sql import write_duckdb
from penstock.sql.syntax.parse_errors import NodeError
from penstock.sql.syntax.positions import span_of

_NODES = (
    exp.CurrentDate, exp.CurrentTime, exp.CurrentTimestamp, exp.Localtime, exp.Localtimestamp,
    exp.Rand, exp.Randn, exp.Uuid,
)  # fmt: skip
_CHANCE_NAMES = frozenset({
    "AES_ENCRYPT", "INPUT_FILE_BLOCK_LENGTH", "INPUT_FILE_BLOCK_START", "INPUT_FILE_NAME", "JAVA_METHOD",
    "MONOTONICALLY_INCREASING_ID", "RAND", "RANDN", "RANDOM", "RANDSTR", "RAND_INTEGER", "REFLECT", "SHUFFLE",
    "SPARK_PARTITION_ID", "TRY_REFLECT", "UNIFORM", "UUID",
})  # fmt: skip
"""Of Flink, and of Spark: AES_ENCRYPT draws an initial vector, and a method of Java may return anything."""
_NAMES = _CHANCE_NAMES | {
    "CURDATE", "CURRENT_ROW_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP", "NOW", "PROCTIME", "UNIX_TIMESTAMP",
}  # fmt: skip


def find_random_functions(query: exp.Expr) -> Iterator[exp.Expr]:
    """Find functions whose value differs by row and by evaluation; the time of a batch is kept with it."""
    yield from query.find_all(exp.Rand, exp.Randn, exp.Uuid)
    yield from (
        call for call in query.find_all(exp.Anonymous) if call.name.upper() in _CHANCE_NAMES
    )


def find_nondeterministic(query: exp.Expr) -> Iterator[exp.Expr]:
    """Find such functions in a query, and in those inside it."""
    yield from query.find_all(*_NODES)
    for call in query.find_all(exp.Anonymous):
        name = call.name.upper()
        # with an argument UNIX_TIMESTAMP reads that
        if name in _NAMES and not (name == "UNIX_TIMESTAMP" and call.expressions):
            yield call


MAX_LENGTH = 2_147_483_647
STRING = VarCharType(length=MAX_LENGTH)
INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def parse_expression(text: str) -> exp.Expr:
    """The tree of an expression that is known to be right. Raises FlinkParseError if it is not."""
    # as a condition: REPLACE and TRUNCATE begin a statement, too
    tree = FLINK.parse_into(exp.Condition, text)[0]
    assert tree is not None, "an expression is not empty"
    return tree


def columns_of(expression: str | exp.Expr) -> frozenset[str]:
    """The table's columns that an expression reads; of payload.ts it is payload."""
    tree = parse_expression(expression) if isinstance(expression, str) else expression
    return frozenset(column.parts[0].name for column in tree.find_all(exp.Column))


def substitute(expression: str, columns: Mapping[str, str]) -> str:
    """Flink SQL of `expression` with each column named in `columns` written out as its expression."""
    trees = {name: parse_expression(text) for name, text in columns.items()}
    return to_text(substitute_tree(parse_expression(expression), trees))


def substitute_tree(tree: exp.Expr, columns: Mapping[str, exp.Expr]) -> exp.Expr:
    """As `substitute`, on trees; the result shares nothing with its arguments."""

    def replace(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.parts[0].name not in columns:
            return node
        value = columns[node.parts[0].name].copy()
        for part in node.parts[1:]:
            value = exp.Dot(this=exp.paren(value, copy=False), expression=part.copy())
        plain = isinstance(value, exp.Column | exp.Literal | exp.Dot)
        return value if plain or node.parent is None else exp.paren(value, copy=False)

    return tree.copy().transform(replace, copy=False)


def infer_type(expression: str | exp.Expr, schema: Schema) -> LogicalType | None:
    """The type of an expression over a table's columns; None where it is not certain."""
    return _infer(_typed(expression, schema))


def known_type(tree: exp.Expr) -> LogicalType | None:
    """The type of an expression whose nodes are typed; None where it is not certain."""
    return _infer(tree)


def timestamp_kind(
    expression: str | exp.Expr, schema: Schema
) -> type[TimestampType | TimestampLtzType] | None:
    """Return whether an expression is a TIMESTAMP or a TIMESTAMP_LTZ; None for neither, or if unsure."""
    kind = infer_type(expression, schema)
    return type(kind) if isinstance(kind, TimestampType | TimestampLtzType) else None


def to_spark(expression: str | exp.Expr, schema: Schema | None = None) -> str:
    """Spark SQL of an expression. Raises UnsupportedError, naming the function.

    `schema` has the types that some forms depend on (division of whole numbers, CAST to STRING, FLOOR to a unit);
    without it they are left to Spark or refused.
    """
    tree = _typed(expression, schema)
    try:
        return write_spark(tree)
    except NodeError as error:
        raise _unsupported(error) from None


def to_duckdb(expression: str | exp.Expr, schema: Schema | None = None) -> str:
    """DuckDB SQL of an expression, over columns of the Arrow types that the connector delivers.

    The value is Spark's and Flink's; where they fail on a value it is NULL. Raises UnsupportedError,
    naming the function, outside the set that is known to agree (see `duckdb_sql.py`).
    """
    tree = _typed(expression, schema)
    try:
        return write_duckdb(tree)
    except NodeError as error:
        raise _unsupported(error) from None


def _unsupported(error: NodeError) -> UnsupportedError:
    return UnsupportedError(error.message, hint=error.hint, span=span_of(error.node))


def _typed(expression: str | exp.Expr, schema: Schema | None) -> exp.Expr:
    tree = parse_expression(expression) if isinstance(expression, str) else expression
    if schema is not None:
        type_expression(tree, schema_columns(schema))
    return tree


def _infer(node: exp.Expr | None) -> LogicalType | None:
    """The type where the rules are the same everywhere; decimals and the like are left open."""
    if isinstance(node, exp.Column | exp.Dot):
        return _logical(node.type)
    if isinstance(node, TEXTS):
        return STRING
    if isinstance(node, exp.Predicate | exp.Connector | exp.Not | exp.Boolean):
        return BooleanType()
    rule = RULES.get(type(node))
    return rule(node) if rule and node is not None else None


def _infer_literal(node: exp.Expr) -> LogicalType | None:
    if node.is_string:
        return STRING
    if not node.is_int:
        return None
    return parse_type("INT" if abs(int(node.name)) < 2**31 else "BIGINT")


def _infer_function(node: exp.Expr) -> LogicalType | None:
    row = FUNCTIONS.get(node.name.upper())
    if (argument := result_argument(row, node.expressions)) is not None:
        return _infer(argument)
    if row is None or row.returns is None or row.returns in (FIRST, LAST):
        return None
    return parse_type(row.returns)


def _infer_product(node: exp.Expr) -> LogicalType | None:
    return _wider(_infer(node.this), _infer(node.expression))


def _infer_case(node: exp.Expr) -> LogicalType | None:
    branches = [branch.args.get("true") for branch in node.args["ifs"]]
    return _common([*branches, node.args.get("default")])


def _infer_sum(node: exp.Expr) -> LogicalType | None:
    left, right = _infer(node.this), _infer(node.expression)
    for side, other in ((left, node.expression), (right, node.this)):
        if isinstance(side, TimestampType | TimestampLtzType) and isinstance(other, exp.Interval):
            return side
    return _wider(left, right)


def _wider(left: LogicalType | None, right: LogicalType | None) -> LogicalType | None:
    names = (_bare(left), _bare(right))
    if all(name in INTEGERS for name in names):
        return parse_type(max(names, key=INTEGERS.index))
    return parse_type("DOUBLE") if "DOUBLE" in names and None not in (left, right) else None


def _common(nodes: list[exp.Expr | None]) -> LogicalType | None:
    kinds = [_infer(node) for node in nodes if node is not None and not isinstance(node, exp.Null)]
    if not kinds or any(kind is None or _bare(kind) != _bare(kinds[0]) for kind in kinds):
        return None
    return kinds[0]


def _bare(kind: LogicalType | None) -> str:
    return str(kind).removesuffix(" NOT NULL")


def _logical(tree: exp.DataType | None) -> LogicalType | None:
    """A type's value, nullable; None if it is not known."""
    if tree is None or tree.is_type(exp.DType.UNKNOWN):
        return None
    kind = parse_type(_bare(parse_type(to_text(tree))))
    return None if isinstance(kind, IntervalDaySecondType | IntervalYearMonthType) else kind


TEXTS = (exp.DPipe, exp.Substring, exp.Trim, exp.Overlay)
RULES: dict[type[exp.Expr | None], Callable[[exp.Expr], LogicalType | None]] = {
    exp.Paren: lambda e: _infer(e.this),
    exp.Cast: lambda e: _logical(e.args["to"]),
    exp.TryCast: lambda e: _logical(e.args["to"]),
    exp.Add: _infer_sum,
    exp.Sub: _infer_sum,
    exp.Mul: _infer_product,
    exp.Div: _infer_product,
    exp.Mod: _infer_product,
    exp.Literal: _infer_literal,
    exp.Coalesce: lambda e: _common([e.this, *e.expressions]),
    exp.Greatest: lambda e: _common([e.this, *e.expressions]),
    exp.Least: lambda e: _common([e.this, *e.expressions]),
    exp.Nullif: lambda e: _infer(e.this),
    exp.If: lambda e: _common([e.args.get("true"), e.args.get("false")]),
    exp.Case: _infer_case,
    exp.Anonymous: _infer_function,
    exp.CurrentTimestamp: lambda _: TimestampLtzType(precision=3),
    exp.Localtimestamp: lambda _: TimestampType(precision=3),
}
