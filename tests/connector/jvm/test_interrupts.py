"""Signals that come while a child process is born: held back, then handled as the program wants."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from penstock.connector.jvm.interrupts import interrupts_deferred


@pytest.fixture(autouse=True)
def _own_handlers() -> Iterator[None]:
    """Give the run its handlers back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_an_interrupt_waits_for_the_end_of_the_block() -> None:
    """What the block begins is complete when the interrupt comes."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    done = []

    def body() -> None:
        with interrupts_deferred():
            signal.raise_signal(signal.SIGINT)
            done.append("begun")

    with pytest.raises(KeyboardInterrupt):
        body()

    assert done == ["begun"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_ignored_signal_stays_ignored() -> None:
    """A process started in the background by a shell ignores SIGINT; so it does afterwards."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts_deferred():
        signal.raise_signal(signal.SIGINT)

    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_another_thread_is_left_alone() -> None:
    """Only the main thread may set handlers; in others nothing can come in between anyway."""
    seen = []

    def body() -> None:
        with interrupts_deferred():
            seen.append("run")

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()

    assert seen == ["run"]
