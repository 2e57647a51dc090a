"""The coordinator: the one place where a source's readers, its enumerator and its checkpoints meet (FLIP-27).

A state machine without I/O, clock or threads: `handle(event)` returns the effects for the executor to perform, in
order. What follows a CheckpointTaken must reach no reader before that reader took its own part of the checkpoint
(Flink closes its gateways there), else a split would be in both parts or in none.

    ReaderRegistered ──► add_reader ───────────┐           ReaderFailed ──► off the group's minimum
    SplitRequested ────► handle_split_request ─┼─► assign  ReaderReset ───► splits since then ──► add_splits_back
    CallCompleted ─────► its handler ──────────┘           ReportedWatermark ─► Publish ··· AlignmentDue ─► limits
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, assert_never

from penstock.catalog.errors import StateMismatchError
from penstock.connector.source.alignment import Alignment, WatermarkAggregator, alignment_limit
from penstock.connector.source.coordinator.context import (
    SourceCoordinatorContext,
    SplitAssignmentTracker,
)
from penstock.connector.source.coordinator.events import (
    AlignmentDue,
    CallCompleted,
    CheckpointCompleted,
    CheckpointTaken,
    CheckpointTriggered,
    CoordinatorEffect,
    CoordinatorEvent,
    FailJob,
    PublishGroupWatermark,
    ReaderFailed,
    ReaderRegistered,
    ReaderReset,
    ReportedWatermark,
    SourceEventReceived,
    SplitRequested,
    WatermarkAlignment,
)
from penstock.connector.source.enumerator import (
    HINT,
    EnumeratorState,
    MakeEnumerator,
    SplitEnumerator,
    check_keys,
)
from penstock.connector.source.segments import SegmentFiles

VERSION = 1

CoordinatorState = Mapping[str, Any]
"""A coordinator's part of a checkpoint as JSON values with keys in fixed order, `version` the first of them."""


def no_segment_files() -> SegmentFiles | None:
    """Return None: an executor without a folder beside its checkpoints."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """`parallelism` is the number of readers, named 0 and up; `alignment` is None for a table without a group.

    `open_segment_files` opens a folder that goes with the checkpoints; it returns None where there is none.
    """

    parallelism: int
    alignment: Alignment | None = None
    open_segment_files: Callable[[], SegmentFiles | None] = no_segment_files

    def __post_init__(self) -> None:
        assert self.parallelism > 0, "somebody has to read"


class SourceCoordinator:
    """Coordinates one source (Flink's SourceCoordinator); on one thread, or none: see the module's drawing.

    Raises StateMismatchError when made from a `state` of an unknown version or of another kind of source. Readers are
    not part of the state: after a restore each registers again.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        make_enumerator: MakeEnumerator,
        state: CoordinatorState | None = None,
    ) -> None:
        self._settings = settings
        self._tracker = SplitAssignmentTracker()
        self._context = SourceCoordinatorContext(
            settings.parallelism, self._tracker, settings.open_segment_files
        )
        self._watermarks = WatermarkAggregator()
        self._published_ms: int | None = None
        self._started = False
        self._failed = False
        self._closed = False
        self._enumerator = make_enumerator(
            self._context, None if state is None else enumerator_state(state)
        )

    @property
    def pulls(self) -> bool:
        """Whether readers ask for their splits (`SplitEnumerator.pulls`)."""
        return self._enumerator.pulls

    def is_bounded(self, state: CoordinatorState) -> bool:
        """Return whether a checkpoint is of a bounded scan (`SplitEnumerator.is_bounded`)."""
        return self._enumerator.is_bounded(enumerator_state(state))

    @property
    def registered_readers(self) -> Collection[int]:
        """The registered readers, ascending."""
        return self._context.registered_readers

    def start(self) -> tuple[CoordinatorEffect, ...]:
        """Start the enumerator. Once, before any event."""
        assert not self._started, "a coordinator starts once"
        self._started = True
        return self._step(self._enumerator.start)

    def handle(self, event: CoordinatorEvent) -> tuple[CoordinatorEffect, ...]:
        """Handle one event and return the effects, in order; none after a failure of the job or its end."""
        assert self._started, f"{type(event).__name__} before the start"
        if self._failed or self._closed:
            return ()
        return self._step(partial(self._apply, event))

    def close(self) -> None:
        """End, also after a failure; later events have no effect."""
        if not self._closed:
            self._closed = True
            self._enumerator.close()

    def _step(self, act: Callable[[], None]) -> tuple[CoordinatorEffect, ...]:
        """Run `act`; an exception has no effect but to fail the job, with that cause."""
        try:
            act()
        except Exception as error:  # noqa: BLE001  an enumerator is a connector's code: whatever it raises
            self._failed = True
            return (FailJob(error=error),)
        return self._context.take_effects()

    def _apply(self, event: CoordinatorEvent) -> None:
        match event:
            case ReaderRegistered(reader=reader):
                self._register(reader)
            case SplitRequested(reader=reader, location=location):
                if self._context.takes_requests(reader):
                    self._enumerator.handle_split_request(reader, location)
            case ReportedWatermark(reader=reader, watermark_ms=watermark_ms):
                # a late report would bring a reader that is gone back into the minimum (FLINK-40505)
                if self._is_there(reader):
                    self._watermarks.report(reader, watermark_ms)
                    self._publish()
            case SourceEventReceived(reader=reader, event=sent):
                if self._is_there(reader):
                    self._enumerator.handle_source_event(reader, sent)
            case CallCompleted():
                self._context.complete_call(event)
            case AlignmentDue(group_ms=group_ms):
                self._announce(group_ms)
            case CheckpointTriggered(checkpoint_id=checkpoint_id):
                self._snapshot(checkpoint_id)
            case CheckpointCompleted(checkpoint_id=checkpoint_id):
                self._tracker.on_completed(checkpoint_id)
                self._enumerator.notify_checkpoint_complete(checkpoint_id)
            case ReaderFailed(reader=reader):
                self._unregister(reader)
            case ReaderReset(reader=reader, checkpoint_id=checkpoint_id):
                self._reset(reader, checkpoint_id)
            case _:
                assert_never(event)

    def _is_there(self, reader: int) -> bool:
        return reader in self._context.registered_readers

    def _register(self, reader: int) -> None:
        assert 0 <= reader < self._settings.parallelism, (
            f"reader {reader} of {self._settings.parallelism}"
        )
        if self._is_there(reader):
            return
        self._context.register(reader)
        self._enumerator.add_reader(reader)
        self._context.repeat_no_more_splits(reader)

    def _unregister(self, reader: int) -> None:
        self._context.unregister(reader)
        self._watermarks.forget(reader)
        self._publish()

    def _reset(self, reader: int, checkpoint_id: int | None) -> None:
        self._unregister(reader)
        splits = self._tracker.take_back(reader, checkpoint_id)
        if splits:
            self._context.expect_more_splits(reader)
        # without splits too: what the reader reported since is no longer true (Flink calls it in any case)
        self._enumerator.add_splits_back(splits, reader)

    def _snapshot(self, checkpoint_id: int) -> None:
        enumerator = self._enumerator.snapshot_state(checkpoint_id)
        self._tracker.on_checkpoint(checkpoint_id)
        state = {"version": VERSION, "enumerator": enumerator}
        self._context.record(CheckpointTaken(checkpoint_id=checkpoint_id, state=state))

    def _publish(self) -> None:
        alignment, lowest_ms = self._settings.alignment, self._watermarks.lowest_ms
        if alignment is not None and lowest_ms != self._published_ms:
            self._published_ms = lowest_ms
            self._context.record(
                PublishGroupWatermark(group=alignment.group, watermark_ms=lowest_ms)
            )

    def _announce(self, group_ms: int | None) -> None:
        """Send the limit to each reader that has reported, also after its last split (FLINK-37670)."""
        alignment = self._settings.alignment
        assert alignment is not None, "limits for a table without a group"
        if group_ms is None:
            return
        limit_ms = alignment_limit(group_ms, alignment.max_drift_ms)
        for reader in self._context.registered_readers:
            if reader in self._watermarks:
                self._context.send(reader, WatermarkAlignment(limit_ms=limit_ms))


def known_source_ids(
    enumerator: type[SplitEnumerator], state: CoordinatorState | None
) -> Mapping[str, str]:
    """Return the ids that a checkpoint has of what its splits belong to; empty where nothing was listed yet.

    Raises StateMismatchError as `enumerator_state`, and for a snapshot of another kind of enumerator.
    """
    return {} if state is None else enumerator.source_ids(enumerator_state(state))


def enumerator_state(state: CoordinatorState) -> EnumeratorState:
    """Return the enumerator's part of a checkpoint of this version, or of version 0, which held nothing else.

    Raises StateMismatchError for another version.
    """
    if "kind" in state:
        return state
    if state.get("version") != VERSION:
        raise StateMismatchError(
            f"the checkpoint holds a source coordinator of version {state.get('version')!r}, "
            f"this Penstock reads up to {VERSION}",
            hint=HINT,
        )
    check_keys(state, {"version", "enumerator"}, "a source coordinator")
    enumerator: EnumeratorState = state["enumerator"]
    return enumerator
