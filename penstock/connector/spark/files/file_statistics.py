"""Statistics of a Parquet file in the form of Delta's protocol, from its footer and what its writer counted.

They may say less than is true, never more: a reader skips a file by them. A bound that is not known is left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.catalog.model import types as t
from penstock.connector.file_output import FileColumn

LONGEST_TEXT = 32
"""Characters (code points) of a bound that is a text; Delta's default."""

_LAST_CHARACTER = "\U0010ffff"
_MOST_CHARACTERS = 2 * LONGEST_TEXT
_EPOCH = date(1970, 1, 1).toordinal()
_LAST_DAY = date(9999, 12, 31).toordinal()
_DAY_MS = 86_400_000
_EXACT = Context(prec=38)
"""As many digits as a DECIMAL has."""
_NESTED = (t.ArrayType, t.MapType, t.MultisetType)

_Tree = dict[str, "str | _Tree"]
"""Names to JSON texts, as deep as the columns."""


@dataclass(slots=True)
class Counted:
    """What the footer of a file does not say, counted while it is written: by position of the column.

    `nulls` of collections, whose leaves count elements; `not_numbers` are the leaves in which a NaN is, each with the
    positions that lead to it.
    """

    nulls: dict[int, int] = field(default_factory=dict)
    not_numbers: set[tuple[int, ...]] = field(default_factory=set)

    def add(self, columns: Sequence[FileColumn], arrays: Sequence[pa.Array]) -> None:
        """Count rows that are written."""
        for position, (column, array) in enumerate(zip(columns, arrays, strict=True)):
            if not column.statistics:
                continue
            if isinstance(column.type, _NESTED):
                self.nulls[position] = self.nulls.get(position, 0) + array.null_count
            else:
                self._find_nan((position,), array)

    def _find_nan(self, position: tuple[int, ...], array: pa.Array) -> None:
        if pa.types.is_struct(array.type):
            for number in range(array.type.num_fields):
                self._find_nan((*position, number), array.field(number))
        elif (
            pa.types.is_floating(array.type)
            and position not in self.not_numbers
            and pc.any(pc.is_nan(array)).as_py()
        ):
            self.not_numbers.add(position)


def file_statistics(
    footer: pq.FileMetaData, columns: Sequence[FileColumn], counted: Counted
) -> str:
    """Return the statistics of a file as JSON."""
    smallest: _Tree = {}
    largest: _Tree = {}
    nulls: _Tree = {}
    leaf = 0
    for position, column in enumerate(columns):
        if column.statistics:
            found = _Found(footer=footer, counted=counted)
            found.collect((position,), column.name, column.type, leaf, (smallest, largest, nulls))
        leaf += _leaves(column.type)
    statistics: _Tree = {"numRecords": str(footer.num_rows)}
    for name, tree in (("minValues", smallest), ("maxValues", largest), ("nullCount", nulls)):
        statistics[name] = tree
    return _json(statistics)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    footer: pq.FileMetaData
    counted: Counted

    def collect(
        self,
        position: tuple[int, ...],
        name: str,
        kind: t.LogicalType,
        leaf: int,
        into: tuple[_Tree, _Tree, _Tree],
    ) -> None:
        """Add what is known of a column, whose first leaf in the file is number `leaf`."""
        smallest, largest, nulls = into
        if isinstance(kind, _NESTED):
            # of a collection inside a row only the leaves are counted
            if position[0] in self.counted.nulls and len(position) == 1:
                nulls[name] = str(self.counted.nulls[position[0]])
            return
        if isinstance(kind, t.RowType):
            inside: tuple[_Tree, _Tree, _Tree] = ({}, {}, {})
            for number, part in enumerate(kind.fields):
                self.collect((*position, number), part.name, part.type, leaf, inside)
                leaf += _leaves(part.type)
            for tree, found in zip(into, inside, strict=True):
                if found:
                    tree[name] = found
            return
        chunks = [c.statistics for c in self._chunks(leaf)]
        if all(chunk is not None and chunk.has_null_count for chunk in chunks):
            nulls[name] = str(sum(chunk.null_count for chunk in chunks))
        bounds = None if position in self.counted.not_numbers else self._bounds(leaf)
        if bounds is None:
            return
        low, high = _low(kind, bounds[0]), _high(kind, bounds[1])
        if low is not None:
            smallest[name] = low
        if high is not None:
            largest[name] = high

    def _chunks(self, leaf: int) -> Iterator[pq.ColumnChunkMetaData]:
        for group in range(self.footer.num_row_groups):
            yield self.footer.row_group(group).column(leaf)

    def _bounds(self, leaf: int) -> tuple[Any, Any] | None:
        """Return the smallest and the largest value as the file has them; None where a row group does not tell."""
        low, high = None, None
        for chunk in self._chunks(leaf):
            found = chunk.statistics
            if found is None or not found.has_null_count:
                return None
            if not found.has_min_max:
                if found.null_count == chunk.num_values:
                    continue
                return None
            if found.physical_type == "FIXED_LEN_BYTE_ARRAY":
                first, last = _signed(found.min_raw), _signed(found.max_raw)
            else:
                first, last = found.min_raw, found.max_raw
            low = first if low is None else min(low, first)
            high = last if high is None else max(high, last)
        return None if low is None else (low, high)


def _leaves(kind: t.LogicalType) -> int:
    """Return how many columns of Parquet a type has."""
    match kind:
        case t.ArrayType(element=element):
            return _leaves(element)
        case t.MapType(key=key, value=value):
            return _leaves(key) + _leaves(value)
        case t.MultisetType(element=element):
            return _leaves(element) + 1
        case t.RowType(fields=fields):
            return sum(_leaves(part.type) for part in fields)
        case _:
            return 1


def _signed(raw: bytes) -> int:
    return int.from_bytes(raw, "big", signed=True)


# --- values ---


def _low(kind: t.LogicalType, value: Any) -> str | None:
    return _text_below(value) if isinstance(kind, t.VarCharType) else _value(kind, value)


def _high(kind: t.LogicalType, value: Any) -> str | None:
    return _text_above(value) if isinstance(kind, t.VarCharType) else _value(kind, value)


def _value(kind: t.LogicalType, value: Any) -> str | None:
    """Write a value as JSON; None for one that readers would not take, or of a type without an order."""
    match kind:
        case t.TinyIntType() | t.SmallIntType() | t.IntType() | t.BigIntType():
            return str(value)
        case t.FloatType() | t.DoubleType():
            return json.dumps(value) if math.isfinite(value) else None
        case t.DecimalType(scale=scale):
            return f"{Decimal(value).scaleb(-scale, _EXACT):f}"
        case t.DateType():
            return _date(value)
        case t.TimestampType():
            return _time(value, "")
        case t.TimestampLtzType():
            return _time(value, "Z")
        case _:
            return None


def _date(days: int) -> str | None:
    ordinal = days + _EPOCH
    return f'"{date.fromordinal(ordinal).isoformat()}"' if 1 <= ordinal <= _LAST_DAY else None


def _time(micros: int, zone: str) -> str | None:
    """Write a time down to its millisecond, as Delta does; its readers add one to the largest."""
    days, in_day_ms = divmod(micros // 1000, _DAY_MS)
    if not 1 <= days + _EPOCH <= _LAST_DAY:
        return None
    at = datetime.fromordinal(days + _EPOCH).replace(tzinfo=UTC) + timedelta(milliseconds=in_day_ms)
    return f'"{at.replace(tzinfo=None).isoformat(timespec="milliseconds")}{zone}"'


def _text_below(raw: bytes) -> str | None:
    text = _decoded(raw)
    return None if text is None else json.dumps(text[:LONGEST_TEXT])


def _text_above(raw: bytes) -> str | None:
    """Write a text that is not below `raw`: where it is cut, the last character there is comes behind."""
    text = _decoded(raw)
    if text is None or len(text) <= LONGEST_TEXT:
        return None if text is None else json.dumps(text)
    end = LONGEST_TEXT
    while text[end : end + 1] == _LAST_CHARACTER:
        end += 1
    if end >= len(text):
        return json.dumps(text) if len(text) <= _MOST_CHARACTERS else None
    return json.dumps(text[:end] + _LAST_CHARACTER) if end <= _MOST_CHARACTERS else None


def _decoded(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _json(tree: Mapping[str, Any]) -> str:
    parts = (
        f"{json.dumps(name)}:{_json(value) if isinstance(value, dict) else value}"
        for name, value in tree.items()
    )
    return "{" + ",".join(parts) + "}"
