"""Convert columns from the types that the JSON parser returns to the types of the table.

Base64 texts and texts of dates and times are among them; values not of the usual form are marked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.model import types as t
from penstock.connector.arrow import arrow_field, arrow_type
from penstock.connector.formats.json.lines import Mask
from penstock.connector.formats.json.options import JsonSettings, TimestampStandard

SECONDS = len("yyyy-MM-dd HH:mm:ss")
MAX_OFFSET_HOURS = 18
# What Arrow's cast takes, but for the lengths of months: keeps the search by halves to those
_POSSIBLE = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"([ T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-5][0-9])?)?$"
)
_DAY = "1970-01-01 "
_NS_IN_MS = 1_000_000


def read_timestamps(
    texts: pa.StringArray, standard: TimestampStandard, *, instant: bool
) -> tuple[pa.Array, Mask]:
    """Read a column of TIMESTAMP or TIMESTAMP_LTZ; returns it and which values are marked."""
    zoned = standard.offset or instant
    kind = pa.timestamp("us", tz="UTC") if zoned else pa.timestamp("us")
    shape = _Characters(texts)
    usual = shape.equal(10, standard.separator) & shape.equal(13, ":") & shape.equal(16, ":")
    if standard.offset:
        usual &= shape.ends_with("Z") | _usual_offset(shape)
    elif instant:
        usual &= shape.ends_with("Z")
    else:
        usual &= shape.ends_with_digit()
    usual &= shape.has_length(SECONDS + zoned)
    values, marked = _cast(texts, kind, usual)
    return (values if instant else values.cast(pa.timestamp("us"))), marked


def read_dates(texts: pa.StringArray) -> tuple[pa.Array, Mask]:
    """Read a column of DATE; returns it and which values are marked."""
    return _cast(texts, pa.date32(), _Characters(texts).has_length(len("yyyy-MM-dd"), longer=False))


def read_times(texts: pa.StringArray) -> tuple[pa.Array, Mask]:
    """Read a column of TIME, to the millisecond; returns it and which values are marked."""
    shape = _Characters(texts)
    usual = shape.has_length(len("HH:mm:ss")) & shape.equal(5, ":") & shape.ends_with_digit()
    dated = pc.binary_join_element_wise(_DAY, texts, "")
    moments, marked = _cast(dated, pa.timestamp("us"), usual)
    milliseconds = pc.divide(moments.cast(pa.int64()), 1000)
    return pc.multiply(milliseconds, _NS_IN_MS).cast(pa.time64("ns")), marked


class _Characters:
    """The bytes of a column of texts, looked at by position. Nulls answer yes to everything."""

    def __init__(self, texts: pa.StringArray) -> None:
        self._null = np.asarray(texts.is_null())
        offsets = np.frombuffer(texts.buffers()[1], np.int32)
        self._begin = offsets[texts.offset : texts.offset + len(texts)]
        self._end = offsets[texts.offset + 1 : texts.offset + len(texts) + 1]
        # one byte more, so that there is something to look at behind an empty text at the end
        data = texts.buffers()[2]
        self._data = np.append(np.frombuffer(data or b"", np.uint8), np.uint8(0))

    def has_length(self, length: int, *, longer: bool = True) -> Mask:
        lengths = self._end - self._begin
        return np.asarray(self._null | (lengths == length) | (longer & (lengths > length)))

    def _at(self, position: int) -> npt.NDArray[np.uint8]:
        """Return the byte at `position` of each text, from the end where negative; 0 where the text is shorter."""
        where = (self._begin if position >= 0 else self._end) + position
        inside = (where >= self._begin) & (where < self._end)
        return np.asarray(
            np.where(inside, self._data[np.where(inside, where, len(self._data) - 1)], 0)
        )

    def equal(self, position: int, character: str) -> Mask:
        return np.asarray(self._null | (self._at(position) == ord(character)))

    def ends_with(self, character: str) -> Mask:
        return self.equal(-1, character)

    def digit(self, position: int) -> npt.NDArray[np.int64]:
        """Return the digit at `position`, or 99 where there is none."""
        digit = self._at(position).astype(np.int64) - ord("0")
        return np.where((digit >= 0) & (digit <= 9), digit, 99)

    def ends_with_digit(self) -> Mask:
        return self._null | (self.digit(-1) <= 9)


def _usual_offset(shape: _Characters) -> Mask:
    """Return which texts end with +hh:mm of less than 18 hours; the minutes are checked by the cast."""
    signed = shape.equal(-6, "+") | shape.equal(-6, "-")
    hours = shape.digit(-5) * 10 + shape.digit(-4)
    return signed & shape.equal(-3, ":") & shape.ends_with_digit() & (hours < MAX_OFFSET_HOURS)


def _cut(texts: pa.StringArray) -> pa.StringArray:
    """Cut fractions of seven to nine digits, which Arrow does not take, to six."""
    return pc.replace_substring_regex(texts, r"(\.[0-9]{6})[0-9]{1,3}(Z|[+-].*)?$", r"\1\2")


def _cast(
    texts: pa.StringArray,
    kind: pa.DataType,
    usual: Mask,
) -> tuple[pa.Array, Mask]:
    """Cast the usual values; those that Arrow refuses are marked too."""
    if not usual.all():
        texts = pc.if_else(pa.array(usual), texts, None)
    try:
        return texts.cast(kind), ~usual
    except pa.ArrowInvalid:
        texts = _cut(texts)
    possible = pc.match_substring_regex(texts, _POSSIBLE)
    usual = usual & np.asarray(possible.fill_null(True))
    values, refused = _cast_by_halves(pc.if_else(possible, texts, None), kind)
    return values, ~usual | refused


def _cast_by_halves(texts: pa.StringArray, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    refused = np.zeros(len(texts), np.bool_)
    done: list[pa.Array] = []
    todo = [(0, len(texts))]
    while todo:
        begin, end = todo.pop()
        try:
            done.append(texts.slice(begin, end - begin).cast(kind))
        except pa.ArrowInvalid:
            if end - begin == 1:
                refused[begin] = True
                done.append(pa.nulls(1, kind))
            else:
                middle = (begin + end) // 2
                todo += [(middle, end), (begin, middle)]
    return pa.concat_arrays(done), refused


_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

_BAD = 64

_SIXES = np.full(256, _BAD, np.uint8)

_SIXES[np.frombuffer(_ALPHABET, np.uint8)] = np.arange(64)


def read_base64(texts: pa.StringArray) -> tuple[pa.Array, Mask]:
    """Decode texts of whole groups of four, padded at the end only; others are marked (and NULL)."""
    null = np.asarray(texts.is_null())
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    lengths = np.diff(offsets)
    padding = _padding(data, offsets, lengths)
    usual = (lengths % 4 == 0) & ~null
    usual[usual] = ~_has_other_characters(data, offsets, padding, usual)
    # characters of the usual texts, one after the other: their groups of four stay aligned
    chosen = np.repeat(usual, lengths)
    sixes = _SIXES[data[offsets[0] : offsets[-1]][chosen]].astype(np.uint32) & 63
    groups = sixes.reshape(-1, 4)
    packed = (groups[:, 0] << 18) | (groups[:, 1] << 12) | (groups[:, 2] << 6) | groups[:, 3]
    octets = np.stack([packed >> 16, packed >> 8, packed], axis=1).astype(np.uint8).reshape(-1)
    sizes = np.where(usual, lengths // 4 * 3, 0)
    ends = np.cumsum(sizes)
    keep = np.ones(len(octets), np.bool_)
    for count in (1, 2):
        keep[ends[usual & (padding >= count)] - count] = False
    results = np.concatenate(([0], np.cumsum(sizes - np.where(usual, padding, 0))))
    column = pa.BinaryArray.from_buffers(
        pa.binary(),
        len(texts),
        [
            pa.py_buffer(np.packbits(usual, bitorder="little").tobytes()),
            pa.py_buffer(results.astype(np.int32).tobytes()),
            pa.py_buffer(octets[keep].tobytes()),
        ],
    )
    return column, ~usual & ~null


def _padding(data: np.ndarray, offsets: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Count the `=` at the end of each text: 0, 1 or 2."""
    padding = np.zeros(len(lengths), np.int64)
    for count in (1, 2):
        at = np.where(lengths >= count, offsets[1:] - count, 0)
        is_pad = (lengths >= 4) & (padding == count - 1)
        if len(data):
            padding += is_pad & (data[at] == ord("="))
    return padding


def _has_other_characters(
    data: np.ndarray, offsets: np.ndarray, padding: np.ndarray, usual: np.ndarray
) -> Mask:
    """Return which of the usual texts hold, padding aside, a character that is not base64's."""
    counts = np.concatenate(([0], np.cumsum(_SIXES[data] == _BAD)))
    begin, end = offsets[:-1][usual], offsets[1:][usual] - padding[usual]
    return np.asarray(counts[end] > counts[begin])


Path = tuple[str, ...]
"""Names of fields, from the top down; elements of arrays and maps have none."""

WIDE = pa.decimal256(76, 38)
"""Holds every decimal of up to 38 digits on each side, until it is rounded."""

_QUOTED_INTEGER = r"^-?[0-9]{1,18}$"

_QUOTED_NUMBER = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"

_INTEGERS = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)

_TEXTS = (t.CharType, t.VarCharType)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """How columns are represented. `swapped`: scalar columns in the other form, numbers and booleans as texts, texts
    as whole numbers. `map_at` returns a map's column and marks: the parser has no maps.
    """

    settings: JsonSettings
    swapped: frozenset[Path]
    map_at: Callable[[Path, t.LogicalType, pa.Array], tuple[pa.Array, Mask]]


def is_map(logical: t.LogicalType) -> bool:
    """Return whether a type is a JSON object of any keys."""
    return isinstance(logical, t.MapType | t.MultisetType)


def has_swap(logical: t.LogicalType) -> bool:
    """Return whether a scalar column may come the other way round."""
    numbers = (*_INTEGERS, t.FloatType, t.DoubleType, t.BooleanType)
    return isinstance(logical, (*numbers, *_TEXTS))


def wire_type(logical: t.LogicalType, path: Path, swapped: frozenset[Path]) -> pa.DataType:
    """Return the type that the parser is to read."""
    if path in swapped:
        return pa.int64() if isinstance(logical, _TEXTS) else pa.string()
    match logical:
        case t.RowType():
            return pa.struct(
                [(f.name, wire_type(f.type, (*path, f.name), swapped)) for f in logical.fields]
            )
        case t.ArrayType():
            return pa.list_(wire_type(logical.element, (*path, ""), swapped))
        case t.MapType() | t.MultisetType():
            return pa.struct([])  # checks that it is an object, and that there is only one
        case t.BooleanType():
            return pa.bool_()
        case t.FloatType():
            return pa.float32()
        case t.DoubleType():
            return pa.float64()
        case t.DecimalType():
            return WIDE
    return pa.int64() if isinstance(logical, _INTEGERS) else pa.string()


def to_column(
    values: pa.Array, logical: t.LogicalType, path: Path, wire: Wire
) -> tuple[pa.Array, Mask]:
    """Make the table's type of parsed values; returns the column and which values are marked.

    Marked are also NULLs where the type is NOT NULL or a missing field would be an error.
    """
    match logical:
        case t.RowType():
            column, marked = _row(values, logical, path, wire)
        case t.ArrayType():
            column, marked = _array(values, logical, path, wire)
        case t.MapType() | t.MultisetType():
            column, marked = wire.map_at(path, logical, values)
        case _ if path in wire.swapped:
            column, marked = _swapped(values, logical)
        case _:
            column, marked = _scalar(values, logical, wire.settings)
    if values.null_count and not logical.nullable:
        marked = marked | np.asarray(values.is_null())
    return column, marked


def _no_marks(values: pa.Array) -> Mask:
    return np.zeros(len(values), np.bool_)


def _row(values: pa.Array, logical: t.RowType, path: Path, wire: Wire) -> tuple[pa.Array, Mask]:
    marked = _no_marks(values)
    present = np.asarray(values.is_valid())
    columns = []
    for index, field in enumerate(logical.fields):
        parsed = values.field(index)
        column, unusual = to_column(parsed, field.type, (*path, field.name), wire)
        if wire.settings.fail_on_missing_field:
            unusual = unusual | np.asarray(parsed.is_null())
        marked |= unusual & present
        columns.append(column)
    fields = [arrow_field(field.name, field.type) for field in logical.fields]
    mask = pa.array(~present) if values.null_count else None
    return pa.StructArray.from_arrays(columns, fields=fields, mask=mask), marked


def _array(values: pa.Array, logical: t.ArrayType, path: Path, wire: Wire) -> tuple[pa.Array, Mask]:
    elements, unusual = to_column(values.values, logical.element, (*path, ""), wire)
    offsets = np.asarray(values.offsets)
    column = pa.ListArray.from_arrays(
        values.offsets,
        elements,
        type=arrow_type(logical),
        mask=values.is_null() if values.null_count else None,
    )
    return column, any_between(unusual, offsets)


def any_between(marked: Mask, offsets: np.ndarray[tuple[int], np.dtype[np.int32]]) -> Mask:
    """Return for each list, of elements offsets[i] to offsets[i + 1], whether one of them is marked."""
    counts = np.concatenate(([0], np.cumsum(marked)))
    return np.asarray(counts[offsets[1:]] > counts[offsets[:-1]])


def _scalar(
    values: pa.Array, logical: t.LogicalType, settings: JsonSettings
) -> tuple[pa.Array, Mask]:
    if len(values) == 0:
        return pa.array([], arrow_type(logical)), _no_marks(values)
    match logical:
        case t.TinyIntType() | t.SmallIntType() | t.IntType():
            return _narrow(values, arrow_type(logical))
        case t.FloatType() | t.DoubleType():
            # NaN and infinities without quotes: this parser reads them, Flink does not
            finite = pc.is_finite(values)
            unusual = not pc.all(finite, min_count=0).as_py()
            return values, ~np.asarray(finite.fill_null(True)) if unusual else _no_marks(values)
        case t.DecimalType():
            return _decimal(values, logical)
        case t.BinaryType() | t.VarBinaryType():
            return read_base64(values)
        case t.DateType():
            return read_dates(values)
        case t.TimeType():
            return read_times(values)
        case t.TimestampType():
            return read_timestamps(values, settings.standard, instant=False)
        case t.TimestampLtzType():
            return read_timestamps(values, settings.standard, instant=True)
    return values, _no_marks(values)


def _narrow(values: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """Cast 64-bit integers to fewer bits."""
    try:
        return values.cast(kind), _no_marks(values)
    except pa.ArrowInvalid:
        bound = 1 << (kind.bit_width - 1)
        fits = pc.and_(pc.greater_equal(values, -bound), pc.less(values, bound))
        marked = ~np.asarray(fits.fill_null(True))
        return pc.if_else(fits, values, None).cast(kind), marked


def _decimal(values: pa.Array, logical: t.DecimalType) -> tuple[pa.Array, Mask]:
    """Round half up; values with too many digits are NULL to Flink: they are marked."""
    kind = arrow_type(logical)
    try:
        return values.cast(kind), _no_marks(values)
    except pa.ArrowInvalid:
        pass
    limit = Decimal((0, (9,) * logical.precision, -logical.scale))
    bound = pa.scalar(limit, WIDE)
    fits = pc.and_(pc.less_equal(values, bound), pc.greater_equal(values, pc.negate(bound)))
    marked = ~np.asarray(fits.fill_null(True))
    rounded = pc.round(pc.if_else(fits, values, None), logical.scale, "half_towards_infinity")
    return rounded.cast(kind), marked


def _swapped(values: pa.Array, logical: t.LogicalType) -> tuple[pa.Array, Mask]:
    if isinstance(logical, _TEXTS):
        # a STRING keeps the number's text, and 0 may have been -0
        return values.cast(pa.string()), np.asarray(pc.equal(values, 0).fill_null(False))
    if isinstance(logical, t.BooleanType):
        lower = pc.ascii_lower(values)
        truth = pc.equal(lower, "true")
        known = pc.or_(truth, pc.equal(lower, "false"))
        return truth, ~np.asarray(known.fill_null(True))
    pattern = _QUOTED_INTEGER if isinstance(logical, _INTEGERS) else _QUOTED_NUMBER
    usual = pc.match_substring_regex(values, pattern)
    marked = ~np.asarray(usual.fill_null(True))
    numbers = pc.if_else(usual, values, None)
    if not isinstance(logical, _INTEGERS):
        return numbers.cast(arrow_type(logical)), marked
    column, wide = _narrow(numbers.cast(pa.int64()), arrow_type(logical))
    return column, marked | wide
