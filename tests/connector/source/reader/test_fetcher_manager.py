"""The three threading models: who reads what, and when fetchers come and go."""

from __future__ import annotations

import pytest

from penstock.connector.contract import FetcherModel
from penstock.connector.source.reader.fetcher import (
    ElementsQueue,
    FetcherState,
    FetcherThreads,
    SplitFetcherManager,
)
from tests.connector.source.numbers import DEADLINE_S, NumbersReader, Stepped, numbered


class Managed:
    """A manager whose fetchers are stepped by the test, with room for all that they fetch."""

    def __init__(self, model: FetcherModel) -> None:
        self.readers: list[NumbersReader] = []
        self.stepped = Stepped()
        self.manager = SplitFetcherManager(
            self.open, ElementsQueue(capacity=100), model=model, execution=self.stepped
        )

    def open(self) -> NumbersReader:
        """Open one more split reader."""
        self.readers.append(NumbersReader())
        return self.readers[-1]

    @property
    def begun(self) -> list[list[str]]:
        """Splits by split reader."""
        return [reader.begun for reader in self.readers]


SHARED = [FetcherModel.SEQUENTIAL, FetcherModel.MULTIPLEXED]


@pytest.mark.parametrize("model", SHARED)
def test_one_fetcher_reads_all_splits(model: FetcherModel) -> None:
    """Later ones too, while it lives."""
    managed = Managed(model)
    managed.manager.add_splits(numbered(20, 20))
    managed.stepped.step()
    managed.manager.add_splits(numbered(20, 20, 20)[2:])
    managed.stepped.settle()

    assert managed.begun == [["t-0", "t-1", "t-2"]]


def test_each_split_has_a_fetcher_and_a_reader_of_its_own() -> None:
    """A slow one does not hold up the others."""
    managed = Managed(FetcherModel.FETCHER_PER_SPLIT)
    managed.manager.add_splits(numbered(20, 20))
    managed.manager.add_splits(numbered(20, 20, 20)[2:])
    managed.stepped.settle()

    assert managed.begun == [["t-0"], ["t-1"], ["t-2"]]


@pytest.mark.parametrize("model", FetcherModel)
def test_an_idle_fetcher_is_closed_and_a_later_split_gets_a_new_one(model: FetcherModel) -> None:
    """With a new split reader; the old one was given back."""
    managed = Managed(model)
    managed.manager.add_splits(numbered(5))
    early = managed.manager.close_idle()
    managed.stepped.settle()
    late = managed.manager.close_idle()
    managed.stepped.settle()
    managed.manager.add_splits(numbered(5, 5)[1:])
    managed.stepped.settle()

    assert (early, late) == (False, True)
    assert [reader.closed.is_set() for reader in managed.readers] == [True, False]
    assert managed.begun == [["t-0"], ["t-1"]]


@pytest.mark.parametrize("model", SHARED)
def test_an_idle_fetcher_that_is_not_closed_yet_takes_the_next_split(model: FetcherModel) -> None:
    """And is not closed any more: it has something to do from that moment on."""
    managed = Managed(model)
    managed.manager.add_splits(numbered(5))
    managed.stepped.settle()
    managed.manager.add_splits(numbered(5, 5)[1:])
    left = managed.manager.close_idle()
    managed.stepped.settle()

    assert not left
    assert managed.begun == [["t-0", "t-1"]]


def test_a_fetcher_of_its_own_goes_when_its_split_ends() -> None:
    """The others stay."""
    managed = Managed(FetcherModel.FETCHER_PER_SPLIT)
    managed.manager.add_splits(numbered(5, 500))
    for _ in range(4):
        managed.stepped.step()
    left = managed.manager.close_idle()
    managed.stepped.step()

    assert not left
    assert [f.state for f in managed.stepped.fetchers] == [
        FetcherState.CLOSED,
        FetcherState.RUNNING,
    ]


@pytest.mark.parametrize("model", FetcherModel)
def test_no_splits_open_no_reader(model: FetcherModel) -> None:
    """Opening one may mean a connection."""
    managed = Managed(model)
    managed.manager.add_splits([])

    assert managed.manager.close_idle()
    assert managed.readers == []


def test_closing_wakes_all_fetchers_before_it_waits_for_one() -> None:
    """Threads that wait for records end together."""
    readers = [NumbersReader(blocks=True) for _ in range(3)]
    opened = iter(readers)
    manager = SplitFetcherManager(
        lambda: next(opened),
        ElementsQueue(),
        model=FetcherModel.FETCHER_PER_SPLIT,
        execution=FetcherThreads(),
    )
    manager.add_splits(numbered(None, None, None))
    waited = [reader.fetching.wait(DEADLINE_S) for reader in readers]
    manager.close()

    assert waited == [True] * 3
    assert all(reader.closed.is_set() for reader in readers)
