"""A split reader over numbers, and what tests of readers need around it: position i of a split holds the number i."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.catalog.errors import DataLossError
from penstock.connector.source.reader.fetcher import SplitFetcher
from penstock.connector.source.reader.reader import EndOfInput, NothingAvailable, SourceReader
from penstock.connector.source.records import RecordsWithSplitIds
from penstock.connector.source.split import Split

DEADLINE_S = 20.0


@dataclass
class NumbersReader:
    """Hands out `step` numbers of every split a fetch; the numbers of a split without a stop end at `available`.

    `ends_at` finishes splits before their stop, `fail_at` fails there, `apart` tells ends in a fetch of their own.
    `blocks` lets a fetch without numbers wait until it is woken.
    """

    step: int = 7
    available: int = 0
    fail_at: int | None = None
    ends_at: int | None = None
    apart: bool = False
    blocks: bool = False
    fetches: int = 0
    wake_ups: int = 0
    paused: set[str] = field(default_factory=set)
    begun: list[str] = field(default_factory=list)
    closed: threading.Event = field(default_factory=threading.Event)
    fetching: threading.Event = field(default_factory=threading.Event)
    _woken: threading.Event = field(default_factory=threading.Event)
    _splits: dict[str, Split] = field(default_factory=dict)
    _at: dict[str, int] = field(default_factory=dict)

    def add_splits(self, splits: Sequence[Split]) -> None:
        """Begin splits at their start."""
        assert not self.closed.is_set(), "closed"
        for split in splits:
            self.begun.append(split.split_id)
            self._splits[split.split_id] = split
            self._at[split.split_id] = split.start

    def fetch(self) -> RecordsWithSplitIds:
        """Give the next numbers of all splits that are not paused."""
        assert not self.closed.is_set(), "closed"
        self.fetches += 1
        batches, positions, finished = [], {}, set()
        for split_id, split in list(self._splits.items()):
            if split_id in self.paused:
                continue
            at = self._at[split_id]
            stop = self._stop(split)
            to = min(stop, at + self.step)
            if self.fail_at is not None and to > self.fail_at:
                raise DataLossError("gone")
            if to > at:
                batches.append((split_id, pa.record_batch({"n": pa.array(range(at, to))})))
                positions[split_id] = self._at[split_id] = to
            ended = to == stop and split.stop is not None
            if ended and not (self.apart and to > at):
                finished.add(split_id)
                del self._splits[split_id]
        if not (batches or finished) and self.blocks:
            self.fetching.set()
            assert self._woken.wait(DEADLINE_S), "nobody woke the fetch"
        self._woken.clear()
        return RecordsWithSplitIds(
            batches=tuple(batches),
            finished=frozenset(finished),
            positions=positions,
            skipped=len(batches),
        )

    def pause_or_resume(self, pause: Collection[str], resume: Collection[str]) -> None:
        """Keep what is paused; unknown ids are a mistake of the fetcher."""
        assert self._splits.keys() >= {*pause, *resume}, "told of splits that are not here"
        self.paused = (self.paused - set(resume)) | set(pause)

    def wake_up(self) -> None:
        """End the wait of a fetch."""
        self.wake_ups += 1
        self._woken.set()

    def close(self) -> None:
        """Remember that."""
        self.closed.set()

    def _stop(self, split: Split) -> int:
        if split.stop is None:
            return self.available
        return split.stop if self.ends_at is None else min(split.stop, self.ends_at)


class Stepped:
    """A FetcherExecution without threads: fetchers move when they are told to, one at a time."""

    def __init__(self) -> None:
        self.fetchers: list[SplitFetcher] = []

    def start(self, fetcher: SplitFetcher) -> None:
        """Take a fetcher on."""
        self.fetchers.append(fetcher)

    def join(self, fetcher: SplitFetcher) -> None:
        """Step a fetcher that was shut down to its end."""
        while fetcher.run_once():
            continue

    def step(self) -> bool:
        """Step every fetcher once; whether any of them did something."""
        moved = [fetcher.run_once() for fetcher in self.fetchers]
        return any(moved)

    def settle(self) -> None:
        """Step until nothing moves any more."""
        while self.step():
            continue


class Delivered:
    """The numbers that a reader delivered, by split in order, and the splits that finished."""

    def __init__(self) -> None:
        self.numbers: dict[str, list[int]] = {}
        self.finished: set[str] = set()

    def take(self, records: RecordsWithSplitIds) -> None:
        """Note one fetch."""
        for split_id, batch in records.batches:
            self.numbers.setdefault(split_id, []).extend(batch.column(0).to_pylist())
        self.finished |= records.finished

    def drain(self, reader: SourceReader) -> NothingAvailable | EndOfInput:
        """Poll until there is nothing, and say why."""
        while isinstance(polled := reader.poll_next(), RecordsWithSplitIds):
            self.take(polled)
        return polled

    def until(self, reader: SourceReader, reached: Callable[[], bool]) -> None:
        """Poll and wait until a condition holds."""
        while not reached():
            ended = self.drain(reader)
            if not reached():
                assert not isinstance(ended, EndOfInput), f"the end came with {self.numbers}"
                assert reader.wait_available(DEADLINE_S), f"nothing came after {self.numbers}"


def numbered(*sizes: int | None) -> list[Split]:
    """Make one split per size, from position 0; None has no end."""
    return [Split(split_id=f"t-{index}", start=0, stop=size) for index, size in enumerate(sizes)]


def upto(*sizes: int) -> dict[str, list[int]]:
    """Give the numbers of whole splits."""
    return {f"t-{index}": list(range(size)) for index, size in enumerate(sizes) if size}
