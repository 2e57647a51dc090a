"""Plan and read generated rows: those that are due by the clock, generated a few thousand per fetch."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.catalog.errors import StateMismatchError
from penstock.connector.contract import Accept
from penstock.connector.generated.rows import GeneratedRows, RowMaker
from penstock.connector.source.records import RawRecord, RecordsWithSplitIds
from penstock.connector.source.split import AssignedSplits, Discovery, Split, SplitOffsets

MOST_PEEKS = 8
"""Rows that a peek tries: all are of about the same time."""


def wall_ns() -> int:
    """Return the time, epoch ns."""
    return time.time_ns()


class GeneratedMetadataClient:
    """A SplitMetadataClient over generated rows: one split, whose positions are the numbers of rows."""

    def __init__(
        self, rows: GeneratedRows, maker: RowMaker, now_ns: Callable[[], int] = wall_ns
    ) -> None:
        """`maker` makes the columns that peeks give."""
        self._rows = rows
        self._maker = maker
        self._now_ns = now_ns
        self._start: int | None = None

    def list_splits(self) -> Discovery:
        """Name the one split; its incarnation is what its positions mean."""
        owner = self._rows.connector
        return Discovery(
            owners={self._rows.split_id: owner}, source_ids={owner: self._rows.meaning}
        )

    def start_positions(
        self,
        split_ids: Sequence[str],
        *,
        first_listing: bool,  # noqa: ARG002  there is one listing
    ) -> Mapping[str, int]:
        """Begin where the rows say."""
        self._start = self._rows.start(self._now_ns())
        return dict.fromkeys(split_ids, self._start)

    def stop_positions(self, split_ids: Sequence[str]) -> Mapping[str, int]:
        """End a table that has an end."""
        if not self._rows.bounded:
            return {}
        return dict.fromkeys(split_ids, self._rows.stop(self._start, self._now_ns()))

    def extents(self, split_ids: Sequence[str]) -> Mapping[str, SplitOffsets]:
        """Return which rows are due; none is ever lost."""
        end = self._rows.due(self._now_ns())
        return {split_id: SplitOffsets(first=0, end=end) for split_id in split_ids}

    def peek(
        self, ranges: Mapping[str, tuple[int, int]], accept: Accept | None = None
    ) -> Mapping[str, pa.RecordBatch]:
        """Make the last row of each range, or one of those before it; see SplitMetadataClient."""
        found: dict[str, pa.RecordBatch] = {}
        for split_id, (first, end) in ranges.items():
            for row in range(end - 1, max(first, end - MOST_PEEKS) - 1, -1):
                made = self._maker.make(row, row + 1)
                if accept is None or accept({split_id: made}):
                    found[split_id] = made
                    break
        return found

    def split(self, split_id: str, start: int, stop: int | None) -> Split:
        """Make a task's split."""
        return Split(split_id=split_id, start=start, stop=stop, owner=self._rows.connector)

    def lost(self, split_id: str, position: int, extent: SplitOffsets) -> Exception:
        """Make an error for a clock that went back behind a table with an end."""
        return StateMismatchError(
            f"row {position} of '{split_id}' was due and no longer is (rows are due up to {extent.end}): the clock of "
            "this machine went back",
            hint="start over, with --from-scratch",
        )

    def changed(self, owner: str, known: str, found: str | None) -> Exception:
        """Make the error for rows that have other numbers now."""
        return StateMismatchError(
            f"'{owner}' made {known} when the checkpoint was taken, and makes {found or 'none'} now",
            hint=f"set {self._rows.meant_by} back, or start over with --from-scratch",
        )

    def commit(self, positions: Mapping[str, int]) -> None:
        """Do nothing: no caller waits for it."""

    def close(self) -> None:
        """Nothing is held."""


ROWS_A_FETCH = 20_000

FETCH_S = 0.1
"""How long `fetch` waits for rows to become due before it comes back empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedRowOrigins:
    """The RowOrigins of made up rows: `start` is the number of the first one. There are no bytes behind them."""

    start: int
    connector: str

    def of(self, rows: Sequence[int]) -> Sequence[RawRecord]:
        """Name rows, by their index in the batch."""
        numbers = [self.start + row for row in rows]
        return [
            RawRecord(position=n, key=None, value=None, where=f"{self.connector}, row {n}")
            for n in numbers
        ]


class GeneratedReader:
    """A SplitReader over made up rows. Used by one thread; only `wake_up` may come from another."""

    def __init__(
        self,
        rows: GeneratedRows,
        maker: RowMaker,
        *,
        origins: bool = False,
        now_ns: Callable[[], int] = wall_ns,
    ) -> None:
        self._rows = rows
        self._maker = maker
        self._origins = origins
        self._now_ns = now_ns
        self._splits = AssignedSplits[Split]()
        self._positions: dict[str, int] = {}

    def add_splits(self, splits: Sequence[Split]) -> None:
        """Add splits."""
        for split in splits:
            self._splits.add(split)
            self._positions[split.split_id] = split.start

    def fetch(self) -> RecordsWithSplitIds:
        """Make the next rows of the first split that has some due; wait a moment where none has."""
        now = self._rows.due(self._now_ns())
        for split in self._splits.active():
            start = self._positions[split.split_id]
            stop = min(start + ROWS_A_FETCH, now if split.stop is None else split.stop)
            if stop > start or stop == split.stop:
                return self._give(split, start, max(start, stop))
        self._splits.wait(FETCH_S)
        return RecordsWithSplitIds()

    def pause_or_resume(self, pause: Collection[str], resume: Collection[str]) -> None:
        """Pause or resume splits (FLIP-217); unknown ids are ignored."""
        self._splits.pause_or_resume(pause, resume)

    def wake_up(self) -> None:
        """End a `fetch` that waits."""
        self._splits.wake_up()

    def close(self) -> None:
        """Nothing is held."""

    def _give(self, split: Split, start: int, stop: int) -> RecordsWithSplitIds:
        split_id = split.split_id
        self._positions[split_id] = stop
        finished = (
            frozenset({split_id}) if split.stop is not None and stop >= split.stop else frozenset()
        )
        if finished:
            self._splits.remove(split_id)
            del self._positions[split_id]
        if stop == start:
            return RecordsWithSplitIds(finished=finished, positions={split_id: stop})
        return RecordsWithSplitIds(
            batches=((split_id, self._maker.make(start, stop)),),
            finished=finished,
            positions={split_id: stop},
            read={split_id: stop - start},
            origins=self._origins_of(split_id, start),
        )

    def _origins_of(self, split_id: str, start: int) -> dict[str, GeneratedRowOrigins]:
        if not self._origins:
            return {}
        return {split_id: GeneratedRowOrigins(start=start, connector=self._rows.connector)}
