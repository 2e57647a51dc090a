"""The driver's eye on a datagen table: which rows are due by now. Looks at nothing but the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from penstock.catalog.errors import StateMismatchError
from penstock.connector.contract import Accept
from penstock.connector.datagen.rows import RowMaker
from penstock.connector.datagen.settings import DatagenSettings
from penstock.connector.source.split import Discovery, Extent, Split

__all__ = ["SPLIT_ID", "DatagenPlanner", "due", "wall_ns"]

SPLIT_ID = "rows"
OWNER = "datagen"
MOST_PEEKS = 8
"""Rows that a peek tries: all are of about the same time."""


def wall_ns() -> int:
    """Give the time, epoch ns."""
    return time.time_ns()


def due(rows_per_second: int, now_ns: int) -> int:
    """Give the number of the first row that is not due yet."""
    return now_ns * rows_per_second // 1_000_000_000


class DatagenPlanner:
    """A SplitPlanner over rows that are made up: one split, whose positions are the numbers of rows."""

    def __init__(
        self, settings: DatagenSettings, maker: RowMaker, now_ns: Callable[[], int] = wall_ns
    ) -> None:
        """`maker` makes the columns that peeks give."""
        self._settings = settings
        self._maker = maker
        self._now_ns = now_ns
        self._start: int | None = None

    def list_splits(self) -> Discovery:
        """Name the one split; its incarnation is what its positions mean."""
        meaning = f"{self._settings.rows_per_second} rows/s"
        return Discovery(owners={SPLIT_ID: OWNER}, incarnations={OWNER: meaning})

    def start_positions(
        self,
        split_ids: Sequence[str],
        *,
        first_listing: bool,  # noqa: ARG002  there is one listing
    ) -> Mapping[str, int]:
        """Begin with the row that is due next; a table with an end lies in the past as a whole."""
        now, count = (
            due(self._settings.rows_per_second, self._now_ns()),
            self._settings.number_of_rows,
        )
        # at a multiple of their number, so that a row's number tells its place in a sequence
        self._start = now if count is None else (now // count - 1) * count
        return dict.fromkeys(split_ids, self._start)

    def stop_positions(self, split_ids: Sequence[str]) -> Mapping[str, int]:
        """End a table that has an end; one that was given an end while it ran ends now."""
        count = self._settings.number_of_rows
        if count is None:
            return {}
        if self._start is None:
            return dict.fromkeys(split_ids, due(self._settings.rows_per_second, self._now_ns()))
        return dict.fromkeys(split_ids, self._start + count)

    def extents(self, split_ids: Sequence[str]) -> Mapping[str, Extent]:
        """Tell which rows are due; none is ever lost."""
        end = due(self._settings.rows_per_second, self._now_ns())
        return {split_id: Extent(first=0, end=end) for split_id in split_ids}

    def peek(
        self, ranges: Mapping[str, tuple[int, int]], accept: Accept | None = None
    ) -> Mapping[str, pa.RecordBatch]:
        """Make the last row of each range, or one of those before it; see SplitPlanner."""
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
        return Split(split_id=split_id, start=start, stop=stop, owner=OWNER)

    def lost(self, split_id: str, position: int, extent: Extent) -> Exception:
        """Make an error for a clock that went back behind a table with an end."""
        return StateMismatchError(
            f"row {position} of '{split_id}' was due and no longer is (rows are due up to {extent.end}): the clock of "
            "this machine went back",
            hint="begin anew, with --from-scratch",
        )

    def changed(self, owner: str, known: str, found: str | None) -> Exception:
        """Make the error for another rate: the rows have other numbers."""
        return StateMismatchError(
            f"'{owner}' made {known} when the checkpoint was taken, and makes {found or 'none'} now",
            hint="set 'rows-per-second' back, or begin anew with --from-scratch",
        )

    def commit(self, positions: Mapping[str, int]) -> None:
        """Nothing: nobody waits for it."""

    def close(self) -> None:
        """Nothing is held."""
