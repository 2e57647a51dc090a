"""The options of a jdbc table as checked values: database and key, partitioned scans, lookup cache and retries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.catalog.errors import DefinitionError, OptionError, UnsupportedError, did_you_mean
from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import quote
from penstock.catalog.model.table import Schema, Table
from penstock.catalog.options.option import Option, Resolved, resolve
from penstock.connector.checks import check_written_metadata
from penstock.connector.jdbc import options as o
from penstock.connector.jdbc.address import DRIVERS, Address, read_address
from penstock.connector.lookup.contract import CacheLimits

_NOT_STORED = (
    t.ArrayType,
    t.MapType,
    t.MultisetType,
    t.RowType,
    t.IntervalYearMonthType,
    t.IntervalDaySecondType,
)

_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcTable:
    """What a definition says. `database_schema` is None for the connection's own; `key` is empty for appends.

    `rows_at_once` are sent together; a batch's transaction is tried `retries` times more.
    """

    owner: str
    schema: Schema
    address: Address
    name: str
    database_schema: str | None
    username: str | None
    password: str | None = field(repr=False)
    key: tuple[str, ...]
    connect_timeout_s: int
    rows_at_once: int
    retries: int

    @property
    def shown(self) -> str:
        """The table for messages."""
        name = f"{self.database_schema}.{self.name}" if self.database_schema else self.name
        return f"table {name} of {self.address.shown}"


def read_jdbc_table(table: Table, project: Path) -> JdbcTable:
    """Check a definition, without I/O. Raises OptionError, DefinitionError, UnsupportedError."""
    owner = f"table {table.identifier}"
    options = resolve(table.option_map, o.OPTIONS, owner=owner)
    address = read_address(options.get(o.URL), project, owner=owner)
    driver = options.get(o.DRIVER)
    if driver is not None and DRIVERS.get(driver) is not address.backend:
        raise OptionError(
            f"{owner}: option 'driver' = '{driver}' is not the driver of a {address.backend} database",
            hint="leave it out: the URL says which driver is used",
        )
    if options.is_set(o.COMPATIBLE_MODE):
        raise UnsupportedError(
            f"{owner}: option '{o.COMPATIBLE_MODE.key}' is not supported", hint="leave it out"
        )
    if options.get(o.PARALLELISM) not in (None, 1):
        raise UnsupportedError(
            f"{owner}: '{o.PARALLELISM.key}' above 1 is not supported",
            hint="a micro-batch is one transaction, and so one connection; leave it out",
        )
    username, password = options.get(o.USERNAME), options.get(o.PASSWORD)
    if (username is None) != (password is None):
        raise OptionError(f"{owner}: 'username' and 'password' are given together, or neither")
    if options.get(o.MAX_ROWS) < 0 or options.get(o.MAX_RETRIES) < 0:
        raise OptionError(
            f"{owner}: '{o.MAX_ROWS.key}' and '{o.MAX_RETRIES.key}' cannot be less than 0"
        )
    schema_name, name = _names(options.get(o.TABLE_NAME), owner)
    _check_columns(table, owner)
    key = table.schema.primary_key
    return JdbcTable(
        owner=owner,
        schema=table.schema,
        address=address,
        name=name,
        database_schema=schema_name,
        username=username,
        password=password,
        key=() if key is None else key.columns,
        connect_timeout_s=max(2, -(-options.get(o.CONNECT_TIMEOUT) // _MS)),
        # 0 sets no limit in Flink; here a batch of Arrow sets one
        rows_at_once=options.get(o.MAX_ROWS) or o.MAX_ROWS.default or 1,
        retries=options.get(o.MAX_RETRIES),
    )


def _names(text: str, owner: str) -> tuple[str | None, str]:
    parts = text.strip().split(".")
    if len(parts) > 2 or not all(parts):
        raise OptionError(
            f"{owner}: option '{o.TABLE_NAME.key}' = '{text}' names no table", hint=o.TABLE_NAME.doc
        )
    return (None, parts[0]) if len(parts) == 1 else (parts[0], parts[1])


def _check_columns(table: Table, owner: str) -> None:
    if table.partition_keys:
        raise DefinitionError(f"{owner}: a jdbc table is not PARTITIONED BY Penstock")
    if not table.schema.physical:
        raise DefinitionError(f"{owner} has no physical column, so its rows would hold nothing")
    check_written_metadata(table, "jdbc")
    for column in table.schema.physical:
        if isinstance(column.type, _NOT_STORED):
            raise UnsupportedError(
                f"{owner}: column {quote(column.name)} has type {column.type}, which is not written to a database",
                hint="convert it to STRING, or write its parts as columns",
            )


ROWS_AT_ONCE = 10_000
"""Rows of a batch where `scan.fetch-size` sets none."""

_WHOLE = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Rows whose value in `column` lies in [first, last], both inclusive."""

    column: str
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSettings:
    """How a table is read: a task for each partition, or one task for all rows where there is none."""

    partitions: tuple[Partition, ...] = ()
    rows_at_once: int = ROWS_AT_ONCE


def read_scan_settings(table: Table) -> ScanSettings:
    """Check the options of reading, without I/O. Raises OptionError, DefinitionError, UnsupportedError."""
    owner = f"table {table.identifier}"
    options = resolve(table.option_map, o.OPTIONS, owner=owner)
    rows = options.get(o.FETCH_SIZE)
    if rows < 0:
        raise OptionError(f"{owner}: '{o.FETCH_SIZE.key}' cannot be less than 0")
    return ScanSettings(
        partitions=_partitions(table, options, owner), rows_at_once=rows or ROWS_AT_ONCE
    )


def _partitions(table: Table, options: Resolved, owner: str) -> tuple[Partition, ...]:
    four: tuple[Option[Any], ...] = (
        o.PARTITION_COLUMN,
        o.PARTITION_NUM,
        o.PARTITION_LOWER,
        o.PARTITION_UPPER,
    )
    missing = [option.key for option in four if not options.is_set(option)]
    if len(missing) == len(four):
        return ()
    if missing:
        raise OptionError(
            f"{owner}: the options of partitions are given together, and there is no {', '.join(missing)}",
            hint="set all four, or none",
        )
    name, count = options.get(o.PARTITION_COLUMN), options.get(o.PARTITION_NUM)
    low, high = options.get(o.PARTITION_LOWER), options.get(o.PARTITION_UPPER)
    assert name is not None, "it is set"
    assert count is not None, "it is set"
    assert low is not None, "it is set"
    assert high is not None, "it is set"
    _check_column(table, name, owner)
    if count < 1:
        raise OptionError(f"{owner}: '{o.PARTITION_NUM.key}' must be at least 1")
    if low > high:
        raise OptionError(f"{owner}: '{o.PARTITION_LOWER.key}' is above '{o.PARTITION_UPPER.key}'")
    return tuple(
        Partition(column=name, first=first, last=last) for first, last in _ranges(low, high, count)
    )


def _check_column(table: Table, name: str, owner: str) -> None:
    known = {column.name: column for column in table.schema.physical}
    if name not in known:
        raise DefinitionError(
            f"{owner}: '{o.PARTITION_COLUMN.key}' names {quote(name)}, which is not a physical column",
            hint=did_you_mean(name, known),
        )
    if not isinstance(known[name].type, _WHOLE):
        raise UnsupportedError(
            f"{owner}: '{o.PARTITION_COLUMN.key}' names {quote(name)}, which has type {known[name].type}",
            hint="partitions are made by a column of whole numbers",
        )


def _ranges(low: int, high: int, count: int) -> Iterator[tuple[int, int]]:
    """Cut [low, high] into ranges as even as can be (Flink: JdbcNumericBetweenParametersProvider)."""
    values = high - low + 1
    size, larger = divmod(values, min(count, values))
    first = low
    for index in range(min(count, values)):
        last = first + size - (0 if index < larger else 1)
        yield first, last
        first = last + 1


PARTIAL = "PARTIAL"

_LIMITS: tuple[Option[int | None], ...] = (
    o.LOOKUP_MAX_ROWS,
    o.LOOKUP_AFTER_WRITE,
    o.LOOKUP_AFTER_ACCESS,
)

_OF_CACHE: tuple[Option[Any], ...] = (*_LIMITS, o.LOOKUP_MISSING)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupSettings:
    """How rows are looked up: `cache` is None where none are remembered, rows are asked for `retries` times more."""

    cache: CacheLimits | None = None
    retries: int = 0

    @property
    def shown(self) -> str:
        """The cache in words."""
        if self.cache is None:
            return "none"
        limits = self.cache
        bounds = [] if limits.max_rows is None else [f"at most {limits.max_rows} rows"]
        if limits.after_write_ms is not None:
            bounds.append(f"for {limits.after_write_ms / 1000:g} s after they were read")
        if limits.after_access_ms is not None:
            bounds.append(f"for {limits.after_access_ms / 1000:g} s after they were used")
        bounds += [] if limits.missing else ["keys without rows not"]
        return f"{PARTIAL}, in each worker process: {', '.join(bounds)}"


def read_lookup_settings(table: Table) -> LookupSettings:
    """Check the options of lookups, without I/O. Raises OptionError."""
    owner = f"table {table.identifier}"
    options = resolve(table.option_map, o.OPTIONS, owner=owner)
    retries = options.get(o.LOOKUP_RETRIES)
    if retries < 0:
        raise OptionError(
            f"{owner}: option '{o.LOOKUP_RETRIES.key}' = '{retries}' cannot be less than 0"
        )
    return LookupSettings(cache=_cache(options, owner), retries=retries)


def _cache(options: Resolved, owner: str) -> CacheLimits | None:
    given = [option.key for option in _OF_CACHE if options.is_set(option)]
    if options.get(o.LOOKUP_CACHE) != PARTIAL:
        if given:
            # Flink passes over it
            raise OptionError(
                f"{owner}: option '{given[0]}' is of a cache, and there is none",
                hint=f"add '{o.LOOKUP_CACHE.key}' = '{PARTIAL}', or leave it out",
            )
        return None
    if not any(options.is_set(option) for option in _LIMITS):
        # as Flink does (DefaultLookupCache.fromConfig)
        raise OptionError(
            f"{owner}: option '{o.LOOKUP_CACHE.key}' = '{PARTIAL}' has no limit, and would grow without end",
            hint=f"add one of {', '.join(option.key for option in _LIMITS)}",
        )
    return CacheLimits(
        max_rows=options.at_least_one(o.LOOKUP_MAX_ROWS, owner=owner),
        after_write_ms=options.at_least_one(o.LOOKUP_AFTER_WRITE, owner=owner),
        after_access_ms=options.at_least_one(o.LOOKUP_AFTER_ACCESS, owner=owner),
        missing=options.get(o.LOOKUP_MISSING),
    )
