"""Fetchers and the source reader: everything fetched comes out, failures surface, closing never hangs."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

import pyarrow as pa
import pytest

from penstock.catalog.errors import DataLossError
from penstock.connector.source.reader import SourceReader
from penstock.connector.source.records import RecordsWithSplitIds
from penstock.connector.source.split import Split


class CountingReader:
    """A split reader over numbers: position i of a split is the number i; hands out `step` at a time."""

    def __init__(self, *, step: int = 7, fail_at: int | None = None, block: bool = False) -> None:
        self.closed = threading.Event()
        self._woken = threading.Event()
        self._left: dict[str, tuple[int, int]] = {}
        self._step, self._fail_at, self._block = step, fail_at, block

    def add_splits(self, splits: Sequence[Split]) -> None:
        for split in splits:
            assert split.stop is not None
            self._left[split.split_id] = (split.start, split.stop)

    def fetch(self) -> RecordsWithSplitIds:
        if self._block:
            self._woken.wait(10)
            return RecordsWithSplitIds()
        batches, finished = [], set()
        for split_id, (at, stop) in list(self._left.items()):
            if self._fail_at is not None and at >= self._fail_at:
                raise DataLossError("gone")
            to = min(stop, at + self._step)
            batches.append((split_id, pa.record_batch({"n": pa.array(range(at, to), pa.int64())})))
            self._left[split_id] = (to, stop)
            if to == stop:
                finished.add(split_id)
                del self._left[split_id]
        return RecordsWithSplitIds(batches=tuple(batches), finished=frozenset(finished), skipped=1)

    def pause_or_resume(self, pause: Collection[str], resume: Collection[str]) -> None:
        raise NotImplementedError

    def wake_up(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self.closed.set()


def splits(*sizes: int) -> list[Split]:
    """Make one split per size, starting at 0."""
    return [Split(split_id=f"t-{index}", start=0, stop=size) for index, size in enumerate(sizes)]


def test_every_record_comes_out_once_and_in_order() -> None:
    """Splits of different lengths end at different moments."""
    counting = CountingReader()
    got: dict[str, list[int]] = {}
    with SourceReader(lambda: counting) as reader:
        reader.add_splits(splits(100, 3, 50))
        reader.notify_no_more_splits()
        for records in reader.poll():
            for split_id, batch in records.batches:
                got.setdefault(split_id, []).extend(batch.column(0).to_pylist())

    assert got == {"t-0": list(range(100)), "t-1": [0, 1, 2], "t-2": list(range(50))}
    assert reader.skipped == 15
    assert counting.closed.is_set()


def test_no_splits_is_the_end_of_input() -> None:
    """A task with no split makes no fetcher and ends."""
    with SourceReader(lambda: pytest.fail("no reader is needed")) as reader:
        reader.add_splits([])
        reader.notify_no_more_splits()

        assert list(reader.poll()) == []


def test_a_failing_fetch_surfaces_and_closes_the_reader() -> None:
    """The error of the fetcher thread reaches the task as it is."""
    counting = CountingReader(fail_at=14)
    with pytest.raises(DataLossError, match="gone"), SourceReader(lambda: counting) as reader:  # noqa: PT012
        reader.add_splits(splits(100))
        reader.notify_no_more_splits()
        for _ in reader.poll():
            pass

    assert counting.closed.is_set()


def test_closing_early_ends_a_fetcher_that_waits_for_room() -> None:
    """A consumer that stops (LIMIT) leaves no thread behind."""
    counting = CountingReader(step=1)
    with SourceReader(lambda: counting) as reader:
        reader.add_splits(splits(1000))
        reader.notify_no_more_splits()
        next(reader.poll())

    assert counting.closed.wait(5)


def test_closing_wakes_a_fetcher_that_waits_for_records() -> None:
    """`wake_up` ends the wait inside fetch."""
    counting = CountingReader(block=True)
    with SourceReader(lambda: counting) as reader:
        reader.add_splits(splits(1))
        reader.notify_no_more_splits()

    assert counting.closed.wait(5)
