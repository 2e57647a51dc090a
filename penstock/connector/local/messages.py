"""Messages between the threads of a local job, and its checkpoints: the pending one, and the last complete one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.connector.source.coordinator.coordinator import CoordinatorState
from penstock.connector.source.coordinator.events import CoordinatorEvent, ReaderEvent
from penstock.connector.source.split import Split, SplitOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderCheckpoint:
    """A reader's part: its unfinished splits, each with its next position as start, and its event time.

    `watermark_ms` is the operator's, `split_watermarks_ms` those of splits that had one; epoch ms.
    """

    splits: tuple[Split, ...] = ()
    watermark_ms: int | None = None
    split_watermarks_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCheckpoint:
    """A complete checkpoint. Everything emitted before its barrier is in it, nothing behind it is."""

    checkpoint_id: int
    coordinator: CoordinatorState
    readers: tuple[ReaderCheckpoint, ...]

    def reader(self, reader: int, parallelism: int) -> ReaderCheckpoint:
        """Return the part that `reader` of `parallelism` starts with: its own, and those of readers that are no more.

        Its watermark is then the lowest of theirs, and none where one of them had none.
        """
        parts = self.readers[reader::parallelism]
        known = [part.watermark_ms for part in parts if part.watermark_ms is not None]
        return ReaderCheckpoint(
            splits=tuple(split for part in parts for split in part.splits),
            watermark_ms=min(known) if known and len(known) == len(parts) else None,
            split_watermarks_ms={
                split_id: watermark_ms
                for part in parts
                for split_id, watermark_ms in part.split_watermarks_ms.items()
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """End, without finishing."""


# --- to a reader ---


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeSnapshot:
    """Take the reader's part of a checkpoint; what was emitted before is in it, nothing else."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteCheckpoint:
    """A checkpoint is complete everywhere."""

    checkpoint_id: int


ReaderCommand = ReaderEvent | TakeSnapshot | CompleteCheckpoint | Stop


# --- to the coordinator's thread ---


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTaken:
    """A reader's part of a checkpoint."""

    reader: int
    checkpoint_id: int
    part: ReaderCheckpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderEnded:
    """A reader has emitted everything that it will ever have."""

    reader: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderCrashed:
    """A reader failed; its thread is over."""

    reader: int
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsMade:
    """The worker made the connector's own splits for the first event that waits at a reader's gateway."""

    reader: int
    attempt: int
    splits: tuple[Split, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOffsetsKnown:
    """What splits hold now."""

    extents: Mapping[str, SplitOffsets]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFailed:
    """Work of the job's own on the worker thread failed, and with it the job."""

    error: Exception


MasterMessage = (
    CoordinatorEvent
    | SnapshotTaken
    | ReaderEnded
    | ReaderCrashed
    | SplitsMade
    | SplitOffsetsKnown
    | WorkFailed
    | Stop
)


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
