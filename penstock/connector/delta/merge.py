"""One MERGE: the last changes of a batch into a table with a PRIMARY KEY.

Delta scans the key columns of the files that can hold the batch's keys (see `key_range`). Where no row matches it
writes the batch as new files, as an append does. An append without that scan would double a key that another writer
inserts at the same time, and finding out that no file can hold the keys takes about as long as MERGE takes more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)
from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import types as s

from penstock.catalog.errors import SinkError
from penstock.catalog.model.identifier import quote, quoted
from penstock.connector.delta.errors import translate_errors
from penstock.connector.delta.key_range import BatchKeys, measure_keys
from penstock.connector.delta.options import DeltaTarget
from penstock.connector.delta.table import stored_schema
from penstock.connector.spark.internals import unpersist_local_checkpoint
from penstock.connector.spark.session import configured
from penstock.connector.spark.sink.last_changes import IS_DELETE, last_changes

__all__ = ["Merge"]

RETRY_DELAYS_MS = (100, 200, 400, 800, 1600, 3200, 5000)
"""Waits between the attempts at a MERGE that another writer's commit got in the way of."""

# the Python classes have no common root but PySpark's
_CONFLICTS = (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)
_SETTINGS = {
    # what we give it is materialised already
    "spark.databricks.delta.merge.materializeSource": "none",
    # Spark turns it off for queries with state; these are batch jobs all the same
    "spark.sql.adaptive.enabled": "true",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Upserts and deletes by the table's key. Columns that are declared and not given become NULL, others stay."""

    target: DeltaTarget
    keys: tuple[str, ...]

    def run(self, spark: SparkSession, frame: DataFrame, settings: Mapping[str, str]) -> None:
        """Write the changes of `frame` in one transaction, with `settings` on `spark`, which is the frame's session.

        Raises SinkError for a NULL in the key, and when other writers' commits got in the way each time.
        """
        columns = [(field.name, field.dataType) for field in stored_schema(self.target.table)]
        with (
            configured(spark, {**_SETTINGS, **settings}),
            _materialised(last_changes(frame, self.keys, columns)) as changes,
            translate_errors(self.target.shown),
        ):
            found = measure_keys(changes, self.keys, self.target.table.partition_keys)
            if found.without:
                raise SinkError(
                    f"table {self.target.table.identifier}: a row has NULL in {_listed(found.without)}, a part of "
                    "the PRIMARY KEY",
                    hint="filter such rows out (WHERE ... IS NOT NULL), or give them a value with COALESCE",
                )
            if found.rows:
                self._until_done(spark, changes, found, columns)

    def _until_done(
        self,
        spark: SparkSession,
        changes: DataFrame,
        found: BatchKeys,
        columns: Sequence[tuple[str, s.DataType]],
    ) -> None:
        waiting = Event()
        for delay_ms in (*RETRY_DELAYS_MS, None):
            try:
                self._merge(spark, changes, found, [name for name, _ in columns])
            except ConcurrentTransactionException as error:
                raise SinkError(
                    f"another run of this query wrote the same batch into the Delta table at {self.target.shown}",
                    hint="stop the other one; this checkpoint resumes from what it wrote",
                ) from error
            except _CONFLICTS as error:
                if delay_ms is None:
                    raise _conflict(error, self.target.shown) from error
                waiting.wait(delay_ms / 1000)
            else:
                return

    def _merge(
        self, spark: SparkSession, changes: DataFrame, found: BatchKeys, columns: Sequence[str]
    ) -> None:
        same_key = [f"t.{quoted(key)} = s.{quoted(key)}" for key in self.keys]
        condition = " AND ".join([*same_key, *found.within])
        rest = [name for name in columns if name not in self.keys]
        # a new handle each time: it reads the newest version of the table
        table = DeltaTable.forPath(spark, self.target.location).alias("t")
        merge = table.merge(changes.alias("s"), condition)
        if found.deletes:
            merge = merge.whenMatchedDelete(f"s.{IS_DELETE}")
            merge = merge.whenNotMatchedInsert(f"NOT s.{IS_DELETE}", values=_assignments(columns))
        else:
            merge = merge.whenNotMatchedInsert(values=_assignments(columns))
        if rest:
            # the first clause that fits a row takes it: no delete comes here
            merge = merge.whenMatchedUpdate(set=_assignments(rest))
        merge.execute()


def _assignments(columns: Sequence[str]) -> dict[str, str | Column]:
    return {quoted(name): f"s.{quoted(name)}" for name in columns}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(quote(name) for name in names)


def _conflict(error: Exception, location: str) -> SinkError:
    return SinkError(
        f"other writers changed the Delta table at {location} during each of {len(RETRY_DELAYS_MS) + 1} attempts to "
        f"merge into it ({type(error).__name__})",
        hint="the batch is tried again from the checkpoint; let OPTIMIZE and other writers run less often, or while "
        "this one is stopped",
    )


@contextmanager
def _materialised(frame: DataFrame) -> Iterator[DataFrame]:
    """Evaluate a frame once and hold its rows for the scans that follow.

    Not `persist`: a block that is lost would be computed again, perhaps not the same, between MERGE's two scans. A
    block of a local checkpoint that is lost fails the batch, which is then replayed.
    """
    held = frame.localCheckpoint(eager=True)
    try:
        yield held
    finally:
        unpersist_local_checkpoint(held)
