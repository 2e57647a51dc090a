"""The context that a coordinator offers its enumerator: registered readers, recorded requests, split assignments.

`SplitAssignmentTracker` returns the splits that a failed reader did not checkpoint (Flink's class of that name).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.connector.source.coordinator.events import (
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


class SplitAssignmentTracker:
    """Assignments of one coordinator, kept apart by the first checkpoint that holds them. Not part of its state."""

    def __init__(self) -> None:
        self._open: dict[int, list[Split]] = {}
        self._by_checkpoint: dict[int, dict[int, list[Split]]] = {}
        self._completed: int | None = None

    def record(self, reader: int, splits: Sequence[Split]) -> None:
        """Record that `splits` were assigned to `reader`."""
        self._open.setdefault(reader, []).extend(splits)

    def on_checkpoint(self, checkpoint_id: int) -> None:
        """Record that this checkpoint holds the assignments so far."""
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
        """Remove what `reader` was assigned after a checkpoint (None: ever), in the order of assignment.

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


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A running or scheduled call: the handler of its outcome, and whether it repeats."""

    handler: Callable[[Any, Exception | None], None]
    periodic: bool


class SourceCoordinatorContext:
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
        self._no_more_signalled: set[int] = set()  # of the readers that are there
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
        """The registered readers, ascending."""
        return tuple(sorted(self._registered))

    def open_segment_files(self) -> SegmentFiles | None:
        """Open the folder beside the checkpoint; None where there is none."""
        return self._open_segment_files()

    def assign_splits(self, assignment: Mapping[int, Sequence[Split]]) -> None:
        """Assign splits to readers, and track them until a checkpoint that holds them completes."""
        for reader, splits in assignment.items():
            assert reader in self._registered, f"splits for reader {reader}, which is not there"
            assert reader not in self._no_more_signalled, (
                f"reader {reader} was told that it has all"
            )
            if splits:
                self._tracker.record(reader, splits)
                self.send(reader, AddSplits(splits=tuple(splits)))

    def signal_no_more_splits(self, reader: int) -> None:
        """Signal a reader, once, that it has its last split."""
        assert reader in self._registered, f"the end for reader {reader}, which is not there"
        if reader not in self._no_more_signalled:
            self._no_more_signalled.add(reader)
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
        """Run `work` elsewhere, then `handler` here with its outcome."""
        call_id = self._next_call_id
        self._next_call_id += 1
        self._calls[call_id] = _Call(handler=handler, periodic=every_ms is not None)
        self.record(ScheduleCall(call_id=call_id, work=work, delay_ms=delay_ms, every_ms=every_ms))

    def send_event(self, reader: int, event: object) -> None:
        """Send a reader an event of the source's own."""
        assert reader in self._registered, f"an event for reader {reader}, which is not there"
        self.send(reader, SourceEvent(event=event))

    def set_processing_backlog(self, *, backlog: bool) -> None:
        """Signal all readers, current and future, whether old records are read (FLIP-309)."""
        if backlog != self._backlog:
            self._backlog = backlog
            for reader in self.registered_readers:
                self.send(reader, IsProcessingBacklog(backlog=backlog))

    # --- for the coordinator ---

    def register(self, reader: int) -> None:
        """A reader registered: repeat to it what was sent to all readers."""
        self._registered.add(reader)
        if self._backlog is not None:
            self.send(reader, IsProcessingBacklog(backlog=self._backlog))

    def unregister(self, reader: int) -> None:
        """A reader failed; what was signalled to it has to be signalled again."""
        self._registered.discard(reader)
        self._no_more_signalled.discard(reader)

    def expect_more_splits(self, reader: int) -> None:
        """Splits came back from a reader, so that it may not have had its last one."""
        self._last_split_given.discard(reader)

    def repeat_no_more_splits(self, reader: int) -> None:
        """Repeat to a reader that came back the signal that it had before it failed."""
        if reader in self._last_split_given:
            self.signal_no_more_splits(reader)

    def takes_requests(self, reader: int) -> bool:
        """Return whether a split request of `reader` is to be heard."""
        return reader in self._registered and reader not in self._no_more_signalled

    def complete_call(self, event: CallCompleted) -> None:
        """Pass the outcome of a call to its handler."""
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
        """Return the effects recorded since the last call."""
        effects, self._effects = tuple(self._effects), []
        return effects
