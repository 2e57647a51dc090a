"""Python's garbage collection is paused while records are fetched, and at no other time."""

from __future__ import annotations

import gc
import multiprocessing
import threading
from collections.abc import Iterator

import pytest

from penstock.connector.kafka.client.consumer import GarbageCollection


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    """Begin as an interpreter does; this run of tests has it off."""
    before = gc.isenabled()
    gc.enable()
    yield
    if not before:
        gc.disable()


def test_nothing_is_collected_during_a_fetch() -> None:
    """What a fetch makes is needed until its end."""
    collection = GarbageCollection()

    with collection.paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_fetch_that_fails_is_over() -> None:
    """As one that does not."""
    collection = GarbageCollection()

    with pytest.raises(ValueError, match="the broker"), collection.paused():
        raise ValueError("the broker")

    assert gc.isenabled()


def test_what_a_user_turned_off_stays_off() -> None:
    """It was not on before."""
    collection = GarbageCollection()
    gc.disable()

    with collection.paused():
        pass

    assert not gc.isenabled()


def test_the_last_of_several_fetches_ends_the_pause() -> None:
    """Whichever thread began it."""
    collection = GarbageCollection()
    inside, may_end = threading.Event(), threading.Event()

    def fetch() -> None:
        with collection.paused():
            inside.set()
            may_end.wait()

    thread = threading.Thread(target=fetch)
    with collection.paused():
        thread.start()
        inside.wait()
    after_the_first = gc.isenabled()
    may_end.set()
    thread.join()

    assert not after_the_first
    assert gc.isenabled()


# Python 3.12 warns of any fork of a process with threads
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_collects_again() -> None:
    """The thread that paused it is not in a forked child, and nobody there would end the pause."""
    collection = GarbageCollection()
    context = multiprocessing.get_context("fork")
    ours, childs = context.Pipe()

    def child() -> None:
        found = [gc.isenabled()]
        with collection.paused():
            found.append(gc.isenabled())
        childs.send([*found, gc.isenabled()])

    with collection.paused():
        process = context.Process(target=child)
        process.start()
        found = ours.recv()
        process.join()

    assert found == [True, False, True]
    assert gc.isenabled()


def test_no_fetch_begins_or_ends_while_the_process_forks() -> None:
    """A child that is forked in between would collect nothing for good."""
    collection = GarbageCollection()
    inside = threading.Event()

    def fetch() -> None:
        with collection.paused():
            inside.set()

    collection._hold()
    fetching = threading.Thread(target=fetch)
    fetching.start()
    began = inside.wait(0.2)
    collection._release()
    fetching.join()

    assert not began
    assert inside.is_set()
    assert gc.isenabled()
