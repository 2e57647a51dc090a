"""The queue between fetchers and reader: bounded, never in the way, and it tells whoever waits."""

from __future__ import annotations

import threading

import pytest

from penstock.catalog.errors import DataLossError
from penstock.connector.source.reader.fetcher import QUEUE_CAPACITY, ElementsQueue
from penstock.connector.source.records import RecordsWithSplitIds

DEADLINE_S = 20.0


def element(number: int) -> RecordsWithSplitIds:
    """A fetch that can be told from others."""
    return RecordsWithSplitIds(skipped=number)


def ignored() -> None:
    """Room is no news here."""


def test_elements_come_out_in_the_order_they_went_in() -> None:
    """A poll of an empty queue gives nothing at once."""
    queue = ElementsQueue()
    taken = [queue.offer(element(number), ignored) for number in (1, 2)]

    assert taken == [True, True]
    assert [queue.poll(), queue.poll(), queue.poll()] == [element(1), element(2), None]


def test_a_full_queue_takes_nothing_and_calls_back_when_there_is_room() -> None:
    """Two fetches wait at most (Flink: source.reader.element.queue.capacity)."""
    queue = ElementsQueue()
    room: list[str] = []
    for number in range(QUEUE_CAPACITY):
        assert queue.offer(element(number), ignored)
    refused = queue.offer(element(9), lambda: room.append("room"))

    assert not refused
    assert room == []
    assert queue.poll() == element(0)
    assert room == ["room"]
    assert queue.offer(element(9), ignored)


def test_each_that_waits_for_room_is_called_once() -> None:
    """However often it tried."""
    queue = ElementsQueue(capacity=1)
    calls: list[str] = []
    callbacks = [lambda: calls.append("a"), lambda: calls.append("b")]
    queue.offer(element(0), ignored)
    for callback in [*callbacks, *callbacks]:
        queue.offer(element(1), callback)
    queue.poll()
    queue.poll()

    assert sorted(calls) == ["a", "b"]


def test_it_is_unavailable_until_something_comes_and_again_after_an_empty_poll() -> None:
    """The last element leaves it available: only a poll that finds nothing knows that there is nothing."""
    queue = ElementsQueue()
    before = queue.wait_available(0)
    queue.offer(element(1), ignored)
    queue.poll()
    after_the_last = queue.wait_available(0)
    queue.poll()

    assert (before, after_the_last, queue.wait_available(0)) == (False, True, False)


def test_news_that_comes_while_elements_wait_outlives_their_poll() -> None:
    """A fetcher that went idle meanwhile is not overlooked."""
    queue = ElementsQueue()
    queue.offer(element(1), ignored)
    queue.notify_available()
    queue.poll()

    assert queue.wait_available(0)


@pytest.mark.parametrize(
    "tell",
    [
        lambda queue: queue.offer(element(1), ignored),
        lambda queue: queue.notify_available(),
        lambda queue: queue.fail(DataLossError("gone")),
    ],
    ids=["element", "idle", "failure"],
)
def test_whoever_waits_is_told(tell: object) -> None:
    """Of an element, of a fetcher that went idle, of one that failed."""
    assert callable(tell)
    queue = ElementsQueue()
    told: list[bool] = []
    waiting = threading.Thread(target=lambda: told.append(queue.wait_available(DEADLINE_S)))
    waiting.start()
    tell(queue)
    waiting.join(DEADLINE_S)

    assert told == [True]


def test_idleness_told_by_many_at_once_is_never_lost() -> None:
    """Each waiter that asks anew sees the next one (FutureCompletingBlockingQueueTest)."""
    queue = ElementsQueue()
    rounds, tellers = 200, 4
    barrier = threading.Barrier(tellers + 1, timeout=DEADLINE_S)

    def tell() -> None:
        for _ in range(rounds):
            barrier.wait()
            queue.notify_available()
            barrier.wait()

    threads = [threading.Thread(target=tell) for _ in range(tellers)]
    for thread in threads:
        thread.start()
    seen = []
    for _ in range(rounds):
        barrier.wait()
        seen.append(queue.wait_available(DEADLINE_S))
        barrier.wait()
        queue.poll()
    for thread in threads:
        thread.join(DEADLINE_S)

    assert seen == [True] * rounds
    assert not queue.wait_available(0)


def test_the_first_failure_counts_and_every_poll_raises_it() -> None:
    """Before what is still queued, as in Flink."""
    queue = ElementsQueue()
    queue.offer(element(1), ignored)
    queue.fail(DataLossError("first"))
    queue.fail(DataLossError("second"))

    for _ in range(2):
        with pytest.raises(DataLossError, match="first"):
            queue.poll()
