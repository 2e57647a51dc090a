"""Writing files exactly once: staged by Spark or by reading tasks, listed in a manifest, then moved into place.

    _penstock/<writer>/<batch>-<attempt>/  1 the batch is written here; each attempt has a folder of its own
    _penstock/<writer>/<batch>.json        2 the manifest, whole or not there: from now on the batch is decided
    part-<writer>-<batch>-<n>.json         3 each file is renamed, and looked at in its place
    day=2026-01-31/_SUCCESS                4 the folder's success file, where one is asked for
    _penstock/<writer>/<batch>.done        5 all of it is there; then older manifests and what is staged are removed

A driver that dies at any point resumes by the manifest when Spark runs the batch again. One that was paused and comes
back behind its successor finds the manifest, and the files in their places, and removes neither: of two attempts at a
batch one has the manifest, and the other takes that for its own. Readers see whole files only, but may see a part of a
batch while its files are being moved.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event
from typing import TYPE_CHECKING
from uuid import uuid4

from py4j.protocol import Py4JJavaError

from penstock.catalog.definitions.leases import Owner, is_gone, this_process
from penstock.catalog.errors import ConfigError, PenstockError, SinkError, StateMismatchError
from penstock.catalog.model.identifier import quoted
from penstock.connector.capabilities import TableEditor
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import (
    Guarantee,
    LostLease,
    MicroBatch,
    Sink,
    SinkCapabilities,
    SinkSettings,
    TaskWriter,
    check_lease,
)
from penstock.connector.failpoints import reach
from penstock.connector.file_output import FileOutput, FilledColumn, TaskOutput, WrittenByEngine
from penstock.connector.filesystem.sink.manifest import (
    LEDGER_FOLDER,
    Manifest,
    batch_of,
    done_name,
    manifest_of,
    newest,
    staging_name,
    writer_name,
)
from penstock.connector.filesystem.sink.publish import (
    PublishFolders,
    ReplacedPartitions,
    partitions_of,
    publish,
    visible_files,
)
from penstock.connector.filesystem.sink.target import FileTarget
from penstock.connector.filesystem.sink.task_output import task_output
from penstock.connector.spark import hadoop_files
from penstock.connector.spark.sink.last_batch import LastBatch, is_written
from penstock.connector.spark.sink.micro_batch import batch_digest, discard_batch, micro_batch_query
from penstock.connector.spark.sink.target_rows import check_complete, target_rows
from penstock.connector.spark.sink.task_files import collect_files, count_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

INSERT = "insert-"
"""Writers of INSERT .. VALUES, which have no checkpoint."""

SMALL_BYTES = 64 << 10
"""A lone file below this may be one without rows, which is looked into."""

ATTEMPTS = 3
"""How often the files of an INSERT .. VALUES are moved before it fails: its rows are decided on by then."""

RETRY_S = 1.0

DECIDED = (
    "the rows are decided on, and come with the next statement that writes into the table: do not "
    "repeat this one"
)

LOOKS = 10
"""How often a manifest is looked for that others remove in the same moment."""

_at_work: set[str] = set()
"""Tokens of this process's INSERT .. VALUES that are being written."""

_JAVA_CLASS = re.compile(r"^(?:[a-z_][\w$]*\.)+[A-Z][\w$]*:\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemSink(Sink, TableEditor):
    """Adds files to a folder. Only one runner of a pipeline writes at a time, which its lease sees to.

    One that does not know yet that it has lost the lease does no harm. `lost_lease` is asked by batch statements;
    micro-batches bring their own.
    """

    target: FileTarget
    lost_lease: LostLease | None = field(default=None, repr=False, compare=False)

    def under_lease(self, lost_lease: LostLease) -> FilesystemSink:
        """Return a sink whose batch statements ask for their lease."""
        return replace(self, lost_lease=lost_lease)

    @property
    def capabilities(self) -> SinkCapabilities:
        """A batch that is run again changes nothing; rows that stay."""
        return SinkCapabilities(guarantee=Guarantee.EXACTLY_ONCE, accepts=ChangelogMode.INSERT_ONLY)

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        """Make the folder, and finish INSERT .. VALUES of processes that are gone. Raises InputError, SinkError."""
        check_complete(self.target.schema, schema.names, owner=self.target.owner)
        with self._explained():
            if not hadoop_files.make_directory(spark, self.target.root):
                raise ConfigError(
                    f"{self.target.owner}: {self.target.shown} is a file",
                    hint="'path' names a folder, in which files are made",
                )
            self._finish_inserts(spark, alone=False)

    def start(self, frame: DataFrame, settings: SinkSettings) -> StreamingQuery:
        """Start the streaming query."""
        return micro_batch_query(frame, settings, self.write_batch)

    @property
    def task_writer(self) -> FilesystemTaskWriter | None:
        """Tasks write Parquet."""
        if self.target.format.source != "parquet":
            return None
        return FilesystemTaskWriter(sink=self)

    def write_batch(self, frame: DataFrame, batch: MicroBatch) -> None:
        """Add the files of a micro-batch. Raises StateMismatchError where the folder is not the checkpoint's."""
        self._write_batch(batch, partial(self._stage, frame), partial(discard_batch, frame))

    def write_files(self, files: DataFrame, batch: MicroBatch) -> None:
        """Add the files that tasks write for a micro-batch. Raises as `write_batch`."""
        self._write_batch(batch, partial(self._stage_files, files), partial(count_rows, files))

    def _write_batch(
        self,
        batch: MicroBatch,
        stage: Callable[[LastBatch, str], Manifest],
        pass_over: Callable[[], None],
    ) -> None:
        spark, writer = batch.spark, writer_name(batch)
        digest = batch_digest(batch)
        with self._explained():
            known = self._newest(spark, writer)
            last = None if known is None else known.batch
            if is_written(last, batch, digest, target=f"folder {self.target.shown}"):
                pass_over()
            else:
                staged = stage(LastBatch(batch_id=batch.batch_id, digest=digest), writer)
                batch.check_lease()
                known = self._decide(spark, staged, writer)
            assert known is not None, "what is written has a manifest"
            self._publish(spark, known, writer, batch.check_lease)
            self._tidy(spark, known, writer)

    def write(self, frame: DataFrame) -> None:
        """Add the rows of a batch frame. The caller holds the table's lease; see `_finish_inserts`."""
        self._insert(frame)

    def overwrite(
        self, frame: DataFrame, partition: Mapping[str, str], *, whole: bool = False
    ) -> None:
        """Replace all rows by those of a batch frame (`TableEditor.overwrite`).

        As the other rows, they are decided on by the manifest, which also says which files give way to them.
        """
        self._insert(frame, ReplacedPartitions(dict(partition), whole=whole))

    def truncate(self, spark: SparkSession) -> None:
        """Remove every row; the folder stays. The caller holds the table's lease.

        What earlier statements have decided on comes first: it would be there again after the next one.
        """
        with self._explained():
            self._finish_inserts(spark, alone=True)
            for name in visible_files(hadoop_files.list_files(spark, self.target.root)):
                hadoop_files.delete(spark, self._path(name))

    def partitions(self, spark: SparkSession) -> Sequence[Mapping[str, str | None]]:
        """List the partitions that hold files."""
        with self._explained():
            names = visible_files(hadoop_files.list_files(spark, self.target.root))
        return partitions_of(names, self.target.default_partition)

    def _insert(self, frame: DataFrame, replaced: ReplacedPartitions | None = None) -> None:
        spark, owner = frame.sparkSession, this_process()
        writer = f"{INSERT}{owner.token}"
        with self._explained():
            self._finish_inserts(spark, alone=True)
            _at_work.add(owner.token)
            try:
                staged = self._stage(frame, LastBatch(batch_id=0, digest=""), writer)
                if replaced is not None:
                    staged = replace(staged, replaces=self._giving_way(spark, staged, replaced))
                # what gives way was listed before: another statement may have replaced it since
                check_lease(self.lost_lease)
                manifest = self._decide(spark, replace(staged, owner=owner), writer)
                if replaced is not None:
                    self._take_back_late(spark, manifest, writer)
                self._carry_out(spark, manifest, writer)
            finally:
                _at_work.discard(owner.token)

    def _take_back_late(self, spark: SparkSession, manifest: Manifest, writer: str) -> None:
        """Withdraw a manifest that was written after another statement's: rows added meanwhile would stay.

        What is staged stays too: a process that has read the manifest already completes it, and then the rows are as
        this one intended.
        """
        reach("decided")
        try:
            check_lease(self.lost_lease)
        except PenstockError:
            reach("taking-back")
            hadoop_files.delete(spark, self._ledger(writer, manifest.name))
            raise

    def _carry_out(self, spark: SparkSession, manifest: Manifest, writer: str) -> None:
        """Move the files of committed rows; an error says that they will be moved all the same."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with self._explained():
                    self._publish(spark, manifest, writer, partial(check_lease, self.lost_lease))
                    hadoop_files.delete(spark, self._ledger(writer))
                return
            except PenstockError as error:
                passes = isinstance(error, SinkError) and not error.permanent
                if attempt < ATTEMPTS and passes:
                    Event().wait(RETRY_S)
                    continue
                if DECIDED not in (error.hint or ""):
                    error.hint = f"{DECIDED}; {error.hint}" if error.hint else DECIDED
                raise

    def _finish_inserts(self, spark: SparkSession, *, alone: bool) -> None:
        """Finish INSERT .. VALUES that were cut off behind their manifests.

        `alone`: this process holds the table's lease, so those of other machines are over, too. Where that is not so
        after all, the other finds its files in their places.
        """
        for writer in hadoop_files.list_names(spark, self._ledger("")):
            manifest = self._newest(spark, writer) if writer.startswith(INSERT) else None
            if manifest is not None and _is_over(manifest.owner, alone=alone):
                self._publish(spark, manifest, writer)
                hadoop_files.delete(spark, self._ledger(writer))

    def _stage(self, frame: DataFrame, batch: LastBatch, writer: str) -> Manifest:
        """Write the rows to the staging folder, and list their files."""
        spark, staging = frame.sparkSession, staging_name(batch.batch_id, uuid4().hex[:8])
        folder = self._ledger(writer, staging)
        rows = self._shaped(target_rows(frame, self.target.schema))
        with _removed_on_failure(spark, folder):
            self._save(rows, folder)
        staged = {
            name: size for name, size in hadoop_files.list_files(spark, folder).items() if size
        }
        manifest = manifest_of(
            {} if self._is_empty(rows, folder, staged) else staged,
            batch,
            writer=writer,
            staging=staging,
            default_partition=self.target.default_partition,
        )
        hadoop_files.sync(spark, folder, (file.staged for file in manifest.files))
        return manifest

    def _stage_files(self, files: DataFrame, batch: LastBatch, writer: str) -> Manifest:
        """Have tasks write their files to the staging folder, durably, and list them."""
        spark, staging = files.sparkSession, staging_name(batch.batch_id, uuid4().hex[:8])
        folder = self._ledger(writer, staging)
        with _removed_on_failure(spark, folder):
            hadoop_files.make_directory(spark, folder)
            written = collect_files(files, f"{LEDGER_FOLDER}/{writer}/{staging}")
        reach("files-written")
        return manifest_of(
            {file.path: file.size_bytes for file in written},
            batch,
            writer=writer,
            staging=staging,
            default_partition=self.target.default_partition,
        )

    def _save(self, rows: DataFrame, folder: str) -> None:
        made = rows.write.format(self.target.format.source).options(**self.target.format.options)
        if self.target.options.max_rows_per_file is not None:
            made = made.option("maxRecordsPerFile", self.target.options.max_rows_per_file)
        made.partitionBy(*self.target.partition_keys).save(folder)

    def _giving_way(
        self, spark: SparkSession, staged: Manifest, replaced: ReplacedPartitions
    ) -> tuple[str, ...]:
        present = visible_files(hadoop_files.list_files(spark, self.target.root))
        keys, default = self.target.partition_keys, self.target.default_partition
        return replaced.among(present, staged.folders, keys=keys, default_partition=default)

    def _decide(self, spark: SparkSession, staged: Manifest, writer: str) -> Manifest:
        """Write the manifest of a batch, and return the one that exists then: of two attempts one wins.

        That of an INSERT .. VALUES may be removed at once: the next statement, or a start of a pipeline on this
        machine, has moved the files then. Raises StateMismatchError where other runners are beyond this batch, and its
        manifest is gone already.
        """
        path = self._ledger(writer, staged.name)
        written = hadoop_files.write_text(spark, path, staged.encode())
        found = self._newest(spark, writer)
        if found is None and writer.startswith(INSERT):
            return staged
        assert found is not None, "just written"
        if found.batch != staged.batch:
            if written:
                hadoop_files.delete(spark, path)
            raise StateMismatchError(
                f"folder {self.target.shown} holds batch {found.batch.batch_id} of this pipeline, which was not there "
                f"when batch {staged.batch.batch_id} was begun: another runner is at work",
                hint="was this one paused? Start it again when no other runner is left",
            )
        return found

    def _publish(
        self,
        spark: SparkSession,
        manifest: Manifest,
        writer: str,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        publish(
            spark,
            manifest,
            PublishFolders(root=self.target.root, ledger=self._ledger(writer)),
            success_file=self.target.options.success_file,
            check_lease=check,
        )

    def _tidy(self, spark: SparkSession, known: Manifest, writer: str) -> None:
        """Remove what batches up to this one have left. What is of a later one, another runner needs."""
        kept = (known.name, done_name(known.batch.batch_id))
        for name in hadoop_files.list_names(spark, self._ledger(writer)):
            batch = batch_of(name)
            if batch is not None and batch <= known.batch.batch_id and name not in kept:
                hadoop_files.delete(spark, self._ledger(writer, name))

    def _shaped(self, rows: DataFrame) -> DataFrame:
        """Distribute rows over as many tasks as asked for, those of a folder to one."""
        keys = [quoted(key) for key in self.target.partition_keys]
        tasks = self.target.options.parallelism
        if self.target.options.shuffle_by_partition and keys:
            return rows.repartition(tasks, *keys) if tasks else rows.repartition(*keys)
        return rows.repartition(tasks) if tasks else rows

    def _is_empty(self, rows: DataFrame, folder: str, staged: dict[str, int]) -> bool:
        """Return whether there are no rows: Spark writes one file for them in formats that have a schema."""
        names = [name for name in staged if not name.rpartition("/")[2].startswith(("_", "."))]
        if self.target.format.source not in ("parquet", "orc") or len(names) != 1:
            return not names
        if staged[names[0]] > SMALL_BYTES or "/" in names[0]:
            return False
        reader = rows.sparkSession.read.schema(rows.schema).format(self.target.format.source)
        return reader.load(folder).isEmpty()

    def _newest(self, spark: SparkSession, writer: str) -> Manifest | None:
        """Read the newest manifest of a writer; None where there is none, or no more: others remove what is done."""
        for _ in range(LOOKS):
            name = newest(hadoop_files.list_names(spark, self._ledger(writer)))
            if name is None:
                return None
            path = self._ledger(writer, name)
            text = hadoop_files.read_text(spark, path)
            if text is not None:
                return Manifest.decode(text, path=path)
        raise SinkError(
            f"{self._ledger(writer)} lists a manifest that cannot be found",
            hint="who else removes files?",
        )

    def _ledger(self, *names: str) -> str:
        return self._path("/".join([LEDGER_FOLDER, *(name for name in names if name)]))

    def _path(self, name: str) -> str:
        root = self.target.root.rstrip("/")
        return f"{root}/{name}" if name else root

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except ConnectionError:
            raise  # Spark's Java process is gone
        except OSError as error:  # of this machine's disk
            raise SinkError(
                f"{self.target.owner}: {self.target.shown} cannot be written: {error}"
            ) from error
        except Py4JJavaError as error:
            text = str(error.java_exception.toString()).strip().split("\n", 1)[0]
            if text.startswith("org.apache.spark."):
                raise  # of the query, in whose text there may be an error of ours
            if "No FileSystem for scheme" in text or "FileSystem not found" in text:
                raise ConfigError(
                    f"Spark has no file system for {self.target.shown}",
                    hint="add its jars, such as --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:<version>",
                ) from error
            raise SinkError(
                f"{self.target.owner}: {self.target.shown} cannot be written: {_JAVA_CLASS.sub('', text)}"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemTaskWriter(TaskWriter):
    """Takes the files of tasks for the table of a sink (`TaskWriter`)."""

    sink: FilesystemSink

    def output(
        self,
        filled: Sequence[FilledColumn],
        spark: SparkSession | None = None,
        checkpoint: str | None = None,  # noqa: ARG002  of the contract
    ) -> FileOutput | WrittenByEngine:
        """Decide by the table's definition, and the settings of the session."""
        return task_output(self.sink.target, filled, spark)

    def start(self, files: DataFrame, settings: SinkSettings, output: TaskOutput) -> StreamingQuery:  # noqa: ARG002  of the contract
        """Start the streaming query."""
        return micro_batch_query(files, settings, self.sink.write_files)

    def write_batch(self, files: DataFrame, batch: MicroBatch, output: TaskOutput) -> None:  # noqa: ARG002  of the contract
        """Move the files of a micro-batch into place. Raises as the sink's `write_batch`."""
        self.sink.write_files(files, batch)


@contextmanager
def _removed_on_failure(spark: SparkSession, folder: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(Exception):  # the reason is told, not what came of tidying up
            hadoop_files.delete(spark, folder)
        raise


def _is_over(owner: Owner | None, *, alone: bool) -> bool:
    """Return whether an INSERT .. VALUES is no longer being written. None: an older version did not
    note its process.
    """
    here = this_process()
    if owner is None:
        return True
    if (owner.host, owner.boot_id) != (here.host, here.boot_id):
        return alone
    if owner.pid == os.getpid() and owner.started == here.started:
        return owner.token not in _at_work
    return is_gone(owner)
