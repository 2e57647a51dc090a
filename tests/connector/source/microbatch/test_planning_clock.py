"""The clock that records of the future are told by: wrong readings, clocks that are set, and offsets that have one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.connector.source.microbatch.planning_clock import (
    CONFIRMED_AFTER_MS,
    LARGEST_STEP_MS,
    PlanningClock,
)

NOW_MS = 1_800_000_000_000
YEARS_MS = 10 * 365 * 86_400_000


def readings(*steps: tuple[int, int], logged_ms: int | None = None) -> list[int]:
    """Read at (steady, how far the wall clock is off), both in ms; give how far the answers are off."""
    clock = PlanningClock()
    return [
        clock.read(wall_ms=NOW_MS + steady + off, steady_ms=steady, logged_ms=logged_ms)
        - NOW_MS
        - steady
        for steady, off in steps
    ]


def test_one_wrong_reading_is_refused() -> None:
    """Ten years ahead or back; time goes on as if it had not been."""
    for wrong in (YEARS_MS, -YEARS_MS, LARGEST_STEP_MS + 1, -LARGEST_STEP_MS - 1):
        assert readings((0, 0), (5000, wrong), (10_000, 0), (15_000, 0)) == [0, 0, 0, 0]


def test_wrong_readings_that_differ_are_refused() -> None:
    """A clock that shows another time whenever it is asked is not one that was set."""
    seen = readings((0, 0), (5000, YEARS_MS), (20_000, 2 * YEARS_MS), (21_000, 3 * YEARS_MS))

    assert seen == [0, 0, 0, 0]


def test_a_clock_that_was_set_is_followed() -> None:
    """Forward, once it has kept to that for a while; and back again, if that was wrong."""
    later = CONFIRMED_AFTER_MS
    seen = readings(
        (0, 0),
        (100, YEARS_MS),
        (later, YEARS_MS),
        (later + 100, YEARS_MS),
        (40_000, 0),
        (60_000, 0),
    )

    assert seen == [0, 0, 0, YEARS_MS, YEARS_MS, 0]


def test_a_small_step_back_is_not_followed() -> None:
    """What was accepted is accepted again; a step forward is taken at once."""
    assert readings((0, 0), (1000, -5000), (7000, -5000)) == [0, -1000, -5000]
    assert readings((0, 0), (1000, 5000), (2000, 5000)) == [0, 5000, 5000]


def test_a_logged_clock_of_the_far_future_is_not_gone_on_with() -> None:
    """Offsets of a wrong reading recover by themselves; a little ahead is a little step back."""
    assert readings((0, 0), (5000, 0), logged_ms=NOW_MS + YEARS_MS) == [0, 0]
    assert readings((0, 0), (5000, 0), logged_ms=NOW_MS + 3000) == [3000, 0]
    assert readings((0, 0), (5000, 0), logged_ms=NOW_MS - YEARS_MS) == [0, 0]


@given(st.lists(st.tuples(st.integers(0, 9000), st.sampled_from([0, 0, 0, YEARS_MS, -YEARS_MS]))))
def test_the_clock_is_never_far_off_while_no_wrong_time_lasts(steps: list[tuple[int, int]]) -> None:
    """Between two wrong readings a right one comes."""
    steady, told = 0, [(0, 0)]
    for pause, off in steps:
        steady += pause
        told += [(steady, off), (steady, 0)]

    assert set(readings(*told)) == {0}
