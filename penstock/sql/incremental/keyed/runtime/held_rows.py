"""Rows of state files in the memory of a worker: those of small states, and what caches on disk do not have yet.

A file is known by its name, which tells its content, so that rows that are held are those of the file. Writing a cache
on disk costs as much as a small batch; it is done when there are many rows to add.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Sequence

import pyarrow as pa

from penstock.sql.incremental.keyed.files.manifest import BucketId, StateFile

MOST_ROWS = 100_000
MOST_FILE_BYTES = 8 << 20
"""Rows and bytes, as files have them, of a bucket that are held, and looked up where they are: a scan of some ms."""

MOST_BYTES = 128 << 20
"""Bytes that a worker holds; buckets that were not used for longest are let go, and read again."""

HeldBucket = tuple[str, str, BucketId]
"""The folder of files, the id of the state, the bucket."""


def are_few(files: Sequence[StateFile]) -> bool:
    """Return whether the rows of files are held in memory."""
    rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
    return rows <= MOST_ROWS and size <= MOST_FILE_BYTES


class HeldRows:
    """The rows of files by bucket, those of the same columns. For the thread that runs a task."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[HeldBucket, dict[str, pa.Table]] = OrderedDict()
        self._sizes: dict[HeldBucket, int] = {}

    def rows_of(
        self,
        bucket: HeldBucket,
        files: Sequence[StateFile],
        read: Callable[[StateFile], pa.Table],
    ) -> pa.Table | None:
        """Return the rows of files, None without one; those that are not held are read. Others of the bucket go."""
        held = self._buckets.pop(bucket, {})
        rows = {
            file.name: read(file) if (known := held.get(file.name)) is None else known
            for file in files
        }
        if not rows:
            # a bucket is held for its rows: without any it would stay, and have no size
            self._sizes.pop(bucket, None)
            return None
        if rows.keys() != held.keys():
            self._sizes[bucket] = sum(of.nbytes for of in rows.values())
        self._buckets[bucket] = rows
        self._let_go()
        return pa.concat_tables(rows.values())

    def add(self, bucket: HeldBucket, file: StateFile, rows: pa.Table) -> None:
        """Hold the rows of a file that was written: the next batch looks for them, where its manifest names it."""
        if are_few([file]):
            self._buckets.setdefault(bucket, {})[file.name] = rows
            self._buckets.move_to_end(bucket)
            self._sizes[bucket] = self._sizes.get(bucket, 0) + rows.nbytes
            self._let_go()

    def _let_go(self) -> None:
        while len(self._buckets) > 1 and sum(self._sizes.values()) > MOST_BYTES:
            bucket, _ = self._buckets.popitem(last=False)
            del self._sizes[bucket]


_processes: dict[int, HeldRows] = {}


def held_rows() -> HeldRows:
    """Return the rows that this process holds."""
    return _processes.setdefault(os.getpid(), HeldRows())
