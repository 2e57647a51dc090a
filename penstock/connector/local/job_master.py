"""The job master's thread: performs the coordinator's effects, takes checkpoints, restarts failed readers.

Holds the job's settings, the gateways to its readers and the watermarks of alignment groups in this process.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import assert_never

from penstock.connector.contract import SplitMetadataClient
from penstock.connector.local.messages import (
    CheckpointTracker,
    CompleteCheckpoint,
    LocalCheckpoint,
    MasterMessage,
    ReaderCheckpoint,
    ReaderCommand,
    ReaderCrashed,
    ReaderEnded,
    SnapshotTaken,
    SplitOffsetsKnown,
    SplitsMade,
    Stop,
    TakeSnapshot,
    WorkFailed,
)
from penstock.connector.local.reader import LocalReader, ReaderContext
from penstock.connector.local.split_status import EndOffsetsLookup, ReaderStatus, is_permanent
from penstock.connector.local.threads import IntervalClock, Mailbox, Timers, Worker
from penstock.connector.scan import Rowtime
from penstock.connector.source.alignment import Alignment
from penstock.connector.source.coordinator.coordinator import CoordinatorState, SourceCoordinator
from penstock.connector.source.coordinator.events import (
    AddSplits,
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
    ReaderReset,
    ScheduleCall,
    SendToReader,
)
from penstock.connector.source.split import Split


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """`columns` are physical and metadata columns. Without `rowtime` there are no watermarks, and no alignment.

    Intervals in ms; None is never. `restarts` is how often in a row a reader may fail, without a checkpoint that
    completes in between, before its failure is the job's; `restart_delay_ms` passes before it is started again.
    `extents_interval_ms` is how often the ends of the splits are looked up, for lags. `name` identifies the job in its
    alignment group.
    """

    columns: tuple[str, ...]
    rowtime: Rowtime | None = None
    time_zone: str = "UTC"
    readers: int = 1
    checkpoint_interval_ms: int | None = None
    extents_interval_ms: int | None = None
    restarts: int = 3
    restart_delay_ms: int = 1000
    name: str = "source"


class GroupWatermarks:
    """Lowest watermarks (epoch ms) by group and source. Any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._groups: dict[str, dict[str, int]] = {}

    def publish(self, group: str, source: str, watermark_ms: int | None) -> None:
        """Replace what `source` published; None takes it off: it no longer holds the group."""
        with self._lock:
            entries = self._groups.setdefault(group, {})
            if watermark_ms is None:
                entries.pop(source, None)
            else:
                entries[source] = watermark_ms

    def lowest_ms(self, group: str) -> int | None:
        """Return the group's lowest watermark; None while no source has published one. A source
        that never did is absent.
        """
        with self._lock:
            return min(self._groups.get(group, {}).values(), default=None)


@dataclass(slots=True, kw_only=True)
class SubtaskGateway:
    """Sends to one attempt of a reader. Coordinator's thread only.

    `make_splits` starts to turn plain splits into the connector's own, `made` is called when it is done. Later events
    wait: NoMoreSplits must not overtake the splits, nor may a checkpoint's barrier.
    """

    deliver: Callable[[ReaderCommand], None]
    make_splits: Callable[[tuple[Split, ...]], None]
    _waiting: deque[ReaderCommand] = field(default_factory=deque)
    _making: bool = False

    def send(self, command: ReaderCommand) -> None:
        """Deliver a command behind all that was sent before."""
        self._waiting.append(command)
        self._flush()

    def made(self, splits: tuple[Split, ...]) -> None:
        """Accept the splits that were requested, and deliver the events that waited for them."""
        assert self._making, "splits that nobody asked for"
        self._waiting.popleft()
        self._making = False
        self.deliver(AddSplits(splits=splits))
        self._flush()

    def _flush(self) -> None:
        while self._waiting and not self._making:
            command = self._waiting[0]
            if isinstance(command, AddSplits):
                self._making = True
                self.make_splits(command.splits)
            else:
                self.deliver(self._waiting.popleft())


logger = logging.getLogger(__name__)

JOIN_S = 0.5
"""How long a reader's end is waited for; its thread is a daemon and ends with its fetch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobParts:
    """What a job is made of, beside its threads. `on_checkpoint` runs on the coordinator's thread."""

    coordinator: SourceCoordinator
    planner: SplitMetadataClient
    worker: Worker
    clock: IntervalClock
    board: GroupWatermarks
    alignment: Alignment | None
    restored: LocalCheckpoint | None
    on_checkpoint: Callable[[LocalCheckpoint], None]


@dataclass(slots=True, kw_only=True)
class _Attempt:
    """A reader that runs, and the way to it."""

    number: int
    reader: LocalReader
    gateway: SubtaskGateway


class JobMaster:
    """Owns the SourceCoordinator and the readers. All methods but the public ones run on its thread."""

    def __init__(
        self,
        settings: JobSettings,
        parts: JobParts,
        make_context: Callable[[Callable[[MasterMessage], None]], ReaderContext],
    ) -> None:
        self._settings = settings
        self._parts = parts
        self._mailbox: Mailbox[MasterMessage] = Mailbox()
        self._context = make_context(self._mailbox.post)
        self._timers = Timers(parts.clock)
        self._readers: dict[int, _Attempt] = {}
        self._attempts = 0
        self._ended_readers: set[int] = set()
        self._failures: dict[int, int] = {}
        self._ledger = CheckpointTracker(settings.readers, parts.restored)
        self._ends = EndOffsetsLookup(parts.planner, parts.worker, self._mailbox.post)
        self._ended = threading.Event()
        self._over = False
        self.error: Exception | None = None
        self.restarts = 0
        self._thread = threading.Thread(target=self._run, name="penstock-coordinator", daemon=True)

    # --- any thread ---

    def start(self) -> None:
        """Start the coordinator and its readers."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End it all, without finishing; waits up to `timeout_s`."""
        self._mailbox.post(Stop())
        self._thread.join(timeout_s)

    @property
    def ended(self) -> threading.Event:
        """Set when everything was emitted, or the job failed, or it was stopped."""
        return self._ended

    @property
    def reader_status(self) -> tuple[ReaderStatus, ...]:
        """How the readers stand."""
        return tuple(attempt.reader.status for _, attempt in sorted(self._readers.copy().items()))

    @property
    def ends(self) -> Mapping[str, int]:
        """Where splits end, as of the last look."""
        return self._ends.ends

    # --- the coordinator's thread ---

    def _run(self) -> None:
        try:
            self._start_timers()
            self._perform(self._parts.coordinator.start())
            for number in range(self._settings.readers):
                self._start_reader(number)
            while not self._over:
                message = self._mailbox.take(self._timers.wait_s)
                if message is not None:
                    self._on(message)
                for act in self._timers.due():
                    act()
        except Exception as error:  # noqa: BLE001  the consumer is told
            self._fail(error)
        finally:
            self._close()

    def _start_timers(self) -> None:
        if self._parts.alignment is not None:
            self._timers.every(self._parts.alignment.update_interval_ms, self._announce)
        if self._settings.checkpoint_interval_ms is not None:
            self._timers.every(self._settings.checkpoint_interval_ms, self._trigger_checkpoint)
        if self._settings.extents_interval_ms is not None:
            self._timers.every(self._settings.extents_interval_ms, self._look_at_ends)

    def _close(self) -> None:
        self._context.output.close()
        self._ended.set()
        for attempt in self._readers.values():
            attempt.reader.send(Stop())
        self._parts.coordinator.close()
        if self._parts.alignment is not None:
            self._parts.board.publish(
                self._parts.alignment.group, self._settings.name, watermark_ms=None
            )
        for attempt in self._readers.values():
            attempt.reader.join(JOIN_S)

    def _fail(self, error: Exception) -> None:
        if self.error is None:
            self.error = error
        self._over = True

    def _on(self, message: MasterMessage) -> None:
        match message:
            case SnapshotTaken():
                self._collect(message)
            case ReaderEnded(reader=reader):
                self._ended_readers.add(reader)
                self._over = len(self._ended_readers) == self._settings.readers
            case ReaderCrashed(reader=reader, error=error):
                self._reader_broke(reader, error)
            case SplitsMade(reader=reader, attempt=number, splits=splits):
                current = self._readers.get(reader)
                if current is not None and current.number == number:
                    current.gateway.made(splits)
                    if self._settings.extents_interval_ms is not None:
                        self._ends.look([split.split_id for split in splits])
            case SplitOffsetsKnown(extents=extents):
                self._ends.know(extents, self._split_ids(finished=True))
            case WorkFailed(error=error):
                self._fail(error)
            case Stop():
                self._over = True
            case _:
                self._handle(message)

    def _handle(self, event: CoordinatorEvent) -> None:
        self._perform(self._parts.coordinator.handle(event))

    def _perform(self, effects: tuple[CoordinatorEffect, ...]) -> None:
        for effect in effects:
            match effect:
                case SendToReader(reader=reader, event=event):
                    if reader in self._readers:
                        self._readers[reader].gateway.send(event)
                case ScheduleCall():
                    self._schedule(effect)
                case PublishGroupWatermark(group=group, watermark_ms=watermark_ms):
                    self._parts.board.publish(group, self._settings.name, watermark_ms)
                case CheckpointTaken(checkpoint_id=checkpoint_id, state=state):
                    self._draw_barrier(checkpoint_id, state)
                case FailJob(error=error):
                    self._fail(error)
                case _:
                    assert_never(effect)

    def _schedule(self, call: ScheduleCall) -> None:
        def done(result: object, error: Exception | None) -> None:
            self._mailbox.post(CallCompleted(call_id=call.call_id, result=result, error=error))

        self._parts.worker.call(call.work, done, delay_ms=call.delay_ms, every_ms=call.every_ms)

    def _announce(self) -> None:
        assert self._parts.alignment is not None, "limits without a group"
        lowest_ms = self._parts.board.lowest_ms(self._parts.alignment.group)
        self._handle(AlignmentDue(group_ms=lowest_ms))

    # --- readers ---

    def _start_reader(self, number: int) -> None:
        """Start a reader where the last complete checkpoint has it."""
        last = self._ledger.last
        part = ReaderCheckpoint() if last is None else last.reader(number, self._settings.readers)
        self._attempts += 1
        reader = LocalReader(number, self._context, part)
        gateway = SubtaskGateway(
            deliver=reader.send, make_splits=partial(self._make_splits, number, self._attempts)
        )
        self._readers[number] = _Attempt(number=self._attempts, reader=reader, gateway=gateway)
        if part.splits:
            gateway.send(AddSplits(splits=part.splits))
        reader.start()

    def _make_splits(self, reader: int, attempt: int, splits: tuple[Split, ...]) -> None:
        """Create the connector's own splits, on the worker thread like all work of the planner."""

        def work() -> tuple[Split, ...]:
            planner = self._parts.planner
            return tuple(planner.split(s.split_id, s.start, s.stop) for s in splits)

        def done(made: tuple[Split, ...] | None, error: Exception | None) -> None:
            if error is not None:
                self._mailbox.post(WorkFailed(error=error))
            else:
                assert made is not None, "splits without a result"
                self._mailbox.post(SplitsMade(reader=reader, attempt=attempt, splits=made))

        self._parts.worker.call(work, done)

    def _reader_broke(self, reader: int, error: Exception) -> None:
        """Return its later splits and restart it, unless it would only fail again."""
        self._ledger.give_up()
        # what it emitted since its checkpoint is read again, so it has not ended yet
        self._ended_readers.discard(reader)
        del self._readers[reader]
        self._handle(ReaderFailed(reader=reader))
        failures = self._failures[reader] = self._failures.get(reader, 0) + 1
        if is_permanent(error) or failures > self._settings.restarts:
            self._fail(error)
            return
        self.restarts += 1
        logger.warning("reader %s failed and is started again: %s", reader, error)
        last = self._ledger.last
        self._handle(
            ReaderReset(reader=reader, checkpoint_id=None if last is None else last.checkpoint_id)
        )
        self._timers.after(self._settings.restart_delay_ms, partial(self._start_reader, reader))

    # --- checkpoints ---

    def _trigger_checkpoint(self) -> None:
        """Begin a checkpoint, unless one is under way or a reader is missing."""
        if not self._ledger.busy and len(self._readers) == self._settings.readers:
            self._handle(CheckpointTriggered(checkpoint_id=self._ledger.next_id()))

    def _draw_barrier(self, checkpoint_id: int, state: CoordinatorState) -> None:
        """Request every reader's part, ahead of all that the coordinator sends from now on."""
        self._ledger.begin(checkpoint_id, state)
        for attempt in self._readers.values():
            attempt.gateway.send(TakeSnapshot(checkpoint_id=checkpoint_id))

    def _collect(self, taken: SnapshotTaken) -> None:
        complete = self._ledger.collect(taken)
        if complete is None:
            return
        self._failures.clear()
        self._parts.on_checkpoint(complete)
        self._handle(CheckpointCompleted(checkpoint_id=complete.checkpoint_id))
        for attempt in self._readers.values():
            attempt.gateway.send(CompleteCheckpoint(checkpoint_id=complete.checkpoint_id))

    # --- how far there is to read ---

    def _look_at_ends(self) -> None:
        """Look up the ends of all splits that are being read, unless the last look-up is still in progress."""
        if not self._ends.busy:
            self._ends.look(self._split_ids(finished=False))

    def _split_ids(self, *, finished: bool) -> set[str]:
        """Return the ids of the splits that are shown, finished ones among them or not."""
        splits = (split for status in self.reader_status for split in status.splits)
        return {split.split_id for split in splits if finished or not split.finished}
