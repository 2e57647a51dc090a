"""Makes the rows of a task's ranges, some thousands a fetch; a range without end gives rows as they become due."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from penstock.connector.datagen.planner import due, wall_ns
from penstock.connector.datagen.rows import RowMaker
from penstock.connector.source.records import RawRecord, RecordsWithSplitIds
from penstock.connector.source.split import Split

__all__ = ["DatagenReader"]

ROWS_A_FETCH = 20_000
FETCH_S = 0.1
"""How long `fetch` waits for rows to become due before it comes back empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrigins:
    """The RowOrigins of made up rows: `start` is the number of the first one. There are no bytes behind them."""

    start: int

    def of(self, rows: Sequence[int]) -> Sequence[RawRecord]:
        """Name rows, by their index in the batch."""
        numbers = [self.start + row for row in rows]
        return [
            RawRecord(position=n, key=None, value=None, where=f"datagen, row {n}") for n in numbers
        ]


class DatagenReader:
    """A SplitReader over made up rows. Lives on one thread; only `wake_up` may come from another."""

    def __init__(
        self,
        maker: RowMaker,
        rows_per_second: int,
        *,
        origins: bool = False,
        now_ns: Callable[[], int] = wall_ns,
    ) -> None:
        self._maker = maker
        self._rows_per_second = rows_per_second
        self._origins = origins
        self._now_ns = now_ns
        self._splits: dict[str, Split] = {}
        self._positions: dict[str, int] = {}
        self._paused: set[str] = set()
        self._woken = threading.Event()

    def add_splits(self, splits: Sequence[Split]) -> None:
        """Take on splits."""
        for split in splits:
            assert split.split_id not in self._splits, f"{split.split_id} is being read already"
            self._splits[split.split_id] = split
            self._positions[split.split_id] = split.start

    def fetch(self) -> RecordsWithSplitIds:
        """Make the next rows of the first split that has some due; wait a moment where none has."""
        now = due(self._rows_per_second, self._now_ns())
        for split_id, split in self._splits.items():
            if split_id in self._paused:
                continue
            start = self._positions[split_id]
            stop = min(start + ROWS_A_FETCH, now if split.stop is None else split.stop)
            if stop > start or stop == split.stop:
                return self._give(split, start, max(start, stop))
        self._woken.wait(FETCH_S)
        self._woken.clear()
        return RecordsWithSplitIds()

    def pause_or_resume(self, pause: Collection[str], resume: Collection[str]) -> None:
        """Stop or go on delivering splits (FLIP-217); unknown ids are ignored."""
        self._paused -= set(resume)
        self._paused |= set(pause) & self._splits.keys()

    def wake_up(self) -> None:
        """End a `fetch` that waits."""
        self._woken.set()

    def close(self) -> None:
        """Nothing is held."""

    def _give(self, split: Split, start: int, stop: int) -> RecordsWithSplitIds:
        split_id = split.split_id
        self._positions[split_id] = stop
        finished = (
            frozenset({split_id}) if split.stop is not None and stop >= split.stop else frozenset()
        )
        if finished:
            del self._splits[split_id], self._positions[split_id]
            self._paused.discard(split_id)
        if stop == start:
            return RecordsWithSplitIds(finished=finished, positions={split_id: stop})
        return RecordsWithSplitIds(
            batches=((split_id, self._maker.make(start, stop)),),
            finished=finished,
            positions={split_id: stop},
            read={split_id: stop - start},
            origins={split_id: RowOrigins(start=start)} if self._origins else {},
        )
