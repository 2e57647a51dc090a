"""Stored rows of a bucket to which rows are only added, in segments: sorted by the hash of their key.

A lookup searches the hashes, and reads the rows of the keys and not all. Segments are files of Arrow that are mapped
(`segment_folder.py`), whose pages are the system's to drop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connector.spark.source.buckets import combined
from penstock.sql.incremental.keyed.files.spooled_rows import spooled
from penstock.sql.incremental.keyed.operator import KeyedLayout
from penstock.sql.incremental.keyed.runtime.key_hashes import Hashes, key_hashes, same_keys
from penstock.sql.incremental.keyed.runtime.merged_rows import last_end
from penstock.sql.incremental.keyed.tables import positional, storage_type

_ROWS_AT_ONCE = 50_000
"""Rows that a lookup takes of a segment at once."""

_KEYS_AT_ONCE = 1_000_000
"""Keys that are looked for at once: those of a batch of many are on disk, and their hashes take 8 bytes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSegment:
    """Rows in the order of the hashes of their keys. `ends` is the last time by which one of them ends.

    `times` are the least and the last of the times by which they are looked up, in microseconds; None: they have none.
    """

    rows: pa.RecordBatch
    hashes: Hashes
    ends: int | None = None
    times: tuple[int, int] | None = None

    @classmethod
    def of(cls, rows: pa.Table, layout: KeyedLayout, hashes: Hashes | None = None) -> RowSegment:
        """Sort rows. `hashes` are those of their keys where they are known."""
        if hashes is None:
            keys = [rows.column(layout.names.index(name)) for name in layout.key]
            hashes = key_hashes(keys, layout, rows.num_rows)
        order = np.argsort(hashes, kind="stable")
        positions = pa.array(order)
        columns = [combined(column).take(positions) for column in rows.columns]
        batch = pa.RecordBatch.from_arrays(columns, schema=rows.schema)
        return cls(
            rows=batch,
            hashes=hashes[order],
            ends=last_end(layout, rows),
            times=_times_of(layout, batch),
        )

    def find(self, asked: Hashes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the positions of the rows whose hash is asked for, each with that of the hash in `asked`, sorted."""
        if len(asked) > len(self.hashes):
            first = np.searchsorted(asked, self.hashes, "left")
            behind = np.searchsorted(asked, self.hashes, "right")
            rows, positions = _pairs(first, behind)
            return rows, positions
        first = np.searchsorted(self.hashes, asked, "left")
        behind = np.searchsorted(self.hashes, asked, "right")
        positions, rows = _pairs(first, behind)
        return rows, positions


def _times_of(layout: KeyedLayout, rows: pa.RecordBatch) -> tuple[int, int] | None:
    """Return the bounds of the times by which rows are looked up."""
    if layout.rowtime is None:
        return None
    bounds = pc.min_max(rows.column(layout.names.index(layout.rowtime)).cast(pa.int64())).as_py()
    return None if bounds["min"] is None else (bounds["min"], bounds["max"])


def _pairs(
    first: npt.NDArray[np.int64], behind: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return each place of a range, with the numbers from where the range begins to where it ends."""
    counts = behind - first
    owners = np.repeat(np.arange(len(counts)), counts)
    begun = np.cumsum(counts) - counts
    return owners, np.arange(len(owners)) - (begun - first)[owners]


class RowSegments:
    """The stored rows of a bucket, as its segments have them."""

    def __init__(self, segments: Sequence[RowSegment], layout: KeyedLayout) -> None:
        self._segments = segments
        self._layout = layout

    def rows_of(self, keys: pa.Table) -> pa.Table:
        """Return the rows of distinct keys, in which NULL equals NULL; all rows where the layout has no key."""
        schema, layout = positional(self._layout), self._layout
        if not layout.key:
            return pa.Table.from_batches([one.rows for one in self._segments], schema)
        starts = range(0, keys.num_rows, _KEYS_AT_ONCE)
        parts = (self._taken(keys.slice(start, _KEYS_AT_ONCE)) for start in starts)
        return spooled(schema, (rows for part in parts for rows in part))

    def _taken(self, keys: pa.Table) -> Iterator[pa.RecordBatch]:
        layout = self._layout
        columns = [
            column.cast(storage_type(kind))
            for column, kind in zip(keys.columns, layout.key_types, strict=True)
        ]
        hashes = key_hashes(columns, layout, keys.num_rows)
        order = np.argsort(hashes)
        asked = pa.Table.from_arrays(columns, names=list(layout.key)).take(pa.array(order))
        asked, hashes = asked.combine_chunks(), hashes[order]
        for segment in self._segments:
            rows, positions = segment.find(hashes)
            for start in range(0, len(rows), _ROWS_AT_ONCE):
                some = slice(start, start + _ROWS_AT_ONCE)
                found = segment.rows.take(pa.array(rows[some]))
                named = [found.column(self._layout.names.index(name)) for name in self._layout.key]
                same = same_keys(named, asked.take(pa.array(positions[some])).columns)
                yield found if same is None else found.filter(same)

    def rows_between(self, after: int | None, until: int) -> pa.Table:
        """Return the rows whose time is later than `after` and at most `until`, in microseconds since the epoch."""
        assert self._layout.rowtime is not None, "rows are looked up by it"
        column = self._layout.names.index(self._layout.rowtime)

        def found() -> Iterator[pa.RecordBatch]:
            for segment in self._segments:
                if segment.times is None or segment.times[0] > until:
                    continue
                if after is not None and segment.times[1] <= after:
                    continue
                rows = _rows_within(segment.rows.column(column), after, until)
                for start in range(0, len(rows), _ROWS_AT_ONCE):
                    yield segment.rows.take(pa.array(rows[start : start + _ROWS_AT_ONCE]))

        return spooled(positional(self._layout), found())


def _rows_within(times: pa.Array, after: int | None, until: int) -> npt.NDArray[np.int64]:
    """Return the positions of the times that are later than `after` and at most `until`, of all."""
    micros = times.cast(pa.int64())
    within = pc.less_equal(micros, until)
    if after is not None:
        within = pc.and_(within, pc.greater(micros, after))
    return np.flatnonzero(within.fill_null(False).to_numpy(zero_copy_only=False))
