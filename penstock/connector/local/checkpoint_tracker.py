"""Track the checkpoints of a running job: the pending one, and the last complete one."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.connector.local.messages import LocalCheckpoint, ReaderCheckpoint, SnapshotTaken
from penstock.connector.source.coordinator.coordinator import CoordinatorState

__all__ = ["CheckpointTracker"]


@dataclass(slots=True, kw_only=True)
class _Pending:
    checkpoint_id: int
    coordinator: CoordinatorState
    parts: dict[int, ReaderCheckpoint] = field(default_factory=dict)


class CheckpointTracker:
    """Collects the parts of one checkpoint at a time; ids continue from the one that the job was restored from."""

    def __init__(self, readers: int, restored: LocalCheckpoint | None) -> None:
        self._readers = readers
        self._pending: _Pending | None = None
        self._next_id = 1 if restored is None else restored.checkpoint_id + 1
        self.last = restored

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is being taken."""
        return self._pending is not None

    def next_id(self) -> int:
        """Return the id of a new checkpoint."""
        self._next_id += 1
        return self._next_id - 1

    def begin(self, checkpoint_id: int, coordinator: CoordinatorState) -> None:
        """Begin with the coordinator's part."""
        self._pending = _Pending(checkpoint_id=checkpoint_id, coordinator=coordinator)

    def collect(self, taken: SnapshotTaken) -> LocalCheckpoint | None:
        """Add a reader's part; the checkpoint, when it is complete with it. Parts of one given up are ignored."""
        pending = self._pending
        if pending is None or pending.checkpoint_id != taken.checkpoint_id:
            return None
        pending.parts[taken.reader] = taken.part
        if len(pending.parts) < self._readers:
            return None
        self._pending = None
        self.last = LocalCheckpoint(
            checkpoint_id=pending.checkpoint_id,
            coordinator=pending.coordinator,
            readers=tuple(part for _, part in sorted(pending.parts.items())),
        )
        return self.last

    def give_up(self) -> None:
        """Drop the checkpoint that is being taken: a reader that failed has no part in it."""
        self._pending = None
