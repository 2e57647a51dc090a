"""Transactions of Delta: that of a micro-batch, which knows what the table has of the query, and that of a compaction.

Used by `task_commit.py` for files of tasks, by `writer.py` for rows that Spark writes, by `upsert.py` and `merge.py`
for tables with a key: they begin the transaction of a batch by `CommittedBatches`, which asks whether the table has the
batch. `compaction.py` begins those of files that are put together. The batches of a table are read from its checksum:
Delta's `txnVersion` computes the state of the table by three jobs of Spark for each commit.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.catalog.errors import StateMismatchError
from penstock.connector.commits import SinkCommit
from penstock.connector.contract import MicroBatch
from penstock.connector.delta.checkpoint_check import START_OVER, replaced_table
from penstock.connector.delta.options import DeltaTarget
from penstock.connector.spark.internals import (
    java_class,
    java_frame,
    java_session,
    make_active,
    scala_object,
)
from penstock.connector.spark.sink.micro_batch import batch_digest

NONE_WRITTEN = -1
NOTE = "penstock"
LOOK_BACK = 100
"""So many commits are looked at for a batch that the table has; one that lies further back is left to Delta's `txn`."""

CONFLICTS = (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)
"""Delta's errors for commits of others that got in the way; their classes have no common root but PySpark's."""

_DELTA = "org.apache.spark.sql.delta"
_CONVERTERS = "scala.jdk.javaapi.CollectionConverters"
_IDENTITY = "delta.identity"
_OF_FILES = (
    "path",
    "partitionValues",
    "size",
    "modificationTime",
    "dataChange",
    "stats",
    "tags",
    "deletionVector",
    "clusteringProvider",
)
"""The fields of an `add` that tables have which tasks write."""
_NOT_TYPES = ("nullable", "containsNull", "valueContainsNull", "metadata")


def written_batch(spark: SparkSession, snapshot: Any, application: str) -> int:
    """Return the last batch of an application that a snapshot has (`txn`), NONE_WRITTEN without one.

    The checksum of a version lists the transactions of every application, or none: of more than a hundred, and where
    the last writer left no checksum. Then Delta computes them by jobs of Spark.
    """
    checksum = snapshot.checksumOpt()
    if checksum.isDefined() and (listed := checksum.get().setTransactions()).isDefined():
        mapper = scala_object(spark, f"{_DELTA}.util.JsonUtils").mapper()
        transactions = json.loads(mapper.writeValueAsString(listed.get()))
        versions = [int(one["version"]) for one in transactions if one["appId"] == application]
        return max(versions, default=NONE_WRITTEN)
    version = snapshot.transactions().get(application)
    return int(version.get()) if version.isDefined() else NONE_WRITTEN


def note_of(batch: MicroBatch, digest: str) -> str:
    """Write what a commit says of its batch (Delta's userMetadata)."""
    value = {"application": batch.application_id, "batch": batch.batch_id, "digest": digest}
    return json.dumps({NOTE: value})


def noted_batches(notes: Iterable[str | None], application_id: str) -> dict[int, str]:
    """Read the digests of a query's batches, by batch id, from the notes of commits; others' are passed over."""
    found: dict[int, str] = {}
    for text in notes:
        try:
            value = json.loads(text or "{}")[NOTE]
            if value["application"] == application_id:
                found[int(value["batch"])] = str(value["digest"])
        except (ValueError, KeyError, TypeError):
            continue
    return found


def begin(spark: SparkSession, location: str) -> Any:
    """Begin a transaction of Delta on the newest version of a table; gives Java's OptimisticTransaction."""
    session = java_session(spark)
    # what runs behind a commit takes its settings from there
    make_active(spark)
    log = java_class(spark, f"{_DELTA}.DeltaLog").forTable(session, location)
    none = java_class(spark, "scala.Option").empty()
    return log.startTransaction(none, none)


class BehindCommits(Protocol):
    """What has to do with a table beside the commits of a query. The batch's thread calls it around each."""

    def alone(self) -> AbstractContextManager[object]:
        """Surround a commit that replaces rows: what is done beside batches commits nothing meanwhile."""

    def prepare(self, transaction: Transaction) -> None:
        """Take from a commit what is done behind it; called when nothing more is written."""

    def done(self, transaction: Transaction, version: int, new_files: int) -> None:
        """Have done what is due after a commit."""


def last_checkpoint(spark: SparkSession, location: str) -> tuple[int, int]:
    """Return the newest version of a table, and that of the newest checkpoint of its log; -1 without one."""
    snapshot = begin(spark, location).snapshot()
    return int(snapshot.version()), int(snapshot.checkpointProvider().version())


def checkpoint_log(spark: SparkSession, location: str) -> int:
    """Write a checkpoint of the newest version of a table, by jobs of Spark, as Delta does; returns the version."""
    snapshot = begin(spark, location).snapshot()
    none = java_class(spark, "scala.Option").empty()
    snapshot.deltaLog().checkpoint(snapshot, none)
    return int(snapshot.version())


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTransaction:
    """A transaction of Delta that has begun, on the thread that began it."""

    spark: SparkSession
    java: Any

    @property
    def version(self) -> int:
        """The version of the table that it began on."""
        return int(self.java.snapshot().version())

    @property
    def metadata(self) -> dict[str, Any]:
        """The table's metadata, as the log has it."""
        return _fields(self.java.metadata(), "metaData")

    @property
    def protocol(self) -> dict[str, Any]:
        """The table's protocol, as the log has it."""
        return _fields(self.java.protocol(), "protocol")

    def parsed(self, actions: Iterable[Mapping[str, Any]]) -> Any:
        """Return actions of the log's form as a Seq of Delta's."""
        parse = scala_object(self.spark, f"{_DELTA}.actions.Action").fromJson
        made = java_class(self.spark, "java.util.ArrayList")()
        for action in actions:
            made.add(parse(json.dumps(action)))
        return java_class(self.spark, _CONVERTERS).asScala(made).toSeq()

    def compact_in_commit(self, wanted: bool) -> None:
        """Let Delta's auto compaction look at the table behind the commit, before `commit` returns, or not."""
        hook = self._hook("AutoCompact")
        if wanted:
            self.java.registerPostCommitHook(hook)
        else:
            self.java.postCommitHooks().subtractOne(hook)

    def leave_checkpoint(self) -> None:
        """Have the commit write no checkpoint of the log where one is due."""
        self.java.postCommitHooks().subtractOne(self._hook("CheckpointHook"))

    def compacts_by_settings(self) -> bool:
        """Tell whether session or table ask for auto compaction."""
        conf = java_session(self.spark).sessionState().conf()
        found = self._hook("AutoCompact").getAutoCompactType(conf, self.java.metadata())
        return bool(found.isDefined())

    def _hook(self, name: str) -> Any:
        return scala_object(self.spark, f"{_DELTA}.hooks.{name}")

    def compact(self, actions: Iterable[Mapping[str, Any]], counts: Mapping[str, int]) -> int:
        """Commit files that take the place of others, as OPTIMIZE does, and return the version.

        Raises Delta's errors for commits of others that conflict.
        """
        spark = self.spark
        self.java.registerSQLMetrics(java_session(spark), _metrics(spark, counts))
        nothing = java_class(spark, "java.util.ArrayList")()
        none = java_class(spark, _CONVERTERS).asScala(nothing).toSeq()
        option = java_class(spark, "scala.Option").empty()
        operation = java_class(spark, f"{_DELTA}.DeltaOperations$Optimize")(
            none, none, True, option, False
        )
        return int(self.java.commit(self.parsed(actions), operation))


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction(TableTransaction):
    """The transaction of a micro-batch, whose content `digest` identifies. Driver side, on the thread of the batch."""

    batch: MicroBatch
    digest: str

    @classmethod
    def begin(cls, target: DeltaTarget, batch: MicroBatch) -> Self:
        """Begin one on the newest version of a table; `CommittedBatches` does, which looks at the table first."""
        java = begin(batch.spark, target.location)
        return cls(spark=batch.spark, batch=batch, java=java, digest=batch_digest(batch))

    @property
    def note(self) -> str:
        """What the commit says of the batch."""
        return note_of(self.batch, self.digest)

    def last_batch(self) -> int:
        """Return the last batch of the query that the table has, NONE_WRITTEN without one.

        A commit of the same query from now on is a conflict.
        """
        application = self.batch.application_id
        # as `txnVersion` does: Delta looks for it in the commits that came in between
        self.java.readTxn().addOne(application)
        return written_batch(self.spark, self.java.snapshot(), application)

    def takes(self, frame: DataFrame) -> bool:
        """Tell whether rows can be written as they are: by columns of the table, each of its type.

        What else Delta does with rows (casts, new columns, refusals) is left to its own writer.
        """
        fields = json.loads(self.metadata["schemaString"])["fields"]
        types = {
            field["name"]: _type_of(field["type"])
            for field in fields
            if not any(key.startswith(_IDENTITY) for key in field.get("metadata", {}))
        }
        given = frame.schema.jsonValue()["fields"]
        return all(types.get(field["name"]) == _type_of(field["type"]) for field in given)

    def write(self, frame: DataFrame) -> Any:
        """Write the rows of a frame as files of the table, by one job of Spark; gives their actions, a Seq."""
        return self.java.writeFiles(java_frame(frame))

    def read_files(self) -> Iterator[dict[str, Any]]:
        """Return the `add` of each file of the snapshot, by jobs of Spark."""
        files = DataFrame(self.java.snapshot().allFiles().toDF(), self.spark)
        there = [name for name in _OF_FILES if name in files.columns]
        for (text,) in files.select(F.to_json(F.struct(*there))).collect():
            yield json.loads(text)

    @property
    def known_files(self) -> int | None:
        """The number of files of the snapshot, where a checksum says it: else Delta computes it by jobs of Spark."""
        checksum = self.java.snapshot().checksumOpt()
        return int(checksum.get().numFiles()) if checksum.isDefined() else None

    @property
    def from_first_commit(self) -> bool:
        """Tell that the log of the snapshot has no checkpoint: its commits say all."""
        return int(self.java.snapshot().checkpointProvider().version()) < 0

    def read_table(self) -> None:
        """Make each commit of another that changes rows from now on, or removes files, a conflict."""
        self.java.readWholeTable()

    def commit(self, files: Any, counts: Mapping[str, int], *, updates: bool = False) -> int:
        """Commit the actions of files, the batch and its note, and return the version.

        `counts` are what the table's history shows of it; `updates`: rows were replaced. Raises Delta's errors for
        commits of others that conflict.
        """
        spark = self.spark
        self.java.registerSQLMetrics(java_session(spark), _metrics(spark, counts))
        written = {
            "appId": self.batch.application_id,
            "version": self.batch.batch_id,
            "lastUpdated": time.time_ns() // 1_000_000,
        }
        mode = java_class(spark, "org.apache.spark.sql.streaming.OutputMode")
        operation = java_class(spark, f"{_DELTA}.DeltaOperations$StreamingUpdate")(
            mode.Update() if updates else mode.Append(),
            self.batch.application_id,
            self.batch.batch_id,
            java_class(spark, "scala.Option").apply(self.note),
        )
        actions = self.parsed([{"txn": written}]).appendedAll(files)
        began_s = time.monotonic()
        version = int(self.java.commit(actions, operation))
        done = SinkCommit(
            sink=self.batch.sink,
            took_s=time.monotonic() - began_s,
            version=version,
            files=counts["numAddedFiles"],
        )
        self.batch.commits.add(done)
        return version


@dataclass(slots=True, kw_only=True)
class CommittedBatches:
    """The batches that one table has, and which table it is: every way to write begins the transaction of a batch here.

    The thread of a batch, and that of a start.
    """

    target: DeltaTarget
    _tables: dict[tuple[str, str], str] = field(default_factory=dict, init=False)

    def started(self, checkpoint: str, sink: str, table_id: str) -> None:
        """Know which table a run began with, by Delta's id of it: its batches go into no other one."""
        self._tables[checkpoint, sink] = table_id

    def begin(self, batch: MicroBatch) -> Transaction | None:
        """Begin the transaction of a batch on the newest version of the table; None where that has the batch.

        Raises StateMismatchError where the table has it with another content, or is another one than at the start of
        the run; the error of a runner that lost its lease, if it did.
        """
        transaction = Transaction.begin(self.target, batch)
        table_id = transaction.metadata["id"]
        if self._tables.get((batch.checkpoint, batch.sink), table_id) != table_id:
            raise replaced_table(self.target)
        last = transaction.last_batch()
        if last < batch.batch_id:
            return transaction
        self._check_content(transaction, last)
        return None

    def _check_content(self, transaction: Transaction, last: int) -> None:
        """Compare a batch with that of its number in the table, by the notes of commits, which a job of Spark reads."""
        batch = transaction.batch
        history = DeltaTable.forPath(batch.spark, self.target.location).history(LOOK_BACK)
        notes = [row["userMetadata"] for row in history.select("userMetadata").collect()]
        there = noted_batches(notes, batch.application_id).get(batch.batch_id)
        # earlier versions noted nothing; Spark plans no batch before one that was committed
        if there == transaction.digest or (there is None and last == batch.batch_id):
            return
        batch.check_lease()
        if there is None:
            raise StateMismatchError(
                f"the Delta table at {self.target.shown} has batch {last} of this query, and its checkpoint is only at "
                f"batch {batch.batch_id}: another run writes the table with a copy of the checkpoint",
                hint=f"stop the other run, and go on with the newest checkpoint; or {START_OVER}",
            )
        raise StateMismatchError(
            f"the Delta table at {self.target.shown} has batch {batch.batch_id} of this query, with other rows than "
            "the checkpoint has for it now",
            hint="put the newest checkpoint and the former query back, or start over with another checkpoint",
        )


def _fields(action: Any, name: str) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(action.json())[name]
    return fields


def _type_of(written: Any) -> Any:
    """Return a type in Spark's JSON without what says nothing of its values: names and types remain."""
    if isinstance(written, dict):
        return {name: _type_of(one) for name, one in written.items() if name not in _NOT_TYPES}
    return [_type_of(one) for one in written] if isinstance(written, list) else written


def _metrics(spark: SparkSession, counts: Mapping[str, int]) -> Any:
    """Make what the history of the table shows of the commit."""
    context = java_session(spark).sparkContext()
    create = java_class(spark, "org.apache.spark.sql.execution.metric.SQLMetrics").createMetric
    made = java_class(spark, "java.util.HashMap")()
    for name, count in counts.items():
        metric = create(context, name)
        metric.set(count)
        made.put(name, metric)
    scala_map = java_class(spark, _CONVERTERS).asScala(made)
    return getattr(scala_object(spark, "scala.collection.immutable.Map"), "from")(scala_map)
