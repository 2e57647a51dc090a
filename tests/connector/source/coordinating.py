"""A job that tests drive by hand: an executor that performs a coordinator's effects at once, and worlds to look at."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

from penstock.connector.source.alignment import Alignment
from penstock.connector.source.coordinator.coordinator import (
    CoordinatorSettings,
    SourceCoordinator,
    no_segment_files,
)
from penstock.connector.source.coordinator.events import (
    AddSplits,
    CallCompleted,
    CheckpointCompleted,
    CheckpointTaken,
    CheckpointTriggered,
    CoordinatorEffect,
    CoordinatorEvent,
    FailJob,
    NoMoreSplits,
    PublishGroupWatermark,
    ReaderEvent,
    ReaderFailed,
    ReaderRegistered,
    ReaderReset,
    ScheduleCall,
    SendToReader,
    SplitRequested,
)
from penstock.connector.source.enumerator import (
    EnumeratorState,
    MakeEnumerator,
    SplitEnumeratorContext,
)
from penstock.connector.source.segments import SegmentFiles
from penstock.connector.source.split import Discovery, Split


class Job:
    """A coordinator, and what came out of it. Calls run when `run_calls` is asked to; `start` and `tick` do."""

    def __init__(
        self,
        make: MakeEnumerator,
        *,
        parallelism: int = 2,
        alignment: Alignment | None = None,
        state: Mapping[str, Any] | None = None,
        open_segment_files: Callable[[], SegmentFiles | None] = no_segment_files,
    ) -> None:
        settings = CoordinatorSettings(
            parallelism=parallelism, alignment=alignment, open_segment_files=open_segment_files
        )
        self.coordinator = SourceCoordinator(settings, make, state)
        self.sent: list[tuple[int, ReaderEvent]] = []
        self.published: list[tuple[str, int | None]] = []
        self.taken: dict[int, Mapping[str, Any]] = {}
        self.scheduled: list[ScheduleCall] = []
        self.due: list[ScheduleCall] = []
        self.failure: Exception | None = None

    def start(self) -> Job:
        """Start, and run what that asks for."""
        self.perform(self.coordinator.start())
        self.run_calls()
        return self

    def handle(self, event: CoordinatorEvent) -> tuple[CoordinatorEffect, ...]:
        """Handle an event and perform its effects, calls not included."""
        effects = self.coordinator.handle(event)
        self.perform(effects)
        return effects

    def run_calls(self) -> None:
        """Run the calls that are due, and those that they lead to."""
        while self.due:
            call = self.due.pop(0)
            try:
                event = CallCompleted(call_id=call.call_id, result=call.work())
            except Exception as error:  # noqa: BLE001  as an executor does
                event = CallCompleted(call_id=call.call_id, error=error)
            self.handle(event)

    def tick(self) -> None:
        """Let an interval pass."""
        self.due += [call for call in self.scheduled if call.every_ms is not None]
        self.run_calls()

    def register(self, *readers: int) -> Job:
        """Let readers register."""
        for reader in readers:
            self.handle(ReaderRegistered(reader=reader))
        return self

    def request(self, *readers: int) -> Job:
        """Let readers ask for a split each."""
        for reader in readers:
            self.handle(SplitRequested(reader=reader))
        return self

    def fail(self, reader: int, checkpoint_id: int | None = None) -> None:
        """Let a reader fail and go back to a checkpoint; it does not register yet."""
        self.handle(ReaderFailed(reader=reader))
        self.handle(ReaderReset(reader=reader, checkpoint_id=checkpoint_id))

    def checkpoint(self, checkpoint_id: int, *, complete: bool = True) -> Mapping[str, Any]:
        """Take the coordinator's part of a checkpoint, as it comes back from a file."""
        self.handle(CheckpointTriggered(checkpoint_id=checkpoint_id))
        if complete:
            self.handle(CheckpointCompleted(checkpoint_id=checkpoint_id))
        return self.taken[checkpoint_id]

    def perform(self, effects: Sequence[CoordinatorEffect]) -> None:
        """Keep what the effects say."""
        for effect in effects:
            match effect:
                case SendToReader(reader=reader, event=event):
                    self.sent.append((reader, event))
                case ScheduleCall():
                    self.scheduled.append(effect)
                    self.due.append(effect)
                case PublishGroupWatermark(group=group, watermark_ms=watermark_ms):
                    self.published.append((group, watermark_ms))
                case CheckpointTaken(checkpoint_id=checkpoint_id, state=state):
                    self.taken[checkpoint_id] = json.loads(json.dumps(state))
                case FailJob(error=error):
                    self.failure = error
                case _:
                    assert_never(effect)

    def events(self, reader: int) -> list[ReaderEvent]:
        """Give all that a reader was sent, in order."""
        return [event for to, event in self.sent if to == reader]

    def given(self, reader: int) -> list[Split]:
        """Give the splits that a reader was ever sent, in order."""
        return [s for e in self.events(reader) if isinstance(e, AddSplits) for s in e.splits]

    def ids(self, reader: int) -> list[str]:
        """Give the ids of those."""
        return [split.split_id for split in self.given(reader)]

    def ends(self, reader: int) -> int:
        """Count how often a reader was told that it has its last split."""
        return sum(isinstance(event, NoMoreSplits) for event in self.events(reader))


@dataclass
class World:
    """A SplitPlanner over numbers: what exists, from where to where, and what was asked of it."""

    owners: dict[str, str] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)
    latest: int = 100
    earliest: int = 0
    stops: dict[str, int] = field(default_factory=dict)
    failure: Exception | None = None
    listings: int = 0
    resolved: list[tuple[tuple[str, ...], bool]] = field(default_factory=list)

    def add(self, *split_ids: str) -> World:
        """Let splits come up, each of the topic before its last dash."""
        for split_id in split_ids:
            topic = split_id.rpartition("-")[0]
            self.owners[split_id] = topic
            self.topics.setdefault(topic, f"id of {topic}")
        return self

    def list_splits(self) -> Discovery:
        """List what exists."""
        self.listings += 1
        if self.failure is not None:
            raise self.failure
        return Discovery(owners=dict(self.owners), source_ids=dict(self.topics))

    def start_positions(
        self, split_ids: Sequence[str], *, first_listing: bool
    ) -> Mapping[str, int]:
        """Start at the latest position, or at the earliest for what is found later."""
        self.resolved.append((tuple(split_ids), first_listing))
        return dict.fromkeys(split_ids, self.latest if first_listing else self.earliest)

    def stop_positions(self, split_ids: Sequence[str]) -> Mapping[str, int]:
        """Stop where the test says."""
        return {i: self.stops[i] for i in split_ids if i in self.stops}

    def changed(self, owner: str, known: str, found: str | None) -> Exception:
        """Make the error for a topic that is another."""
        return LookupError(f"{owner} was {known} and is {found}")


class Shares:
    """An enumerator whose reader r owns every parallelism-th split from r on; it writes down what it is told."""

    def __init__(
        self,
        context: SplitEnumeratorContext,
        state: EnumeratorState | None,
        *,
        splits: Sequence[str] = ("s0", "s1", "s2", "s3"),
        fails_in: str = "",
    ) -> None:
        self.context = context
        self.unassigned = list(splits) if state is None else list(state["unassigned"])
        self.fails_in = fails_in
        self.told: list[tuple[Any, ...]] = []

    def tell(self, *what: Any) -> None:
        """Write down a call, or fail in it."""
        self.told.append(what)
        if what[0] == self.fails_in:
            raise ConnectionError(self.fails_in)

    def start(self) -> None:
        self.tell("start")

    def handle_split_request(self, reader: int, location: str | None) -> None:
        self.tell("request", reader, location)

    def add_splits_back(self, splits: Sequence[Split], reader: int) -> None:
        self.tell("back", [split.split_id for split in splits], reader)
        self.unassigned += [split.split_id for split in splits]

    def add_reader(self, reader: int) -> None:
        self.tell("reader", reader)
        share = [i for i in self.unassigned if int(i[1:]) % self.context.parallelism == reader]
        self.unassigned = [i for i in self.unassigned if i not in share]
        self.context.assign_splits({reader: [Split(split_id=i, start=0) for i in share]})

    def snapshot_state(self, checkpoint_id: int) -> EnumeratorState:
        self.tell("snapshot", checkpoint_id)
        return {"kind": "shares", "version": 1, "unassigned": list(self.unassigned)}

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.tell("complete", checkpoint_id)

    def handle_source_event(self, reader: int, event: object) -> None:
        self.tell("event", reader, event)

    def close(self) -> None:
        self.tell("close")
