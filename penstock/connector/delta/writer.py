"""Write batches to a Delta table exactly once, by `txnAppId` and `txnVersion`; create or check the table first.

The argument: rows and `txn` (query, batch number) are one commit, and Delta takes no second one of the same number.
- A driver that dies before the commit leaves nothing that readers see; after it, the batch that is run again is passed.
- A commit notes the digest of its batch, by which a batch of other content is refused, which Delta alone would pass:
  each commit of a batch begins in `CommittedBatches` (`transaction.py`), which looks for both.
- Spark's own Delta sink, which earlier versions had for plain appends, commits the same `txn`, without a note.
- A table that was replaced or restored is found when a query starts (`checkpoint_check.py`), one that is replaced
  under a running query by its next batch.
OPTIMIZE runs when it is due.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from delta.tables import DeltaTable
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from penstock.connector.contract import MicroBatch, SinkSettings
from penstock.connector.delta.checkpoint_check import (
    CheckpointProgress,
    NotedTable,
    StoredTable,
    compare_with_checkpoint,
    first_of_each,
    lost_table,
    newest_batch,
    note_path,
    read_note,
)
from penstock.connector.delta.compaction import UpkeepBehind
from penstock.connector.delta.files.file_keys import KeysAhead
from penstock.connector.delta.merge import Merge
from penstock.connector.delta.options import DeltaTarget, FileMaintenance
from penstock.connector.delta.table import (
    add_missing_columns,
    check_numbered,
    check_writable,
    create,
    exists,
    translate_errors,
)
from penstock.connector.delta.task_commit import (
    UncommittedFiles,
    commit_files,
    read_files,
    remove_files,
)
from penstock.connector.delta.task_output import decide_new
from penstock.connector.delta.transaction import (
    LOOK_BACK,
    NONE_WRITTEN,
    CommittedBatches,
    written_batch,
)
from penstock.connector.delta.upsert import Upserts, log_way
from penstock.connector.failpoints import reach
from penstock.connector.file_output import FileOutput
from penstock.connector.spark.hadoop_files import list_names, read_text, replace_text
from penstock.connector.spark.internals import java_session, jvm_of
from penstock.connector.spark.session import configured
from penstock.connector.spark.sink.micro_batch import (
    discard_batch,
    micro_batch_query,
    saved_query_id,
)
from penstock.connector.spark.sink.task_files import collect_files

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Optimizer:
    """Runs OPTIMIZE when it is due. `clock` returns seconds that only grow.

    A run counts from the last OPTIMIZE among the table's newest commits, and if there is none it is due.
    """

    clock: Callable[[], float] = time.monotonic
    _due_s: float | None = field(default=None, init=False)

    def run_if_due(self, spark: SparkSession, target: DeltaTarget, interval_ms: int | None) -> None:
        """Compact small files, on the calling thread. A failure only warns; the next try is an interval away."""
        if interval_ms is None or (self._due_s is not None and self.clock() < self._due_s):
            return
        try:
            table = DeltaTable.forPath(spark, target.location)
            age_ms = _last_optimize_ms(table) if self._due_s is None else None
            waiting_ms = 0 if age_ms is None else interval_ms - age_ms
            if waiting_ms > 0:
                self._due_s = self.clock() + waiting_ms / 1000
                return
            table.optimize().executeCompaction()
        except (PySparkException, Py4JError) as error:
            text = str(error).strip().split("\n", 1)[0]
            log.warning("OPTIMIZE of the Delta table at %s failed: %s", target.shown, text)
        self._due_s = self.clock() + interval_ms / 1000


def _last_optimize_ms(table: DeltaTable) -> int | None:
    """Return how long ago the table was last optimized, in ms, as far as its newest commits show."""
    done = table.history(LOOK_BACK).where("operation = 'OPTIMIZE'")
    newest = F.unix_millis(F.max("timestamp"))
    found = done.agg((F.unix_millis(F.current_timestamp()) - newest).alias("age")).collect()
    age: int | None = found[0]["age"]
    return age


def check_resumes(
    spark: SparkSession,
    target: DeltaTarget,
    checkpoint: str,
    sink: str,
    *,
    commits_empty: bool,
    notes: bool = True,
) -> NotedTable:
    """Check that a table goes with a checkpoint, and return what there is to note of it. Raises StateMismatchError.

    `sink` distinguishes the sinks of a query that has several. `commits_empty`: a batch without rows is a commit, too.
    `notes`: the checkpoint notes it.
    """
    query = saved_query_id(spark, checkpoint)
    application = f"{query}/{sink}" if sink else query
    with translate_errors(target.shown):
        found = _stored(spark, _newest_snapshot(spark, target), application)
    path = f"{checkpoint}/{note_path(target, sink)}"
    progress = CheckpointProgress(
        planned=newest_batch(list_names(spark, f"{checkpoint}/offsets")),
        committed=newest_batch(list_names(spark, f"{checkpoint}/commits")),
    )
    known = read_note(read_text(spark, path), path)
    compare_with_checkpoint(known, found, progress, target.shown, commits_empty=commits_empty)
    noted = NotedTable(
        id=found.id,
        version=found.version,
        written=found.written,
        each_from=first_of_each(known, progress, commits_empty=commits_empty),
    )
    if notes:
        replace_text(spark, path, json.dumps(asdict(noted)))
    return noted


NOTED_EVERY_S = 60
"""How often a run without an end notes how far its table is: a copy that is younger than a note is not recognised."""


@dataclass(slots=True, kw_only=True)
class _NotedRun:
    """What was noted last of the table of a run, by its start or behind a commit, and when the next note is due."""

    noted: NotedTable
    due_s: float
    has_commit: bool = False


@dataclass(slots=True, kw_only=True)
class NotedVersions:
    """Notes in checkpoints how far a table is whose batches are not all commits.

    Behind the first commit of a run, so that no copy of before the run is taken for the newest one; then now and then,
    and behind each commit of a run that ends. `clock` returns seconds that only grow.
    """

    target: DeltaTarget
    clock: Callable[[], float] = time.monotonic
    _runs: dict[tuple[str, str], _NotedRun] = field(default_factory=dict, init=False)

    def started(self, checkpoint: str, sink: str, noted: NotedTable) -> None:
        """Know what a start has noted of the table."""
        due_s = self.clock() + NOTED_EVERY_S
        self._runs[checkpoint, sink] = _NotedRun(noted=noted, due_s=due_s)

    def note_if_due(self, batch: MicroBatch) -> None:
        """Note how far the table is behind a batch, where that is due."""
        run = self._runs.get((batch.checkpoint, batch.sink))
        if run is None:
            return
        overdue = self.clock() >= run.due_s
        if not (overdue or batch.ends or not run.has_commit):
            return
        snapshot = _newest_snapshot(batch.spark, self.target)
        if snapshot.version() > run.noted.version:
            found = _stored(batch.spark, snapshot, batch.application_id)
            commits = found.written != run.noted.written
            # another table by now: the next batch finds that, or the next start by this note
            if found.id == run.noted.id and (commits or overdue):
                self._note(batch, run, found)
                run.has_commit |= commits
        if overdue:
            run.due_s = self.clock() + NOTED_EVERY_S

    def _note(self, batch: MicroBatch, run: _NotedRun, found: StoredTable) -> None:
        run.noted = replace(run.noted, version=found.version, written=found.written)
        path = f"{batch.checkpoint}/{note_path(self.target, batch.sink)}"
        replace_text(batch.spark, path, json.dumps(asdict(run.noted)))


def _newest_snapshot(spark: SparkSession, target: DeltaTarget) -> Any:
    """Return Delta's Snapshot: DeltaTable tells neither a table's transactions nor how many files it has."""
    jvm = jvm_of(spark)
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(java_session(spark), target.location)
    none = jvm.scala.Option.empty()
    # what is in memory may be older than what other processes wrote
    return log.update(False, none, none)


_MIN_FILES = "spark.databricks.delta.autoCompact.minNumFiles"
DEFAULT_MIN_FILES = 50
_SMALL_FILE = (
    '{"add":{"path":"small","partitionValues":{},"size":1,"modificationTime":0,"dataChange":true}}'
)


def count_for_compaction(spark: SparkSession, target: DeltaTarget, *, created: bool) -> None:
    """Tell Delta's auto compaction how many files a table has, so that it waits until there are enough.

    Of a table that this process has not written yet Delta knows no number, and compacts whatever its first commit
    writes (AutoCompactPartitionStats: a partition that was not compacted yet is a candidate). An unpartitioned table
    with fewer files than `minNumFiles` is entered as compacted, with these files; others are left to Delta. An empty
    table is entered with one file, since Delta forgets partitions without any.
    """
    try:
        snapshot = _newest_snapshot(spark, target)
        known = snapshot.numOfFilesIfKnown()
        # a table without a checksum file is counted in a Spark job; a new one is empty, and often has none yet
        files = 0 if created else known.get() if known.isDefined() else snapshot.numOfFiles()
        table_id = snapshot.deltaLog().tableId()
        delta = jvm_of(spark).org.apache.spark.sql.delta
        stats = delta.stats.AutoCompactPartitionStats.instance(java_session(spark))
        enough = int(spark.conf.get(_MIN_FILES, str(DEFAULT_MIN_FILES)) or DEFAULT_MIN_FILES)
        if files >= enough or stats.maxNumFilesInTable(table_id):
            return
        collector = stats.createStatsCollector(2, None)
        add = delta.actions.Action.fromJson(_SMALL_FILE)
        for _ in range(max(1, files)):
            collector.collectPartitionStatsForAdd(add)
        collector.finalizeStats(table_id)
        sets = getattr(getattr(jvm_of(spark).scala.collection.immutable, "Set$"), "MODULE$")
        stats.markPartitionsAsCompacted(table_id, sets.empty().incl(add.partitionValues()))
    except (Py4JError, PySparkException) as error:
        # compaction is a convenience: without its numbers it runs once too often
        log.info("auto compaction of %s counts no files: %s", target.shown, error)


def _stored(spark: SparkSession, snapshot: Any, application: str | None) -> StoredTable:
    last = NONE_WRITTEN if application is None else written_batch(spark, snapshot, application)
    written = None if last == NONE_WRITTEN else last
    return StoredTable(
        id=snapshot.metadata().id(), version=int(snapshot.version()), written=written
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaWriter:
    """Appends to a Delta table, or replaces rows of it by its PRIMARY KEY: by their positions, or by MERGE.

    Columns are matched by name, NOT NULL is checked for every row. `adds_columns`: declared columns that the table
    lacks are added when a run is prepared. `merges` says why MERGE writes into whatever table; None: where the table
    does not take rows by position.
    """

    target: DeltaTarget
    adds_columns: bool = False
    merges: str | None = None
    upkeep: FileMaintenance = field(default_factory=FileMaintenance)
    _optimizer: Optimizer = field(default_factory=Optimizer, compare=False, repr=False)
    _committed: CommittedBatches = field(init=False, compare=False, repr=False)
    _noted: NotedVersions = field(init=False, compare=False, repr=False)
    _changed: set[str] = field(default_factory=set, compare=False, repr=False)
    behind: UpkeepBehind = field(init=False, compare=False, repr=False)
    _upserts: Upserts = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Begin without anything to do behind batches."""
        ahead, committed = KeysAhead(), CommittedBatches(target=self.target)
        object.__setattr__(self, "_committed", committed)
        object.__setattr__(self, "_noted", NotedVersions(target=self.target))
        object.__setattr__(self, "behind", UpkeepBehind(target=self.target, keys=ahead))
        object.__setattr__(self, "_upserts", Upserts(committed=committed, ahead=ahead))

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        """Create the table, or check that the existing one accepts rows of `schema`. Raises InputError, SinkError."""
        created = not exists(self.target, spark)
        if created:
            create(self.target, spark, vectors=self.merges is None and decide_new(self.target))
        elif self.adds_columns:
            add_missing_columns(spark, self.target)
        # a new one too: another process may have been first
        check_writable(self.target, spark, schema)
        stored = _newest_snapshot(spark, self.target).metadata().schemaString()
        check_numbered(self.target, stored, schema)
        if self.upkeep.auto_compaction and not self.target.table.partition_keys:
            count_for_compaction(spark, self.target, created=created)
        if self._merge is not None:
            self._log_upserts()

    def _log_upserts(self) -> None:
        if self.merges is None:
            self._upserts.log_start()
        else:
            log_way(self.target, self.merges)

    def check_resumes(
        self, spark: SparkSession, checkpoint: str, sink: str, *, notes: bool = True
    ) -> None:
        """Check that the table is the one that the checkpoint was written with; batches of it go into no other one."""
        if not exists(self.target, spark):
            raise lost_table(self.target)
        noted = check_resumes(
            spark,
            self.target,
            checkpoint,
            sink,
            commits_empty=self._merge is None,
            notes=notes,
        )
        self._committed.started(checkpoint, sink, noted.id)
        if notes and self._merge is not None:
            self._noted.started(checkpoint, sink, noted)

    def start(self, frame: DataFrame, settings: SinkSettings) -> StreamingQuery:
        """Start writing. Raises StateMismatchError for a table that does not go with the checkpoint."""
        self.check_resumes(frame.sparkSession, settings.checkpoint, "")
        return micro_batch_query(frame, settings, self.write_batch)

    def write_batch(self, frame: DataFrame, batch: MicroBatch) -> None:
        """Write the rows of a micro-batch in one commit, unless the table has it already.

        Raises StateMismatchError for a batch that the table has with another content, and for a table that is another
        one than at the start.
        """
        with configured(batch.spark, self.upkeep.stream_settings):
            self._write_batch(frame, batch)
            self._noted.note_if_due(batch)
            self._optimizer.run_if_due(batch.spark, self.target, self.upkeep.optimize_interval_ms)

    def start_files(
        self, files: DataFrame, settings: SinkSettings, output: FileOutput
    ) -> StreamingQuery:
        """Start committing the files of tasks. Raises as `start`."""
        self.check_resumes(files.sparkSession, settings.checkpoint, "")
        return micro_batch_query(
            files, settings, lambda rows, batch: self.write_files(rows, batch, output)
        )

    def write_files(self, files: DataFrame, batch: MicroBatch, output: FileOutput) -> None:
        """Commit the files that tasks write for a micro-batch, unless the table has it already.

        Raises StateMismatchError as `write_batch`; SinkError where a file is gone.
        """
        with configured(batch.spark, self.upkeep.stream_settings):
            written = UncommittedFiles(files=collect_files(files), output=output)
            self._write_files(written, batch)
            self._optimizer.run_if_due(batch.spark, self.target, self.upkeep.optimize_interval_ms)

    def _write_files(self, written: UncommittedFiles, batch: MicroBatch) -> None:
        reach("files-written")
        batch.check_lease()
        if commit_files(self._committed, written, batch, self.behind):
            return
        if batch.application_id not in self._changed:
            self._changed.add(batch.application_id)
            log.warning(
                "the Delta table at %s was changed since the query began: Spark writes its rows until the query is "
                "started again",
                self.target.shown,
            )
        self._append(read_files(written, batch), batch)
        remove_files(written)

    def write(self, frame: DataFrame) -> None:
        """Write a batch frame, in one transaction."""
        with configured(frame.sparkSession, self.upkeep.settings):
            if self._merge is None:
                frame.write.format("delta").mode("append").save(self.target.location)
            else:
                self._merge.run(frame)

    def _write_batch(self, frame: DataFrame, batch: MicroBatch) -> None:
        if self._merge is None:
            self._append(frame, batch)
        elif not (self.merges is None and self._upserts.write(frame, batch, self.behind)):
            self._merge.run_batch(frame, batch, self._committed)

    @property
    def _merge(self) -> Merge | None:
        key = self.target.table.schema.primary_key
        return None if key is None else Merge(target=self.target, keys=key.columns)

    def _append(self, frame: DataFrame, batch: MicroBatch) -> None:
        with translate_errors(self.target.shown):
            transaction = self._committed.begin(batch)
            if transaction is None:
                discard_batch(frame)
                return
            if transaction.takes(frame):
                files = transaction.write(frame)
                added = files.size()
                self.behind.prepare(transaction)
                counts = {"numAddedFiles": added, "numRemovedFiles": 0}
                version = transaction.commit(files, counts)
                self.behind.done(transaction, version, added)
                return
            writer = frame.write.format("delta").mode("append")
            writer = writer.option("userMetadata", transaction.note)
            writer = writer.option("txnAppId", batch.application_id)
            writer.option("txnVersion", batch.batch_id).save(self.target.location)
