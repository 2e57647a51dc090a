"""Arrow batches: logical types as Arrow types, DuckDB as the expression engine over batches, casts of metadata.

DuckDB runs with file and network access switched off. Formats, readers and the Spark binding share the types.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model import types as t
from penstock.connector.checks import check_record_type

if TYPE_CHECKING:
    import duckdb


_PLAIN: dict[type, pa.DataType] = {
    t.BooleanType: pa.bool_(),
    t.TinyIntType: pa.int8(),
    t.SmallIntType: pa.int16(),
    t.IntType: pa.int32(),
    t.BigIntType: pa.int64(),
    t.FloatType: pa.float32(),
    t.DoubleType: pa.float64(),
    t.CharType: pa.string(),
    t.VarCharType: pa.string(),
    t.BinaryType: pa.binary(),
    t.VarBinaryType: pa.binary(),
    t.DateType: pa.date32(),
    t.TimeType: pa.time64("ns"),
    t.TimestampType: pa.timestamp("us"),
    t.TimestampLtzType: pa.timestamp("us", tz="UTC"),
}


def arrow_type(logical: t.LogicalType) -> pa.DataType:
    """Return the Arrow type that Spark reads as `logical`: microseconds, 32-bit offsets, UTC for instants.

    Raises UnsupportedError for types that no record carries (intervals).
    """
    match logical:
        case t.DecimalType():
            return pa.decimal128(logical.precision, logical.scale)
        case t.ArrayType():
            return pa.list_(
                pa.field("element", arrow_type(logical.element), logical.element.nullable)
            )
        case t.MapType():
            return _map(arrow_type(logical.key), logical.value)
        case t.MultisetType():
            return _map(arrow_type(logical.element), t.IntType(nullable=False))
        case t.RowType():
            return pa.struct([arrow_field(field.name, field.type) for field in logical.fields])
    check_record_type(logical)
    return _PLAIN[type(logical)]


def _map(key: pa.DataType, value: t.LogicalType) -> pa.DataType:
    return pa.map_(key, pa.field("value", arrow_type(value), value.nullable))


def arrow_field(name: str, logical: t.LogicalType) -> pa.Field:
    """Return the Arrow field of a column, NOT NULL included."""
    return pa.field(name, arrow_type(logical), nullable=logical.nullable)


def arrow_schema(columns: Iterable[tuple[str, t.LogicalType]]) -> pa.Schema:
    """Return the Arrow schema of named columns."""
    return pa.schema([arrow_field(name, logical) for name, logical in columns])


def python_values(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return values as Python has them, and as texts those that it has not: dates before the year 1 and after 9999."""
    try:
        return list(array.to_pylist())
    except (OverflowError, ValueError):
        return [_python_value(array, index) for index in range(len(array))]


def _python_value(array: pa.Array | pa.ChunkedArray, index: int) -> Any:
    one = array.slice(index, 1)
    try:
        return one.to_pylist()[0]
    except (OverflowError, ValueError):
        if pa.types.is_temporal(array.type):
            return one.cast(pa.string()).to_pylist()[0]
        return " ".join(one.to_string().split())  # with such a date somewhere in it


MEMORY_LIMIT = "512MB"

_LOCKED_DOWN: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "memory_limit": MEMORY_LIMIT,
    # no files, no network, no spilling, no code from elsewhere, no Python variables read as tables
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "temp_directory": "",
    "python_enable_replacements": False,
}

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?([0-5]\d))?(?::?([0-5]\d))?", re.ASCII)


class CalculationError(Exception):
    """DuckDB could not run the query, for whatever reason it names: a mistake in it, values, memory."""


class _Session:
    """A connection of one process and time zone; one query at a time."""

    def __init__(self, time_zone: str) -> None:
        import duckdb

        self._lock = threading.Lock()
        # DuckDB is loaded where it is first needed: most processes of a query never calculate
        self._error = duckdb.Error
        self._connection = duckdb.connect(":memory:", config=_LOCKED_DOWN)
        zone = _duckdb_zone(time_zone).replace("'", "''")
        try:
            self._connection.execute(f"SET GLOBAL TimeZone = '{zone}'")
        except duckdb.Error as error:
            raise UnsupportedError(
                f"the time zone {time_zone!r} is not known at planning",
                hint="use a name such as 'Europe/Berlin' or an offset such as '+02:00'",
            ) from error
        self._connection.execute("SET lock_configuration = true")

    def query(self, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        with self._lock:
            for name, table in tables.items():
                self._connection.register(name, table)
            try:
                relation: duckdb.DuckDBPyRelation = self._connection.sql(sql)
                return relation.to_arrow_table()
            except self._error as error:
                raise CalculationError(str(error)) from error
            finally:
                for name in tables:
                    self._connection.unregister(name)


# Keyed by process: a connection does not survive a fork. The parent's entries stay, as closing them in a child
# would wait for threads that are not there.
_sessions: dict[tuple[int, str], _Session] = {}


def query(sql: str, records: pa.Table, *, time_zone: str = "UTC") -> pa.Table:
    """Run `sql` over the one table `records`. `time_zone` is Spark's spelling of the session's time zone.

    Raises UnsupportedError for a time zone that DuckDB does not know, CalculationError for what is wrong with `sql`.
    """
    return query_tables(sql, {"records": records}, time_zone=time_zone)


def query_tables(sql: str, tables: Mapping[str, pa.Table], *, time_zone: str = "UTC") -> pa.Table:
    """Run `sql` over several tables by name, and else as `query`. Raises as it does."""
    key = (os.getpid(), time_zone)
    session = _sessions.get(key)
    if session is None:
        session = _sessions.setdefault(key, _Session(time_zone))
    return session.query(sql, tables)


def _duckdb_zone(time_zone: str) -> str:
    """Spell an offset as ICU's GMT+hh:mm: DuckDB reads others not at all, or as whole hours only."""
    if time_zone == "Z":
        return "UTC"
    offset = _OFFSET.fullmatch(time_zone)
    if offset is None:
        return time_zone
    sign, hours, minutes, seconds = offset.groups()
    text = f"GMT{sign}{int(hours):02}:{minutes or '00'}"
    return f"{text}:{seconds}" if seconds and seconds != "00" else text


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
