"""One MERGE: the last changes of a batch into a table with a PRIMARY KEY.

Where in the table the keys of a batch can be is measured first: Delta leaves out files by their statistics.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Event
from typing import Any

from delta.exceptions import ConcurrentTransactionException
from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as s

from penstock.catalog.errors import SinkError
from penstock.catalog.model.identifier import quoted
from penstock.connector.contract import MicroBatch
from penstock.connector.delta.files.upsert_task import null_in_key
from penstock.connector.delta.options import DeltaTarget
from penstock.connector.delta.table import stored_schema, translate_errors
from penstock.connector.delta.transaction import CONFLICTS, CommittedBatches, Transaction
from penstock.connector.spark.internals import unpersist_local_checkpoint
from penstock.connector.spark.session import configured
from penstock.connector.spark.sink.target_rows import IS_DELETE, last_changes

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
    """What is known of the keys of a batch. `without` names the key columns that have a NULL somewhere, which '' of a
    partition column is to Delta; `within` are SQL conditions that every key meets, with columns written as `t.name`.
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
        missing = F.col(quoted(name)).isNull()
        if name.lower() in listed and isinstance(types[name], s.StringType):
            missing |= F.col(quoted(name)) == ""
        wanted += [F.count_if(missing), F.min(shown), F.max(shown), values]
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


RETRY_DELAYS_MS = (100, 200, 400, 800, 1600, 3200, 5000)
"""Waits between the attempts at a transaction that another writer's commit got in the way of."""

APPLICATION = "spark.databricks.delta.write.txnAppId"

VERSION = "spark.databricks.delta.write.txnVersion"

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


def transaction_settings(transaction: Transaction) -> dict[str, str]:
    """Return the settings by which the next command commits `txn` and note of a transaction, or does nothing if the
    table has that batch or a later one.
    """
    batch = transaction.batch
    numbered = {APPLICATION: batch.application_id, VERSION: str(batch.batch_id)}
    return {**numbered, USER_METADATA: transaction.note}


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

    def run(self, frame: DataFrame) -> None:
        """Write the changes of a frame in one transaction.

        Raises SinkError for a NULL in the key, and when other writers' commits got in the way each time.
        """
        self._run(frame, lambda merge: merge())

    def run_batch(self, frame: DataFrame, batch: MicroBatch, committed: CommittedBatches) -> None:
        """Write the changes of a batch in one transaction, unless the table has it; `committed` is the table.

        Raises SinkError as `run`, and StateMismatchError as `CommittedBatches`.
        """

        def attempt(merge: Callable[[], bool]) -> None:
            transaction = committed.begin(batch)
            if transaction is None:
                return
            with configured(batch.spark, transaction_settings(transaction)):
                done = merge()
            if not done:
                # another run was first since then, perhaps with other rows
                late = committed.begin(batch)
                assert late is None, "Delta has the batch"

        self._run(frame, attempt)

    def _run(self, frame: DataFrame, attempt: Callable[[Callable[[], bool]], object]) -> None:
        """Have `attempt` merge the changes of a frame, again where commits of others are in the way."""
        columns = [(field.name, field.dataType) for field in stored_schema(self.target.table)]
        spark = frame.sparkSession
        with (
            configured(spark, _SETTINGS),
            _materialised(last_changes(frame, self.keys, columns)) as changes,
            translate_errors(self.target.shown),
        ):
            found = measure_keys(changes, self.keys, self.target.table.partition_keys)
            if found.without:
                raise null_in_key(str(self.target.table.identifier), found.without)
            if found.rows:
                names = [name for name, _ in columns]
                merge = partial(self._merge, spark, changes, found, names)
                until_committed(lambda: attempt(merge), self.target.shown)

    def _merge(
        self, spark: SparkSession, changes: DataFrame, found: BatchKeys, columns: Sequence[str]
    ) -> bool:
        """Merge; False where Delta passed over it, by the settings of the session."""
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
        # one row of counts
        return bool(merge.execute().collect())


def until_committed(attempt: Callable[[], object], location: str) -> None:
    """Try a transaction until no commit of another writer gets in its way.

    Raises SinkError when one did each time, and when another run of the query has the batch.
    """
    waiting = Event()
    for delay_ms in (*RETRY_DELAYS_MS, None):
        try:
            attempt()
        except ConcurrentTransactionException as error:
            raise SinkError(
                f"another run of this query wrote the same batch into the Delta table at {location}",
                hint="stop the other one; this checkpoint resumes from what it wrote",
            ) from error
        except CONFLICTS as error:
            if delay_ms is None:
                raise _conflict(error, location) from error
            waiting.wait(delay_ms / 1000)
        else:
            return


def _assignments(columns: Sequence[str]) -> dict[str, str | Column]:
    return {quoted(name): f"s.{quoted(name)}" for name in columns}


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
