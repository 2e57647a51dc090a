"""The source reader: splits in, Arrow batches out, until every split is finished. Flink's SourceReaderBase.

It lives on one thread, that of a task; fetchers do the reading beside it. An executor polls, waits while nothing
is available, and carries the coordinator's events to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self, assert_never

from penstock.connector.contract import FetcherModel, SplitReader
from penstock.connector.source.elements import ElementsQueue
from penstock.connector.source.fetcher_manager import SplitFetcherManager
from penstock.connector.source.fetcher_threads import FetcherExecution, FetcherThreads
from penstock.connector.source.held_back import HeldBack
from penstock.connector.source.progress import ReaderProgress
from penstock.connector.source.records import RecordsWithSplitIds
from penstock.connector.source.split import Split

__all__ = ["EndOfInput", "NothingAvailable", "Polled", "SourceReader"]

LOOK_AGAIN_S = 60.0
"""Bound of a single wait for records; what comes ends it at once."""


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
    told otherwise). `skipped` counts the bad records left out so far.
    """

    def __init__(
        self,
        open_reader: Callable[[], SplitReader],
        *,
        model: FetcherModel = FetcherModel.MULTIPLEXED,
        execution: FetcherExecution | None = None,
    ) -> None:
        self.skipped = 0
        self._elements = ElementsQueue()
        self._fetchers = SplitFetcherManager(
            open_reader, self._elements, model=model, execution=execution or FetcherThreads()
        )
        self._progress = ReaderProgress()
        self._held = HeldBack()
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
        """Give the next fetch; never waits. Raises what a fetcher failed with, as soon as it did."""
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
        """Wait until a poll may have something to tell, at most `timeout_s` seconds; whether it may."""
        return bool(self._ready) or self._elements.wait_available(timeout_s)

    def wake_up(self) -> None:
        """End a `wait_available`, such as for an event. Any thread."""
        self._elements.notify_available()

    def read_to_end(self) -> Iterator[RecordsWithSplitIds]:
        """Give fetches until the end of input, waiting for them. Raises what a fetcher failed with."""
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
        """Take on splits (Flink's AddSplitEvent). One with nothing to read finishes with the next poll."""
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
        """Deliver nothing more of some splits, go on with others (FLIP-217); ids that are not read are ignored.

        It holds from the next poll on. An id in both is paused, as in Flink.
        """
        here = self._progress.split_ids
        # sorted: what is given first must not hang on the order of a set, or a simulation could not be replayed
        resumed = sorted(i for i in resume if i in self._paused and i not in pause)
        self._paused = (self._paused - set(resume)) | {i for i in pause if i in here}
        self._ready.extendleft(reversed(self._held.release(resumed)))
        self._fetchers.pause_or_resume(pause, resume)

    def snapshot_state(self, checkpoint_id: int) -> tuple[Split, ...]:
        """Give the unfinished splits, each from the position after its last batch that was polled."""
        return self._progress.snapshot(checkpoint_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> Mapping[str, int]:
        """Tell which positions are durable now, by split id: those that may be published (Kafka: group offsets)."""
        return self._progress.complete(checkpoint_id)

    def close(self) -> None:
        """End all fetchers and their readers; waits for them."""
        self._fetchers.close()

    def _next_fetch(self) -> RecordsWithSplitIds | None:
        return self._ready.popleft() if self._ready else self._elements.poll()

    def _deliver(self, records: RecordsWithSplitIds) -> RecordsWithSplitIds:
        self._progress.deliver(records)
        self._paused -= records.finished
        self.skipped += records.skipped
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
