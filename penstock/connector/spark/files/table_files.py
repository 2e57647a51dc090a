"""The files that one task writes for a table: bounded row groups, a folder for each partition, durable at the end.

A task that is tried again, its speculative twin and a process that goes on behind its successor write files of
other names. What no commit names is no part of the table.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.errors import SinkError
from penstock.catalog.model import types as t
from penstock.connector.arrow import arrow_type
from penstock.connector.file_output import FileColumn, FileOutput, WrittenFile
from penstock.connector.fragments import fill_column
from penstock.connector.spark.files.parquet_file import ROW_GROUP_ROWS, SUFFIXES, ParquetFile

HELD_ROWS = ROW_GROUP_ROWS
HELD_BYTES = 64 << 20
"""What is held in memory until row groups are written. Rows of a partitioned table are held by their bytes alone, as
each partition has a row group of its own.
"""
MOST_OPEN_FILES = 100
"""Before another is opened, the one that was written longest ago is completed; its partition may get a second one."""

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = {code: f"%{code:02X}" for code in (*range(1, 32), 127, *map(ord, "\"#%'*/:=?\\{[]^"))}
"""What Hive and Spark escape in names of folders."""
_EPOCH = date(1970, 1, 1).toordinal()
_LAST_DAY = date(9999, 12, 31).toordinal()
_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionValue:
    """The value of a partition column: as Delta's protocol writes it (None is NULL), and as the name of its folder."""

    text: str | None
    folder: str


Partition = tuple[PartitionValue, ...]


class TableFiles:
    """Writes the files of one task. The task's thread.

    `sync` makes files of a folder durable, with all folders on the way; `umask` is what files and folders lack.
    """

    def __init__(
        self,
        output: FileOutput,
        task: int,
        *,
        sync: Callable[[Path, list[str]], None],
        umask: int,
    ) -> None:
        self._output = output
        self._folder = Path(output.folder)
        self._name = f"part-{task:05d}-{{}}-c000{SUFFIXES[output.compression]}.parquet"
        self._sync = sync
        self._umask = umask
        fields = [pa.field(column.name, arrow_type(column.type)) for column in output.columns]
        self._schema = pa.schema(fields)
        self._by = [c for name in output.partitions for c in output.columns if c.name == name]
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0
        self._held_bytes = 0
        # in the order in which they were written last
        self._open: dict[Partition, ParquetFile] = {}
        self._written: list[WrittenFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows, of columns as they are read. Raises SinkError for a row that the table does not take."""
        if not batch.num_rows:
            return
        arrays = [self._column(batch, column) for column in self._output.columns]
        held = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self._held.append(held)
        self._held_rows += held.num_rows
        self._held_bytes += held.nbytes
        many = not self._by and self._held_rows >= HELD_ROWS
        if many or self._held_bytes >= HELD_BYTES:
            self._write_groups()

    def finish(self) -> list[WrittenFile]:
        """Complete the files and make them durable; without rows there is none."""
        self._write_groups()
        while self._open:
            self._complete(next(iter(self._open)))
        if self._written:
            self._sync(self._folder, [file.path for file in self._written])
        return self._written

    def discard(self) -> None:
        """Remove what was written."""
        for open_file in self._open.values():
            open_file.discard()
        for file in self._written:
            (self._folder / file.path).unlink(missing_ok=True)

    def _column(self, batch: pa.RecordBatch, column: FileColumn) -> pa.Array:
        array = fill_column(column, batch, owner=self._output.shown)
        if column in self._by and pa.types.is_string(array.type):
            # no partition has the empty text: Delta reads it as NULL
            array = pc.if_else(pc.equal(array, ""), pa.scalar(None, array.type), array)
        if column.required and array.null_count:
            raise self._not_taken(
                f"NOT NULL constraint violated for column: {column.name}.",
                "filter such rows out, or declare the column without NOT NULL",
            )
        return array

    def _not_taken(self, why: str, hint: str) -> SinkError:
        return SinkError(f"{self._output.shown} does not take a row: {why}", hint=hint)

    def _write_groups(self) -> None:
        if not self._held:
            return
        rows = pa.Table.from_batches(self._held, schema=self._schema)
        self._held, self._held_rows, self._held_bytes = [], 0, 0
        if not self._by:
            self._add((), rows)
            return
        for partition, part in self._partitions(rows):
            self._add(partition, part)

    def _add(self, partition: Partition, rows: pa.Table) -> None:
        most = self._output.max_rows_per_file
        while rows.num_rows:
            file = self._file(partition)
            part = rows if most is None else rows.slice(0, most - file.rows)
            file.write(part)
            rows = rows.slice(part.num_rows)
            if file.rows == most:
                self._complete(partition)

    def _partitions(self, rows: pa.Table) -> Iterator[tuple[Partition, pa.Table]]:
        """Return the rows of each partition, in their order; the values of a column are looked at once."""
        encoded = [
            rows.column(column.name).combine_chunks().dictionary_encode(null_encoding="encode")
            for column in self._by
        ]
        values = [
            self._values(column, each.dictionary)
            for column, each in zip(self._by, encoded, strict=True)
        ]
        codes = [each.indices.to_numpy(zero_copy_only=False) for each in encoded]
        kept = rows.drop_columns(list(self._output.partitions))
        order, starts = _groups(codes)
        if len(starts) > 1:
            kept = kept.combine_chunks().take(pa.array(order))
        for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
            at = order[start]
            partition = tuple(of[code[at]] for of, code in zip(values, codes, strict=True))
            yield partition, kept.slice(start, end - start)

    def _values(self, column: FileColumn, found: pa.Array) -> list[PartitionValue]:
        if isinstance(column.type, t.DateType):
            found = found.cast(pa.int32())
        elif isinstance(column.type, (t.TimestampType, t.TimestampLtzType)):
            found = found.cast(pa.int64())
        name = column.name.translate(_ESCAPED)
        return [self._value(column, name, value) for value in found.to_pylist()]

    def _value(self, column: FileColumn, name: str, value: Any) -> PartitionValue:
        if value is None:
            return PartitionValue(text=None, folder=f"{name}={NULL_FOLDER}")
        texts = _texts(column.type, value)
        if texts is None:
            raise self._not_taken(
                f"column {column.name}, by which it is partitioned, is outside of the years 1 to 9999",
                "filter such rows out",
            )
        return PartitionValue(text=texts[0], folder=f"{name}={texts[1].translate(_ESCAPED)}")

    def _file(self, partition: Partition) -> ParquetFile:
        file = self._open.pop(partition, None)
        if file is None:
            if len(self._open) >= MOST_OPEN_FILES:
                self._complete(next(iter(self._open)))
            file = self._opened(partition)
        self._open[partition] = file
        return file

    def _complete(self, partition: Partition) -> None:
        self._written.append(self._open[partition].finish())
        del self._open[partition]

    def _opened(self, partition: Partition) -> ParquetFile:
        below = "/".join([*(value.folder for value in partition), self._name.format(uuid4())])
        self._make_folders(partition)
        return ParquetFile(
            self._folder,
            below,
            self._output.in_files,
            compression=self._output.compression,
            mode=0o666 & ~self._umask,
            partition=tuple(value.text for value in partition),
        )

    def _make_folders(self, partition: Partition) -> None:
        folder = self._folder
        for value in partition:
            folder /= value.folder
            try:
                folder.mkdir(mode=0o777 & ~self._umask, exist_ok=True)
            except (OSError, ValueError) as error:
                # a character that no name has is a ValueError
                if isinstance(error, OSError) and error.errno != errno.ENAMETOOLONG:
                    raise
                raise self._not_taken(
                    f"no folder can have the name of its partition {value.text!r}: {error}",
                    "partition by a column of short texts without the character U+0000",
                ) from error


def _groups(codes: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[Any], list[int]]:
    """Return the positions of rows by equal codes, in their order, and where in them each group begins."""
    joined, *others = codes
    for other in others:
        numbers = joined.astype(np.int64) * (int(other.max()) + 1) + other
        # dense again, so that the product of two is never too large
        joined = np.unique(numbers, return_inverse=True)[1]
    if int(joined.max()) <= np.iinfo(np.uint16).max:
        # sorted in linear time
        joined = joined.astype(np.uint16)
    order = np.argsort(joined, kind="stable")
    found = joined[order]
    return order, [0, *(np.flatnonzero(found[1:] != found[:-1]) + 1).tolist()]


def _texts(kind: t.LogicalType, value: Any) -> tuple[str, str] | None:
    """Write a value as Delta's protocol has it, and as Spark has it in names of folders; None where neither has it."""
    match kind:
        case t.BooleanType():
            text = str(value).lower()
        case t.DecimalType():
            text = f"{value:f}"
        case t.DateType():
            day = _day(value)
            if day is None:
                return None
            text = day.date().isoformat()
        case t.TimestampType() | t.TimestampLtzType():
            day = _day(value // _DAY_US)
            if day is None:
                return None
            at = day + timedelta(microseconds=value % _DAY_US)
            text = at.isoformat(" ", timespec="microseconds").rstrip("0")
            text = text.removesuffix(".")
            if isinstance(kind, t.TimestampLtzType):
                return f"{at.isoformat(timespec='microseconds')}Z", text
        case _:
            text = str(value)
    return text, text


def _day(days: int) -> datetime | None:
    ordinal = days + _EPOCH
    return datetime.fromordinal(ordinal) if 1 <= ordinal <= _LAST_DAY else None
