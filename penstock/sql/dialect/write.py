"""Writes Flink's trees as Spark SQL 4.2, with Flink's meaning where the two differ.

Functions come from the table in functions.py; here are the nodes whose form depends on types or has
a syntax of its own. Types are those that sqlglot inferred (`node.type`, put there by bind.py): where
a form hangs on a type that is not known, the query is refused rather than guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel
from sqlglot.errors import UnsupportedError as SqlglotUnsupportedError
from sqlglot.generators.spark import SparkGenerator

from penstock.catalog.errors import UnsupportedError
from penstock.sql.dialect.functions import (
    FUNCTIONS,
    MAX_MILLIS,
    MAX_SECONDS,
    MIN_MILLIS,
    MIN_SECONDS,
)
from penstock.sql.dialect.problems import NodeError
from penstock.sql.dialect.query import WINDOW_FUNCTIONS
from penstock.sql.dialect.spark_types import TYPES, SparkTypeWriter, kind_of
from penstock.sql.positions import span_of

__all__ = ["to_spark_query", "write_spark"]

INTEGERS = (exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT)
WHOLE_NAMES = "'tinyint', 'smallint', 'int', 'bigint'"
ATOMS = (exp.Column, exp.Literal, exp.Func, exp.Paren, exp.Null, exp.Boolean, exp.Bracket, exp.Dot)
EXTRACTED = (
    "YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "DOW", "HOUR", "MINUTE", "SECOND",
)  # fmt: skip

FIXED_UNITS = {
    "SECOND": "1' SECOND", "MINUTE": "1' MINUTE", "HOUR": "1' HOUR", "DAY": "1' DAY", "WEEK": "7' DAY",
}  # fmt: skip
REPLACED = (
    exp.Select, exp.Table, exp.Unnest, exp.If, exp.TryCast, exp.GroupConcat, exp.With, exp.Array,
    exp.Map, exp.Floor, exp.Ceil, exp.StrPosition,
)  # fmt: skip


def write_spark(tree: exp.Expr) -> str:
    """Spark SQL for a query or an expression; `tree` stays as it is. Raises NodeError."""
    try:
        return TARGET.generate(
            tree, identify=True, comments=False, unsupported_level=ErrorLevel.RAISE
        )
    except SqlglotUnsupportedError as error:
        raise NodeError(str(error), tree) from None


def to_spark_query(query: exp.Expr) -> str:
    """Spark SQL for a query whose windowing functions were replaced. Raises UnsupportedError."""
    try:
        return write_spark(query)
    except NodeError as error:
        span = span_of(error.node) or span_of(query)
        raise UnsupportedError(error.message, hint=error.hint, span=span) from None


class SparkWriter(SparkTypeWriter):
    """sqlglot's writer for Spark, corrected to Flink's meaning."""

    TRANSFORMS: ClassVar[dict[Any, Callable[..., str]]] = {
        kind: transform
        for kind, transform in SparkGenerator.TRANSFORMS.items()
        # these would rewrite the tree after other dialects' rules, or hide a method below
        if kind not in REPLACED
    } | {
        exp.CurrentDate: lambda *_: "current_date()",
        exp.CurrentTimestamp: lambda *_: "current_timestamp()",
        exp.CurrentTime: lambda *_: "current_time()",
        exp.Localtime: lambda *_: "current_time()",
        exp.Localtimestamp: lambda *_: "localtimestamp()",
        exp.If: lambda self, e: self.func("IF", e.this, e.args.get("true"), e.args.get("false") or exp.null()),
        exp.TryCast: lambda self, e: self.cast_sql(e, safe_prefix="TRY_"),
        exp.Array: lambda self, e: self.func("ARRAY", *e.expressions),
        exp.HexString: lambda _, e: f"X'{e.name}'",
        exp.Greatest: lambda self, e: self._null_if_any("greatest", e),
        exp.Least: lambda self, e: self._null_if_any("least", e),
    }  # fmt: skip

    def table_sql(self, expression: exp.Table, sep: str = " AS ") -> str:
        """A table; its OPTIONS are the planner's to read."""
        expression.set("hints", None)
        return super().table_sql(expression, sep)

    # --- operators ---

    def div_sql(self, expression: exp.Div) -> str:
        """A / b; of two whole numbers the quotient is whole, rounded towards zero."""
        left, right = expression.left, expression.right
        kinds = (kind_of(left), kind_of(right))
        if all(kind in INTEGERS for kind in kinds):
            result = TYPES[max(kinds, key=INTEGERS.index)]
            return f"CAST({self.sql(left)} DIV {self.sql(right)} AS {result})"
        fractions = (exp.DType.DOUBLE, exp.DType.FLOAT, exp.DType.DECIMAL)
        if exp.DType.UNKNOWN not in kinds or any(kind in fractions for kind in kinds):
            return f"{self.sql(left)} / {self.sql(right)}"
        # Left to Spark, which knows the types: the value is Flink's, its type DOUBLE.
        a, b = self._operand(left), self._operand(right)
        whole = " AND ".join(
            f"typeof({x}) IN ({WHOLE_NAMES})"
            for x, kind in ((a, kinds[0]), (b, kinds[1]))
            if kind == exp.DType.UNKNOWN
        )
        return f"CASE WHEN {whole} THEN round(({a} - {a} % {b}) / {b}) ELSE {a} / {b} END"

    def bracket_sql(self, expression: exp.Bracket) -> str:
        """array[i] counted from 1 and map[key]; NULL where there is none."""
        this, index = expression.this, expression.expressions[0]
        if kind_of(this) == exp.DType.MAP or index.is_string:
            return f"{self._operand(this)}[{self.sql(index)}]"
        start = str(int(index.name) - 1) if index.is_int else f"{self._operand(index)} - 1"
        return f"get({self.sql(this)}, {start})"

    def _null_if_any(self, name: str, expression: exp.Greatest | exp.Least) -> str:
        """GREATEST and LEAST: NULL if any argument is (Spark passes over NULLs)."""
        items = [expression.this, *expression.expressions]
        arguments = ", ".join(self.sql(item) for item in items)
        nullable = [item for item in items if not isinstance(item, exp.Literal)]
        nulls = " OR ".join(f"{self._operand(item)} IS NULL" for item in nullable)
        if not nullable:
            return f"{name}({arguments})"
        return f"CASE WHEN {nulls} THEN NULL ELSE {name}({arguments}) END"

    # --- functions ---

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        """A function by the table; one that is not there may be the user's own."""
        name = expression.name.upper()
        special = getattr(self, f"_{name.lower()}", None) if name in SPECIAL else None
        if special:
            return str(special(expression))
        if name in WINDOW_FUNCTIONS and isinstance(expression.parent, exp.Table):
            raise NodeError(f"{name} stands where no window is planned", expression)
        row = FUNCTIONS.get(name)
        if row is None:
            return super().anonymous_sql(expression)
        if row.refusal is not None:
            raise NodeError(f"{name} is not supported", expression, row.refusal)
        return self._filled(name, expression)

    def anonymousaggfunc_sql(self, expression: exp.AnonymousAggFunc) -> str:
        """An aggregate by the table, or one of Spark's own that the planner wrote."""
        name = expression.name.upper()
        if name not in FUNCTIONS:
            return self.func(expression.name, *expression.expressions)
        return self._filled(name, expression)

    def _filled(self, name: str, call: exp.Expr) -> str:
        row, arguments = FUNCTIONS[name], call.expressions
        form = row.form(len(arguments))
        if form is None:
            raise NodeError(f"{name} takes {row.arities} arguments, not {len(arguments)}", call)
        texts = [self._operand(argument) for argument in arguments]
        return form.format(*texts, **{"*": ", ".join(self.sql(a) for a in arguments)})

    def _operand(self, node: exp.Expr) -> str:
        """A node's text, safe to stand beside an operator."""
        atom = isinstance(node, ATOMS) and not isinstance(node, exp.Binary)
        return self.sql(node) if atom else f"({self.sql(node)})"

    def _to_timestamp_ltz(self, call: exp.Anonymous) -> str:
        arguments = call.expressions
        precision = arguments[1] if len(arguments) == 2 else None
        numeric = kind_of(arguments[0]) in exp.DataType.NUMERIC_TYPES if arguments else False
        if len(arguments) == 1 and numeric:
            precision = exp.Literal.number(3)
        if precision is None or not precision.is_int or precision.name not in ("0", "3"):
            raise NodeError(
                "TO_TIMESTAMP_LTZ of anything but an epoch number is not supported",
                call,
                "write TO_TIMESTAMP_LTZ(epoch, 0) for seconds, (epoch, 3) for milliseconds",
            )
        value = self._operand(arguments[0])
        low, high, millis = MIN_MILLIS, MAX_MILLIS, f"CAST({value} AS BIGINT)"
        if precision.name == "0":
            low, high, millis = MIN_SECONDS, MAX_SECONDS, f"CAST({value} * 1000L AS BIGINT)"
        return f"timestamp_millis(CASE WHEN {value} BETWEEN {low}L AND {high}L THEN {millis} END)"

    def _timestampadd(self, call: exp.Anonymous) -> str:
        unit, amount, value = self._unit_call(call)
        sql = f"timestampadd({unit.name}, {self.sql(amount)}, {self.sql(value)})"
        day = unit.name in ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
        return f"CAST({sql} AS DATE)" if day and kind_of(value) == exp.DType.DATE else sql

    def _timestampdiff(self, call: exp.Anonymous) -> str:
        unit, first, last = self._unit_call(call)
        local = kind_of(first) == kind_of(last) == exp.DType.TIMESTAMPNTZ
        if local and unit.name in FIXED_UNITS:
            # timestampdiff would go through the session's zone, where an hour may be missing
            since = f"({self._operand(last)} - {self._operand(first)})"
            return f"CAST({since} DIV INTERVAL '{FIXED_UNITS[unit.name]} AS INT)"
        return f"CAST(timestampdiff({unit.name}, {self.sql(first)}, {self.sql(last)}) AS INT)"

    @staticmethod
    def _unit_call(call: exp.Anonymous) -> tuple[exp.Expr, exp.Expr, exp.Expr]:
        if len(call.expressions) != 3:
            raise NodeError(f"{call.name} takes a unit and two arguments", call)
        unit, first, second = call.expressions
        return unit, first, second

    def extract_sql(self, expression: exp.Extract) -> str:
        """EXTRACT gives a BIGINT; seconds are whole."""
        if expression.name not in EXTRACTED:
            raise NodeError(f"EXTRACT({expression.name} ...) is not supported", expression)
        value = self.sql(expression, "expression")
        return f"CAST(extract({expression.name} FROM {value}) AS BIGINT)"

    def floor_sql(self, expression: exp.Floor) -> str:
        """FLOOR(x) and FLOOR(time TO unit)."""
        value, unit = expression.this, expression.args.get("to")
        if unit is None:
            return self.func("FLOOR", value)
        kind = kind_of(value)
        cut = f"date_trunc('{unit.name.upper()}', {self.sql(value)})"
        if kind in (exp.DType.TIMESTAMPNTZ, exp.DType.DATE):
            return f"CAST({cut} AS {TYPES[kind]})"
        if kind != exp.DType.TIMESTAMPLTZ:
            raise NodeError(
                "FLOOR(... TO ...) of a value whose type could not be told",
                expression,
                "cast it first",
            )
        return cut

    def ceil_sql(self, expression: exp.Ceil) -> str:
        """CEIL(x)."""
        if expression.args.get("to"):
            raise NodeError("CEIL(... TO ...) is not supported", expression)
        return self.func("CEIL", expression.this)

    def strposition_sql(self, expression: exp.StrPosition) -> str:
        """POSITION(x IN y)."""
        return self.func("LOCATE", expression.args["substr"], expression.this)

    def jsonvalue_sql(self, expression: exp.JSONValue) -> str:
        """JSON_VALUE of a scalar, NULL where there is none or it is malformed."""
        condition = expression.args.get("on_condition")
        if condition and {str(v) for v in condition.args.values() if v} - {
            "NULL ON EMPTY",
            "NULL ON ERROR",
        }:
            raise NodeError("only NULL ON EMPTY and NULL ON ERROR are supported", expression)
        path = expression.args["path"]
        if path.is_string:
            path = exp.Literal.string(re.sub(r"^(lax|strict)\s+", "", path.name))
        found = self.func("get_json_object", expression.this, path)
        returning = expression.args.get("returning")
        return f"TRY_CAST({found} AS {self.sql(returning)})" if returning else found

    def unnest_sql(self, expression: exp.Unnest) -> str:
        """UNNEST in FROM: a row becomes columns, a map key and value."""
        if expression.args.get("offset") or len(expression.expressions) != 1:
            raise NodeError("UNNEST WITH ORDINALITY is not supported", expression)
        value = expression.expressions[0]
        inner = (
            value.type.expressions[0] if kind_of(value) == exp.DType.ARRAY and value.type else None
        )
        rows = isinstance(inner, exp.DataType) and inner.is_type(exp.DType.STRUCT)
        alias = self.sql(expression, "alias")
        call = self.func("inline" if rows else "explode", value)
        return f"LATERAL {call}" + (f" AS {alias}" if alias else "")

    # --- aggregates ---

    def groupconcat_sql(self, expression: exp.GroupConcat) -> str:
        """LISTAGG joins by a comma unless told otherwise."""
        separator = self.sql(expression, "separator") or "','"
        return f"listagg({self.sql(expression, 'this')}, {separator})"

    def avg_sql(self, expression: exp.Avg) -> str:
        """AVG of whole numbers is whole."""
        return self._whole_average(expression, self.func("AVG", expression.this))

    def filter_sql(self, expression: exp.Filter) -> str:
        """FILTER (WHERE ...), in front of RESPECT NULLS."""
        call, nulls, _ = self.sql(expression, "this").partition(" RESPECT NULLS")
        where = self.sql(expression, "expression").strip()
        return self._whole_average(expression, f"{call} FILTER ({where}){nulls}")

    def window_sql(self, expression: exp.Window) -> str:
        """OVER (...)."""
        return self._whole_average(expression, super().window_sql(expression))

    def _whole_average(self, node: exp.Expr, sql: str) -> str:
        core = node
        while isinstance(core, exp.Filter | exp.Window):
            core = core.this
        outermost = (
            not isinstance(node.parent, exp.Filter | exp.Window) or node.parent.this is not node
        )
        if not (isinstance(core, exp.Avg) and outermost):
            return sql
        value = core.this.expressions[0] if isinstance(core.this, exp.Distinct) else core.this
        kind = kind_of(value)
        return f"CAST({sql} AS {TYPES[kind]})" if kind in INTEGERS else sql


SPECIAL = ("TO_TIMESTAMP_LTZ", "TIMESTAMPADD", "TIMESTAMPDIFF")


class PenstockSpark(Spark):
    """Spark as a target of Flink's trees."""

    Generator = SparkWriter


TARGET: Dialect = PenstockSpark()
