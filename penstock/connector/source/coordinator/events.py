"""The coordinator's events and effects. Plain values, matched exhaustively.

Between coordinator and readers they are Flink's operator events; the executor carries them, performs effects and hands
outcomes back as events. The coordinator itself does no I/O and has no clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.connector.source.enumerator import EnumeratorState
from penstock.connector.source.split import Split

# --- to a reader ---


@dataclass(frozen=True, slots=True, kw_only=True)
class AddSplits:
    """Splits to read, each from its start (Flink's AddSplitEvent)."""

    splits: tuple[Split, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoMoreSplits:
    """The reader has its last split (Flink's NoMoreSplitsEvent)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkAlignment:
    """Splits whose watermark is above `limit_ms` (epoch ms, inclusive) have to pause (FLIP-182, FLIP-217)."""

    limit_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsProcessingBacklog:
    """Whether old records are read (FLIP-309): checkpoints may be rarer then."""

    backlog: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEvent:
    """An event of the source's own, from its enumerator."""

    event: object


ReaderEvent = AddSplits | NoMoreSplits | WatermarkAlignment | IsProcessingBacklog | SourceEvent


# --- to the coordinator ---


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderRegistered:
    """A reader registers (Flink's ReaderRegistrationEvent); again after a failure."""

    reader: int
    location: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRequested:
    """A reader wants a split (Flink's RequestSplitEvent)."""

    reader: int
    location: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedWatermark:
    """A reader's watermark, epoch ms; MAX_WATERMARK_MS where all of it is idle or finished.

    A reader without a watermark yet reports nothing.
    """

    reader: int
    watermark_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEventReceived:
    """A reader sent its enumerator an event of the source's own."""

    reader: int
    event: object


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCompleted:
    """Work of a `ScheduleCall` ended: `result`, or the `error` that it raised."""

    call_id: int
    result: Any = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentDue:
    """An update interval is over; `group_ms` is the lowest watermark published by the group's sources, if any."""

    group_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTriggered:
    """Snapshot the coordinator, before any reader is snapshot."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCompleted:
    """A checkpoint is complete everywhere."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderFailed:
    """A reader failed: it gets nothing until it registers again, and no longer holds back its group."""

    reader: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderReset:
    """A failed reader restarts from a checkpoint (None: from nothing): splits assigned since go back."""

    reader: int
    checkpoint_id: int | None


CoordinatorEvent = (
    ReaderRegistered
    | SplitRequested
    | ReportedWatermark
    | SourceEventReceived
    | CallCompleted
    | AlignmentDue
    | CheckpointTriggered
    | CheckpointCompleted
    | ReaderFailed
    | ReaderReset
)


# --- from the coordinator ---


@dataclass(frozen=True, slots=True, kw_only=True)
class SendToReader:
    """Deliver an event to a reader, in the order of the effects."""

    reader: int
    event: ReaderEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleCall:
    """Run `work` off the coordinator's thread after `delay_ms`, then every `every_ms`; see `call_async`."""

    call_id: int
    work: Callable[[], Any]
    delay_ms: int = 0
    every_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishGroupWatermark:
    """The lowest watermark of this source's readers changed: publish it to the group.

    MAX_WATERMARK_MS where all are idle or finished; None removes the source from the group.
    """

    group: str
    watermark_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTaken:
    """The coordinator's part of a checkpoint."""

    checkpoint_id: int
    state: EnumeratorState


@dataclass(frozen=True, slots=True, kw_only=True)
class FailJob:
    """The job fails with this cause."""

    error: Exception


CoordinatorEffect = SendToReader | ScheduleCall | PublishGroupWatermark | CheckpointTaken | FailJob
