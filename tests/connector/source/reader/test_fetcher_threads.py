"""Threads of fetchers: they end with the fetcher, and one that does not end holds nothing up."""

from __future__ import annotations

import logging
import threading

import pytest

from penstock.connector.source.reader import fetcher as fetcher_manager
from penstock.connector.source.reader.fetcher import (
    ElementsQueue,
    FetcherState,
    FetcherThreads,
    SplitFetcher,
)
from tests.connector.source.numbers import NumbersReader, numbered


def test_a_thread_ends_with_its_fetcher() -> None:
    """Joined twice or never started, there is nothing to wait for."""
    before = threading.active_count()
    fetcher = SplitFetcher(NumbersReader(step=1), ElementsQueue(), numbered(100))
    threads = FetcherThreads()
    threads.start(fetcher)
    running = threading.active_count()
    fetcher.shutdown()
    threads.join(fetcher)
    threads.join(fetcher)

    assert running == before + 1
    assert threading.active_count() == before
    assert fetcher.state is FetcherState.CLOSED


def test_a_fetcher_that_does_not_end_is_left_behind_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A client library may be stuck; the task ends all the same (Flink: source.reader.close.timeout)."""
    monkeypatch.setattr(fetcher_manager, "CLOSE_TIMEOUT_S", 0.01)
    stuck, over = threading.Event(), threading.Event()

    class Stuck(NumbersReader):
        def close(self) -> None:
            stuck.set()
            over.wait(20)

    fetcher = SplitFetcher(Stuck(), ElementsQueue())
    threads = FetcherThreads()
    threads.start(fetcher)
    fetcher.shutdown()
    with caplog.at_level(logging.WARNING):
        threads.join(fetcher)
    over.set()

    assert "did not end within" in caplog.text
    assert stuck.wait(20)
