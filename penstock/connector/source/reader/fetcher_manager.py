"""Assign splits to fetchers (Flink's SplitFetcherManager, three threading models), and run the fetchers in
threads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from penstock.connector.contract import FetcherModel, SplitReader
from penstock.connector.source.reader.elements_queue import ElementsQueue
from penstock.connector.source.reader.fetcher import FetcherState, SplitFetcher
from penstock.connector.source.split import Split

__all__ = ["CLOSE_TIMEOUT_S", "FetcherExecution", "FetcherThreads", "SplitFetcherManager"]

logger = logging.getLogger(__name__)

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
