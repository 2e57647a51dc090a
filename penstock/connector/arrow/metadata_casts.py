"""Cast metadata of whole fetches to the declared type of a column, as Flink's CAST does.

`column_checks` decides which types can be cast, without Arrow.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.model import types as t
from penstock.connector.arrow.duckdb_engine import query
from penstock.connector.arrow.types import arrow_type

__all__ = ["cast_metadata"]

UTC = ("UTC", "Z", "Etc/UTC")


def cast_metadata(
    array: pa.Array, offered: t.LogicalType, declared: t.LogicalType, time_zone: str
) -> pa.Array:
    """Return metadata of the type `offered` as `declared`, which is `castable`. `time_zone` is the session's."""
    if isinstance(offered, t.TimestampLtzType):
        return _cast_instants(array, offered, declared, time_zone)
    if isinstance(declared, t.VarCharType | t.CharType):
        return _sized(_as_text(array, pa.string()), declared)
    target = arrow_type(declared)
    if isinstance(offered, t.IntType | t.BigIntType):
        # as in Java a number that is too large loses its upper bits
        return array.cast(target, safe=False)
    return _as_text(array, target)


def _cast_instants(
    array: pa.Array, offered: t.TimestampLtzType, declared: t.LogicalType, time_zone: str
) -> pa.Array:
    target = arrow_type(declared)
    if isinstance(declared, t.TimestampLtzType):
        return _cut(array, declared.precision).cast(target)
    local = _local(array, time_zone)
    if isinstance(declared, t.TimestampType):
        return _cut(local, declared.precision).cast(target)
    if isinstance(declared, t.DateType):
        return pc.floor_temporal(local, unit="day").cast(target)
    assert isinstance(declared, t.VarCharType | t.CharType), "castable"
    unit = "ms" if offered.precision <= 3 else "us"
    return _sized(local.cast(pa.timestamp(unit), safe=False).cast(pa.string()), declared)


def _local(instants: pa.Array, time_zone: str) -> pa.Array:
    """Return the date and time of instants in a time zone, by the calculator that planning has: it knows its names."""
    in_utc = instants.cast(pa.timestamp("us", tz="UTC"))
    if time_zone in UTC:
        return in_utc.cast(pa.timestamp("us"))
    records = pa.table({"instant": in_utc})
    made = query(
        "SELECT CAST(instant AS TIMESTAMP) AS t FROM records", records, time_zone=time_zone
    )
    return made.column(0).combine_chunks().cast(pa.timestamp("us"))


def _cut(times: pa.Array, precision: int) -> pa.Array:
    """Cut fractions of a second to `precision` digits, towards 1970 as Flink's DateTimeUtils.truncate."""
    micros = times.cast(pa.timestamp("us", tz=times.type.tz))
    if precision >= 6:
        return micros
    step = 10 ** (6 - precision)
    whole = pc.multiply(pc.divide(micros.cast(pa.int64()), step), step)
    return whole.cast(micros.type)


def _sized(texts: pa.Array, declared: t.VarCharType | t.CharType) -> pa.Array:
    """Cut texts to the declared length; those of CHAR are filled up with spaces."""
    if declared.length == t.MAX_LENGTH:
        return texts
    cut = pc.utf8_slice_codeunits(texts, 0, declared.length)
    return pc.utf8_rpad(cut, declared.length) if isinstance(declared, t.CharType) else cut


def _as_text(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast to a type in which bytes may be texts; what is no UTF-8 there becomes U+FFFD, as in Java."""
    try:
        return array.cast(target)
    except pa.ArrowInvalid:
        return pa.array([_replaced(value) for value in array.to_pylist()], target)


def _replaced(value: Any) -> Any:
    match value:
        case bytes():
            return value.decode("utf-8", "replace")
        case list():
            return [_replaced(element) for element in value]
        case tuple():
            return tuple(_replaced(part) for part in value)
        case dict():
            return {name: _replaced(part) for name, part in value.items()}
    return value
