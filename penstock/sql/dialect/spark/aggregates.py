"""Write aggregate functions for Spark with Flink's meaning.

What Spark says by several calls, or by a call and something around it, keeps its FILTER and OVER: the
clauses are written around a mark, in whose place each call is put.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.generators.spark import SparkGenerator

from penstock.sql.dialect.spark.json import json_item
from penstock.sql.dialect.spark.types import INTEGERS, TYPES, decimal_of, number_kind, operand
from penstock.sql.syntax.parse_errors import NodeError

MARK, NULLS = "\x00call\x00", "\x00nulls\x00"

WRAPPERS = (exp.Filter, exp.Window, exp.IgnoreNulls, exp.RespectNulls)

MAX_PRECISION = 38

AVERAGE_SCALE = 6
"""Digits behind the point that an AVG of decimals has at least (FlinkTypeSystem.deriveAvgAggType)."""

MULTISET = (
    "transform(array({0}), l -> map_from_entries(transform(array_distinct(l), "
    "e -> struct(e, size(filter(l, y -> y = e))))))[0]"
)

# Of whole numbers all of it is whole (AggregateReduceFunctionsRule; AggregateITCase.testVAR_POP).
SQUARES = "({0} - ({1} * {1}) DIV nullif({2}, 0))"

SPREADS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Stddev: ("sqrt({0})", "nullif({2} - 1, 0)"),
    exp.StddevSamp: ("sqrt({0})", "nullif({2} - 1, 0)"),
    exp.StddevPop: ("sqrt({0})", "nullif({2}, 0)"),
    exp.Variance: ("{0}", "nullif({2} - 1, 0)"),
    exp.VariancePop: ("{0}", "nullif({2}, 0)"),
}

SPREAD_NAMES: dict[type[exp.Expr], str] = {
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
}

Parts = tuple[str, list[str], str]
"""A template for the calls {0}, {1}, ..., the calls, and what stands behind the FILTER of each."""


# --- clauses ---


def filter_sql(writer: SparkGenerator, expression: exp.Filter) -> str:
    """FILTER (WHERE ...), in front of RESPECT NULLS."""
    call = writer.sql(expression, "this").replace(NULLS, "")
    where = writer.sql(expression, "expression").strip()
    return _finished(writer, expression, f"{call} FILTER ({where}){NULLS if MARK in call else ''}")


def window_sql(writer: SparkGenerator, expression: exp.Window) -> str:
    """OVER (...)."""
    return _finished(writer, expression, SparkGenerator.window_sql(writer, expression))


def ignorenulls_sql(writer: SparkGenerator, expression: exp.IgnoreNulls) -> str:
    """IGNORE NULLS."""
    call = writer.sql(expression, "this")
    return _finished(writer, expression, call if MARK in call else f"{call} IGNORE NULLS")


def respectnulls_sql(writer: SparkGenerator, expression: exp.RespectNulls) -> str:
    """RESPECT NULLS."""
    call = writer.sql(expression, "this")
    return _finished(writer, expression, call if MARK in call else f"{call} RESPECT NULLS")


def _finished(writer: SparkGenerator, node: exp.Expr, text: str) -> str:
    """`text` with the calls put in, if nothing more is around `node`."""
    if MARK not in text or _is_wrapped(node):
        return text
    core = node
    while isinstance(core, WRAPPERS):
        core = core.this
    template, calls, nulls = _parts(writer, core)
    return template.format(*(text.replace(MARK, c).replace(NULLS, nulls) for c in calls))


def aggregate_call(writer: SparkGenerator, core: exp.Expr) -> str:
    """An aggregate call, or a mark in its place where clauses are around it."""
    return MARK + NULLS if _is_wrapped(core) else _finished(writer, core, MARK + NULLS)


# --- functions ---


def avg_sql(writer: SparkGenerator, expression: exp.Avg) -> str:
    """AVG of whole numbers is whole, of decimals it has six digits or those they have."""
    return aggregate_call(writer, expression)


def stddev_sql(writer: SparkGenerator, expression: exp.Expr) -> str:
    """STDDEV_POP, STDDEV_SAMP, VAR_POP, VAR_SAMP: whole of whole numbers."""
    return aggregate_call(writer, expression)


def firstvalue_sql(writer: SparkGenerator, expression: exp.FirstValue | exp.LastValue) -> str:
    """FIRST_VALUE and LAST_VALUE pass over NULL (FirstValueAggFunction)."""
    return aggregate_call(writer, expression)


def groupconcat_sql(writer: SparkGenerator, expression: exp.GroupConcat) -> str:
    """LISTAGG joins by a comma unless told otherwise."""
    separator = writer.sql(expression, "separator") or "','"
    return f"listagg({writer.sql(expression, 'this')}, {separator})"


def grouping_sql(writer: SparkGenerator, expression: exp.Grouping) -> str:
    """GROUPING(a, b): a bit for each."""
    return _grouping(writer, expression.expressions)


def _grouping_id_sql(writer: SparkGenerator, call: exp.Anonymous) -> str:
    return _grouping(writer, call.expressions)


def _group_id_sql(writer: SparkGenerator, _: exp.Anonymous) -> str:
    """GROUP_ID() of one grouping set; where there are several, no call is left to be written."""
    return "CAST(0 AS BIGINT)"


def _grouping(writer: SparkGenerator, columns: list[exp.Expr]) -> str:
    bits = [
        f"grouping({writer.sql(column)}) * {2**bit}" for bit, column in enumerate(reversed(columns))
    ]
    return f"CAST({' + '.join(reversed(bits))} AS BIGINT)"


def jsonobjectagg_sql(writer: SparkGenerator, expression: exp.JSONObjectAgg) -> str:
    """JSON_OBJECTAGG(KEY k VALUE v)."""
    return aggregate_call(writer, expression)


def jsonarrayagg_sql(writer: SparkGenerator, expression: exp.JSONArrayAgg) -> str:
    """JSON_ARRAYAGG(v)."""
    return aggregate_call(writer, expression)


# --- their parts ---


def _parts(writer: SparkGenerator, core: exp.Expr) -> Parts:
    match core:
        case exp.Avg():
            return _average(writer, core)
        case exp.Stddev() | exp.StddevPop() | exp.StddevSamp():
            return _spread(writer, core)
        case exp.Variance() | exp.VariancePop():
            return _spread(writer, core)
        case exp.FirstValue() | exp.LastValue():
            name = "first_value" if isinstance(core, exp.FirstValue) else "last_value"
            passing = ", true" if not _is_under(core, exp.RespectNulls) else ""
            return "{0}", [f"{name}({writer.sql(core, 'this')}{passing})"], ""
        case exp.JSONObjectAgg():
            (pair,) = core.expressions
            item = json_item(writer, pair.expression)
            if core.args.get("null_handling") != "ABSENT ON NULL":
                item = f"coalesce({item}, 'null')"
            entry = f"concat({json_item(writer, pair.this)}, ':', {item})"
            template = "concat('{{', array_join(array_sort({0}), ','), '}}')"
            return template, [f"collect_list({entry})"], ""
        case exp.JSONArrayAgg():
            item = json_item(writer, core.this)
            if core.args.get("null_handling") == "NULL ON NULL":
                item = f"coalesce({item}, 'null')"
            return "concat('[', array_join({0}, ','), ']')", [f"collect_list({item})"], ""
        case exp.AnonymousAggFunc() if core.name.upper() in NAMED:
            return NAMED[core.name.upper()](writer, core)
        case _:
            return "{0}", [writer.func(core.name, *core.expressions)], ""


def _average(writer: SparkGenerator, core: exp.Avg) -> Parts:
    distinct, value = _argument(core.this)
    text, kind, sizes = writer.sql(value), number_kind(value), decimal_of(value)
    plain = f"AVG({distinct}{text})"
    if kind == exp.DType.BIGINT:
        calls = [f"SUM({distinct}CAST({text} AS DECIMAL(38, 0)))", f"COUNT({distinct}{text})"]
        return "({0} DIV nullif({1}, 0))", calls, ""
    if sizes is not None:
        scale = max(sizes[1], 2)
        wide = f"DECIMAL({min(sizes[0] + scale - sizes[1], MAX_PRECISION)}, {scale})"
        result = f"DECIMAL({MAX_PRECISION}, {max(AVERAGE_SCALE, sizes[1])})"
        return f"CAST({{0}} AS {result})", [f"AVG({distinct}CAST({text} AS {wide}))"], ""
    if kind in INTEGERS or kind == exp.DType.FLOAT:
        return f"CAST({{0}} AS {TYPES[kind]})", [plain], ""
    return "{0}", [plain], ""


def _spread(writer: SparkGenerator, core: exp.Expr) -> Parts:
    distinct, value = _argument(core.this)
    text, kind, name = writer.sql(value), number_kind(value), SPREAD_NAMES[type(core)]
    if kind not in INTEGERS:
        return "{0}", [f"{name}({distinct}{text})"], ""
    if distinct:
        return f"CAST({{0}} AS {TYPES[kind]})", [f"{name}({distinct}{text})"], ""
    root, divisor = SPREADS[type(core)]
    wide = f"CAST({text} AS DECIMAL(38, 0))"
    calls = [f"SUM({wide} * {operand(writer, value)})", f"SUM({wide})", f"COUNT({text})"]
    return (
        f"CAST({root.replace('{0}', f'({SQUARES} DIV {divisor})')} AS {TYPES[kind]})",
        calls,
        "",
    )


def _array_agg(writer: SparkGenerator, core: exp.AnonymousAggFunc) -> Parts:
    distinct, value = _argument(core.expressions[0])
    nulls = "" if _is_under(core, exp.IgnoreNulls) else " RESPECT NULLS"
    call = f"collect_list({distinct}{writer.sql(value)})"
    return "if(size({0}) > 0, {0}, NULL)", [call], nulls


def _collect(writer: SparkGenerator, core: exp.AnonymousAggFunc) -> Parts:
    distinct, value = _argument(core.expressions[0])
    return MULTISET, [f"collect_list({distinct}{writer.sql(value)})"], ""


def _percentile(writer: SparkGenerator, core: exp.AnonymousAggFunc) -> Parts:
    value, share, *frequency = core.expressions
    if share.find(exp.Column):
        raise NodeError("the share of PERCENTILE is a constant", share, "write for instance 0.5")
    arguments = [writer.sql(value), writer.sql(share)]
    if frequency:
        arguments.append(f"greatest(coalesce({writer.sql(frequency[0])}, 0), 0)")
    return "{0}", [f"percentile({', '.join(arguments)})"], ""


NAMED: dict[str, Callable[[SparkGenerator, exp.AnonymousAggFunc], Parts]] = {
    "ARRAY_AGG": _array_agg,
    "COLLECT": _collect,
    "PERCENTILE": _percentile,
}


def _is_wrapped(node: exp.Expr) -> bool:
    return isinstance(node.parent, WRAPPERS) and node.parent.this is node


def _is_under(core: exp.Expr, kind: type[exp.Expr]) -> bool:
    """Whether a clause of this kind is among those around a call."""
    node = core
    while _is_wrapped(node) and node.parent is not None:
        node = node.parent
        if isinstance(node, kind):
            return True
    return False


def _argument(node: exp.Expr) -> tuple[str, exp.Expr]:
    """'DISTINCT ' or nothing, and the value. Raises NodeError for ORDER BY, which Spark has behind LISTAGG only."""
    if isinstance(node, exp.Order):
        raise NodeError(
            "ORDER BY inside an aggregate is not supported",
            node.expressions[0],
            "LISTAGG(x) WITHIN GROUP (ORDER BY y) is",
        )
    return ("DISTINCT ", node.expressions[0]) if isinstance(node, exp.Distinct) else ("", node)


FUNCTION_WRITERS: dict[str, Callable[[SparkGenerator, exp.Anonymous], str]] = {
    "GROUPING_ID": _grouping_id_sql,
    "GROUP_ID": _group_id_sql,
}
"""Functions of the table in `functions` whose form is no template, by their names."""
