"""Read the rows of files of a table, and write them again as one file: Arrow on one thread, in bounded memory.

`compaction.py` commits the result. Rows that deletion vectors name are left out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from penstock.connector.arrow import arrow_type
from penstock.connector.delta.files.deletion_vector import DamagedVectorError, VectorFolder
from penstock.connector.delta.files.replacing import RewrittenFile
from penstock.connector.delta.files.roaring import Positions
from penstock.connector.delta.files.small_files import SmallFile
from penstock.connector.file_output import FileOutput, WrittenFile
from penstock.connector.spark.durable_files import sync_below, umask_of_folder
from penstock.connector.spark.files.parquet_file import (
    SUFFIXES,
    ParquetFile,
    fitted,
    in_julian_times,
    row_groups,
)

log = logging.getLogger(__name__)

READ_ROWS = 8_192
"""Rows that are read together: a file may have a hundred times the bytes in memory."""


@dataclass(slots=True, kw_only=True)
class Rewriting:
    """Reads files and writes their rows as one, in the order of `used`; `left_out` cannot be read as the table's."""

    output: FileOutput
    used: list[RewrittenFile] = field(default_factory=list)
    left_out: list[SmallFile] = field(default_factory=list)

    def run(self, files: list[SmallFile]) -> WrittenFile | None:
        """Return the new file, whose path is as the log has it; None where fewer than two files can be joined."""
        output, folder = self.output, Path(self.output.folder)
        columns = output.in_files
        schema = pa.schema([pa.field(column.name, arrow_type(column.type)) for column in columns])
        above = files[0].path.rpartition("/")[0]
        name = f"part-00000-{uuid4()}-c000{SUFFIXES[output.compression]}.parquet"
        path = f"{above}/{name}" if above else name
        writer = ParquetFile(
            folder,
            unquote(path),
            columns,
            compression=output.compression,
            mode=0o666 & ~umask_of_folder(folder / "file"),
        )
        rows = 0
        try:
            for group in row_groups(self._read(files, schema)):
                writer.write(group)
                rows += group.num_rows
            if len(self.used) < 2:
                writer.discard()
                return None
            written = writer.finish()
            assert written.rows == rows, "each row once"
            sync_below(folder, [written.path])
        except BaseException:
            writer.discard()
            raise
        return WrittenFile(
            path=path, size_bytes=written.size_bytes, rows=rows, statistics=written.statistics
        )

    def _read(self, files: list[SmallFile], schema: pa.Schema) -> Iterator[pa.Table]:
        for file in files:
            try:
                yield from self._rows(file, schema)
            except (OSError, pa.ArrowException):
                # it would be chosen again each time, and no other file of the table put together
                self.left_out.append(file)
                raise

    def _rows(self, file: SmallFile, schema: pa.Schema) -> Iterator[pa.Table]:
        deleted = self._deleted(file)
        # one that is gone is no longer of the table, and VACUUM had no long retention
        if deleted is None or size_of(self.output, file.path) != file.size_bytes:
            self.left_out.append(file)
            return
        path = Path(self.output.folder) / unquote(file.path)
        with parquet.ParquetFile(path, coerce_int96_timestamp_unit="us") as opened:
            empty = opened.schema_arrow.empty_table()
            # Delta writes the values of partitions into files, too
            kept = [name for name in empty.column_names if name not in self.output.partitions]
            fits = fitted(empty.select(kept), schema)
            if fits is None or in_julian_times(opened.metadata.metadata or {}):
                self.left_out.append(file)
                return
            start = sum(each.rows - len(each.deleted) for each in self.used)
            rows = opened.metadata.num_rows
            self.used.append(RewrittenFile(file=file, rows=rows, start=start, deleted=deleted))
            yield fits
            at = 0
            for batch in opened.iter_batches(READ_ROWS, use_threads=False):
                table = fitted(pa.Table.from_batches([batch]).select(kept), schema)
                assert table is not None, "its schema fits"
                yield _without(table, at, deleted)
                at += batch.num_rows

    def _deleted(self, file: SmallFile) -> Positions | None:
        """Return the positions of rows that are no longer of the table; None where they cannot be read."""
        if file.vector is None:
            return np.empty(0, np.int64)
        try:
            return VectorFolder(folder=Path(self.output.folder)).read(file.vector)
        except DamagedVectorError as error:
            log.warning("the deletion vector of %s cannot be read: %s", file.path, error)
            return None


def _without(rows: pa.Table, at: int, deleted: Positions) -> pa.Table:
    """Leave out the rows at some positions of a file, of which the first row has the position `at`."""
    first, end = np.searchsorted(deleted, [at, at + rows.num_rows])
    if first == end:
        return rows
    kept = np.ones(rows.num_rows, bool)
    kept[deleted[first:end] - at] = False
    return rows.filter(pa.array(kept))


def size_of(output: FileOutput, path: str) -> int | None:
    """Return the bytes of a file that the log names so; None where it is not there."""
    try:
        return (Path(output.folder) / unquote(path)).stat().st_size
    except FileNotFoundError:
        return None
