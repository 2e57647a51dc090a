"""Read the keys of a file of a table, with the positions of the rows that are of the table.

`upsert.py` does so for its own files and for those of other writers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from penstock.catalog.model import types as t
from penstock.connector.arrow import arrow_type
from penstock.connector.delta.files.key_digests import KeyDigests, is_wide, key_digests
from penstock.connector.delta.files.live_files import LiveFile
from penstock.connector.delta.files.roaring import Positions
from penstock.connector.spark.files.parquet_file import in_julian_times

OF_PARTITIONS = (
    t.BooleanType,
    t.TinyIntType,
    t.SmallIntType,
    t.IntType,
    t.BigIntType,
    t.VarCharType,
    t.DateType,
)
"""Types of partition columns of which every writer has the same text for a value."""


class UnreadableKeysError(Exception):
    """The keys of a file cannot be read as those of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyField:
    """A column of the key, as it is stored; `partition`: its values are in the log, not in files."""

    name: str
    type: t.LogicalType
    partition: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKeys:
    """Reads the keys of files of a table in a folder of this machine."""

    folder: Path
    fields: tuple[KeyField, ...]

    @property
    def wide(self) -> bool:
        """Whether digests have 128 bits."""
        return is_wide([field.type for field in self.fields])

    def read(self, file: LiveFile) -> tuple[KeyDigests, Positions]:
        """Return the digests of the keys of all rows in a file without a NULL, and their positions.

        Rows of its deletion vector are among them. Raises UnreadableKeysError.
        """
        if file.elsewhere:
            raise UnreadableKeysError(f"{file.path} is not in the folder of the table")
        inside = [field.name for field in self.fields if not field.partition]
        try:
            with parquet.ParquetFile(
                self.folder / file.local_path, coerce_int96_timestamp_unit="us"
            ) as opened:
                if self._has_times and in_julian_times(opened.metadata.metadata or {}):
                    raise UnreadableKeysError(f"{file.path} has times of the Julian calendar")
                rows = opened.metadata.num_rows
                table = opened.read(columns=inside, use_threads=True)
            columns = [self._column(field, table, file, rows) for field in self.fields]
        except (OSError, KeyError, pa.ArrowException) as error:
            raise UnreadableKeysError(f"{file.path}: {error}") from error
        return _without_nulls(columns, rows, wide=self.wide)

    @property
    def _has_times(self) -> bool:
        kinds = (t.DateType, t.TimestampType, t.TimestampLtzType)
        return any(isinstance(field.type, kinds) for field in self.fields)

    def _column(
        self, field: KeyField, table: pa.Table, file: LiveFile, rows: int
    ) -> pa.Array | pa.ChunkedArray:
        kind = arrow_type(field.type)
        if field.partition:
            text = (file.add.get("partitionValues") or {}).get(field.name)
            value = pa.array([text], pa.string()).cast(kind)[0]
            return pa.repeat(value, rows)
        found = table.column(field.name)
        if pa.types.is_timestamp(found.type) and pa.types.is_timestamp(kind):
            # without a zone in the file, where Spark writes them so
            return found.cast(pa.timestamp("us", found.type.tz)).cast(pa.int64()).cast(kind)
        return found.cast(kind)


def _without_nulls(
    columns: Sequence[pa.Array | pa.ChunkedArray], rows: int, *, wide: bool
) -> tuple[KeyDigests, Positions]:
    positions: Positions = np.arange(rows, dtype=np.int64)
    if any(column.null_count for column in columns):
        valid = pc.is_valid(columns[0])
        for column in columns[1:]:
            valid = pc.and_(valid, pc.is_valid(column))
        columns = [column.filter(valid) for column in columns]
        positions = positions[
            valid.to_numpy(zero_copy_only=False)
            if isinstance(valid, pa.Array)
            else valid.to_numpy()
        ]
    return key_digests(columns, wide=wide), positions


class KeysAhead:
    """Keys of files that are read before the batch's thread asks for them: by the thread that writes such files.

    What it has of a file is true whatever becomes of that, as a file of a name never changes. Any thread.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._reader: FileKeys | None = None
        self._read: dict[str, tuple[KeyDigests, Positions]] = {}

    def follow(self, reader: FileKeys) -> None:
        """Say which keys are asked for from now on."""
        with self._lock:
            if reader != self._reader:
                self._reader, self._read = reader, {}

    def read(self, file: LiveFile) -> None:
        """Read the keys of a file, if any are asked for. Raises UnreadableKeysError."""
        with self._lock:
            reader = self._reader
        if reader is None:
            return
        found = reader.read(file)
        with self._lock:
            if reader == self._reader:
                self._read[file.path] = found

    def take(self, path: str) -> tuple[KeyDigests, Positions] | None:
        """Return the keys of a file, and forget them; None where they are not known."""
        with self._lock:
            return self._read.pop(path, None)
