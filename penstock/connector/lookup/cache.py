"""The lookup cache: rows by key as columns, with the limits of Flink's DefaultLookupCache.

Keys without rows are asked again (hint LOOKUP), since a dimension row may arrive after its reference.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.connector.lookup.contract import CacheLimits, MissRetry
from penstock.connector.lookup.keyed_rows import NONE, Numbers, RowRanges, take_rows

Ask = Callable[[Sequence[pa.Array]], tuple[pa.Table, Numbers]]
"""Gives the rows of distinct keys, an array for each of their parts, and the number of each row's key, or NONE."""

Wait = Callable[[float], None]
"""Waits for so many seconds."""


def rows_with_retry(
    ask: Ask, keys: Sequence[pa.Array], *, retry: MissRetry | None, wait: Wait
) -> tuple[pa.Table, Numbers]:
    """Return the rows of keys as `ask` does; it is asked again for those without rows,
    `retry.attempts` times at most.
    """
    rows, numbers = ask(keys)
    if retry is None:
        return rows, numbers
    count = len(keys[0])
    for _ in range(retry.attempts):
        missing = np.setdiff1d(np.arange(count), numbers)
        if not len(missing):
            break
        wait(retry.delay_ms / 1000)
        more, found = ask([part.take(pa.array(missing)) for part in keys])
        among = found != NONE
        found[among] = missing[found[among]]
        rows, numbers = pa.concat_tables([rows, more]), np.concatenate([numbers, found])
    return rows, numbers


MOST_CHUNKS = 64
"""Taking rows of a table costs more with each of its chunks."""

SLACK = 10_000
"""Unreferenced rows are kept until they are more than this, and more than the others."""

Fetch = Callable[[Numbers], tuple[pa.Table, RowRanges]]
"""Gets the rows of those keys, by their numbers, that are not remembered; may block on I/O."""


@dataclass(slots=True)
class _CachedRows:
    start: int
    count: int
    written_ms: int
    used_ms: int

    @property
    def weight(self) -> int:
        return max(1, self.count)


class LookupCache:
    """Remembers rows with these columns. One thread uses it."""

    def __init__(self, limits: CacheLimits, schema: pa.Schema) -> None:
        self._limits = limits
        self._rows = schema.empty_table()
        self._held: OrderedDict[Hashable, _CachedRows] = OrderedDict()
        self._weight = 0
        self._live = 0

    def __len__(self) -> int:
        return len(self._held)

    def rows_of(
        self, keys: Sequence[Hashable], fetch: Fetch, now_ms: int
    ) -> tuple[pa.Table, RowRanges]:
        """Return a table and where in it the rows of each of these distinct keys are; `fetch` gets what is not held."""
        ranges = self._find(keys, now_ms)
        unknown = np.flatnonzero(ranges.starts == NONE)
        if not len(unknown):
            return self._rows, ranges
        rows, found = fetch(unknown)
        ranges.starts[unknown] = found.starts + self._rows.num_rows
        ranges.counts[unknown] = found.counts
        answer = self._rows = pa.concat_tables([self._rows, rows])
        for number in unknown.tolist():
            count = int(ranges.counts[number])
            if count or self._limits.missing:
                self._hold(
                    keys[number], _CachedRows(int(ranges.starts[number]), count, now_ms, now_ms)
                )
        self._evict(now_ms)
        self._compact()
        return answer, ranges

    def _find(self, keys: Sequence[Hashable], now_ms: int) -> RowRanges:
        starts = np.full(len(keys), NONE, np.int64)
        counts = np.zeros(len(keys), np.int64)
        for number, key in enumerate(keys):
            held = self._held.get(key)
            if held is None:
                continue
            if self._is_stale(held, now_ms):
                self._drop(key)
                continue
            held.used_ms = now_ms
            self._held.move_to_end(key)
            starts[number], counts[number] = held.start, held.count
        return RowRanges(starts=starts, counts=counts)

    def _is_stale(self, held: _CachedRows, now_ms: int) -> bool:
        limits = self._limits
        return (
            limits.after_write_ms is not None and now_ms - held.written_ms >= limits.after_write_ms
        ) or (
            limits.after_access_ms is not None and now_ms - held.used_ms >= limits.after_access_ms
        )

    def _hold(self, key: Hashable, held: _CachedRows) -> None:
        self._held[key] = held
        self._weight += held.weight
        self._live += held.count

    def _drop(self, key: Hashable) -> None:
        held = self._held.pop(key)
        self._weight -= held.weight
        self._live -= held.count

    def _evict(self, now_ms: int) -> None:
        """Drop entries beyond the bound, and stale ones that were not requested again."""
        most = self._limits.max_rows
        while self._held:
            key, oldest = next(iter(self._held.items()))
            if not (self._is_stale(oldest, now_ms) or (most is not None and self._weight > most)):
                return
            self._drop(key)

    def _compact(self) -> None:
        """Drop rows that no key holds any more, once they are many."""
        chunks = max(column.num_chunks for column in self._rows.columns)
        if self._rows.num_rows <= 2 * self._live + SLACK and chunks <= MOST_CHUNKS:
            return
        counts = np.array([held.count for held in self._held.values()], np.int64)
        starts = np.array([held.start for held in self._held.values()], np.int64)
        self._rows = take_rows(self._rows, RowRanges(starts=starts, counts=counts)).combine_chunks()
        for held, end in zip(self._held.values(), np.cumsum(counts).tolist(), strict=True):
            held.start = end - held.count
