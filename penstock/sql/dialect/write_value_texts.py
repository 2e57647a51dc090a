"""The part of the writer for Spark that writes a value as Flink's text: TRUE, [1, NULL], {a=1}, (1, x).

The texts are those of Flink's rules for CAST to STRING (ArrayToStringCastRule, MapAndMultisetToStringCastRule,
RowToStringCastRule, IntervalToStringCastRule, ... in org.apache.flink.table.planner.functions.casting), held by
CastRulesTest: texts inside stand without quotes, what is NULL inside is NULL in capitals.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.sql.dialect.access import FLINK
from penstock.sql.dialect.problems import NodeError
from penstock.sql.dialect.result_types import interval_type, row_type
from penstock.sql.dialect.spark_types import SparkTypeWriter, precision_of, type_of

__all__ = ["CONSTRUCTED", "MICROS", "ValueTextWriter"]

CONSTRUCTED = (exp.DType.ARRAY, exp.DType.MAP, exp.DType.STRUCT)
OTHER_TEXTS = (
    *CONSTRUCTED,
    exp.DType.BOOLEAN,
    exp.DType.INTERVAL,
    exp.DType.TIME,
    exp.DType.TIMESTAMPNTZ,
    exp.DType.TIMESTAMPLTZ,
)
"""Types whose values Spark writes otherwise than Flink."""
CONSTRUCTORS = ("ROW", "MAP")
MICROS = 6
"""Digits of a second that Spark keeps."""
SECONDS, DAY_SECONDS = 8, 19
"""Characters of 12:34:56, and of those with a date before them."""

MONTHS = (
    "concat(if({0} < INTERVAL '0' MONTH, '-', '+'), abs(extract(YEAR FROM {0})), '-', "
    "lpad(abs(extract(MONTH FROM {0})), 2, '0'))"
)
# Flink's intervals have milliseconds
DAYS = (
    "concat(if({0} < INTERVAL '0' SECOND, '-', '+'), abs(extract(DAY FROM {0})), ' ', "
    "lpad(abs(extract(HOUR FROM {0})), 2, '0'), ':', lpad(abs(extract(MINUTE FROM {0})), 2, '0'), ':', "
    "left(lpad(CAST(abs(extract(SECOND FROM {0})) AS STRING), 9, '0'), 6))"
)


class ValueTextWriter(SparkTypeWriter):
    """Writes the texts of values."""

    def _text(self, value: exp.Expr, cast: str) -> str:
        """Flink's text of a node. Raises NodeError where it hangs on a type that is not known."""
        kind, items = type_of(value), _row_items(value)
        if isinstance(value, exp.Tuple):
            kind = row_type(value.expressions)
        if isinstance(value, exp.Interval):
            kind = interval_type(value)
        if items and kind is not None and kind.this == exp.DType.STRUCT:
            parts = zip(items, kind.expressions, strict=True)
            return _in_row(
                [self._item_text(self.sql(item), field.args["kind"]) for item, field in parts]
            )
        if _hangs(value, kind):
            raise NodeError(
                "the text of this value hangs on the types of its parts, which are not known",
                value,
                "give them to it: CAST(CAST(... AS ARRAY<INT>) AS STRING)",
            )
        return self._text_of(self.sql(value), kind) or f"{cast}({self.sql(value)} AS STRING)"

    def dpipe_sql(self, expression: exp.DPipe) -> str:
        """Texts put together; what is none is taken by its text."""
        return f"{self._taken(expression.this, '||')} || {self._taken(expression.expression, '||')}"

    def _concat(self, call: exp.Anonymous) -> str:
        return f"concat({', '.join(self._taken(item, 'CONCAT') for item in call.expressions)})"

    def _concat_ws(self, call: exp.Anonymous) -> str:
        return (
            f"concat_ws({', '.join(self._taken(item, 'CONCAT_WS') for item in call.expressions)})"
        )

    def _taken(self, node: exp.Expr, function: str) -> str:
        """What is put into a text. Flink takes texts alone; numbers and dates have the same text in Spark."""
        kind = type_of(node)
        if kind is not None and kind.this in OTHER_TEXTS:
            raise NodeError(
                f"{function} takes texts, and this is of the type {kind.sql(FLINK)}",
                node,
                "write CAST(... AS STRING)",
            )
        return self.sql(node)

    def _text_of(self, sql: str, kind: exp.DataType | None) -> str | None:
        """Flink's text of a value where Spark's differs; None where they agree or nothing is known."""
        match kind and kind.this:
            case exp.DType.BOOLEAN:
                return f"upper(CAST({sql} AS STRING))"
            case exp.DType.TIMESTAMPNTZ | exp.DType.TIMESTAMPLTZ if kind:
                digits = precision_of(kind, MICROS)
                return self._let([f"CAST({sql} AS STRING)"], lambda v: _timestamp(v[0], digits))
            case exp.DType.TIME if kind:
                digits = precision_of(kind, 0)
                return self._let([f"CAST({sql} AS STRING)"], lambda v: _time(v[0], digits))
            case exp.DType.INTERVAL if kind and kind.expressions:
                form = MONTHS if kind.expressions[0].name.startswith("YEAR") else DAYS
                whole = f"CAST({sql} AS {self.sql(kind)})"  # of INTERVAL '1' MONTH Spark extracts no YEAR
                return self._let([whole], lambda v: form.format(*v))
            case exp.DType.ARRAY if kind:
                item = self._item_text("__x", kind.expressions[0])
                return _listed("[", f"transform({sql}, __x -> {item})", "]")
            case exp.DType.MAP if kind:
                key, item = (
                    self._item_text(f"__e.{name}", inner)
                    for name, inner in zip(("key", "value"), kind.expressions, strict=True)
                )
                entries = f"transform(map_entries({sql}), __e -> concat({key}, '=', {item}))"
                return _listed("{", entries, "}")
            case exp.DType.STRUCT if kind:
                return self._let([sql], lambda v: self._row_text(v[0], kind))
        return None

    def _item_text(self, sql: str, kind: exp.DataType) -> str:
        text = self._text_of(sql, kind) or f"CAST({sql} AS STRING)"
        return f"coalesce({text}, 'NULL')"

    def _row_text(self, sql: str, kind: exp.DataType) -> str:
        items = [
            self._item_text(f"{sql}.{self.sql(field, 'this')}", field.args["kind"])
            for field in kind.expressions
        ]
        return f"if({sql} IS NULL, NULL, {_in_row(items)})"


def _row_items(value: exp.Expr) -> list[exp.Expr] | None:
    """What stands in ROW(a, b) or (a, b); None for any other node."""
    made = isinstance(value, exp.Anonymous) and value.name.upper() == "ROW"
    return value.expressions if made or isinstance(value, exp.Tuple) else None


def _hangs(value: exp.Expr, kind: exp.DataType | None) -> bool:
    """Whether a value is an array, a map, a row or an interval of which not everything is known."""
    if kind is None or kind.this == exp.DType.UNKNOWN:
        made = isinstance(value, exp.Anonymous) and value.name.upper() in CONSTRUCTORS
        return made or isinstance(value, exp.Array | exp.Tuple)
    parts = list(kind.find_all(exp.DataType))
    open_ended = (*CONSTRUCTED, exp.DType.INTERVAL)
    return any(
        part.this == exp.DType.UNKNOWN or (part.this in open_ended and not part.expressions)
        for part in parts
    )


def _listed(first: str, items: str, last: str) -> str:
    return f"concat('{first}', array_join({items}, ', '), '{last}')"


def _in_row(items: Sequence[str]) -> str:
    between = ", ', ', "
    return f"concat('(', {between.join(items)}, ')')"


def _timestamp(text: str, digits: int) -> str:
    """All digits of the fraction. Not by date_format, which goes through the session's time zone."""
    if not digits:
        return f"left({text}, {DAY_SECONDS})"
    whole = f"if(contains({text}, '.'), {text}, concat({text}, '.'))"
    size = DAY_SECONDS + 1 + digits
    return f"left(rpad({whole}, {max(size, DAY_SECONDS + 1 + MICROS)}, '0'), {size})"


def _time(text: str, digits: int) -> str:
    """One digit of the fraction at least, and no zeros behind it (DateTimeUtils.unixTimeToString)."""
    if not digits:
        return f"left({text}, {SECONDS})"
    return f"if(contains({text}, '.'), left({text}, {SECONDS + 1 + digits}), concat({text}, '.0'))"
