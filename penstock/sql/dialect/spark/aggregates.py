"""The part of the writer for Spark that writes aggregate functions with Flink's meaning.

What Spark says by several calls, or by a call and something around it, keeps its FILTER and OVER: the
clauses are written around a mark, in whose place each call is put.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from penstock.sql.dialect.spark.json import JsonWriter
from penstock.sql.dialect.spark.types import INTEGERS, TYPES, decimal_of, number_kind
from penstock.sql.syntax.parse_errors import NodeError

__all__ = ["AggregateWriter"]

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


class AggregateWriter(JsonWriter):
    """Writes aggregate functions and the clauses around them."""

    # --- clauses ---

    def filter_sql(self, expression: exp.Filter) -> str:
        """FILTER (WHERE ...), in front of RESPECT NULLS."""
        call = self.sql(expression, "this").replace(NULLS, "")
        where = self.sql(expression, "expression").strip()
        return self._finished(expression, f"{call} FILTER ({where}){NULLS if MARK in call else ''}")

    def window_sql(self, expression: exp.Window) -> str:
        """OVER (...)."""
        return self._finished(expression, super().window_sql(expression))

    def ignorenulls_sql(self, expression: exp.IgnoreNulls) -> str:
        """IGNORE NULLS."""
        call = self.sql(expression, "this")
        return self._finished(expression, call if MARK in call else f"{call} IGNORE NULLS")

    def respectnulls_sql(self, expression: exp.RespectNulls) -> str:
        """RESPECT NULLS."""
        call = self.sql(expression, "this")
        return self._finished(expression, call if MARK in call else f"{call} RESPECT NULLS")

    def _finished(self, node: exp.Expr, text: str) -> str:
        """`text` with the calls put in, if nothing more is around `node`."""
        if MARK not in text or _is_wrapped(node):
            return text
        core = node
        while isinstance(core, WRAPPERS):
            core = core.this
        template, calls, nulls = self._parts(core)
        return template.format(*(text.replace(MARK, c).replace(NULLS, nulls) for c in calls))

    def _call(self, core: exp.Expr) -> str:
        return MARK + NULLS if _is_wrapped(core) else self._finished(core, MARK + NULLS)

    # --- functions ---

    def avg_sql(self, expression: exp.Avg) -> str:
        """AVG of whole numbers is whole, of decimals it has six digits or those they have."""
        return self._call(expression)

    def stddev_sql(self, expression: exp.Expr) -> str:
        """STDDEV_POP, STDDEV_SAMP, VAR_POP, VAR_SAMP: whole of whole numbers."""
        return self._call(expression)

    stddevpop_sql = stddevsamp_sql = variance_sql = variancepop_sql = stddev_sql

    def firstvalue_sql(self, expression: exp.FirstValue | exp.LastValue) -> str:
        """FIRST_VALUE and LAST_VALUE pass over NULL (FirstValueAggFunction)."""
        return self._call(expression)

    lastvalue_sql = firstvalue_sql

    def groupconcat_sql(self, expression: exp.GroupConcat) -> str:
        """LISTAGG joins by a comma unless told otherwise."""
        separator = self.sql(expression, "separator") or "','"
        return f"listagg({self.sql(expression, 'this')}, {separator})"

    def grouping_sql(self, expression: exp.Grouping) -> str:
        """GROUPING(a, b): a bit for each."""
        return self._grouping(expression.expressions)

    def _grouping_id(self, call: exp.Anonymous) -> str:
        return self._grouping(call.expressions)

    def _group_id(self, _: exp.Anonymous) -> str:
        """GROUP_ID() of one grouping set; where there are several, no call is left to be written."""
        return "CAST(0 AS BIGINT)"

    def _grouping(self, columns: list[exp.Expr]) -> str:
        bits = [
            f"grouping({self.sql(column)}) * {2**place}"
            for place, column in enumerate(reversed(columns))
        ]
        return f"CAST({' + '.join(reversed(bits))} AS BIGINT)"

    def jsonobjectagg_sql(self, expression: exp.JSONObjectAgg) -> str:
        """JSON_OBJECTAGG(KEY k VALUE v)."""
        return self._call(expression)

    def jsonarrayagg_sql(self, expression: exp.JSONArrayAgg) -> str:
        """JSON_ARRAYAGG(v)."""
        return self._call(expression)

    # --- their parts ---

    def _parts(self, core: exp.Expr) -> Parts:
        match core:
            case exp.Avg():
                return self._average(core)
            case exp.Stddev() | exp.StddevPop() | exp.StddevSamp():
                return self._spread(core)
            case exp.Variance() | exp.VariancePop():
                return self._spread(core)
            case exp.FirstValue() | exp.LastValue():
                name = "first_value" if isinstance(core, exp.FirstValue) else "last_value"
                passing = ", true" if not _is_under(core, exp.RespectNulls) else ""
                return "{0}", [f"{name}({self.sql(core, 'this')}{passing})"], ""
            case exp.JSONObjectAgg():
                (pair,) = core.expressions
                item = self._json_item(pair.expression)
                if core.args.get("null_handling") != "ABSENT ON NULL":
                    item = f"coalesce({item}, 'null')"
                entry = f"concat({self._json_item(pair.this)}, ':', {item})"
                template = "concat('{{', array_join(array_sort({0}), ','), '}}')"
                return template, [f"collect_list({entry})"], ""
            case exp.JSONArrayAgg():
                item = self._json_item(core.this)
                if core.args.get("null_handling") == "NULL ON NULL":
                    item = f"coalesce({item}, 'null')"
                return "concat('[', array_join({0}, ','), ']')", [f"collect_list({item})"], ""
            case exp.AnonymousAggFunc() if core.name.upper() in NAMED:
                return NAMED[core.name.upper()](self, core)
            case _:
                return "{0}", [self.func(core.name, *core.expressions)], ""

    def _average(self, core: exp.Avg) -> Parts:
        distinct, value = _argument(core.this)
        text, kind, sizes = self.sql(value), number_kind(value), decimal_of(value)
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

    def _spread(self, core: exp.Expr) -> Parts:
        distinct, value = _argument(core.this)
        text, kind, name = self.sql(value), number_kind(value), SPREAD_NAMES[type(core)]
        if kind not in INTEGERS:
            return "{0}", [f"{name}({distinct}{text})"], ""
        if distinct:
            return f"CAST({{0}} AS {TYPES[kind]})", [f"{name}({distinct}{text})"], ""
        root, divisor = SPREADS[type(core)]
        wide = f"CAST({text} AS DECIMAL(38, 0))"
        calls = [f"SUM({wide} * {self._operand(value)})", f"SUM({wide})", f"COUNT({text})"]
        return (
            f"CAST({root.replace('{0}', f'({SQUARES} DIV {divisor})')} AS {TYPES[kind]})",
            calls,
            "",
        )

    def _array_agg(self, core: exp.AnonymousAggFunc) -> Parts:
        distinct, value = _argument(core.expressions[0])
        nulls = "" if _is_under(core, exp.IgnoreNulls) else " RESPECT NULLS"
        call = f"collect_list({distinct}{self.sql(value)})"
        return "if(size({0}) > 0, {0}, NULL)", [call], nulls

    def _collect(self, core: exp.AnonymousAggFunc) -> Parts:
        distinct, value = _argument(core.expressions[0])
        return MULTISET, [f"collect_list({distinct}{self.sql(value)})"], ""

    def _percentile(self, core: exp.AnonymousAggFunc) -> Parts:
        value, share, *frequency = core.expressions
        if share.find(exp.Column):
            raise NodeError(
                "the share of PERCENTILE is a constant", share, "write for instance 0.5"
            )
        arguments = [self.sql(value), self.sql(share)]
        if frequency:
            arguments.append(f"greatest(coalesce({self.sql(frequency[0])}, 0), 0)")
        return "{0}", [f"percentile({', '.join(arguments)})"], ""


NAMED: dict[str, Callable[[AggregateWriter, exp.AnonymousAggFunc], Parts]] = {
    "ARRAY_AGG": AggregateWriter._array_agg,  # noqa: SLF001 - its own methods
    "COLLECT": AggregateWriter._collect,  # noqa: SLF001
    "PERCENTILE": AggregateWriter._percentile,  # noqa: SLF001
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
