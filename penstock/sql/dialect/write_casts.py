"""The part of the writer for Spark that writes CAST and TRY_CAST with Flink's meaning.

The rules are those of Flink's casting rules (org.apache.flink.table.planner.functions.casting), held by
CastFunctionITCase: whole numbers are cut to their bits, fractions stop at the limits (Java's casts), a
DECIMAL that does not fit is NULL, a text may have a fraction that a whole number drops.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.dialect.problems import NodeError
from penstock.sql.dialect.spark_types import (
    FRACTIONS,
    INTEGERS,
    TEXTS,
    TYPES,
    SparkTypeWriter,
    kind_of,
    number_kind,
    precision_of,
    type_of,
)

__all__ = ["CastWriter"]

BITS = {exp.DType.TINYINT: 8, exp.DType.SMALLINT: 16, exp.DType.INT: 32, exp.DType.BIGINT: 64}
NUMBERS = (*INTEGERS, *FRACTIONS, exp.DType.DECIMAL)
TIMES = (exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPLTZ)
MICROS = 6
"""Digits of a second that Spark keeps."""


class CastWriter(SparkTypeWriter):
    """Writes casts."""

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        """CAST and TRY_CAST (`safe_prefix`)."""
        to: exp.DataType = expression.args["to"]
        value, cast = expression.this, f"{safe_prefix or ''}CAST"
        if to.this in TEXTS:
            return self._to_text(value, to, cast)
        if to.this in (exp.DType.BINARY, exp.DType.VARBINARY) and to.expressions:
            return self._to_bytes(value, to, cast)
        if to.this in INTEGERS:
            return self._to_whole(value, to.this, cast)
        if to.this in TIMES:
            return self._to_time(value, to, cast)
        if to.this == exp.DType.DECIMAL and number_kind(value) in NUMBERS:
            cast = "TRY_CAST"
        return f"{cast}({self.sql(value)} AS {self.sql(to)})"

    # --- numbers ---

    def _to_whole(self, value: exp.Expr, to: exp.DType, cast: str) -> str:
        kind = kind_of(value)
        if kind in TEXTS:
            return f"{cast}({self._without_fraction(value)} AS {TYPES[to]})"
        kind = number_kind(value)
        plain = f"{cast}({self.sql(value)} AS {TYPES[to]})"
        if (
            isinstance(value, exp.Literal)
            and value.is_int
            and int(value.name) < 2 ** (BITS[to] - 1)
        ):
            return plain
        if kind in INTEGERS:
            return plain if BITS[kind] <= BITS[to] else self._wrapped(self._operand(value), to)
        if kind in FRACTIONS:
            wide = exp.DType.BIGINT if to == exp.DType.BIGINT else exp.DType.INT
            stopped = self._let([self._operand(value)], lambda v: self._stopped(v[0], wide))
            return stopped if to == wide else self._wrapped(f"({stopped})", to)
        if kind == exp.DType.DECIMAL and to != exp.DType.BIGINT:
            return self._wrapped(f"{cast}({self.sql(value)} AS BIGINT)", to)
        return plain

    @staticmethod
    def _wrapped(text: str, to: exp.DType) -> str:
        """The low bits of a whole number, the highest one taken for the sign."""
        top = 1 << (BITS[to] - 1)
        return f"CAST((({text} & {2 * top - 1}L) ^ {top}L) - {top}L AS {TYPES[to]})"

    @staticmethod
    def _stopped(text: str, to: exp.DType) -> str:
        top = 1 << (BITS[to] - 1)
        last = "L" if to == exp.DType.BIGINT else ""
        low = f"-{top - 1}{last} - 1{last}"
        return (
            f"CASE WHEN isnan({text}) THEN 0{last} WHEN {text} >= {float(top)!r}D THEN {top - 1}{last} "
            f"WHEN {text} <= {float(-top)!r}D THEN {low} ELSE CAST({text} AS {TYPES[to]}) END"
        )

    def _without_fraction(self, value: exp.Expr) -> str:
        if isinstance(value, exp.Literal) and "." not in value.name:
            return self.sql(value)
        cut = r"regexp_replace({0}, '^(\\s*[+-]?[0-9]+)[.][0-9]*(\\s*)$', '$1')"
        form = f"if(contains({{0}}, '.'), {cut}, {{0}})"
        return self._let([self._operand(value)], lambda v: form.replace("{0}", v[0]))

    # --- times ---

    def _to_time(self, value: exp.Expr, to: exp.DataType, cast: str) -> str:
        """To TIMESTAMP(p) or TIMESTAMP_LTZ(p): what is finer than p digits is dropped."""
        digits = precision_of(to, MICROS)
        plain = f"{cast}({self.sql(value)} AS {self.sql(to)})"
        kind = kind_of(value)
        known = type_of(value)
        had = precision_of(known, MICROS) if kind in TIMES and known else MICROS
        if digits >= min(had, MICROS) or kind in (exp.DType.DATE, exp.DType.TIME):
            return plain
        step = f"{10**-digits:.{digits}f}" if digits else "1"
        rest = "make_dt_interval(0, 0, 0, extract(SECOND FROM {0}) % {1}BD)"
        return self._let([plain], lambda v: f"({v[0]} - {rest.format(v[0], step)})")

    # --- bytes and texts ---

    def _to_bytes(self, value: exp.Expr, to: exp.DataType, cast: str) -> str:
        size, text = precision_of(to, 1), f"{cast}({self.sql(value)} AS BINARY)"
        if to.this == exp.DType.BINARY:
            return f"rpad({text}, {size}, X'00')"
        return f"substring({text}, 1, {size})"

    def _to_text(self, value: exp.Expr, to: exp.DataType, cast: str) -> str:
        if kind_of(value) == exp.DType.INTERVAL:
            raise NodeError(
                "CAST of an interval to a text is not supported",
                value,
                "take its parts: EXTRACT(DAY FROM i), EXTRACT(HOUR FROM i), ...",
            )
        text = self._text_of(self.sql(value), type_of(value))
        if text is None:
            text = f"{cast}({self.sql(value)} AS STRING)"
        if to.this == exp.DType.CHAR:
            return f"rpad({text}, {precision_of(to, 1)}, ' ')"
        return f"left({text}, {precision_of(to, 1)})" if to.expressions else text

    def _text_of(self, sql: str, kind: exp.DataType | None) -> str | None:
        """Flink's text of a value where Spark's differs; None where they agree or nothing is known."""
        if kind is None:
            return None
        match kind.this:
            case exp.DType.BOOLEAN:
                return f"upper(CAST({sql} AS STRING))"
            case exp.DType.TIMESTAMPNTZ | exp.DType.TIMESTAMPLTZ:
                return self._let([sql], lambda v: _text_of_time(v[0], precision_of(kind, MICROS)))
            case exp.DType.ARRAY if kind.expressions:
                item = self._item_text("x", kind.expressions[0])
                return f"concat('[', array_join(transform({sql}, x -> {item}), ', '), ']')"
            case exp.DType.MAP if len(kind.expressions) == 2:
                key, item = (
                    self._item_text(f"e.{n}", k)
                    for n, k in zip(("key", "value"), kind.expressions, strict=True)
                )
                entries = f"transform(map_entries({sql}), e -> concat({key}, '=', {item}))"
                return f"concat('{{', array_join({entries}, ', '), '}}')"
            case exp.DType.STRUCT if kind.expressions:
                return self._let([sql], lambda v: self._row_text(v[0], kind))
            case _:
                return None

    def _item_text(self, sql: str, kind: exp.DataType) -> str:
        text = self._text_of(sql, kind) or f"CAST({sql} AS STRING)"
        return f"coalesce({text}, 'NULL')"

    def _row_text(self, sql: str, kind: exp.DataType) -> str:
        items = [
            self._item_text(f"{sql}.{self.sql(field, 'this')}", field.args["kind"])
            for field in kind.expressions
        ]
        inner = ", ', ', ".join(items)
        return f"if({sql} IS NULL, NULL, concat('(', {inner}, ')'))"


def _text_of_time(sql: str, precision: int) -> str:
    """All digits of the fraction. Not by date_format, which goes through the session's time zone."""
    text, digits = f"CAST({sql} AS STRING)", min(precision, MICROS)
    if not digits:
        return f"left({text}, 19)"
    whole = f"if(contains({text}, '.'), {text}, concat({text}, '.'))"
    return f"left(rpad({whole}, 26, '0'), {20 + digits})"
