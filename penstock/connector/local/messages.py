"""What the threads of a local job tell each other, beside the events of `source/events.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.connector.local.checkpoint import ReaderCheckpoint
from penstock.connector.source.events import CoordinatorEvent, ReaderEvent
from penstock.connector.source.split import Extent, Split

__all__ = [
    "CompleteCheckpoint",
    "ExtentsKnown",
    "MasterMessage",
    "ReaderBroke",
    "ReaderCommand",
    "ReaderEnded",
    "SnapshotTaken",
    "SplitsMade",
    "Stop",
    "TakeSnapshot",
    "WorkFailed",
]


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
class ReaderBroke:
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
class ExtentsKnown:
    """What splits hold now."""

    extents: Mapping[str, Extent]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFailed:
    """Work of the job's own on the worker thread failed, and with it the job."""

    error: Exception


MasterMessage = (
    CoordinatorEvent
    | SnapshotTaken
    | ReaderEnded
    | ReaderBroke
    | SplitsMade
    | ExtentsKnown
    | WorkFailed
    | Stop
)
