"""Generate columns of datagen rows as Arrow arrays: each value is a function of its row's number and the seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.model import types as t
from penstock.connector.arrow import arrow_field, arrow_type
from penstock.connector.datagen.settings import DatagenSettings, FieldSettings
from penstock.connector.formats.decoders import batch_of
from penstock.connector.generated.random import Bits, RowNumbers, bits_of, mixed, share, within

_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)

_DAY_US = 86_400_000_000

_NULLS = "null"

_LENGTHS = "length"

_COUNTS = "count"

MOST_OF_ONE = 10
"""How often an element is in a multiset, at most."""


def time_of(rows: RowNumbers, rows_per_second: int) -> RowNumbers:
    """Return the instants that rows belong to, epoch microseconds."""
    # in two steps, as a row's number times a million does not fit 64 bits
    return (
        rows // rows_per_second * 1_000_000 + rows % rows_per_second * 1_000_000 // rows_per_second
    )


def make_column(
    field: FieldSettings, rows: RowNumbers, *, rows_per_second: int, number_of_rows: int | None
) -> pa.Array:
    """Make the values of a column for the rows numbered `rows`."""
    if field.sequence is not None:
        assert number_of_rows is not None, "a sequence ends its table"
        # the scan begins at a multiple of their number
        counted = pa.array(field.sequence.start + rows % number_of_rows, pa.int64())
        return counted.cast(arrow_type(field.type))
    return _make(field, rows, time_of(rows, rows_per_second))


def _make(field: FieldSettings, rows: RowNumbers, times: RowNumbers) -> pa.Array:
    """Make random values, one for each number of `rows`; `times` are those that they may tell."""
    made = _MAKERS[type(field.type)](field, rows, times)
    if field.null_rate == 0:
        return made
    is_null = pa.array(share(_bits(field, rows, _NULLS)) < field.null_rate)
    return pc.if_else(is_null, pa.scalar(None, made.type), made)


def _bits(field: FieldSettings, rows: RowNumbers, purpose: str = "") -> Bits:
    """Return 64 random bits for each row."""
    return bits_of(f"{field.name}\0{purpose}", rows)


def _integer(field: FieldSettings, rows: RowNumbers, _: RowNumbers) -> pa.Array:
    values = within(_bits(field, rows), int(field.low), int(field.high))
    return pa.array(values, pa.int64()).cast(arrow_type(field.type))


def _float(field: FieldSettings, rows: RowNumbers, _: RowNumbers) -> pa.Array:
    shares, low, high = share(_bits(field, rows)), float(field.low), float(field.high)
    # the span of all doubles is no double
    return pa.array(low * (1 - shares) + high * shares, pa.float64()).cast(arrow_type(field.type))


def _decimal(field: FieldSettings, rows: RowNumbers, _: RowNumbers) -> pa.Array:
    assert isinstance(field.type, t.DecimalType), "chosen by type"
    low, high = (int(bound.scaleb(field.type.scale)) for bound in (field.low, field.high))
    words = np.empty((len(rows), 2), np.int64)
    words[:, 0] = within(_bits(field, rows), low, high)
    words[:, 1] = words[:, 0] >> 63  # the sign, over the high half of 128 bits
    buffers = [None, pa.py_buffer(words.tobytes())]
    return pa.Array.from_buffers(arrow_type(field.type), len(rows), buffers)


def _boolean(field: FieldSettings, rows: RowNumbers, _: RowNumbers) -> pa.Array:
    return pa.array((_bits(field, rows) & np.uint64(1)).astype(np.bool_))


def _text(field: FieldSettings, rows: RowNumbers, _: RowNumbers) -> pa.Array:
    """Make texts of hexadecimal digits, as Flink's, or bytes of any value."""
    is_text = isinstance(field.type, t.CharType | t.VarCharType)
    size = -(-field.length // 2) if is_text else field.length
    words = -(-size // 8)
    bits = _bits(field, rows)[:, None] + np.arange(words, dtype=np.uint64)[None, :]
    bytes_ = mixed(bits).view(np.uint8).reshape(len(rows), words * 8)
    if is_text:
        digits = np.stack([_HEX[bytes_ >> 4], _HEX[bytes_ & 15]], axis=2)
        bytes_ = digits.reshape(len(rows), words * 16)
    bytes_ = bytes_[:, : field.length]
    lengths = np.full(len(rows), field.length, np.int64)
    if field.varies:
        lengths = within(_bits(field, rows, _LENGTHS), 1, field.length)
        bytes_ = bytes_[np.arange(field.length)[None, :] < lengths[:, None]]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(bytes_.tobytes())]
    return pa.Array.from_buffers(arrow_type(field.type), len(rows), buffers)


def _timestamp(field: FieldSettings, rows: RowNumbers, times: RowNumbers) -> pa.Array:
    if field.max_past_ms:
        times = times - within(_bits(field, rows), 0, field.max_past_ms) * 1000
    return pa.array(times - times % 1000, pa.int64()).cast(arrow_type(field.type))


def _date(field: FieldSettings, _: RowNumbers, times: RowNumbers) -> pa.Array:
    return pa.array((times // _DAY_US).astype(np.int32), pa.int32()).cast(arrow_type(field.type))


def _time(field: FieldSettings, _: RowNumbers, times: RowNumbers) -> pa.Array:
    return pa.array(times % _DAY_US // 1000 * 1_000_000, pa.int64()).cast(arrow_type(field.type))


# --- what is made of parts ---


def _row(field: FieldSettings, rows: RowNumbers, times: RowNumbers) -> pa.Array:
    values = [_make(part, rows, times) for part in field.parts]
    return pa.StructArray.from_arrays(values, fields=list(arrow_type(field.type)))


def _array(field: FieldSettings, rows: RowNumbers, times: RowNumbers) -> pa.Array:
    (element,) = field.parts
    numbers, moments = _repeated(field, rows, times)
    offsets = pa.array(np.arange(len(rows) + 1, dtype=np.int32) * field.length)
    values = _make(element, numbers, moments)
    return pa.ListArray.from_arrays(offsets, values, type=arrow_type(field.type))


def _map(field: FieldSettings, rows: RowNumbers, times: RowNumbers) -> pa.Array:
    """Make maps; a key that is made twice is once in its map, so there may be fewer of few possible keys."""
    key, value = field.parts
    numbers, moments = _repeated(field, rows, times)
    keys, values = _make(key, numbers, moments), _make(value, numbers, moments)
    return _of_entries(field, len(rows), keys, values)


def _multiset(field: FieldSettings, rows: RowNumbers, times: RowNumbers) -> pa.Array:
    (element,) = field.parts
    numbers, moments = _repeated(field, rows, times)
    counts = within(_bits(field, numbers, _COUNTS), 1, MOST_OF_ONE)
    keys = _make(element, numbers, moments)
    return _of_entries(field, len(rows), keys, pa.array(counts.astype(np.int32)))


def _repeated(
    field: FieldSettings, rows: RowNumbers, times: RowNumbers
) -> tuple[RowNumbers, RowNumbers]:
    """Number every element, with the time of its row."""
    positions = np.arange(field.length, dtype=np.int64)
    numbers = (rows[:, None] * field.length + positions[None, :]).reshape(-1)
    return numbers, np.repeat(times, field.length)


def _of_entries(field: FieldSettings, count: int, keys: pa.Array, values: pa.Array) -> pa.Array:
    """Assemble entries, `field.length` a row, without those whose key is NULL or there already."""
    codes = keys.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
    owners = np.repeat(np.arange(count, dtype=np.int64), field.length)
    _, first = np.unique(owners * (len(codes) + 1) + codes, return_index=True)
    kept = np.sort(first[codes[first] >= 0])
    ends = np.cumsum(np.bincount(owners[kept], minlength=count))
    offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
    chosen = pa.array(kept)
    return pa.MapArray.from_arrays(
        offsets, keys.take(chosen), values.take(chosen), type=arrow_type(field.type)
    )


_MAKERS: Mapping[type, Callable[[FieldSettings, RowNumbers, RowNumbers], pa.Array]] = {
    t.TinyIntType: _integer,
    t.SmallIntType: _integer,
    t.IntType: _integer,
    t.BigIntType: _integer,
    t.FloatType: _float,
    t.DoubleType: _float,
    t.DecimalType: _decimal,
    t.BooleanType: _boolean,
    t.CharType: _text,
    t.VarCharType: _text,
    t.BinaryType: _text,
    t.VarBinaryType: _text,
    t.TimestampType: _timestamp,
    t.TimestampLtzType: _timestamp,
    t.DateType: _date,
    t.TimeType: _time,
    t.RowType: _row,
    t.ArrayType: _array,
    t.MapType: _map,
    t.MultisetType: _multiset,
}


class DatagenRowMaker:
    """Makes rows with `columns`, in this order."""

    def __init__(self, columns: Sequence[str], settings: DatagenSettings) -> None:
        fields = {field.name: field for field in settings.fields}
        self._fields = [fields[name] for name in columns]
        self._schema = pa.schema([arrow_field(field.name, field.type) for field in self._fields])
        self._settings = settings

    def make(self, start: int, stop: int) -> pa.RecordBatch:
        """Make the rows numbered [`start`, `stop`)."""
        rows = np.arange(start, stop, dtype=np.int64)
        arrays = [
            make_column(
                field,
                rows,
                rows_per_second=self._settings.rows_per_second,
                number_of_rows=self._settings.number_of_rows,
            )
            for field in self._fields
        ]
        return batch_of(arrays, self._schema, len(rows))
