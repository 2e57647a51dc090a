"""Write the changes of a batch in a task of Spark (`mapInArrow`): files with rows that stay, digests of deleted keys.

`upsert.py` runs it over the last change of each key. Where the rows before them are is not asked here: that depends on
the version of the table that the batch is committed to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.errors import PySparkException

from penstock.catalog.errors import SinkError, decode_failure
from penstock.catalog.model.identifier import quote
from penstock.connector.delta.files.key_digests import KeyDigests, key_digests
from penstock.connector.expression import FieldValue
from penstock.connector.failpoints import reach
from penstock.connector.file_output import FileColumn, FileOutput, WrittenFile
from penstock.connector.spark.durable_files import sync_below, umask_of_folder
from penstock.connector.spark.errors import readable_by_spark
from penstock.connector.spark.files.table_files import TableFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_REPORT = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("rows", pa.int64()),
        ("statistics", pa.string()),
        ("partition", pa.list_(pa.string())),
        ("deleted", pa.binary()),
    ]
)
_REPORT_SQL = (
    "path STRING, size LONG, rows LONG, statistics STRING, partition ARRAY<STRING>, deleted BINARY"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyColumn:
    """A column of the key: its name, and its number among the columns that a task gets.

    `partition`: the table is partitioned by it, and Delta keeps '' as NULL.
    """

    name: str
    number: int
    partition: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenChanges:
    """What the tasks of a batch wrote: files of the rows that stay, and the digests of the keys that are deleted."""

    files: Sequence[WrittenFile]
    deleted: KeyDigests

    @property
    def empty(self) -> bool:
        """Whether the batch changes nothing."""
        return not self.files and not len(self.deleted)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertTask:
    """Writes the changes of one task: columns of the output's sources, behind them a BOOLEAN that is true of deletes.

    `table` names it in messages.
    """

    output: FileOutput
    keys: tuple[KeyColumn, ...]
    wide: bool
    table: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return a row for each file, and one with the digests of deleted keys."""
        with readable_by_spark():
            yield from self._run(batches)

    def _run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        folder = Path(self.output.folder)
        files = TableFiles(
            self.output,
            0 if context is None else context.partitionId(),
            sync=sync_below,
            umask=umask_of_folder(folder / "file"),
        )
        deleted: list[KeyDigests] = []
        try:
            for batch in batches:
                if batch.num_rows:
                    self._check_keys(batch)
                    gone = batch.column(batch.num_columns - 1)
                    files.write(batch.filter(pc.invert(gone)))
                    deleted.append(self._digests(batch.filter(gone)))
            written = files.finish()
        except BaseException:
            files.discard()
            raise
        if written:
            reach("file-written")
        yield _report(written, KeyDigests.joined(deleted, wide=self.wide))

    def _check_keys(self, batch: pa.RecordBatch) -> None:
        missing = [key.name for key in self.keys if _has_null(batch.column(key.number), key)]
        if missing:
            raise null_in_key(self.table, missing)

    def _digests(self, batch: pa.RecordBatch) -> KeyDigests:
        return key_digests([batch.column(key.number) for key in self.keys], wide=self.wide)


def numbered(number: int) -> str:
    """Return the name of a column that a task gets."""
    return f"c{number}"


def by_number(output: FileOutput, names: Sequence[str]) -> FileOutput:
    """Return the output with sources that are columns of a task: those of `names`, in small letters."""

    def source(column: FileColumn) -> FileColumn:
        path = (numbered(names.index(column.name.lower())),)
        return replace(column, source=FieldValue(path=path, type=column.type))

    return replace(output, columns=tuple(map(source, output.columns)))


def null_in_key(table: str, columns: Sequence[str]) -> SinkError:
    """Return the error of a row without a value in columns of the key."""
    return SinkError(
        f"table {table}: a row has NULL in {', '.join(map(quote, columns))}, a part of the PRIMARY KEY",
        hint="filter such rows out (WHERE ... IS NOT NULL), or give them a value with COALESCE; "
        "Delta keeps an empty text in a partition column as NULL",
    )


def _has_null(column: pa.Array, key: KeyColumn) -> bool:
    if column.null_count:
        return True
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    return key.partition and is_text and bool(pc.any(pc.equal(column, "")).as_py())


def write_changes(changes: DataFrame, task: UpsertTask) -> WrittenChanges:
    """Run the tasks of a batch over its changes, and return what they wrote. Raises what a task raised."""
    try:
        reports = changes.mapInArrow(task, _REPORT_SQL).collect()
    except PySparkException as error:
        raised = decode_failure(str(error))
        if raised is None:
            raise
        raise raised from error
    files, deleted = [], []
    for path, size, rows, statistics, partition, gone in reports:
        if path is None:
            deleted.append(KeyDigests.from_bytes(bytes(gone), wide=task.wide))
            continue
        files.append(
            WrittenFile(
                path=path,
                size_bytes=size,
                rows=rows,
                statistics=statistics,
                partition=tuple(partition),
            )
        )
    return WrittenChanges(files=files, deleted=KeyDigests.joined(deleted, wide=task.wide))


def _report(written: Sequence[WrittenFile], deleted: KeyDigests) -> pa.RecordBatch:
    rows: list[dict[str, Any]] = [
        {
            "path": file.path,
            "size": file.size_bytes,
            "rows": file.rows,
            "statistics": file.statistics,
            "partition": list(file.partition),
            "deleted": None,
        }
        for file in written
    ]
    if len(deleted):
        rows.append({**dict.fromkeys(_REPORT.names), "deleted": deleted.to_bytes()})
    return pa.RecordBatch.from_pylist(rows, schema=_REPORT)
