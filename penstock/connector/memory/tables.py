"""Tables in memory: their rows by name, with the last batch of each writer, and the source that reads them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types as at

from penstock.catalog.errors import StateMismatchError, UnsupportedError
from penstock.catalog.model.table import Table
from penstock.connector.contract import SnapshotSource
from penstock.connector.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_POSITION = "__position"


@dataclass(slots=True)
class MemoryTable:
    """The rows of one name; any thread. `batches`: the last micro-batch of each application id that is in them."""

    rows: pa.Table | None = None
    batches: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def has(self, application_id: str, batch_id: int) -> bool:
        """Return whether a batch was written already."""
        return self.batches.get(application_id, -1) >= batch_id

    def append(self, rows: pa.Table) -> None:
        """Append rows, also where another query's columns, or values in them, are NOT NULL and these are not."""
        rows = rows.cast(pa.schema([_nullable(of) for of in rows.schema]))
        self.rows = rows if self.rows is None else pa.concat_tables([self.rows, rows])

    def replace(self, replaced: pa.Table, rows: pa.Table) -> None:
        """Remove the rows whose key is in `replaced`, which has only the columns of the key, and add `rows`."""
        if self.rows is not None and replaced.num_rows:
            # Acero joins no nested columns, so the positions of what stays are joined
            keys: Sequence[str] = replaced.column_names
            numbers = pa.array(range(self.rows.num_rows), pa.int64())
            numbered = self.rows.select(keys).append_column(_POSITION, numbers)
            stays = numbered.join(replaced, list(keys), join_type="left anti")
            self.rows = self.rows.take(stays.sort_by(_POSITION).column(_POSITION))
        self.append(rows)


def _nullable(of: pa.Field) -> pa.Field:
    """Return a field whose values may be NULL, and all values in them but the keys of maps."""
    return of.with_type(_of_nullable(of.type)).with_nullable(True)


def _of_nullable(kind: pa.DataType) -> pa.DataType:
    if at.is_struct(kind):
        return pa.struct([_nullable(of) for of in kind])
    if at.is_list(kind):
        return pa.list_(_nullable(kind.value_field))
    if at.is_map(kind):
        key = kind.key_field.with_type(_of_nullable(kind.key_type))
        return pa.map_(key, _nullable(kind.item_field), keys_sorted=kind.keys_sorted)
    return kind


_TABLES: dict[str, MemoryTable] = {}

_LOCK = threading.Lock()


def memory_table(name: str) -> MemoryTable:
    """Return the rows under a name; nothing yet where none were written."""
    with _LOCK:
        return _TABLES.setdefault(name, MemoryTable())


def clear_tables() -> None:
    """Forget all tables in memory."""
    with _LOCK:
        _TABLES.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySource(SnapshotSource):
    """The rows under `location` as a source (`EngineSource`)."""

    table: Table
    location: str

    def frame(self, spark: SparkSession, *, streaming: bool) -> DataFrame:
        """Return the physical columns. Raises UnsupportedError for a stream, StateMismatchError for other columns."""
        if streaming:
            raise UnsupportedError(
                f"table {self.table.identifier}: a table in memory is read by SELECT, not followed as a stream",
                hint="write into a Delta table and INSERT from that",
            )
        schema = spark_schema(self.table.schema.physical)
        rows = memory_table(self.location).rows
        if rows is None:
            return spark.createDataFrame([], schema)
        if rows.column_names != schema.names:
            raise StateMismatchError(
                f"the rows in memory under '{self.location}' have the columns {', '.join(rows.column_names)}; "
                f"{self.table.identifier} declares {', '.join(schema.names)}",
                hint="set another 'name' for one of the tables",
            )
        # Spark reads a partition up to its first batch without rows
        return spark.createDataFrame(rows.combine_chunks(), schema)
