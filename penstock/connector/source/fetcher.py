"""Split fetchers: a thread that runs a split reader and hands its batches over through a bounded queue.

One fetcher multiplexes all splits of its reader (Flink's SplitFetcher under SingleThreadFetcherManager). The
queue holds a few fetches (Flink: source.reader.element.queue.capacity = 2), so that decoding and delivering
overlap and a slow consumer holds the fetcher back.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.connector.contract import SplitReader
from penstock.connector.source.records import RecordsWithSplitIds
from penstock.connector.source.split import Split

__all__ = ["SplitFetcher", "SplitFetcherManager"]

QUEUE_CAPACITY = 2
CLOSE_TIMEOUT_S = 30.0  # Flink: source.reader.close.timeout


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failed:
    error: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class _Idle:
    """The fetcher has read every split that it was given."""


Element = RecordsWithSplitIds | _Failed | _Idle


class SplitFetcher:
    """Fetches until its splits are finished or it is closed; ends with `_Idle` or `_Failed` in the queue."""

    def __init__(
        self, reader: SplitReader, splits: Sequence[Split], elements: queue.Queue[Element]
    ) -> None:
        self._reader = reader
        self._open = {split.split_id for split in splits}
        self._splits = tuple(splits)
        self._elements = elements
        self._closing = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="penstock-split-fetcher", daemon=True
        )

    def start(self) -> None:
        """Start the thread; its splits are assigned before the first fetch."""
        self._thread.start()

    def close(self) -> None:
        """End the thread and close the reader, whatever the fetcher waits for."""
        self._closing.set()
        self._reader.wake_up()
        self._thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        try:
            self._reader.add_splits(self._splits)
            while self._open and not self._closing.is_set():
                records = self._reader.fetch()
                self._open -= records.finished
                if records.batches or records.finished or records.skipped:
                    self._hand_over(records)
            self._hand_over(_Idle())
        except BaseException as error:  # noqa: BLE001  the consumer of the queue raises it
            self._hand_over(_Failed(error=error))
        finally:
            self._reader.close()

    def _hand_over(self, element: Element) -> None:
        while not self._closing.is_set():
            try:
                self._elements.put(element, timeout=0.1)
            except queue.Full:
                continue
            return


class SplitFetcherManager:
    """Starts fetchers for splits and gathers what they fetch (Flink's SplitFetcherManager)."""

    def __init__(self, open_reader: Callable[[], SplitReader]) -> None:
        self._open_reader = open_reader
        self._elements: queue.Queue[Element] = queue.Queue(maxsize=QUEUE_CAPACITY)
        self._fetchers: list[SplitFetcher] = []
        self._running = 0

    def add_splits(self, splits: Sequence[Split]) -> None:
        """Give splits to a new fetcher. No splits, no fetcher."""
        if not splits:
            return
        fetcher = SplitFetcher(self._open_reader(), splits, self._elements)
        self._fetchers.append(fetcher)
        self._running += 1
        fetcher.start()

    def next(self) -> RecordsWithSplitIds | None:
        """Wait for the next fetch; None when every fetcher is idle and the queue is empty.

        Raises what a fetcher failed with.
        """
        while self._running:
            element = self._elements.get()
            match element:
                case RecordsWithSplitIds():
                    return element
                case _Failed():
                    raise element.error
                case _Idle():
                    self._running -= 1
        return None

    def close(self) -> None:
        """Close all fetchers."""
        for fetcher in self._fetchers:
            fetcher.close()
        self._fetchers.clear()
