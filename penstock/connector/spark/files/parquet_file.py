"""A Parquet file of a table as Spark and Delta read it: its row groups, its footer, its statistics."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connector.arrow import arrow_type
from penstock.connector.file_output import FileColumn, WrittenFile
from penstock.connector.spark.files.file_statistics import Counted, file_statistics

ROW_GROUP_ROWS = 200_000
"""The most rows of a row group; readers give a task to each."""
HELD_BYTES = 64 << 20
"""What is held in memory of files that are put together, until a row group is written."""

DICTIONARY_BYTES = 1 << 18
"""The largest dictionary of a column in a row group. One with more different values is written plainly from there on:
by Arrow's default of 1 MiB, a column without equal values pays four times as much for a dictionary that saves nothing.
"""

_WRITER = "org.apache.spark.version"
"""A key of the footer: by it Spark 3 knows that dates before 1582 are of the proleptic calendar."""
_PROLEPTIC = "4.0.0"
SUFFIXES = {"snappy": ".snappy", "zstd": ".zstd", "gzip": ".gz", "none": ""}
"""Compressions that are the same in Arrow and Spark, and what names of files say of them."""
_REBASED = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
"""Keys in the footer of a file with times of the Julian calendar."""
_PROLEPTIC_SINCE = b"3.1.0"
"""Older versions of Spark write such times and say nothing of it."""


def _in_dictionaries(schema: pa.Schema) -> bool | list[str]:
    """Name the leaves that may have a dictionary: in one of floats Spark finds no -0.0 where it asks for 0."""
    paths = [each for field in schema for each in _leaves(field.name, field.type)]
    exact = [path for path, kind in paths if not pa.types.is_floating(kind)]
    return True if len(exact) == len(paths) else exact


def _leaves(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Return the leaves of a column by their paths in Parquet."""
    if pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    else:
        yield path, kind


class ParquetFile:
    """Writes one file of a table. The task's thread.

    `path` is that in the table's folder, and names a file that is not there yet; `mode` are its rights. `rows` counts
    what was written.
    """

    def __init__(
        self,
        folder: Path,
        path: str,
        columns: Sequence[FileColumn],
        *,
        compression: str,
        mode: int,
        partition: tuple[str | None, ...] = (),
    ) -> None:
        self._path = folder / path
        self._relative = path
        self._columns = columns
        self._partition = partition
        self.rows = 0
        self._counted = Counted()
        self._footers: list[pq.FileMetaData] = []
        schema = pa.schema([pa.field(column.name, arrow_type(column.type)) for column in columns])
        # alone: a name that is there is somebody else's file
        os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        self._writer = pq.ParquetWriter(
            str(self._path),
            schema,
            compression=compression,
            use_dictionary=_in_dictionaries(schema),
            dictionary_pagesize_limit=DICTIONARY_BYTES,
            store_schema=False,
            store_decimal_as_integer=True,
            metadata_collector=self._footers,
        )

    def write(self, rows: pa.Table) -> None:
        """Write rows of the file's columns, at least one row group of them."""
        for batch in rows.to_batches():
            self._counted.add(self._columns, batch.columns)
        self._writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
        self.rows += rows.num_rows

    def finish(self) -> WrittenFile:
        """Complete the file, which is not durable yet."""
        self._writer.add_key_value_metadata({_WRITER: _PROLEPTIC})
        self._writer.close()
        (footer,) = self._footers
        return WrittenFile(
            path=self._relative,
            size_bytes=self._path.stat().st_size,
            rows=self.rows,
            statistics=file_statistics(footer, self._columns, self._counted),
            partition=self._partition,
        )

    def discard(self) -> None:
        """Remove what was written."""
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
        self._path.unlink(missing_ok=True)


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table | None:
    """Return rows in the columns of a schema; None where a column is of another type, or there is one more.

    A file that was written before a column was added lacks it. Spark writes instants without their zone (INT96), and
    has other names for the elements of collections.
    """
    if set(table.column_names) - set(schema.names):
        return None
    arrays = []
    for wanted in schema:
        if wanted.name not in table.column_names:
            arrays.append(pa.nulls(table.num_rows, wanted.type))
            continue
        column = table.column(wanted.name)
        if not _alike(column.type, wanted.type):
            return None
        arrays.append(column if column.type == wanted.type else column.cast(wanted.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _alike(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Tell whether a type of a file is one of the table's."""
    if found == wanted:
        return True
    if pa.types.is_list(found) and pa.types.is_list(wanted):
        return _alike(found.value_type, wanted.value_type)
    if pa.types.is_map(found) and pa.types.is_map(wanted):
        return _alike(found.key_type, wanted.key_type) and _alike(found.item_type, wanted.item_type)
    if pa.types.is_struct(found) and pa.types.is_struct(wanted):
        return [part.name for part in found] == [part.name for part in wanted] and all(
            _alike(one.type, other.type) for one, other in zip(found, wanted, strict=True)
        )
    instant = pa.types.is_timestamp(wanted) and wanted.tz is not None
    return bool(instant and pa.types.is_timestamp(found) and found.unit == "us")


def in_julian_times(footer: Mapping[bytes, bytes]) -> bool:
    """Tell whether Spark takes dates and times of a file for those of the Julian calendar."""
    return (
        any(key in footer for key in _REBASED)
        or footer.get(_WRITER.encode(), b"~") < _PROLEPTIC_SINCE
    )


def row_groups(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Join rows into groups of bounded size."""
    held: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        held.append(table)
        rows += table.num_rows
        size += table.nbytes
        if rows >= ROW_GROUP_ROWS or size >= HELD_BYTES:
            yield pa.concat_tables(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.concat_tables(held)
