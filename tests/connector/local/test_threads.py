"""The worker thread and the timers: when things are due, and that nothing runs twice at a time."""

from __future__ import annotations

import queue
import threading
from typing import Any

from penstock.connector.local.threads import SteadyClock, Timers, Worker

WAIT_S = 10.0


class MovedClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.at_ms = 0

    def now_ms(self) -> int:
        return self.at_ms


def started() -> Worker:
    """Make a worker that runs."""
    worker = Worker(SteadyClock(), "penstock-test")
    worker.start()
    return worker


def test_calls_run_in_the_order_of_their_time() -> None:
    """Those of the same time in the order in which they were asked for."""
    worker, done = started(), queue.Queue[Any]()
    gate = threading.Event()
    worker.call(lambda: gate.wait(WAIT_S), lambda *_: None)
    worker.call(lambda: "late", lambda result, _: done.put(result), delay_ms=30)
    for name in ("first", "second"):
        worker.call(lambda name=name: name, lambda result, _: done.put(result))
    assert worker.busy
    gate.set()
    found = [done.get(timeout=WAIT_S) for _ in range(3)]
    worker.close(lambda: None, WAIT_S)

    assert found == ["first", "second", "late"]


def test_a_periodic_call_goes_on_after_a_failure() -> None:
    """FLINK-32362: the periodic announcement died of one exception."""
    worker, done = started(), queue.Queue[Any]()
    worker.call(lambda: 1 // 0, lambda _, error: done.put(type(error)), every_ms=1)
    found = [done.get(timeout=WAIT_S) for _ in range(3)]
    worker.close(lambda: None, WAIT_S)

    assert found == [ZeroDivisionError] * 3


def test_a_close_drops_what_waits_and_runs_the_last_call_on_the_thread() -> None:
    """What is asked for afterwards is not done."""
    worker, ran = started(), []
    worker.call(lambda: ran.append("never"), lambda *_: None, delay_ms=60_000)

    assert worker.close(lambda: ran.append(threading.current_thread().name), WAIT_S)
    worker.call(lambda: ran.append("never"), lambda *_: None)
    assert ran == ["penstock-test"]


def test_a_close_does_not_wait_for_the_outside_world() -> None:
    """It says so, and the last call is made when the other comes back."""
    worker, gate, closed = started(), threading.Event(), threading.Event()
    began = threading.Event()
    worker.call(lambda: began.set() or gate.wait(WAIT_S), lambda *_: None)
    began.wait(WAIT_S)

    assert not worker.close(closed.set, 0.01)
    gate.set()
    assert closed.wait(WAIT_S)


def test_timers_are_due_after_their_interval_and_do_not_catch_up() -> None:
    """A thread that was kept busy does the thing once."""
    clock, did = MovedClock(), []
    timers = Timers(clock)
    timers.every(10, lambda: did.append("every"))
    timers.after(25, lambda: did.append("once"))
    assert list(timers.due()) == []
    assert timers.wait_s == 0.01
    clock.at_ms = 45
    for act in timers.due():
        act()

    assert did == ["every", "once"]
    assert timers.wait_s == 0.01
