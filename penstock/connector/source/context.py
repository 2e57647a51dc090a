"""What an enumerator sees of its coordinator: the readers that are there, and a record of what it asks for.

Nothing is performed here: `take_effects` hands over what was asked, in order. Only the coordinator calls the methods
that are not of SplitEnumeratorContext.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.connector.source.assignment import SplitAssignmentTracker
from penstock.connector.source.events import (
    AddSplits,
    CallCompleted,
    CoordinatorEffect,
    IsProcessingBacklog,
    NoMoreSplits,
    ReaderEvent,
    ScheduleCall,
    SendToReader,
    SourceEvent,
)
from penstock.connector.source.segments import SegmentFiles
from penstock.connector.source.split import Split

__all__ = ["RecordingContext"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A call that is under way or will be: who is told of its outcome, and whether it comes again."""

    handler: Callable[[Any, Exception | None], None]
    periodic: bool


class RecordingContext:
    """The SplitEnumeratorContext of a SourceCoordinator (Flink's SourceCoordinatorContext)."""

    def __init__(
        self,
        parallelism: int,
        tracker: SplitAssignmentTracker,
        open_segment_files: Callable[[], SegmentFiles | None],
    ) -> None:
        self._parallelism = parallelism
        self._open_segment_files = open_segment_files
        self._tracker = tracker
        self._effects: list[CoordinatorEffect] = []
        self._registered: set[int] = set()
        self._last_split_given: set[int] = set()  # outlives a reader's failure
        self._told_no_more: set[int] = set()  # of the readers that are there
        self._backlog: bool | None = None
        self._calls: dict[int, _Call] = {}
        self._next_call_id = 0

    # --- for the enumerator ---

    @property
    def parallelism(self) -> int:
        """Number of readers that the job has."""
        return self._parallelism

    @property
    def registered_readers(self) -> Collection[int]:
        """The readers that are there now, ascending."""
        return tuple(sorted(self._registered))

    def open_segment_files(self) -> SegmentFiles | None:
        """Open the folder beside the checkpoint; None where there is none."""
        return self._open_segment_files()

    def assign_splits(self, assignment: Mapping[int, Sequence[Split]]) -> None:
        """Give splits to readers, and track them until a checkpoint that holds them completes."""
        for reader, splits in assignment.items():
            assert reader in self._registered, f"splits for reader {reader}, which is not there"
            assert reader not in self._told_no_more, f"reader {reader} was told that it has all"
            if splits:
                self._tracker.record(reader, splits)
                self.send(reader, AddSplits(splits=tuple(splits)))

    def signal_no_more_splits(self, reader: int) -> None:
        """Tell a reader, once, that it has its last split."""
        assert reader in self._registered, f"the end for reader {reader}, which is not there"
        if reader not in self._told_no_more:
            self._told_no_more.add(reader)
            self._last_split_given.add(reader)
            self.send(reader, NoMoreSplits())

    def call_async(
        self,
        work: Callable[[], T],
        handler: Callable[[T | None, Exception | None], None],
        *,
        delay_ms: int = 0,
        every_ms: int | None = None,
    ) -> None:
        """Have `work` run elsewhere, and `handler` here with its outcome."""
        call_id = self._next_call_id
        self._next_call_id += 1
        self._calls[call_id] = _Call(handler=handler, periodic=every_ms is not None)
        self.record(ScheduleCall(call_id=call_id, work=work, delay_ms=delay_ms, every_ms=every_ms))

    def send_event(self, reader: int, event: object) -> None:
        """Send a reader an event of the source's own."""
        assert reader in self._registered, f"an event for reader {reader}, which is not there"
        self.send(reader, SourceEvent(event=event))

    def set_processing_backlog(self, *, backlog: bool) -> None:
        """Tell all readers, now and those to come, whether old records are read (FLIP-309)."""
        if backlog != self._backlog:
            self._backlog = backlog
            for reader in self.registered_readers:
                self.send(reader, IsProcessingBacklog(backlog=backlog))

    # --- for the coordinator ---

    def register(self, reader: int) -> None:
        """A reader is there: tell it what all readers were told."""
        self._registered.add(reader)
        if self._backlog is not None:
            self.send(reader, IsProcessingBacklog(backlog=self._backlog))

    def unregister(self, reader: int) -> None:
        """A reader is gone; what was signalled to it has to be signalled again."""
        self._registered.discard(reader)
        self._told_no_more.discard(reader)

    def expect_more_splits(self, reader: int) -> None:
        """Splits came back from a reader, so that it may not have had its last one."""
        self._last_split_given.discard(reader)

    def repeat_no_more_splits(self, reader: int) -> None:
        """Tell a reader that came back what it was told before it failed."""
        if reader in self._last_split_given:
            self.signal_no_more_splits(reader)

    def takes_requests(self, reader: int) -> bool:
        """Tell whether a split request of `reader` is to be heard."""
        return reader in self._registered and reader not in self._told_no_more

    def complete_call(self, event: CallCompleted) -> None:
        """Hand the outcome of a call to who asked for it."""
        call = self._calls.get(event.call_id)
        assert call is not None, f"an outcome of call {event.call_id}, which nobody waits for"
        if not call.periodic:
            del self._calls[event.call_id]
        call.handler(event.result, event.error)

    def send(self, reader: int, event: ReaderEvent) -> None:
        """Record an event for a reader."""
        self.record(SendToReader(reader=reader, event=event))

    def record(self, effect: CoordinatorEffect) -> None:
        """Record an effect."""
        self._effects.append(effect)

    def take_effects(self) -> tuple[CoordinatorEffect, ...]:
        """Hand over what was recorded since the last time."""
        effects, self._effects = tuple(self._effects), []
        return effects
