"""Writing files exactly once: staged by Spark, listed in a manifest, then moved into place.

    _penstock/<writer>/<batch>/      1 Spark writes the batch here; a replay before step 2 begins with an empty folder
    _penstock/<writer>/<batch>.json  2 the manifest, whole or not there: from now on the batch is decided
    part-<writer>-<batch>-<n>.json   3 each file is renamed; what is still staged is what is still to be moved
    day=2026-01-31/_SUCCESS          4 the folder's success file, where one is asked for

A driver that dies anywhere goes on by the manifest when Spark runs the batch again. Readers see whole files only,
but may see a part of a batch while its files are being moved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from py4j.protocol import Py4JJavaError

from penstock.catalog.errors import ConfigError, SinkError
from penstock.catalog.identifier import quoted
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import Guarantee, SinkSettings
from penstock.connector.filesystem.sink_ledger import (
    LEDGER_FOLDER,
    Manifest,
    manifest_of,
    newest,
    writer_name,
)
from penstock.connector.filesystem.sink_replaced import Replaced, partitions_of, visible_files
from penstock.connector.filesystem.sink_target import FileTarget
from penstock.connector.spark import hadoop_files
from penstock.connector.spark.last_batch import LastBatch, is_written
from penstock.connector.spark.micro_batch import MicroBatch, micro_batch_query, pass_over
from penstock.connector.spark.target_rows import check_complete, target_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

__all__ = ["FilesystemSink"]

INSERT = "insert-"
"""Writers of INSERT .. VALUES, which have no checkpoint."""

SMALL_BYTES = 64 << 10
"""A lone file below this may be one without rows, which is looked into."""

_JAVA_CLASS = re.compile(r"^(?:[a-z_][\w$]*\.)+[A-Z][\w$]*:\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemSink:
    """Adds files to a folder. Only one runner of a pipeline writes at a time, which its lease sees to."""

    target: FileTarget

    @property
    def accepts(self) -> ChangelogMode:
        """Rows that stay."""
        return ChangelogMode.INSERT_ONLY

    @property
    def guarantee(self) -> Guarantee:
        """A batch that is run again changes nothing."""
        return Guarantee.EXACTLY_ONCE

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        """Make the folder, and finish an INSERT .. VALUES that was cut off. Raises InputError, SinkError."""
        check_complete(self.target.schema, schema.names, owner=self.target.owner)
        with self._explained():
            if not hadoop_files.make_directory(spark, self.target.root):
                raise ConfigError(
                    f"{self.target.owner}: {self.target.shown} is a file",
                    hint="'path' names a folder, in which files are made",
                )
            for writer in hadoop_files.list_names(spark, self._ledger("")):
                if writer.startswith(INSERT):
                    self._finish_insert(spark, writer)

    def start(self, frame: DataFrame, settings: SinkSettings) -> StreamingQuery:
        """Start the streaming query."""
        return micro_batch_query(frame, settings, self.write_batch)

    def write_batch(self, frame: DataFrame, batch: MicroBatch) -> None:
        """Add the files of a micro-batch. Raises StateMismatchError where the folder is not the checkpoint's."""
        spark, writer = batch.spark, writer_name(batch)
        digest = batch.digest()
        with self._explained():
            known = self._newest(spark, writer)
            last = None if known is None else known.batch
            if is_written(last, batch, digest, target=f"folder {self.target.shown}"):
                pass_over(frame)
            else:
                known = self._stage(
                    frame, LastBatch(batch_id=batch.batch_id, digest=digest), writer
                )
            assert known is not None, "what is written has a manifest"
            self._publish(spark, known, writer)
            for name in hadoop_files.list_names(spark, self._ledger(writer)):
                if name != known.name:
                    hadoop_files.delete(spark, self._ledger(writer, name))

    def write(self, frame: DataFrame) -> None:
        """Add the rows of a batch frame; what a crash leaves undone the next INSERT's `prepare` finishes."""
        spark, writer = frame.sparkSession, f"{INSERT}{uuid4().hex}"
        with self._explained():
            self._stage(frame, LastBatch(batch_id=0, digest=""), writer)
            self._finish_insert(spark, writer)

    def overwrite(
        self, frame: DataFrame, partition: Mapping[str, str], *, whole: bool = False
    ) -> None:
        """Put the rows of a batch frame in the place of those that are there (`Editor.overwrite`).

        As the other rows, they are decided on by the manifest, which also says which files give way to them.
        """
        spark, writer = frame.sparkSession, f"{INSERT}{uuid4().hex}"
        with self._explained():
            self._stage(
                frame,
                LastBatch(batch_id=0, digest=""),
                writer,
                replaced=Replaced(dict(partition), whole=whole),
            )
            self._finish_insert(spark, writer)

    def truncate(self, spark: SparkSession) -> None:
        """Remove every row; the folder stays."""
        with self._explained():
            for name in visible_files(hadoop_files.list_files(spark, self.target.root)):
                hadoop_files.delete(spark, self._path(name))

    def partitions(self, spark: SparkSession) -> Sequence[Mapping[str, str | None]]:
        """List the partitions that hold files."""
        with self._explained():
            names = visible_files(hadoop_files.list_files(spark, self.target.root))
        return partitions_of(names, self.target.default_partition)

    def _finish_insert(self, spark: SparkSession, writer: str) -> None:
        manifest = self._newest(spark, writer)
        if manifest is not None:  # else it is being written, or never will be
            self._publish(spark, manifest, writer)
            hadoop_files.delete(spark, self._ledger(writer))

    def _stage(
        self, frame: DataFrame, batch: LastBatch, writer: str, *, replaced: Replaced | None = None
    ) -> Manifest:
        """Write the rows where nobody looks, and decide on their files, and on those that give way to them."""
        spark, folder = frame.sparkSession, self._ledger(writer, str(batch.batch_id))
        hadoop_files.delete(spark, folder)
        rows = self._shaped(target_rows(frame, self.target.schema))
        made = rows.write.format(self.target.format.source).options(**self.target.format.options)
        if self.target.options.max_rows_per_file is not None:
            made = made.option("maxRecordsPerFile", self.target.options.max_rows_per_file)
        made.partitionBy(*self.target.partition_keys).save(folder)
        staged = {
            name: size for name, size in hadoop_files.list_files(spark, folder).items() if size
        }
        manifest = manifest_of(
            () if self._is_empty(rows, folder, staged) else staged,
            batch,
            writer=writer,
            default_partition=self.target.default_partition,
        )
        if replaced is not None:
            present = visible_files(hadoop_files.list_files(spark, self.target.root))
            keys, default = self.target.partition_keys, self.target.default_partition
            gone = replaced.among(present, manifest.folders, keys=keys, default_partition=default)
            manifest = replace(manifest, replaces=gone)
        path = self._ledger(writer, manifest.name)
        hadoop_files.write_text(spark, path, manifest.encode())
        return manifest

    def _publish(self, spark: SparkSession, manifest: Manifest, writer: str) -> None:
        """Move what is still staged, and mark the folders. May be called again after any interruption."""
        folder = self._ledger(writer, str(manifest.batch.batch_id))
        left = hadoop_files.list_files(spark, folder)
        for name in manifest.replaces:
            hadoop_files.delete(spark, self._path(name))
        for parent in manifest.folders:
            hadoop_files.make_directory(spark, self._path(parent))
        for staged, final in manifest.files:
            if staged in left:
                _move(spark, f"{folder}/{staged}", self._path(final))
        if self.target.options.success_file is not None:
            for parent in manifest.folders:
                success = f"{self._path(parent)}/{self.target.options.success_file}"
                hadoop_files.write_text(spark, success, "")
        hadoop_files.delete(spark, folder)

    def _shaped(self, rows: DataFrame) -> DataFrame:
        """Give rows to as many tasks as asked for, those of a folder to one."""
        keys = [quoted(key) for key in self.target.partition_keys]
        tasks = self.target.options.parallelism
        if self.target.options.shuffle_by_partition and keys:
            return rows.repartition(tasks, *keys) if tasks else rows.repartition(*keys)
        return rows.repartition(tasks) if tasks else rows

    def _is_empty(self, rows: DataFrame, folder: str, staged: dict[str, int]) -> bool:
        """Tell whether there are no rows: Spark writes one file for them in formats that have a schema."""
        names = [name for name in staged if not name.rpartition("/")[2].startswith(("_", "."))]
        if self.target.format.source not in ("parquet", "orc") or len(names) != 1:
            return not names
        if staged[names[0]] > SMALL_BYTES or "/" in names[0]:
            return False
        reader = rows.sparkSession.read.schema(rows.schema).format(self.target.format.source)
        return reader.load(folder).isEmpty()

    def _newest(self, spark: SparkSession, writer: str) -> Manifest | None:
        name = newest(hadoop_files.list_names(spark, self._ledger(writer)))
        if name is None:
            return None
        path = self._ledger(writer, name)
        text = hadoop_files.read_text(spark, path)
        return Manifest.decode(text or "", path=path)

    def _ledger(self, *names: str) -> str:
        return self._path("/".join([LEDGER_FOLDER, *(name for name in names if name)]))

    def _path(self, name: str) -> str:
        root = self.target.root.rstrip("/")
        return f"{root}/{name}" if name else root

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
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


def _move(spark: SparkSession, staged: str, final: str) -> None:
    """Rename a file into place; what an interrupted copy of an object store left there gives way."""
    if hadoop_files.rename(spark, staged, final):
        return
    hadoop_files.delete(spark, final)
    if not hadoop_files.rename(spark, staged, final):
        raise SinkError(
            f"{staged} cannot be renamed to {final}", hint="look at the rights of both folders"
        )
