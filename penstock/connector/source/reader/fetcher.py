"""Split fetchers: drive a split reader, one step at a time, and pass its batches on through a bounded queue.

Flink's SplitFetcher and SplitFetcherManager with its three threading models. A step never waits for anything but the
split reader itself, so a thread is only a loop around `run_once`, and a simulation needs none. The queue is Flink's
FutureCompletingBlockingQueue, except that a full one never blocks the producer: `put` returns False, and a callback
follows when there is room, so that one fetcher serves threads and simulations without threads.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from typing import Protocol

from penstock.connector.contract import FetcherModel, SplitReader
from penstock.connector.source.records import RecordsWithSplitIds
from penstock.connector.source.split import Split

QUEUE_CAPACITY = 2
"""Fetches that wait for the reader (Flink: source.reader.element.queue.capacity): decoding and delivering overlap."""


class ElementsQueue:
    """Fetches on their way to one source reader. Any thread may put; one thread polls and waits."""

    def __init__(self, capacity: int = QUEUE_CAPACITY) -> None:
        assert capacity > 0, "a queue without room passes nothing on"
        self._capacity = capacity
        self._elements: deque[RecordsWithSplitIds] = deque()
        self._waiting: list[Callable[[], None]] = []
        self._failure: BaseException | None = None
        self._news = False
        self._changed = threading.Condition()

    def offer(self, element: RecordsWithSplitIds, on_room: Callable[[], None]) -> bool:
        """Put an element and notify the reader; False when full, and then `on_room` is called once there is room."""
        with self._changed:
            if len(self._elements) >= self._capacity:
                if on_room not in self._waiting:
                    self._waiting.append(on_room)
                return False
            self._elements.append(element)
            self._notify()
            return True

    def poll(self) -> RecordsWithSplitIds | None:
        """Remove and return the oldest element, None when there is none; never waits. Raises what a fetcher failed
        with.

        Only a poll that finds nothing ends the availability: earlier notifications are checked after it.
        """
        with self._changed:
            if self._failure is not None:
                raise self._failure
            if not self._elements:
                self._news = False
                return None
            element = self._elements.popleft()
            waiting, self._waiting = self._waiting, []
        for on_room in waiting:
            on_room()
        return element

    def fail(self, error: BaseException) -> None:
        """Make every later poll raise `error`; the first failure counts."""
        with self._changed:
            if self._failure is None:
                self._failure = error
            self._notify()

    def notify_available(self) -> None:
        """Notify the reader of a change other than of the queue: a fetcher is idle, the last split came."""
        with self._changed:
            self._notify()

    def wait_available(self, timeout_s: float) -> bool:
        """Wait until a poll may find something, at most `timeout_s` seconds; whether it may."""
        with self._changed:
            return self._changed.wait_for(lambda: self._news, timeout_s)

    @property
    def empty(self) -> bool:
        """Whether no element waits."""
        with self._changed:
            return not self._elements

    def _notify(self) -> None:
        self._news = True
        self._changed.notify_all()


logger = logging.getLogger(__name__)

FetcherTask = Callable[[SplitReader], None]
"""Work on the fetcher's thread, between two fetches: the only way to touch its split reader."""


class FetcherState(StrEnum):
    """The state of a fetcher.

    RUNNING: it has something to do. PAUSED: all its splits are paused. IDLE: it has neither splits nor tasks. CLOSED:
    final, its split reader is closed.
    """

    RUNNING = "running"
    PAUSED = "paused"
    IDLE = "idle"
    CLOSED = "closed"


class SplitFetcher:
    """Runs one split reader. `run_once` and `wait_for_work` belong to one thread, all else to any other.

    It has its first splits before it starts, so it is never idle by accident. `one_by_one` gives its reader the
    next split only when no split before it can be read: each is finished, or paused.
    """

    def __init__(
        self,
        reader: SplitReader,
        elements: ElementsQueue,
        splits: Sequence[Split] = (),
        *,
        one_by_one: bool = False,
    ) -> None:
        self._reader = reader
        self._elements = elements
        self._one_by_one = one_by_one
        self._waiting: deque[Split] = deque()
        self._reading: set[str] = set()
        self._paused: set[str] = set()
        self._pending: RecordsWithSplitIds | None = None
        # below: shared between threads, under the lock
        self._lock = threading.Lock()
        self._tasks: deque[FetcherTask] = deque()
        self._state = FetcherState.IDLE
        self._fetching = False
        self._closing = False
        self._signal = threading.Event()
        if splits:
            self.add_splits(splits)

    @property
    def state(self) -> FetcherState:
        """The state of the fetcher; only an idle one stays so until it gets work."""
        with self._lock:
            return self._state

    def add_splits(self, splits: Sequence[Split]) -> None:
        """Add splits before the next fetch."""
        added = tuple(splits)
        self.enqueue(lambda reader: self._take_on(reader, added))

    def pause_or_resume(self, pause: Collection[str], resume: Collection[str]) -> None:
        """Pause or resume splits before the next fetch; ids that are not here (any more) are ignored."""
        paused, resumed = frozenset(pause), frozenset(resume)
        self.enqueue(lambda reader: self._pause_or_resume(reader, paused, resumed))

    def enqueue(self, task: FetcherTask) -> None:
        """Run `task` on the fetcher's thread before the next fetch; tasks run in the order of their arrival."""
        with self._lock:
            self._tasks.append(task)
            if self._state is not FetcherState.CLOSED:
                self._state = FetcherState.RUNNING
        self.wake_up()

    def wake_up(self) -> None:
        """End a wait, for records or for room. Nothing that was fetched is lost."""
        with self._lock:
            fetching = self._fetching
        self._signal.set()
        if fetching:
            self._reader.wake_up()

    def shutdown(self) -> None:
        """Close the split reader in the next step; elements that wait for room are dropped. Does not wait."""
        with self._lock:
            self._closing = True
        self.wake_up()

    def wait_for_work(self) -> None:
        """Wait until another step may do something."""
        self._signal.wait()
        self._signal.clear()

    def run_once(self) -> bool:
        """Do the next thing: end, run a task, hand over, fetch. False when there is nothing to do until woken.

        What fails goes to the reader's next poll, and the fetcher is closed.
        """
        with self._lock:
            if self._state is FetcherState.CLOSED:
                return False
            closing = self._closing
            task = self._tasks.popleft() if self._tasks and not closing else None
            self._fetching = (
                task is None
                and self._pending is None
                and self._state is FetcherState.RUNNING
                and not closing
            )
        if closing:
            self._close()
            return True
        try:
            return self._step(task)
        except BaseException as error:  # noqa: BLE001  the reader raises it
            # closed first: whoever sees the failure may count on the split reader being given back
            self._close()
            self._elements.fail(error)
            return True

    def _step(self, task: FetcherTask | None) -> bool:
        if task is not None:
            task(self._reader)
        elif self._pending is not None:
            if not self._hand_over():
                return False
        elif self._fetching:
            self._fetch()
        else:
            return False
        if self._one_by_one:
            self._begin_next()
        self._settle()
        return True

    def _fetch(self) -> None:
        records = self._reader.fetch()
        with self._lock:
            self._fetching = False
        self._reading -= records.finished
        self._paused -= records.finished
        if (
            records.batches
            or records.finished
            or records.positions
            or records.skipped
            or records.lost
        ):
            self._pending = records
            self._hand_over()

    def _hand_over(self) -> bool:
        assert self._pending is not None, "only a fetch that waits is handed over"
        if not self._elements.offer(self._pending, self._signal.set):
            return False
        self._pending = None
        return True

    def _take_on(self, reader: SplitReader, splits: Sequence[Split]) -> None:
        if self._one_by_one:
            self._waiting.extend(splits)
            return
        self._reading.update(split.split_id for split in splits)
        reader.add_splits(splits)

    def _begin_next(self) -> None:
        """Begin the next split when nothing is left to read; a paused one must not hold up those behind it."""
        if self._reading - self._paused:
            return
        for split in self._waiting:
            if split.split_id not in self._paused:
                self._waiting.remove(split)
                self._reading.add(split.split_id)
                self._reader.add_splits([split])
                return

    def _pause_or_resume(
        self, reader: SplitReader, pause: frozenset[str], resume: frozenset[str]
    ) -> None:
        """Resume first, then pause (Flink); tell the split reader of what it has and what changes (FLINK-39728)."""
        mine = self._reading | {split.split_id for split in self._waiting}
        before, self._paused = self._paused, ((self._paused - resume) | pause) & mine
        stopped = (self._paused - before) & self._reading
        goes_on = (before - self._paused) & self._reading
        if stopped or goes_on:
            reader.pause_or_resume(stopped, goes_on)

    def _settle(self) -> None:
        """Find the state after a step, and notify the reader when this one made the fetcher idle."""
        waits = self._pending is not None
        held = bool(self._reading) or bool(self._waiting)
        can_read = bool(self._reading - self._paused)
        with self._lock:
            before = self._state
            if self._tasks or waits or can_read:
                self._state = FetcherState.RUNNING
            else:
                self._state = FetcherState.PAUSED if held else FetcherState.IDLE
            idle = self._state is FetcherState.IDLE and before is not FetcherState.IDLE
        if idle:
            self._elements.notify_available()

    def _close(self) -> None:
        try:
            self._reader.close()
        except Exception:
            logger.warning("a split reader failed to close", exc_info=True)
        self._pending = None
        with self._lock:
            self._fetching = False
            self._tasks.clear()
            self._state = FetcherState.CLOSED
        self._elements.notify_available()


CLOSE_TIMEOUT_S = 30.0
"""How long a fetcher may take to end (Flink: source.reader.close.timeout)."""


class FetcherExecution(Protocol):
    """What calls `run_once` of fetchers."""

    def start(self, fetcher: SplitFetcher) -> None:
        """Step a fetcher from now on until it is closed."""

    def join(self, fetcher: SplitFetcher) -> None:
        """Wait until a fetcher that was shut down is closed."""


class FetcherThreads:
    """One daemon thread for each fetcher."""

    def __init__(self) -> None:
        self._threads: dict[SplitFetcher, threading.Thread] = {}

    def start(self, fetcher: SplitFetcher) -> None:
        """Start a thread that ends with the fetcher."""
        self._threads = {f: thread for f, thread in self._threads.items() if thread.is_alive()}
        thread = threading.Thread(
            target=_run, args=(fetcher,), name="penstock-split-fetcher", daemon=True
        )
        self._threads[fetcher] = thread
        thread.start()

    def join(self, fetcher: SplitFetcher) -> None:
        """Wait for the thread, at most CLOSE_TIMEOUT_S; a fetcher stuck for longer is left behind, and logged."""
        thread = self._threads.pop(fetcher, None)
        if thread is None:
            return
        thread.join(CLOSE_TIMEOUT_S)
        if thread.is_alive():
            logger.warning("a split fetcher did not end within %.0f s", CLOSE_TIMEOUT_S)


def _run(fetcher: SplitFetcher) -> None:
    while fetcher.state is not FetcherState.CLOSED:
        if not fetcher.run_once():
            fetcher.wait_for_work()


class SplitFetcherManager:
    """Makes fetchers when splits come, and closes them when they are idle. The source reader's thread only.

    Each fetcher has a split reader of its own, made by `open_reader` and closed with the fetcher.
    """

    def __init__(
        self,
        open_reader: Callable[[], SplitReader],
        elements: ElementsQueue,
        *,
        model: FetcherModel,
        execution: FetcherExecution,
    ) -> None:
        self._open_reader = open_reader
        self._elements = elements
        self._model = model
        self._execution = execution
        self._fetchers: list[SplitFetcher] = []
        self._ending: list[SplitFetcher] = []

    def add_splits(self, splits: Sequence[Split]) -> None:
        """Assign splits to the existing fetcher, or to new ones. No splits, no fetcher."""
        if not splits:
            return
        if self._model is FetcherModel.FETCHER_PER_SPLIT:
            for split in splits:
                self._start_fetcher([split])
        elif self._fetchers:
            # it may be idle already: only `close_idle`, on this very thread, ends it
            self._fetchers[0].add_splits(splits)
        else:
            self._start_fetcher(splits)

    def pause_or_resume(self, pause: Collection[str], resume: Collection[str]) -> None:
        """Pause or resume splits; each fetcher picks those that it reads."""
        for fetcher in self._fetchers:
            fetcher.pause_or_resume(pause, resume)

    def close_idle(self) -> bool:
        """Close fetchers without splits and tasks, without waiting for them; whether none is left."""
        idle = [f for f in self._fetchers if f.state is FetcherState.IDLE]
        if idle:
            for fetcher in idle:
                self._fetchers.remove(fetcher)
                fetcher.shutdown()
            self._ending = [f for f in self._ending if f.state is not FetcherState.CLOSED] + idle
        return not self._fetchers

    def close(self) -> None:
        """Close all fetchers and wait for their end."""
        fetchers = [*self._ending, *self._fetchers]
        self._ending, self._fetchers = [], []
        # all are told before the first is waited for
        for fetcher in fetchers:
            fetcher.shutdown()
        for fetcher in fetchers:
            self._execution.join(fetcher)

    def _start_fetcher(self, splits: Sequence[Split]) -> None:
        one_by_one = self._model is FetcherModel.SEQUENTIAL
        fetcher = SplitFetcher(self._open_reader(), self._elements, splits, one_by_one=one_by_one)
        self._fetchers.append(fetcher)
        self._execution.start(fetcher)
