"""Drive a source's coordinator with one reader, the query's batches: due calls, and splits for the batch planner.

Runs on the planning thread: blocking work of an enumerator is done between two batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from penstock.catalog.errors import BrokerUnavailableError
from penstock.connector.contract import SplitMetadataClient, SplitSource
from penstock.connector.source.coordinator.coordinator import (
    CoordinatorSettings,
    CoordinatorState,
    SourceCoordinator,
    no_segment_files,
)
from penstock.connector.source.coordinator.discovery import SplitStops
from penstock.connector.source.coordinator.events import (
    AddSplits,
    CallCompleted,
    CheckpointCompleted,
    CheckpointTaken,
    CheckpointTriggered,
    CoordinatorEffect,
    FailJob,
    IsProcessingBacklog,
    NoMoreSplits,
    PublishGroupWatermark,
    ReaderEvent,
    ReaderRegistered,
    ScheduleCall,
    SendToReader,
    SourceEvent,
    SplitRequested,
    WatermarkAlignment,
)
from penstock.connector.source.microbatch.planner import BatchPlanner
from penstock.connector.source.segments import SegmentFiles

READER = 0
"""Spark's batches are the one reader; what its tasks read is decided batch by batch."""


@dataclass(slots=True, kw_only=True)
class _DriverCall:
    call_id: int
    work: Callable[[], Any]
    due_ms: int
    every_ms: int | None


class CoordinatorDriver:
    """A coordinator and its outstanding calls. `now_ms` is a clock that never steps.

    Raises what the enumerator fails with; BrokerUnavailableError leaves everything as it is, to be tried again.
    """

    def __init__(
        self,
        source: SplitSource,
        planner: SplitMetadataClient,
        state: CoordinatorState | None,
        open_segment_files: Callable[[], SegmentFiles | None] = no_segment_files,
    ) -> None:
        # what is left after the batch tells an aligned table's group how far the next one gets
        self._beyond = 0 if source.watermark.alignment is None else 1
        self._coordinator = SourceCoordinator(
            CoordinatorSettings(parallelism=1, open_segment_files=open_segment_files),
            source.enumerator(planner),
            state,
        )
        self._calls: list[_DriverCall] = []
        self._taken: CoordinatorState = {}
        self._checkpoint_id = 0
        self._completed_id = 0
        self._asked = False

    @property
    def gives_on_request(self) -> bool:
        """Whether splits are pulled: asked for one by one."""
        return self._coordinator.pulls

    def is_bounded(self, state: CoordinatorState) -> bool:
        """Return whether a checkpoint is of a bounded scan, whose stops another scan lifts."""
        return self._coordinator.is_bounded(state)

    def start(self, now_ms: int) -> None:
        """Begin; before anything else, once. Nothing is assigned yet."""
        self._perform(self._coordinator.start(), None, now_ms)
        self.checkpoint(now_ms)

    def register(self, batches: BatchPlanner, now_ms: int) -> None:
        """Register the batches as the coordinator's reader."""
        self._perform(self._coordinator.handle(ReaderRegistered(reader=READER)), batches, now_ms)

    def run_due(self, batches: BatchPlanner, now_ms: int) -> None:
        """Do what is due, in order of time, then ask for splits. May block on I/O."""
        while (call := self._next_due(now_ms)) is not None:
            outcome = _outcome(call)
            self._calls.remove(call)
            if call.every_ms is not None:
                # the times in between have passed: a listing shows what is there now
                missed = (now_ms - call.due_ms) // call.every_ms
                call.due_ms += call.every_ms * (missed + 1)
                self._calls.append(call)
            self._perform(self._coordinator.handle(outcome), batches, now_ms)

    def pull(self, batches: BatchPlanner, limit: int | None, now_ms: int) -> None:
        """Request splits as long as there is less to read than a batch takes (None: all of them)."""
        if not self.gives_on_request:
            return
        while not (self._asked or batches.has_all_splits):
            if limit is not None and batches.ahead >= limit + self._beyond:
                return
            self._asked = True
            self._perform(self._coordinator.handle(SplitRequested(reader=READER)), batches, now_ms)

    def checkpoint(self, now_ms: int) -> CoordinatorState:
        """Return the coordinator's part of a checkpoint."""
        self._checkpoint_id += 1
        trigger = CheckpointTriggered(checkpoint_id=self._checkpoint_id)
        self._perform(self._coordinator.handle(trigger), None, now_ms)
        return self._taken

    def complete(self, batches: BatchPlanner, now_ms: int) -> None:
        """The last checkpoint is part of a completed batch."""
        if self._completed_id == self._checkpoint_id:
            return
        self._completed_id = self._checkpoint_id
        completed = CheckpointCompleted(checkpoint_id=self._checkpoint_id)
        self._perform(self._coordinator.handle(completed), batches, now_ms)

    def close(self) -> None:
        """End the coordinator."""
        self._coordinator.close()

    def _next_due(self, now_ms: int) -> _DriverCall | None:
        due = [call for call in self._calls if call.due_ms <= now_ms]
        return min(due, key=lambda call: (call.due_ms, call.call_id), default=None)

    def _perform(
        self, effects: Sequence[CoordinatorEffect], batches: BatchPlanner | None, now_ms: int
    ) -> None:
        for effect in effects:
            match effect:
                case SendToReader():
                    assert batches is not None, "an event for a reader that is not registered"
                    self._deliver(effect.event, batches)
                case ScheduleCall():
                    self._calls.append(
                        _DriverCall(
                            call_id=effect.call_id,
                            work=effect.work,
                            due_ms=now_ms + effect.delay_ms,
                            every_ms=effect.every_ms,
                        )
                    )
                case CheckpointTaken():
                    self._taken = effect.state
                case FailJob():
                    raise effect.error
                case PublishGroupWatermark():
                    pass  # batches report no watermark: they are aligned when they are planned
                case _:
                    assert_never(effect)

    def _deliver(self, event: ReaderEvent, batches: BatchPlanner) -> None:
        match event:
            case AddSplits(splits=splits):
                self._asked = False
                batches.add_splits(splits)
            case NoMoreSplits():
                batches.no_more_splits()
            case SourceEvent(event=SplitStops(stops=stops)):
                batches.set_stops(stops)
            case SourceEvent() | IsProcessingBacklog() | WatermarkAlignment():
                pass  # nothing that a batch would do another way
            case _:
                assert_never(event)


def _outcome(call: _DriverCall) -> CallCompleted:
    """Do the work of a call. Whatever else it raises is for the enumerator, which fails the query with it."""
    try:
        return CallCompleted(call_id=call.call_id, result=call.work())
    except BrokerUnavailableError:
        raise
    except Exception as error:  # noqa: BLE001
        return CallCompleted(call_id=call.call_id, error=error)
