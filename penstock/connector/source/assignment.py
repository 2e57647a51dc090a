"""Which splits were given to whom since the last complete checkpoint: what a failed reader has to give back.

A split that is part of a complete checkpoint comes back with its reader's own state; one that is not would be lost
with the reader (Flink's SplitAssignmentTracker).
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.connector.source.split import Split

__all__ = ["SplitAssignmentTracker"]


class SplitAssignmentTracker:
    """Assignments of one coordinator, kept apart by the first checkpoint that holds them. Not part of its state."""

    def __init__(self) -> None:
        self._open: dict[int, list[Split]] = {}
        self._by_checkpoint: dict[int, dict[int, list[Split]]] = {}
        self._completed: int | None = None

    def record(self, reader: int, splits: Sequence[Split]) -> None:
        """Note that `reader` was given `splits`."""
        self._open.setdefault(reader, []).extend(splits)

    def on_checkpoint(self, checkpoint_id: int) -> None:
        """Note that what was assigned so far is in this checkpoint."""
        if self._open:
            held = self._by_checkpoint.setdefault(checkpoint_id, {})
            for reader, splits in self._open.items():
                held.setdefault(reader, []).extend(splits)
            self._open = {}

    def on_completed(self, checkpoint_id: int) -> None:
        """Forget the assignments that a complete checkpoint holds, its own and those of checkpoints before it."""
        self._completed = max(checkpoint_id, self._completed or checkpoint_id)
        for held in [i for i in self._by_checkpoint if i <= checkpoint_id]:
            del self._by_checkpoint[held]

    def take_back(self, reader: int, checkpoint_id: int | None) -> tuple[Split, ...]:
        """Take out what `reader` was given after a checkpoint (None: ever), in the order of assignment.

        Not before the last complete one: what that holds is forgotten.
        """
        assert self._completed is None or (
            checkpoint_id is not None and checkpoint_id >= self._completed
        ), f"reader {reader} goes back to {checkpoint_id}, but {self._completed} is complete"
        back: list[Split] = []
        for held in sorted(self._by_checkpoint):
            if checkpoint_id is None or held > checkpoint_id:
                back += self._by_checkpoint[held].pop(reader, [])
        return (*back, *self._open.pop(reader, []))
