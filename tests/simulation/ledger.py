"""The sink of the simulations: rows count once their checkpoint is complete, and are thrown away when it never is."""

from __future__ import annotations

from collections.abc import Iterable

from tests.simulation import invariants
from tests.simulation.outside import Outside

__all__ = ["Ledger", "Row"]

Row = tuple[str, int]


class Ledger:
    """What a table's rows (split id, position) came to: open by reader, committed by split."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._open: dict[int, list[Row]] = {}
        self._barriers: dict[tuple[int, int], int] = {}
        self._next: dict[str, int] = {}

    @property
    def awaits_checkpoint(self) -> bool:
        """Whether a reader took its part of a checkpoint that is not complete."""
        return bool(self._barriers)

    def add(self, reader: int, split_id: str, positions: Iterable[int]) -> None:
        """Rows came out of a reader."""
        self._open.setdefault(reader, []).extend((split_id, at) for at in positions)

    def draw_barrier(self, reader: int, checkpoint_id: int) -> None:
        """A reader took its part of a checkpoint: what came out of it so far belongs to that."""
        self._barriers[reader, checkpoint_id] = len(self._open.get(reader, ()))

    def complete(self, checkpoint_id: int) -> None:
        """A checkpoint is complete: what came before its barriers counts."""
        for reader, rows in self._open.items():
            count = self._barriers.get((reader, checkpoint_id), 0)
            self.commit(rows[:count])
            del rows[:count]
        self._barriers.clear()

    def complete_all(self) -> None:
        """The job ended by itself: everything counts."""
        for rows in self._open.values():
            self.commit(rows)
        self.discard_all()

    def discard(self, reader: int) -> None:
        """A reader failed."""
        self._open.pop(reader, None)
        self._barriers.clear()

    def discard_all(self) -> None:
        """The job failed, or its last rows are committed."""
        self._open.clear()
        self._barriers.clear()

    def commit(self, rows: Iterable[Row]) -> None:
        """Count rows, each exactly once and in order."""
        for split_id, at in rows:
            content = self._outside.splits[split_id]
            expected = self._next.get(split_id)
            invariants.next_row(split_id, at, content, expected)
            self._next[split_id] = at + 1

    def missing(self) -> list[str]:
        """Name the splits whose records are not all committed yet, with what comes next."""
        found = []
        for split_id, content in self._outside.splits.items():
            stop = len(content.times) if content.stop is None else content.stop
            start = self._next.get(split_id, content.first)
            left = content.positions(start, stop)
            if left:
                found.append(f"{split_id} from {left[0]} to {left[-1]}")
        return found
