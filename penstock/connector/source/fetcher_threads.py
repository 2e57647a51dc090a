"""How fetchers are executed: a seam, and the threads that stand behind it outside of simulations."""

from __future__ import annotations

import logging
import threading
from typing import Protocol

from penstock.connector.source.fetcher import FetcherState, SplitFetcher

__all__ = ["CLOSE_TIMEOUT_S", "FetcherExecution", "FetcherThreads"]

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
