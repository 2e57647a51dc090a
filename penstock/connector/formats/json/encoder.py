"""Rows as the texts of JSON objects, column by column on Arrow arrays; no Python for a usual value.

The texts are those of `connector/spark/encoding.py`, which Spark writes, byte by byte: what cannot be held to that is
not encoded here (`JsonFormat.why_not_encoded`). Reading tasks that write records call it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.model import types as t
from penstock.connector.formats.contract import Fields
from penstock.connector.formats.json.options import JsonWriting, TimestampStandard

_INTEGERS = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)

_ESCAPES = {
    **{code: f"\\u{code:04X}" for code in range(0x20)},
    **{ord(char): f"\\{letter}" for char, letter in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)},
}
"""As Jackson writes them."""
_ESCAPED = r'["\\\x00-\x1f]'

_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""Of the years 1 to 9999, which Arrow writes as Java does."""

_EXACT = Context(prec=60)
"""More digits than a DECIMAL has."""


class JsonEncoder:
    """Encodes columns of fixed names and types, which `JsonFormat.why_not_encoded` has nothing against."""

    def __init__(self, fields: Fields, writing: JsonWriting) -> None:
        self._fields = tuple(fields)
        self._writing = writing

    def encode(self, columns: Sequence[pa.Array], rows: int) -> pa.Array:
        """Return the objects of the rows as bytes, never NULL; `columns` are those of the fields, in their order."""
        texts = _object(self._fields, columns, rows, self._writing)
        return texts.view(pa.binary())


def _object(
    fields: Fields, columns: Sequence[pa.Array], rows: int, writing: JsonWriting
) -> pa.Array:
    if not rows:
        return pa.array([], pa.string())
    if writing.ignores_nulls:
        pairs = [
            pc.binary_join_element_wise(f",{_member(name)}", text, "", null_handling="emit_null")
            for (name, kind), column in zip(fields, columns, strict=True)
            for text in [_text(kind, column, writing)]
        ]
        # the brace takes the place of the first comma
        joined = pc.binary_join_element_wise(*(pair.fill_null("") for pair in pairs), "")
        return pc.binary_join_element_wise(pc.binary_replace_slice(joined, 0, 1, "{"), "}", "")
    parts = [pa.repeat(pa.scalar("{"), rows)]
    for index, ((name, kind), column) in enumerate(zip(fields, columns, strict=True)):
        comma = "," if index else ""
        parts += [f"{comma}{_member(name)}", _present(_text(kind, column, writing))]
    return pc.binary_join_element_wise(*parts, "}", "")


def _member(name: str) -> str:
    return f"{json.dumps(name, ensure_ascii=False)}:"


def _present(texts: pa.Array) -> pa.Array:
    return texts.fill_null("null") if texts.null_count else texts


def _text(logical: t.LogicalType, column: pa.Array, writing: JsonWriting) -> pa.Array:
    """Return the texts of values; NULL for NULL."""
    match logical:
        case t.CharType() | t.VarCharType():
            return _quoted(_escaped(column))
        case t.BinaryType() | t.VarBinaryType():
            return _quoted(_by_value(column, lambda v: base64.b64encode(v).decode()))
        case t.DecimalType():
            return _decimal(column, plain=writing.plain_decimals)
        case t.DateType():
            return _quoted(_date(column))
        case t.TimestampType() | t.TimestampLtzType():
            offset = writing.standard.offset or isinstance(logical, t.TimestampLtzType)
            return _quoted(_moment(column, writing.standard), 'Z"' if offset else '"')
        case t.ArrayType(element=element):
            return _list(element, column, writing)
        case t.RowType(fields=fields):
            names = [(field.name, field.type) for field in fields]
            # of a row that is NULL a field may have a value still
            texts = _object(names, column.flatten(), len(column), writing)
            return _where(column, texts)
    assert isinstance(logical, (t.BooleanType, *_INTEGERS)), f"{logical} is not encoded"
    return column.cast(pa.string())


def _where(column: pa.Array, texts: pa.Array) -> pa.Array:
    """Return the texts of the values that are not NULL."""
    if not column.null_count:
        return texts
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.string()))


def _quoted(texts: pa.Array, end: str = '"') -> pa.Array:
    return pc.binary_join_element_wise('"', texts, end, "", null_handling="emit_null")


def _by_value(column: pa.Array, text: Callable[[Any], str]) -> pa.Array:
    return pa.array([None if v is None else text(v) for v in column.to_pylist()], pa.string())


def _escaped(column: pa.Array) -> pa.Array:
    """Escape texts; most columns have none to escape, which a look at their bytes shows."""
    if not _may_escape(column):
        return column
    odd = pc.match_substring_regex(column, _ESCAPED).fill_null(False)
    if not odd.true_count:
        return column
    written = [text.translate(_ESCAPES) for text in column.filter(odd).to_pylist()]
    return pc.replace_with_mask(column, odd, pa.array(written, pa.string()))


def _may_escape(column: pa.Array) -> bool:
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return False
    ends = np.frombuffer(offsets, np.int32)[column.offset :][[0, len(column)]]
    held = np.frombuffer(data, np.uint8)[ends[0] : ends[1]]
    if not held.size:
        return False
    if held.min() < 0x20:
        return True
    text = held.tobytes()
    return b'"' in text or b"\\" in text


def _list(element: t.LogicalType, column: pa.Array, writing: JsonWriting) -> pa.Array:
    # `flatten` leaves out what is under a NULL, and what a slice does not show
    texts = _present(_text(element, column.flatten(), writing))
    lengths = pc.list_value_length(column).fill_null(0)
    ends = np.zeros(len(column) + 1, np.int32)
    np.cumsum(np.asarray(lengths), out=ends[1:])
    lists = pa.ListArray.from_arrays(pa.array(ends), texts)
    joined = pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")
    return _where(column, joined)


def _decimal(column: pa.Array, *, plain: bool) -> pa.Array:
    """Write all digits, or as BigDecimal.stripTrailingZeros().toString() does, which may be with an exponent."""
    texts = column.cast(pa.string())
    if plain:
        return _replaced(column, texts, pc.match_substring(texts, "E"), lambda v: f"{v:f}")
    if column.type.scale > 0:
        texts = pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")
    odd = pc.match_substring_regex(texts, r"0$|E|^-?0\.000000")
    return _replaced(column, texts, odd, lambda v: str(v.normalize(_EXACT)))


def _replaced(
    column: pa.Array, texts: pa.Array, odd: pa.Array, text: Callable[[Decimal], str]
) -> pa.Array:
    """Write the values that `odd` marks one by one."""
    odd = odd.fill_null(False)
    if not odd.true_count:
        return texts
    written = [text(value) for value in column.filter(odd).to_pylist()]
    return pc.replace_with_mask(texts, odd, pa.array(written, pa.string()))


def _date(column: pa.Array) -> pa.Array:
    days = column.cast(pa.int32())
    if _within(days, _FIRST_DAY, _LAST_DAY):
        return column.cast(pa.string())
    return _by_value(days, lambda day: _any_year(np.datetime64(day, "D")))


def _moment(column: pa.Array, standard: TimestampStandard) -> pa.Array:
    """Write date and time with as many digits as there are."""
    micros = column.cast(pa.int64())
    if not _within(micros, _FIRST_US, _LAST_US):
        return _by_value(micros, lambda at: _any_moment(at, standard.separator))
    texts = micros.cast(pa.timestamp("us")).cast(pa.string())
    texts = pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")
    if standard.separator != " ":
        texts = pc.binary_replace_slice(texts, 10, 11, standard.separator)
    return texts


def _within(numbers: pa.Array, first: int, last: int) -> bool:
    found = pc.min_max(numbers)
    least, most = found["min"].as_py(), found["max"].as_py()
    return least is None or (least >= first and most <= last)


def _any_moment(micros: int, separator: str) -> str:
    day, rest = divmod(micros, 86_400_000_000)
    seconds, fraction = divmod(rest, 1_000_000)
    minutes, second = divmod(seconds, 60)
    clock = f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"
    digits = f".{fraction:06d}".rstrip("0") if fraction else ""
    return f"{_any_year(np.datetime64(day, 'D'))}{separator}{clock}{digits}"


def _any_year(day: np.datetime64) -> str:
    """Write a day as java.time does: years of four digits, with a sign where they need more or are before 0."""
    month = day.astype("datetime64[M]")
    year = int(day.astype("datetime64[Y]").astype(np.int64)) + 1970
    number = int(month.astype(np.int64)) % 12 + 1
    of_month = int((day - month.astype("datetime64[D]")).astype(np.int64)) + 1
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{number:02d}-{of_month:02d}"
