"""Looks in the background: nobody waits for long, one runs at a time, and what was found stays."""

from __future__ import annotations

from threading import Event

from penstock.sql.ui.documents.background import BackgroundLook
from tests.sql.run.scripted import MovedClock


class Catalog:
    """Answers with a number once it may."""

    def __init__(self) -> None:
        self.answers, self.asked = Event(), 0

    def look(self) -> int:
        """Count the requests."""
        self.asked += 1
        assert self.answers.wait(60)
        return self.asked


def look_of(clock: MovedClock) -> BackgroundLook[int]:
    """A look that is old after a second."""
    return BackgroundLook(name="a look of a test", fresh_ms=1_000, clock=clock)


def test_all_who_ask_wait_for_the_first_look_together() -> None:
    """Each would wait anew for a catalog that hangs."""
    clock, catalog = MovedClock(), Catalog()
    look = look_of(clock)
    first = look.latest(catalog.look, wait_ms=10)
    clock.now += 10
    waited: list[float] = []
    look._ended.wait = waited.append

    second = look.latest(catalog.look, wait_ms=10)

    assert (first.found, first.running, second) == (None, True, first)
    assert waited == []
    clock.now -= 4
    look.latest(catalog.look, wait_ms=10)
    assert waited == [0.004]
    assert catalog.asked == 1
    catalog.answers.set()


def test_nobody_waits_for_a_look_once_something_is_known() -> None:
    """It is shown until another look has ended, with when it was found by the wall clock."""
    clock, catalog = MovedClock(), Catalog()
    clock.set_by_ms = 5
    look = look_of(clock)
    catalog.answers.set()
    found = look.latest(catalog.look, wait_ms=60_000)
    assert (found.found, found.at_ms, found.running) == (1, clock.now + 5, False)

    catalog.answers.clear()
    clock.now += 1_001
    old = look.latest(catalog.look, wait_ms=60_000)
    assert (old.found, old.at_ms, old.running) == (1, found.at_ms, True)
    catalog.answers.set()
    assert look._ended.wait(60)
    assert look.latest(catalog.look).found == 2


def test_a_look_that_fails_leaves_what_was_found() -> None:
    """The next one begins when that would be old, too."""
    clock, failed = MovedClock(), []
    look = look_of(clock)

    def broken() -> int:
        failed.append(clock.now)
        raise OSError("no catalog")

    assert look.latest(lambda: 7, wait_ms=60_000).found == 7
    clock.now += 1_001
    look.latest(broken)
    assert look._ended.wait(60)
    again = look.latest(broken)

    assert (again.found, again.running, len(failed)) == (7, False, 1)
