"""One fetcher: states, tasks before fetches, wake-ups that lose nothing, pausing, closing."""

from __future__ import annotations

import logging
import threading

import pytest

from penstock.catalog.errors import DataLossError
from penstock.connector.contract import FetcherModel
from penstock.connector.source.reader import fetcher as fetcher_manager
from penstock.connector.source.reader.fetcher import (
    ElementsQueue,
    FetcherState,
    FetcherThreads,
    SplitFetcher,
    SplitFetcherManager,
)
from tests.connector.source.numbers import (
    DEADLINE_S,
    Delivered,
    NumbersReader,
    Stepped,
    numbered,
    upto,
)


def settle(fetcher: SplitFetcher) -> None:
    """Step until nothing is left to do."""
    while fetcher.run_once():
        continue


def drained(fetcher: SplitFetcher, elements: ElementsQueue) -> Delivered:
    """Step and poll until nothing moves."""
    delivered = Delivered()
    moved = True
    while moved:
        moved = fetcher.run_once()
        while (records := elements.poll()) is not None:
            delivered.take(records)
            moved = True
    return delivered


def test_a_new_fetcher_without_splits_is_idle() -> None:
    """There is nothing for it to do."""
    fetcher = SplitFetcher(NumbersReader(), ElementsQueue())

    assert fetcher.state is FetcherState.IDLE
    assert not fetcher.run_once()


def test_a_fetcher_that_was_given_splits_is_never_idle_before_it_starts() -> None:
    """Its splits are taken on before the first fetch: nobody closes it by mistake."""
    numbers = NumbersReader()
    fetcher = SplitFetcher(numbers, ElementsQueue(), numbered(5))
    given = fetcher.state
    fetcher.run_once()

    assert given is FetcherState.RUNNING
    assert numbers.begun == ["t-0"]
    assert numbers.fetches == 0


def test_a_fetcher_is_idle_after_its_last_split_and_tells() -> None:
    """Not while the end of the split still waits for room."""
    elements = ElementsQueue(capacity=1)
    fetcher = SplitFetcher(NumbersReader(step=5), elements, numbered(10))
    settle(fetcher)
    waiting = fetcher.state
    elements.poll()
    settle(fetcher)
    elements.poll()
    state, told = fetcher.state, elements.wait_available(0)
    elements.poll()

    assert (waiting, state, told) == (FetcherState.RUNNING, FetcherState.IDLE, True)
    assert not elements.wait_available(0)


def test_an_idle_fetcher_that_gets_a_split_reads_it() -> None:
    """It is reused unless it was closed."""
    elements = ElementsQueue()
    fetcher = SplitFetcher(NumbersReader(), elements, numbered(5))
    first = drained(fetcher, elements)
    fetcher.add_splits(numbered(5, 9)[1:])
    again = fetcher.state
    second = drained(fetcher, elements)

    assert first.numbers | second.numbers == upto(5, 9)
    assert again is FetcherState.RUNNING


def test_tasks_run_in_order_before_the_next_fetch() -> None:
    """Whatever is to be done on the fetcher's thread, such as a commit of offsets."""
    numbers = NumbersReader(step=1)
    fetcher = SplitFetcher(numbers, ElementsQueue(), numbered(100))
    settle(fetcher)
    fetched = numbers.fetches
    ran: list[tuple[str, int]] = []
    for name in "ab":
        fetcher.enqueue(lambda _, name=name: ran.append((name, numbers.fetches)))  # type: ignore[misc]
    settle(fetcher)

    assert ran == [("a", fetched), ("b", fetched)]


def test_a_full_queue_does_not_block_a_step() -> None:
    """It is tried again; no other fetch happens meanwhile, and tasks still run."""
    numbers = NumbersReader(step=1)
    elements = ElementsQueue(capacity=2)
    fetcher = SplitFetcher(numbers, elements, numbered(100))
    settle(fetcher)
    fetched = numbers.fetches
    tried = [fetcher.run_once() for _ in range(3)]
    fetcher.pause_or_resume(["t-0"], [])
    settle(fetcher)

    assert fetched == 3
    assert tried == [False] * 3
    assert numbers.fetches == fetched
    assert numbers.paused == {"t-0"}
    assert drained(fetcher, elements).numbers == upto(3)
    assert fetcher.state is FetcherState.PAUSED


def test_a_paused_split_stands_still_while_the_other_goes_on() -> None:
    """FLIP-217 with a split reader that two splits share; resumed it is read from where it was."""
    elements = ElementsQueue(capacity=100)
    fetcher = SplitFetcher(NumbersReader(step=1), elements, numbered(10, 10))
    fetcher.run_once()
    fetcher.run_once()
    fetcher.pause_or_resume(["t-0"], [])
    paused = drained(fetcher, elements)
    state = fetcher.state
    fetcher.pause_or_resume([], ["t-0"])
    resumed = drained(fetcher, elements)

    assert paused.numbers == {"t-0": [0], "t-1": list(range(10))}
    assert state is FetcherState.PAUSED
    assert resumed.numbers == {"t-0": list(range(1, 10))}
    assert fetcher.state is FetcherState.IDLE


def test_pausing_a_split_that_is_gone_is_harmless() -> None:
    """Finished, or never heard of: the split reader is not asked about it (FLINK-39728)."""
    elements = ElementsQueue()
    fetcher = SplitFetcher(NumbersReader(), elements, numbered(5, 50))
    settle(fetcher)
    fetcher.pause_or_resume(["t-0", "t-7"], ["t-8"])
    fetcher.pause_or_resume([], ["t-0", "t-7"])
    settle(fetcher)

    assert fetcher.state is FetcherState.RUNNING
    assert drained(fetcher, elements).numbers == upto(5, 50)


def test_an_id_that_is_paused_and_resumed_at_once_is_paused() -> None:
    """Resume first, then pause, as in Flink."""
    numbers = NumbersReader()
    fetcher = SplitFetcher(numbers, ElementsQueue(capacity=100), numbered(50))
    fetcher.pause_or_resume(["t-0"], ["t-0"])
    settle(fetcher)

    assert numbers.paused == {"t-0"}
    assert fetcher.state is FetcherState.PAUSED


def test_one_by_one_begins_the_next_split_after_the_end_of_the_one_before() -> None:
    """The sequential model; a reader holds one split at a time."""
    numbers = NumbersReader(step=5)
    elements = ElementsQueue()
    fetcher = SplitFetcher(numbers, elements, numbered(10, 10, 10), one_by_one=True)
    fetcher.run_once()
    fetcher.run_once()
    first = list(numbers.begun)

    assert first == ["t-0"]
    assert drained(fetcher, elements).numbers == upto(10, 10, 10)
    assert numbers.begun == ["t-0", "t-1", "t-2"]


def test_one_by_one_a_paused_split_does_not_hold_up_those_behind_it() -> None:
    """They may be the very ones that its group waits for: else nothing would ever move."""
    numbers = NumbersReader(step=5)
    elements = ElementsQueue()
    fetcher = SplitFetcher(numbers, elements, numbered(10, 10, 10), one_by_one=True)
    fetcher.pause_or_resume(["t-0", "t-1"], [])
    others = drained(fetcher, elements)
    state = fetcher.state
    fetcher.pause_or_resume([], ["t-0", "t-1"])
    rest = drained(fetcher, elements)

    assert others.finished == {"t-2"}
    assert state is FetcherState.PAUSED
    assert others.numbers | rest.numbers == upto(10, 10, 10)


def test_a_failure_reaches_the_next_poll_and_closes_the_fetcher() -> None:
    """As it is, whether a fetch fails or a task; the split reader is closed by then."""
    for broken in ("fetch", "task"):
        numbers = NumbersReader(fail_at=0 if broken == "fetch" else None)
        elements = ElementsQueue()
        fetcher = SplitFetcher(numbers, elements, numbered(5))
        if broken == "task":
            fetcher.enqueue(lambda reader: reader.pause_or_resume(["t-9"], []))
        settle(fetcher)
        expected = DataLossError if broken == "fetch" else AssertionError

        with pytest.raises(expected):
            elements.poll()
        assert fetcher.state is FetcherState.CLOSED
        assert numbers.closed.is_set()


def test_shutdown_closes_the_split_reader_whatever_waits() -> None:
    """A fetch that waits for room is dropped; a closed fetcher does nothing more, whatever it is given."""
    numbers = NumbersReader(step=1)
    elements = ElementsQueue(capacity=1)
    fetcher = SplitFetcher(numbers, elements, numbered(100))
    settle(fetcher)
    fetcher.shutdown()
    settle(fetcher)
    fetcher.add_splits(numbered(1, 2)[1:])

    assert numbers.closed.is_set()
    assert fetcher.state is FetcherState.CLOSED
    assert not fetcher.run_once()
    assert numbers.begun == ["t-0"]


def test_a_split_reader_that_fails_to_close_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Everything was read: that is no reason to fail."""

    class Broken(NumbersReader):
        def close(self) -> None:
            raise OSError("no")

    fetcher = SplitFetcher(Broken(), ElementsQueue())
    fetcher.shutdown()
    with caplog.at_level(logging.WARNING):
        settle(fetcher)

    assert fetcher.state is FetcherState.CLOSED
    assert "failed to close" in caplog.text


def test_a_fetch_that_waits_is_woken_for_a_task() -> None:
    """On a thread; splits added meanwhile are read."""
    numbers = NumbersReader(blocks=True)
    elements = ElementsQueue()
    fetcher = SplitFetcher(numbers, elements, numbered(None))
    threads = FetcherThreads()
    threads.start(fetcher)
    assert numbers.fetching.wait(DEADLINE_S)
    fetcher.add_splits(numbered(None, 5)[1:])
    delivered = Delivered()
    while delivered.finished != {"t-1"}:
        assert elements.wait_available(DEADLINE_S)
        if (records := elements.poll()) is not None:
            delivered.take(records)
    fetcher.shutdown()
    threads.join(fetcher)

    assert delivered.numbers == {"t-1": [0, 1, 2, 3, 4]}
    assert fetcher.state is FetcherState.CLOSED


def test_a_task_that_only_runs_wakes_no_fetch() -> None:
    """A wake-up of the split reader is for a fetch under way."""
    numbers = NumbersReader()
    fetcher = SplitFetcher(numbers, ElementsQueue(), numbered(5))
    fetcher.pause_or_resume(["t-0"], [])
    fetcher.wake_up()

    assert numbers.wake_ups == 0


def test_thirty_thousand_records_survive_constant_wake_ups() -> None:
    """None lost, none doubled (SplitFetcherTest.testWakeUp), though the queue is full most of the time."""
    elements = ElementsQueue(capacity=1)
    fetcher = SplitFetcher(NumbersReader(step=10), elements, numbered(10_000, 10_000, 10_000))
    threads = FetcherThreads()
    over = threading.Event()

    def wake() -> None:
        while not over.is_set():
            fetcher.wake_up()

    waker = threading.Thread(target=wake)
    threads.start(fetcher)
    waker.start()
    delivered = Delivered()
    while len(delivered.finished) < 3:
        assert elements.wait_available(DEADLINE_S)
        while (records := elements.poll()) is not None:
            delivered.take(records)
    over.set()
    waker.join(DEADLINE_S)
    fetcher.shutdown()
    threads.join(fetcher)

    assert delivered.numbers == upto(10_000, 10_000, 10_000)


# --- the three threading models: who reads what, and when fetchers come and go ---


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


# --- threads of fetchers: they end with the fetcher, and one that does not end holds nothing ---


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
