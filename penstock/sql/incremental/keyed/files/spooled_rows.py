"""Rows of Arrow that a task holds: in memory where they are few, else in a file of the local disk that is mapped.

The pages of a mapped file are the system's to drop, so that a task which holds more rows than there is memory is slow
and goes on. The file has no name while it is mapped, and is gone with the rows, or with the process.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

MOST_BYTES = 64 << 20
"""Bytes of a lookup or a result that are held in memory."""

BATCH_ROWS = 20_480
"""Rows that are made at once of more than are held, a few megabytes of most: vectors of DuckDB have 2,048."""


def local_folder() -> Path:
    """Return a folder of the executor that Spark removes with it; outside of one, that of temporary files."""
    folders = os.environ.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir()
    return Path(folders.split(",")[0])


class SpooledRows:
    """Collects rows of one schema, and gives them as a table when all are there."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._path: Path | None = None
        self._writer: pa.RecordBatchFileWriter | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows."""
        if self._writer is not None:
            self._writer.write_batch(rows)
            return
        self._batches.append(rows)
        self._bytes += rows.nbytes
        if self._bytes > MOST_BYTES:
            self._begin_file()

    def table(self) -> pa.Table:
        """Return all rows, once."""
        if self._writer is None or self._path is None:
            return pa.Table.from_batches(self._batches, self.schema)
        self._writer.close()
        mapped = pa.memory_map(str(self._path))
        self._path.unlink()
        self._path = self._writer = None
        return pa.ipc.open_file(mapped).read_all()

    def discard(self) -> None:
        """Remove the file of rows that nobody asks for."""
        if self._writer is not None:
            with suppress(OSError, pa.ArrowException):  # it writes the end: the disk may be full
                self._writer.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        self._path = self._writer = None
        self._batches.clear()

    def _begin_file(self) -> None:
        folder = local_folder()
        folder.mkdir(parents=True, exist_ok=True)
        number, path = tempfile.mkstemp(prefix="penstock-rows-", suffix=".arrow", dir=folder)
        os.close(number)
        self._path = Path(path)
        self._writer = pa.ipc.new_file(path, self.schema)
        for rows in self._batches:
            self._writer.write_batch(rows)
        self._batches.clear()


def spooled(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return the rows of batches as a table."""
    rows = SpooledRows(schema)
    try:
        for batch in batches:
            rows.add(batch)
        return rows.table()
    finally:
        rows.discard()


def is_large(rows: pa.Table) -> bool:
    """Return whether rows are more than a task holds in memory, so that no copy of them is made there."""
    return bool(rows.nbytes > MOST_BYTES)


def taken(rows: pa.Table, positions: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Return the rows at some positions, in their order; of a table that is large no more than some are in memory."""
    if not is_large(rows):
        return rows.take(positions)
    return spooled(rows.schema, _taken(rows.to_batches(), np.asarray(positions)))


def _taken(
    batches: Sequence[pa.RecordBatch], positions: npt.NDArray[np.int64]
) -> Iterator[pa.RecordBatch]:
    """Take rows batch by batch: of a column in several pieces pyarrow would make one first."""
    ends = np.cumsum([batch.num_rows for batch in batches])
    for start in range(0, len(positions), BATCH_ROWS):
        some = positions[start : start + BATCH_ROWS]
        order = np.argsort(some, kind="stable")
        some, back = some[order], np.empty_like(order)
        back[order] = np.arange(len(order))
        owners = np.searchsorted(ends, some, side="right")
        found = [
            batches[n].take(pa.array(some[owners == n] - (ends[n] - batches[n].num_rows)))
            for n in np.unique(owners)
        ]
        yield from pa.Table.from_batches(found).take(pa.array(back)).to_batches()
