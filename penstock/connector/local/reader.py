"""A reader's thread: a SourceReader and its SourceOperator, from the events that come in to the rows that go out.

Rows go to the job's consumer through a bounded queue, which is its backpressure.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Condition
from typing import assert_never

import pyarrow as pa

from penstock.connector.event_time.future_timestamps import filter_future_rows
from penstock.connector.local.messages import (
    CompleteCheckpoint,
    MasterMessage,
    ReaderCheckpoint,
    ReaderCommand,
    ReaderCrashed,
    ReaderEnded,
    SnapshotTaken,
    Stop,
    TakeSnapshot,
)
from penstock.connector.local.split_status import ReaderStatus, SplitStatusTracker
from penstock.connector.local.threads import IntervalClock, Mailbox
from penstock.connector.scan import Rowtime
from penstock.connector.source.coordinator.discovery import SplitStops
from penstock.connector.source.coordinator.events import (
    AddSplits,
    IsProcessingBacklog,
    NoMoreSplits,
    ReaderRegistered,
    ReportedWatermark,
    SourceEvent,
    SplitRequested,
    WatermarkAlignment,
)
from penstock.connector.source.reader.reader import EndOfInput, NothingAvailable, SourceReader
from penstock.connector.source.reader.source_operator import PauseOrResume, SourceOperator
from penstock.connector.source.records import RecordsWithSplitIds
from penstock.connector.source.split import Split

CAPACITY = 4
"""Batches that wait for the consumer before readers wait for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Emission:
    """Rows of one split, in its order, by `reader`.

    `watermark_ms` is the reader's watermark behind these rows (epoch ms, None before the first); the job's is the
    lowest of its readers'.
    """

    reader: int
    split_id: str
    batch: pa.RecordBatch
    watermark_ms: int | None


class Output:
    """A bounded queue from the readers to the consumer. Any thread."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._changed = Condition()
        self._waiting: deque[Emission] = deque()
        self._capacity = capacity
        self._closed = False

    @property
    def has_room(self) -> bool:
        """Whether a `put` would not wait now."""
        with self._changed:
            return self._closed or len(self._waiting) < self._capacity

    def put(self, emission: Emission) -> bool:
        """Wait for room and add rows; False once it is closed, when no consumer will take them."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._waiting) < self._capacity)
            if self._closed:
                return False
            self._waiting.append(emission)
            self._changed.notify_all()
            return True

    def take(self, timeout_s: float) -> Emission | None:
        """Return the next rows; waits up to `timeout_s` for some. None when none came or none can come any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._waiting, timeout_s)
            if not self._waiting:
                return None
            emission = self._waiting.popleft()
            self._changed.notify_all()
            return emission

    def close(self) -> None:
        """Refuse new elements and end all waits; present elements can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


logger = logging.getLogger(__name__)

PROBE_INTERVAL_MS = 200
"""Flink's auto-watermark interval: how often silence is measured."""


def _no_bound() -> None:
    """Accept records however far in the future they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderContext:
    """Settings that all readers of a job share. `post` sends to the coordinator's thread; intervals in ms.

    `not_after_ms` returns the highest watermark (epoch ms) that a record may have now, None for no bound: a row above
    it is left out and counted, whatever the table would do in a query.
    """

    open_reader: Callable[[], SourceReader]
    output: Output
    post: Callable[[MasterMessage], None]
    clock: IntervalClock
    rowtime: Rowtime | None
    time_zone: str
    idle_timeout_ms: int | None
    report_interval_ms: int
    not_after_ms: Callable[[], int | None] = _no_bound


class LocalReader:
    """One attempt of a reader. After a failure another one takes its place, from a checkpoint."""

    def __init__(self, number: int, context: ReaderContext, restored: ReaderCheckpoint) -> None:
        """`restored` is the state of event time; its splits come as the first event."""
        self._number = number
        self._context = context
        self._restored = restored
        self._mailbox: Mailbox[ReaderCommand] = Mailbox()
        self._reader = context.open_reader()
        self._operator = SourceOperator(
            idle_timeout_ms=context.idle_timeout_ms, watermark_ms=restored.watermark_ms
        )
        self._splits = SplitStatusTracker(number)
        self._skipped = 0
        self._no_more_splits = False
        self._ended = False
        self._changed = False  # since the state was last published
        self._stopping = False
        self._asked = False
        self._reported_ms: int | None = None
        self._report_due_ms = 0
        self._probe_due_ms = 0
        self.status = ReaderStatus(reader=number)
        self._thread = threading.Thread(
            target=self._run, name=f"penstock-reader-{number}", daemon=True
        )

    def start(self) -> None:
        """Start the thread; it registers at the coordinator."""
        self._thread.start()

    def send(self, command: ReaderCommand) -> None:
        """Send the reader an event or a command. Any thread."""
        self._mailbox.post(command)
        self._reader.wake_up()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread's end."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            try:
                self._reader.start()
                self._work()
            finally:
                self._reader.close()
        except Exception as error:  # noqa: BLE001  the coordinator's thread decides what becomes of it
            self._context.post(ReaderCrashed(reader=self._number, error=error))

    def _work(self) -> None:
        self._context.post(ReaderRegistered(reader=self._number))
        if not self._restored.splits:
            self._request_split()
        while True:
            while (command := self._mailbox.take()) is not None:
                self._on(command)
            if self._stopping:
                return
            self._read_on()
            self._on_time()

    # --- events ---

    def _on(self, command: ReaderCommand) -> None:
        match command:
            case AddSplits(splits=splits):
                self._add_splits(splits)
            case NoMoreSplits():
                self._no_more_splits = True
                self._reader.notify_no_more_splits()
                self._operator.no_more_splits(self._now_ms)
            case WatermarkAlignment(limit_ms=limit_ms):
                self._pause_or_resume(self._operator.align(limit_ms, self._now_ms))
            case SourceEvent(event=event):
                assert isinstance(event, SplitStops), f"no reader understands {event}"
                self._set_stops(event)
            case IsProcessingBacklog():
                pass  # checkpoints keep their interval, they cost next to nothing here
            case TakeSnapshot(checkpoint_id=checkpoint_id):
                self._snapshot(checkpoint_id)
            case CompleteCheckpoint(checkpoint_id=checkpoint_id):
                self._reader.notify_checkpoint_complete(checkpoint_id)
            case Stop():
                self._stopping = True
            case _:
                assert_never(command)

    def _add_splits(self, splits: tuple[Split, ...]) -> None:
        self._asked = False
        self._splits.add(splits)
        self._reader.add_splits(splits)
        self._pause_or_resume(
            self._operator.add_splits(
                [split.split_id for split in splits],
                self._now_ms,
                {
                    split.split_id: self._restored.split_watermarks_ms[split.split_id]
                    for split in splits
                    if split.split_id in self._restored.split_watermarks_ms
                },
            )
        )
        self._publish()

    def _request_split(self) -> None:
        """Request a split, once until one arrives. Enumerators that push do not listen."""
        if not self._asked and not self._no_more_splits:
            self._asked = True
            self._context.post(SplitRequested(reader=self._number))

    def _pause_or_resume(self, decided: PauseOrResume) -> None:
        if decided:
            self._reader.pause_or_resume_splits(decided.pause, decided.resume)

    def _set_stops(self, event: SplitStops) -> None:
        """Set the end of splits without one: with a new reader, from this one's position."""
        splits = self._reader.snapshot_state(-1)
        if not any(s.stop is None and s.split_id in event.stops for s in splits):
            return
        self._reader.close()
        self._reader = self._context.open_reader()
        self._reader.start()
        self._reader.add_splits(
            [
                _ending(s, event.stops[s.split_id]) if s.split_id in event.stops else s
                for s in splits
            ]
        )
        paused = frozenset(split.split_id for split in self._operator.splits if split.paused)
        self._pause_or_resume(PauseOrResume(pause=paused))
        if self._no_more_splits:
            self._reader.notify_no_more_splits()

    def _snapshot(self, checkpoint_id: int) -> None:
        part = ReaderCheckpoint(
            splits=() if self._ended else tuple(self._reader.snapshot_state(checkpoint_id)),
            watermark_ms=self._operator.watermark_ms,
            split_watermarks_ms={
                split.split_id: split.watermark_ms
                for split in self._operator.splits
                if split.watermark_ms is not None
            },
        )
        self._context.post(
            SnapshotTaken(reader=self._number, checkpoint_id=checkpoint_id, part=part)
        )

    # --- records ---

    def _read_on(self) -> None:
        if self._ended:
            self._wait_for_command()
            return
        match self._reader.poll_next():
            case RecordsWithSplitIds() as records:
                self._emit(records)
            case NothingAvailable():
                if self._changed:
                    self._publish()
                # an event that is sent meanwhile wakes it up
                self._reader.wait_available(PROBE_INTERVAL_MS / 1000)
            case EndOfInput():
                self._ended = True
                self._publish()
                self._report()
                self._context.post(ReaderEnded(reader=self._number))

    def _wait_for_command(self) -> None:
        command = self._mailbox.take(PROBE_INTERVAL_MS / 1000)
        if command is not None:
            self._on(command)

    def _emit(self, records: RecordsWithSplitIds) -> None:
        for split_id, batch in records.batches:
            rows, watermark_ms = self._accepted(batch)
            if not rows.num_rows:
                continue
            self._pause_or_resume(self._operator.emit(split_id, watermark_ms, self._now_ms))
            self._deliver(
                Emission(
                    reader=self._number,
                    split_id=split_id,
                    batch=rows,
                    watermark_ms=self._operator.watermark_ms,
                )
            )
        self._splits.move(records.positions)
        self._skipped += records.skipped
        self._changed = True
        if records.finished:
            self._finish(records.finished)

    def _accepted(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int | None]:
        """Return the rows that are not of the future, and the highest watermark of them."""
        rowtime = self._context.rowtime
        if rowtime is None or not batch.num_rows:
            return batch, None
        sifted = filter_future_rows(
            rowtime, batch, self._context.time_zone, self._context.not_after_ms()
        )
        self._skipped += len(sifted.outliers)
        return sifted.batch, sifted.watermark_ms

    def _deliver(self, emission: Emission) -> None:
        output = self._context.output
        if output.has_room:
            output.put(emission)
            return
        self._operator.hold(self._now_ms)
        output.put(emission)
        self._operator.release(self._now_ms)

    def _finish(self, split_ids: frozenset[str]) -> None:
        self._splits.finish(split_ids, self._operator)
        self._operator.finish_splits(split_ids, self._now_ms)
        self._publish()
        if self._splits.empty:
            self._request_split()

    # --- time ---

    @property
    def _now_ms(self) -> int:
        return self._context.clock.now_ms()

    def _on_time(self) -> None:
        now_ms = self._now_ms
        if now_ms >= self._probe_due_ms:
            self._probe_due_ms = now_ms + PROBE_INTERVAL_MS
            self._operator.probe_idleness(now_ms)
            self._publish()
        if now_ms >= self._report_due_ms:
            self._report_due_ms = now_ms + self._context.report_interval_ms
            self._report()

    def _report(self) -> None:
        """Report the watermark to the coordinator, when there is one and it changed."""
        watermark_ms = self._operator.report()
        if watermark_ms is not None and watermark_ms != self._reported_ms:
            self._reported_ms = watermark_ms
            self._context.post(ReportedWatermark(reader=self._number, watermark_ms=watermark_ms))

    def _publish(self) -> None:
        """Publish the state to other threads: one frozen value, replaced as a whole."""
        self._changed = False
        operator = self._operator
        self.status = ReaderStatus(
            reader=self._number,
            splits=self._splits.statuses(operator),
            watermark_ms=operator.watermark_ms,
            idle=operator.idle,
            finished=operator.finished,
            skipped=self._skipped,
        )


def _ending(split: Split, stop: int) -> Split:
    return (
        split if split.stop is not None else replace(split, start=min(split.start, stop), stop=stop)
    )
