"""The options of reading a jdbc table as one checked value: partitions, and rows of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.catalog import types as t
from penstock.catalog.errors import DefinitionError, OptionError, UnsupportedError, did_you_mean
from penstock.catalog.identifier import quote
from penstock.catalog.options import Option, Resolved, resolve
from penstock.catalog.table import Table
from penstock.connector.jdbc import options as o

__all__ = ["Partition", "ScanSettings", "read_scan_settings"]

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
            hint="give all four, or none",
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
