"""Where in a table the keys of a batch can be: bounds that let Delta leave out files by their statistics.

Written as literals of the column's own type: Delta's data skipping does not look through casts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as s

from penstock.catalog.model.identifier import quoted
from penstock.connector.spark.sink.last_changes import IS_DELETE

__all__ = ["BatchKeys", "key_literal", "measure_keys"]

MAX_PARTITIONS = 100
"""So many values of a partition column are listed; beyond that the lowest and the highest bound them."""

_SUFFIXES: Mapping[type[s.DataType], str] = {
    s.ByteType: "Y",
    s.ShortType: "S",
    s.IntegerType: "",
    s.LongType: "L",
}
# years of four digits; others have signs, and are rare enough to go without bounds
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
# how these are read inside a literal depends on the session's settings
_ESCAPED = frozenset("\\'$")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchKeys:
    """What is known of the keys of a batch. `without` names the key columns that have a NULL somewhere; `within` are
    SQL conditions that every key meets, with columns written as `t.name`.
    """

    rows: int
    deletes: int
    without: tuple[str, ...]
    within: tuple[str, ...]


def measure_keys(changes: DataFrame, keys: Sequence[str], partitions: Sequence[str]) -> BatchKeys:
    """Measure the rows that `last_changes` returned, in one Spark job. `partitions` are the table's
    partition columns.
    """
    types = {name: changes.schema[name].dataType for name in keys}
    listed = {name.lower() for name in partitions}
    wanted: list[Column] = [F.count("*"), F.count_if(IS_DELETE)]
    for name in keys:
        shown = _shown(name, types[name])
        values = F.collect_set(shown) if name.lower() in listed else F.lit(None)
        wanted += [F.count_if(F.col(quoted(name)).isNull()), F.min(shown), F.max(shown), values]
    found: Sequence[Any] = changes.agg(
        *(column.alias(f"c{index}") for index, column in enumerate(wanted))
    ).collect()[0]
    parts = [(name, *found[2 + 4 * i : 6 + 4 * i]) for i, name in enumerate(keys)]
    return BatchKeys(
        rows=found[0],
        deletes=found[1],
        without=tuple(name for name, nulls, *_ in parts if nulls),
        within=tuple(
            condition
            for name, _, low, high, values in parts
            for condition in [_bounds(name, types[name], low, high, values)]
            if condition is not None
        ),
    )


def key_literal(kind: s.DataType, value: Any) -> str | None:
    """Write a value as a SQL literal of its type; None for types and values that have none that Delta can skip by.

    `value` is as the driver gets it: an int, a str, the text of a DATE or TIMESTAMP_NTZ, the microseconds since 1970
    of a TIMESTAMP.
    """
    if value is None:
        return None
    match kind:
        case s.ByteType() | s.ShortType() | s.IntegerType() | s.LongType():
            return f"{value}{_SUFFIXES[type(kind)]}"
        case s.StringType():
            return None if _ESCAPED & set(value) else f"'{value}'"
        case s.DateType():
            return f"DATE '{value}'" if _DATE.fullmatch(value) else None
        case s.TimestampNTZType():
            return f"TIMESTAMP_NTZ '{value}'" if _DATE.match(value) else None
        case s.TimestampType():
            try:
                instant = _EPOCH + timedelta(microseconds=value)
            except OverflowError:
                return None
            return f"TIMESTAMP '{instant:%Y-%m-%d %H:%M:%S.%f}Z'" if instant.year > 999 else None
    return None


def _shown(name: str, kind: s.DataType) -> Column:
    """A key column in the form that `key_literal` takes; text of dates and times sorts as they do."""
    column = F.col(quoted(name))
    match kind:
        case s.ByteType() | s.ShortType() | s.IntegerType() | s.LongType() | s.StringType():
            return column
        case s.DateType() | s.TimestampNTZType():
            return column.cast("string")
        case s.TimestampType():
            return F.unix_micros(column)
    return F.lit(None).cast("string")


def _bounds(name: str, kind: s.DataType, low: Any, high: Any, values: Any) -> str | None:
    column = f"t.{quoted(name)}"
    if values and len(values) <= MAX_PARTITIONS:
        literals = [key_literal(kind, value) for value in sorted(values)]
        listed = [literal for literal in literals if literal is not None]
        return f"{column} IN ({', '.join(listed)})" if len(listed) == len(literals) else None
    lowest, highest = key_literal(kind, low), key_literal(kind, high)
    if lowest is None or highest is None:
        return None
    return f"{column} >= {lowest} AND {column} <= {highest}"
