"""What a Delta table needs beside its commits, behind the batches of a query: files put together, log checkpoints.

The argument for compaction: files get names that nobody else has; Delta commits them in place of the others only if
these are of the table, as they are in the version that the transaction began on. What was deleted of them since they
were read is deleted in the new file, too (`files/replacing.py`). No rows change (`dataChange` is false), so nothing of
a batch depends on it: what is not committed is left for VACUUM, and a lost race is tried again. It is Arrow on one
thread of the driver, without a job of Spark. Batches of this process that replace rows by their positions and the
commits of the thread wait for each other; the keys of the new file are read before its commit. A table that has more
than the tasks' writer knows (`task_output.py`), and one that rows are merged into, keep Delta's own compaction, in the
batch.
"""

from __future__ import annotations

import atexit
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Condition, Lock, Thread
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession

from penstock.catalog.errors import SinkError
from penstock.connector.contract import LostLease
from penstock.connector.delta.files.deletion_vector import VectorFolder
from penstock.connector.delta.files.file_keys import KeysAhead, UnreadableKeysError
from penstock.connector.delta.files.live_files import LiveFile
from penstock.connector.delta.files.replacing import (
    ChangedSourcesError,
    RewrittenFile,
    RewrittenFiles,
    with_deleted_rows,
)
from penstock.connector.delta.files.rewriting import Rewriting, size_of
from penstock.connector.delta.files.small_files import CompactionLimits, SmallFile, SmallFiles
from penstock.connector.delta.log import LogForm
from penstock.connector.delta.options import CHECKPOINT_INTERVAL, DELETION_VECTORS, DeltaTarget
from penstock.connector.delta.task_commit import differ, for_session
from penstock.connector.delta.task_output import task_output
from penstock.connector.delta.transaction import (
    CONFLICTS,
    TableTransaction,
    Transaction,
    begin,
    checkpoint_log,
    last_checkpoint,
)
from penstock.connector.failpoints import reach
from penstock.connector.file_output import FileOutput, WrittenByEngine, WrittenFile
from penstock.connector.spark.internals import clone_session, running_context
from penstock.connector.storage import open_folder

log = logging.getLogger(__name__)

_USUAL_INTERVAL = 10
"""Delta's commits between two checkpoints of the log, where the table does not say."""
_LONGEST_INTERVAL = 200
"""The most commits between two checkpoints that are written behind batches: readers open so many files of the log."""
IDLE_S = 60
"""The thread ends when nothing was due for so long."""
END_WAIT_S = 5
"""What the end of the process waits for work that has begun; without Spark there is nothing to commit it to."""

ATTEMPTS = 3
"""Attempts at a commit where those of others are in the way: each is a look at the log, and a small file at most."""
FEWEST = 2
"""Files of the table that one takes the place of; where fewer are left nothing is gained."""

_ONE_TASK = {
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.openCostInBytes": "0",
}
"""Settings by which a checkpoint of the log takes one task at a time: batches that come meanwhile have other cores."""

_AUTO = "spark.databricks.delta.autoCompact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What is done behind a query's batches, decided by the table's metadata and protocol, and the session's settings.

    `output`: how files are written; None where compaction is off, or Delta's own.
    """

    output: FileOutput | None
    limits: CompactionLimits
    checkpoint_interval: int


@dataclass(slots=True, kw_only=True)
class UpkeepBehind:
    """Does the upkeep of one table behind the batches of this process's queries: by a thread of its own, which lives
    while there is something to do; on the batch's thread where the query ends with what is there.

    `prepare` and `done` are called by the thread of the batch, around its commit. `keys` gets those of new files.
    """

    target: DeltaTarget
    keys: KeysAhead = field(default_factory=KeysAhead)
    _commits: Lock = field(default_factory=Lock, init=False)
    _known: tuple[str, Upkeep | None] | None = field(default=None, init=False)
    _work: Condition = field(default_factory=Condition, init=False)
    _due: _Work | None = field(default=None, init=False)
    _thread: Thread | None = field(default=None, init=False)
    _files: SmallFiles | None = field(default=None, init=False)
    _table: str = field(default="", init=False)
    _session: SparkSession | None = field(default=None, init=False)
    _new_files: int = field(default=0, init=False)
    _checkpointed: int | None = field(default=None, init=False)
    failures: int = field(default=0, init=False)
    lost_races: int = field(default=0, init=False)

    def alone(self) -> AbstractContextManager[object]:
        """Surround a commit that replaces rows: files are not replaced meanwhile."""
        return self._commits

    def prepare(self, transaction: Transaction) -> None:
        """Take from a commit what is done behind it. Again after each write of files, which asks for it.

        Where it cannot be decided what that is, Delta's commit keeps it all.
        """
        upkeep = self._upkeep(transaction)
        if upkeep is None:
            return
        if upkeep.output is not None:
            transaction.compact_in_commit(False)
        if not transaction.batch.ends:
            transaction.leave_checkpoint()

    def done(self, transaction: Transaction, version: int, new_files: int) -> None:
        """Have done what is due after a commit. No error of it is one of the batch, which is committed."""
        upkeep = self._upkeep(transaction)
        if upkeep is not None:
            with self._reporting_errors("upkeep"):
                self._plan(upkeep, transaction, version, new_files)

    def _plan(self, upkeep: Upkeep, transaction: Transaction, version: int, new_files: int) -> None:
        batch = transaction.batch
        if self._checkpointed is None:
            self._begin(transaction, upkeep.limits)
        self._new_files += new_files
        compacts = upkeep.output is not None and self._new_files >= upkeep.limits.enough
        since = version - (self._checkpointed or 0)
        checkpoints = not batch.ends and since >= upkeep.checkpoint_interval
        if not compacts and not checkpoints:
            return
        if compacts:
            self._new_files = 0
        if checkpoints:
            # one that fails is tried again an interval later
            self._checkpointed = version
        work = _Work(
            spark=batch.spark,
            upkeep=upkeep,
            lost_lease=batch.lost_lease,
            compacts=compacts,
            checkpoints=checkpoints,
        )
        if batch.ends:
            self._do(work)
            return
        self._hand_over(replace(work, spark=self._session_beside(batch.spark)))

    def _session_beside(self, spark: SparkSession) -> SparkSession:
        """Return a session for the thread: with the settings that the batch's has while it writes, and keeps not."""
        if self._session is None:
            session = clone_session(spark)
            for key, value in _ONE_TASK.items():
                session.conf.set(key, value)
            self._session = session
        return self._session

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is left to do; False where something is."""
        with self._work:
            return self._work.wait_for(lambda: self._due is None, seconds)

    def _begin(self, transaction: Transaction, limits: CompactionLimits) -> None:
        """Take what was there before the first commit of this process for new."""
        snapshot = transaction.java.snapshot()
        self._checkpointed = max(0, int(snapshot.checkpointProvider().version()))
        known = snapshot.numOfFilesIfKnown()
        # without a checksum the log is looked at
        self._new_files = int(known.get()) if known.isDefined() else limits.enough

    def _upkeep(self, transaction: Transaction) -> Upkeep | None:
        """Return what is done for a table of this form; None where that cannot be decided, which is told once."""
        metadata, protocol = transaction.metadata, transaction.protocol
        text = f"{metadata}{protocol}"
        if self._known is None or self._known[0] != text:
            upkeep = None
            with self._reporting_errors("upkeep"):
                form = LogForm(metadata=metadata, protocol=protocol)
                upkeep = decide_upkeep(transaction, self.target, form)
            self._known = (text, upkeep)
        return self._known[1]

    # --- the thread ---

    def _hand_over(self, work: _Work) -> None:
        with self._work:
            self._due = work if self._due is None else self._due.joined(work)
            self._work.notify_all()
            if self._thread is None:
                self._thread = Thread(target=self._run, name="penstock upkeep", daemon=True)
                self._thread.start()
                atexit.register(self._end)

    def _run(self) -> None:
        while True:
            with self._work:
                self._work.wait_for(lambda: self._due is not None, IDLE_S)
                work = self._due
                if work is None:
                    self._thread = None
                    atexit.unregister(self._end)
                    return
            self._do(work)
            with self._work:
                if self._due is work:
                    self._due = None
                    self._work.notify_all()

    def _do(self, work: _Work) -> None:
        """Do what is due; an error is told and counted, and never one of the query."""
        if work.compacts:
            with self._reporting_errors("compaction"):
                self._compact(work)
        if work.checkpoints:
            with self._reporting_errors("checkpoint of the log"):
                self._checkpoint(work)

    def _end(self) -> None:
        """Let what was begun end with the process, which has ended Spark: its file is removed."""
        if not self.wait(END_WAIT_S):
            log.warning(
                "the process ends while files of the Delta table at %s are put together; a new one is left for VACUUM",
                self.target.shown,
            )

    @contextmanager
    def _reporting_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001  a thread that ends leaves all later work undone
            if _stopped():
                log.info("%s of the Delta table at %s is left undone", what, self.target.shown)
                return
            self.failures += 1
            log.warning(
                "%s of the Delta table at %s failed (%d so far), and is tried again later: %s",
                what,
                self.target.shown,
                self.failures,
                _first_line(error),
            )

    def _compact(self, work: _Work) -> None:
        assert work.upkeep.output is not None, "asked before"
        while True:
            transaction = _begun(work.spark, self.target)
            if self._has_changed(transaction, work.upkeep.output):
                return
            version = transaction.version
            files = self._followed(transaction.metadata["id"], version, work.upkeep.limits)
            if not (due := files.due()):
                return
            try:
                if not self._put_together(files, due, version, work):
                    return
            except (*CONFLICTS, LostRaceError, ChangedSourcesError) as error:
                self.lost_races += 1
                values = (self.target.shown, self.lost_races, _first_line(error))
                log.debug("compaction of %s: another writer was first (%d so far): %s", *values)
                return

    def _has_changed(self, transaction: TableTransaction, output: FileOutput) -> bool:
        """Tell that the table is no longer one that has files as of `output`."""
        form = LogForm(metadata=transaction.metadata, protocol=transaction.protocol)
        return differ(task_output(self.target, form, ()), output)

    def _put_together(
        self, known: SmallFiles, due: list[SmallFile], version: int, work: _Work
    ) -> bool:
        """Put files of a version together and commit that; False where nothing was committed.

        Raises LostRaceError, ChangedSourcesError, and what reading, writing and the commit raise.
        """
        output = work.upkeep.output
        assert output is not None, "asked before"
        rewriting = Rewriting(output=output)
        try:
            written = rewriting.run(due)
        finally:
            known.pass_over(rewriting.left_out)
        if written is None:
            return bool(rewriting.left_out)
        reach("put-together")
        if _stopped():
            _remove(output, written)
            return False
        sources = RewrittenFiles(files=rewriting.used, version=version)
        add = _add(rewriting.used, written)
        with suppress(UnreadableKeysError):
            # the batch's thread will find that, too
            self.keys.read(LiveFile(add=add))
        try:
            self._replace(sources, add, written, work)
        except BaseException:
            self.keys.take(written.path)
            raise
        reach("replaced")
        return True

    def _replace(
        self, sources: RewrittenFiles, add: Mapping[str, Any], written: WrittenFile, work: _Work
    ) -> None:
        """Commit a file in place of its sources, to later versions where others' commits are in the way."""
        for left in reversed(range(ATTEMPTS)):
            try:
                with self._commits:
                    self._attempt(sources, add, written, work)
            except CONFLICTS:
                if not left:
                    raise
            else:
                return

    def _attempt(
        self, sources: RewrittenFiles, add: Mapping[str, Any], written: WrittenFile, work: _Work
    ) -> None:
        output = work.upkeep.output
        assert output is not None, "asked before"
        transaction = _begun(work.spark, self.target)
        if self._table != transaction.metadata["id"] or self._has_changed(transaction, output):
            raise LostRaceError("the table was changed")
        folder = open_folder(self.target.location, shown=self.target.shown)
        live = sources.at(folder, transaction.version)
        vectors = VectorFolder(folder=Path(output.folder))
        deleted = sources.deleted(live, vectors)
        if len(live) < FEWEST or len(deleted) == written.rows:
            raise LostRaceError("the files were removed")
        if len(deleted) and not _has_vectors(transaction):
            raise LostRaceError("rows were removed")
        added = with_deleted_rows(add, written.rows, deleted, vectors)
        removed = list(sources.removed(live, time.time_ns() // 1_000_000))
        reach("carried-over")
        if work.lost_lease is not None and work.lost_lease() is not None:
            _remove(output, written)
            raise LostRaceError("another runner has the lease")
        vector = added["add"].get("deletionVector")
        if vector is not None and not vectors.has(vector):
            raise LostRaceError("the file of its vector was removed, as by VACUUM")
        if (size := size_of(output, written.path)) is None:
            raise LostRaceError(f"the file {written.path} was removed, as by VACUUM")
        if size != written.size_bytes:
            raise SinkError(f"the file {written.path} was changed before it was committed")
        # whatever becomes of the commit, the file stays: one that the log names must not go
        transaction.leave_checkpoint()
        transaction.compact([*removed, added], _counts(removed, written))

    def _followed(self, table_id: str, version: int, limits: CompactionLimits) -> SmallFiles:
        if self._files is None or (self._table, self._files.limits) != (table_id, limits):
            self._files, self._table = SmallFiles(limits=limits), table_id
        self._files.follow(open_folder(self.target.location, shown=self.target.shown), version)
        return self._files

    def _checkpoint(self, work: _Work) -> None:
        spark = work.spark
        spark.sparkContext.setJobGroup(
            "penstock upkeep", f"checkpoint of the log of the Delta table at {self.target.shown}"
        )
        version, last = last_checkpoint(spark, self.target.location)
        if version - last >= work.upkeep.checkpoint_interval:
            last = checkpoint_log(spark, self.target.location)
        self._checkpointed = last


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What is due behind a batch."""

    spark: SparkSession
    upkeep: Upkeep
    lost_lease: LostLease | None
    compacts: bool
    checkpoints: bool

    def joined(self, later: _Work) -> _Work:
        """Return what is due now, with what was due before and is not begun."""
        return _Work(
            spark=later.spark,
            upkeep=later.upkeep,
            lost_lease=later.lost_lease,
            compacts=self.compacts or later.compacts,
            checkpoints=self.checkpoints or later.checkpoints,
        )


def decide_upkeep(transaction: TableTransaction, target: DeltaTarget, form: LogForm) -> Upkeep:
    """Decide by a table's form, and by the settings of the session, which the caller has made those of a stream."""
    spark = transaction.spark
    properties: Mapping[str, str] = form.metadata.get("configuration") or {}
    by_key = {key.lower(): value for key, value in properties.items()}
    output: FileOutput | WrittenByEngine = WrittenByEngine(reason="compaction is off")
    if transaction.compacts_by_settings():
        output = task_output(target, form, ())
    if isinstance(output, FileOutput):
        output = for_session(spark, target, output)
    return Upkeep(
        output=output if isinstance(output, FileOutput) else None,
        limits=_limits(spark),
        checkpoint_interval=min(
            int(by_key.get(CHECKPOINT_INTERVAL, _USUAL_INTERVAL)), _LONGEST_INTERVAL
        ),
    )


def _limits(spark: SparkSession) -> CompactionLimits:
    """Read Delta's settings of auto compaction."""
    usual = CompactionLimits()
    file_bytes = int(spark.conf.get(f"{_AUTO}.maxFileSize", None) or usual.file_bytes)
    return CompactionLimits(
        enough=max(2, int(spark.conf.get(f"{_AUTO}.minNumFiles", None) or usual.enough)),
        small_bytes=int(spark.conf.get(f"{_AUTO}.minFileSize", None) or file_bytes // 2),
        file_bytes=file_bytes,
    )


class LostRaceError(Exception):
    """Another writer changed the table before a compaction was committed, which is done behind a later batch."""


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0] or type(error).__name__


def _stopped() -> bool:
    """Tell whether Spark has ended."""
    return running_context()[0] is None


# --- one compaction ---


def _begun(spark: SparkSession, target: DeltaTarget) -> TableTransaction:
    return TableTransaction(spark=spark, java=begin(spark, target.location))


def _has_vectors(transaction: TableTransaction) -> bool:
    """Tell whether files of a table may get deletion vectors."""
    properties = transaction.metadata.get("configuration") or {}
    enabled = {key.lower(): value for key, value in properties.items()}.get(DELETION_VECTORS, "")
    features = transaction.protocol.get("writerFeatures") or ()
    return enabled.lower() == "true" and "deletionVectors" in features


def _add(used: Sequence[RewrittenFile], written: WrittenFile) -> dict[str, Any]:
    return {
        "path": written.path,
        "partitionValues": dict(used[0].file.partition),
        "size": written.size_bytes,
        "modificationTime": time.time_ns() // 1_000_000,
        "dataChange": False,
        "stats": written.statistics,
    }


def _counts(removed: Sequence[Mapping[str, Any]], written: WrittenFile) -> dict[str, int]:
    """Count what the history of the table shows of the commit."""
    return {
        "numAddedFiles": 1,
        "numRemovedFiles": len(removed),
        "numAddedBytes": written.size_bytes,
        "numRemovedBytes": sum(action["remove"]["size"] for action in removed),
    }


def _remove(output: FileOutput, written: WrittenFile) -> None:
    (Path(output.folder) / unquote(written.path)).unlink(missing_ok=True)
