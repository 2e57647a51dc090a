"""The Parquet file of one task: bounded row groups, a name of its own, durable before anybody hears of it.

A task that is tried again, its speculative twin and a process that goes on behind its successor write files of
other names. What no commit names is no part of the table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.catalog.errors import SinkError
from penstock.connector.arrow import arrow_type
from penstock.connector.file_output import FileColumn, FileOutput, WrittenFile
from penstock.connector.fragments import evaluate
from penstock.connector.spark.source.file_statistics import Counted, file_statistics

ROW_GROUP_ROWS = 200_000
ROW_GROUP_BYTES = 64 << 20
"""What is held in memory until a row group is written; readers give a task to each."""

_WRITER = "org.apache.spark.version"
"""A key of the footer: by it Spark 3 knows that dates before 1582 are of the proleptic calendar."""
_PROLEPTIC = "4.0.0"
_SUFFIXES = {"snappy": ".snappy", "zstd": ".zstd", "gzip": ".gz", "none": ""}
COMPRESSIONS = frozenset(_SUFFIXES)
"""Compressions that are the same in Arrow and Spark."""


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
    """Writes one file of a table. The task's thread; `sync` makes paths durable, `mode` are the file's rights."""

    def __init__(
        self, output: FileOutput, task: int, *, sync: Callable[[list[Path]], None], mode: int
    ) -> None:
        suffix = _SUFFIXES[output.compression]
        self._output = output
        self._path = Path(output.folder) / f"part-{task:05d}-{uuid4()}-c000{suffix}.parquet"
        self._sync = sync
        self._mode = mode
        fields = [pa.field(column.name, arrow_type(column.type)) for column in output.columns]
        self._schema = pa.schema(fields)
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0
        self._held_bytes = 0
        self._rows = 0
        self._counted = Counted()
        self._writer: pq.ParquetWriter | None = None
        self._footers: list[pq.FileMetaData] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows, of columns as they are read. Raises SinkError for a NULL in a required one."""
        if not batch.num_rows:
            return
        arrays = [
            self._column(batch, column, field)
            for column, field in zip(self._output.columns, self._schema, strict=True)
        ]
        self._counted.add(self._output.columns, arrays)
        held = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self._held.append(held)
        self._held_rows += held.num_rows
        self._held_bytes += held.nbytes
        if self._held_rows >= ROW_GROUP_ROWS or self._held_bytes >= ROW_GROUP_BYTES:
            self._write_group()

    def finish(self) -> WrittenFile | None:
        """Complete the file and make it durable; None without rows, and then there is no file."""
        self._write_group()
        if self._writer is None:
            return None
        self._writer.add_key_value_metadata({_WRITER: _PROLEPTIC})
        self._writer.close()
        self._sync([self._path, self._path.parent])
        (footer,) = self._footers
        return WrittenFile(
            path=self._path.name,
            size_bytes=self._path.stat().st_size,
            rows=self._rows,
            statistics=file_statistics(footer, self._output.columns, self._counted),
        )

    def discard(self) -> None:
        """Remove what was written."""
        if self._writer is not None:
            with suppress(OSError, pa.ArrowException):
                self._writer.close()
            self._path.unlink(missing_ok=True)

    def _column(self, batch: pa.RecordBatch, column: FileColumn, field: pa.Field) -> pa.Array:
        if column.source is None:
            return pa.nulls(batch.num_rows, field.type)
        try:
            array = evaluate(column.source, batch)
        except pa.ArrowInvalid as error:
            raise SinkError(
                f"{self._output.shown} does not take a row: column {column.name} cannot be computed: {error}",
                hint="compute it of a wider type: CAST(... AS BIGINT), CAST(... AS DECIMAL(38, 0))",
            ) from error
        if column.required and array.null_count:
            raise SinkError(
                f"{self._output.shown} does not take a row: NOT NULL constraint violated for column: {column.name}.",
                hint="filter such rows out, or declare the column without NOT NULL",
            )
        return array if array.type.equals(field.type) else array.cast(field.type)

    def _write_group(self) -> None:
        if not self._held:
            return
        if self._writer is None:
            self._writer = self._opened()
        table = pa.Table.from_batches(self._held, schema=self._schema)
        self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self._rows += self._held_rows
        self._held, self._held_rows, self._held_bytes = [], 0, 0

    def _opened(self) -> pq.ParquetWriter:
        # alone: a name that is there is somebody else's file
        os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, self._mode))
        return pq.ParquetWriter(
            str(self._path),
            self._schema,
            compression=self._output.compression,
            use_dictionary=_in_dictionaries(self._schema),
            store_schema=False,
            store_decimal_as_integer=True,
            metadata_collector=self._footers,
        )
