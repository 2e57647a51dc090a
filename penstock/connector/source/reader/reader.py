"""The source reader: takes splits, returns Arrow batches until each split is finished (Flink's SourceReaderBase).

Keeps the delivered position of each split for checkpoints, and the batches of paused splits until they resume.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self, assert_never

from penstock.connector.contract import FetcherModel, SplitReader
from penstock.connector.source.reader.fetcher import (
    ElementsQueue,
    FetcherExecution,
    FetcherThreads,
    SplitFetcherManager,
)
from penstock.connector.source.records import RecordsWithSplitIds
from penstock.connector.source.split import Split


class ReaderProgress:
    """The unfinished splits of a reader, each with the position after the last batch that was delivered."""

    def __init__(self) -> None:
        self._splits: dict[str, Split] = {}
        self._positions: dict[str, int] = {}
        self._finished: dict[str, int] = {}
        self._checkpoints: dict[int, dict[str, int]] = {}

    @property
    def split_ids(self) -> Collection[str]:
        """The unfinished splits."""
        return self._splits.keys()

    def add(self, splits: Sequence[Split]) -> None:
        """Begin splits at their start. A finished split may come again, one that is being read may not."""
        for split in splits:
            assert split.split_id not in self._splits, f"{split.split_id} is being read already"
            self._splits[split.split_id] = split
            self._positions[split.split_id] = split.start

    def deliver(self, records: RecordsWithSplitIds) -> None:
        """Advance past what is delivered to the engine now."""
        for split_id, position in records.positions.items():
            if split_id in self._splits:
                self._positions[split_id] = position
        for split_id in records.finished & self._splits.keys():
            del self._splits[split_id]
            self._finished[split_id] = self._positions.pop(split_id)

    def snapshot(self, checkpoint_id: int) -> tuple[Split, ...]:
        """Return each unfinished split at its next position, in the order they were added."""
        self._checkpoints[checkpoint_id] = self._finished | self._positions
        return tuple(
            dataclasses.replace(split, start=self._positions[split_id])
            for split_id, split in self._splits.items()
        )

    def complete(self, checkpoint_id: int) -> Mapping[str, int]:
        """Return the positions that a checkpoint holds, those of splits that finished since the last one included.

        As Flink's KafkaSourceReader commits them. Checkpoints that were overtaken or are unknown hold nothing.
        """
        durable = self._checkpoints.get(checkpoint_id, {})
        self._checkpoints = {i: at for i, at in self._checkpoints.items() if i > checkpoint_id}
        self._finished = {i: at for i, at in self._finished.items() if durable.get(i) != at}
        return durable


class PausedRecords:
    """The held part of a reader's fetches, by split. Bounded by what one fetcher has in flight when a pause comes."""

    def __init__(self) -> None:
        self._held: dict[str, list[RecordsWithSplitIds]] = {}

    def __bool__(self) -> bool:
        """Return whether anything is held."""
        return bool(self._held)

    def sift(
        self, records: RecordsWithSplitIds, paused: Collection[str]
    ) -> RecordsWithSplitIds | None:
        """Hold back what belongs to paused splits and return the rest, None when nothing is left.

        A paused split's progress without rows (its end above all) passes, unless rows before it are held.
        """
        rows_of = {split_id for split_id, _ in records.batches}
        concerned = rows_of | records.finished | records.positions.keys()
        held = {i for i in concerned if i in paused and (i in rows_of or i in self._held)}
        if not held:
            return records
        for split_id in sorted(held):
            self._held.setdefault(split_id, []).append(_only(records, {split_id}))
        rest = _only(records, concerned - held, skipped=records.skipped, lost=records.lost)
        return None if rest == RecordsWithSplitIds() else rest

    def release(self, split_ids: Collection[str]) -> list[RecordsWithSplitIds]:
        """Return what is held of splits, in order, to be delivered before all else of them."""
        return [part for split_id in split_ids for part in self._held.pop(split_id, ())]


def _only(
    records: RecordsWithSplitIds, split_ids: Collection[str], *, skipped: int = 0, lost: int = 0
) -> RecordsWithSplitIds:
    return RecordsWithSplitIds(
        batches=tuple(item for item in records.batches if item[0] in split_ids),
        finished=records.finished & frozenset(split_ids),
        positions={i: at for i, at in records.positions.items() if i in split_ids},
        skipped=skipped,
        lost=lost,
        origins={i: of for i, of in records.origins.items() if i in split_ids},
        read={i: count for i, count in records.read.items() if i in split_ids},
        bad={i: bad for i, bad in records.bad.items() if i in split_ids},
    )


LOOK_AGAIN_S = 60.0
"""Bound of a single wait for records; their arrival ends it at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingAvailable:
    """Nothing to deliver now; `wait_available` tells when to ask again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOfInput:
    """Every split is finished and delivered, and no other will come."""


Polled = RecordsWithSplitIds | NothingAvailable | EndOfInput


class SourceReader:
    """Reads assigned splits. One thread, but for `wake_up`.

    `model` says how splits share fetchers, `execution` what steps the fetchers (threads of their own, unless
    told otherwise). `skipped` counts the bad records left out so far, `lost` the positions that were deleted unread.
    """

    def __init__(
        self,
        open_reader: Callable[[], SplitReader],
        *,
        model: FetcherModel = FetcherModel.MULTIPLEXED,
        execution: FetcherExecution | None = None,
    ) -> None:
        self.skipped = self.lost = 0
        self._elements = ElementsQueue()
        self._fetchers = SplitFetcherManager(
            open_reader, self._elements, model=model, execution=execution or FetcherThreads()
        )
        self._progress = ReaderProgress()
        self._held = PausedRecords()
        self._paused: set[str] = set()
        # fetches to deliver before those in the queue
        self._ready: deque[RecordsWithSplitIds] = deque()
        self._restored: list[Split] = []
        self._started = False
        self._no_more_splits = False

    def start(self) -> None:
        """Begin to read; splits of a checkpoint may have been added before."""
        assert not self._started, "a reader starts once"
        self._started = True
        self._fetchers.add_splits(self._restored)
        self._restored.clear()

    def poll_next(self) -> Polled:
        """Return the next fetch; never waits. Raises what a fetcher failed with, as soon as it did."""
        assert self._started, "a reader is started before it is polled"
        while (records := self._next_fetch()) is not None:
            delivered = self._held.sift(records, self._paused) if self._paused else records
            if delivered is not None:
                return self._deliver(delivered)
        # a fetcher that goes idle after this look tells, and there will be another poll
        all_idle = self._fetchers.close_idle()
        if self._no_more_splits and all_idle and self._elements.empty and not self._held:
            self._elements.notify_available()
            return EndOfInput()
        return NothingAvailable()

    def wait_available(self, timeout_s: float) -> bool:
        """Wait until a poll may return something, at most `timeout_s` seconds; whether it may."""
        return bool(self._ready) or self._elements.wait_available(timeout_s)

    def wake_up(self) -> None:
        """End a `wait_available`, such as for an event. Any thread."""
        self._elements.notify_available()

    def read_to_end(self) -> Iterator[RecordsWithSplitIds]:
        """Yield fetches until the end of input, waiting for them. Raises what a fetcher failed with."""
        assert self._no_more_splits, "a read has an end only if the last split is known"
        while True:
            polled = self.poll_next()
            match polled:
                case RecordsWithSplitIds():
                    yield polled
                case NothingAvailable():
                    self.wait_available(LOOK_AGAIN_S)
                case EndOfInput():
                    return
                case _:
                    assert_never(polled)

    def add_splits(self, splits: Sequence[Split]) -> None:
        """Add splits (Flink's AddSplitEvent). One with nothing to read finishes with the next poll."""
        assert not self._no_more_splits, "splits came after the last one was announced"
        self._progress.add(splits)
        empty = [s for s in splits if s.stop is not None and s.start >= s.stop]
        if empty:
            self._ready.append(RecordsWithSplitIds(finished=frozenset(s.split_id for s in empty)))
        filled = [split for split in splits if split not in empty]
        if self._started:
            self._fetchers.add_splits(filled)
        else:
            self._restored += filled

    def notify_no_more_splits(self) -> None:
        """No further split will be assigned (Flink's NoMoreSplitsEvent)."""
        self._no_more_splits = True
        self._elements.notify_available()

    def pause_or_resume_splits(self, pause: Collection[str], resume: Collection[str]) -> None:
        """Pause some splits, resume others (FLIP-217); ids that are not read are ignored.

        It holds from the next poll on. An id in both is paused, as in Flink.
        """
        here = self._progress.split_ids
        # sorted: what is given first must not hang on the order of a set, or a simulation could not be replayed
        resumed = sorted(i for i in resume if i in self._paused and i not in pause)
        self._paused = (self._paused - set(resume)) | {i for i in pause if i in here}
        self._ready.extendleft(reversed(self._held.release(resumed)))
        self._fetchers.pause_or_resume(pause, resume)

    def snapshot_state(self, checkpoint_id: int) -> tuple[Split, ...]:
        """Return the unfinished splits, each from the position after its last batch that was polled."""
        return self._progress.snapshot(checkpoint_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> Mapping[str, int]:
        """Notify the reader of the durable positions, by split id: those that may be published
        (Kafka: group offsets).
        """
        return self._progress.complete(checkpoint_id)

    def close(self) -> None:
        """End all fetchers and their readers, and wait for them."""
        self._fetchers.close()

    def _next_fetch(self) -> RecordsWithSplitIds | None:
        return self._ready.popleft() if self._ready else self._elements.poll()

    def _deliver(self, records: RecordsWithSplitIds) -> RecordsWithSplitIds:
        self._progress.deliver(records)
        self._paused -= records.finished
        self.skipped += records.skipped
        self.lost += records.lost
        return records

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
