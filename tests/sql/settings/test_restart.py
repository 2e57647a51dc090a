"""The restart strategies: when a failed query starts again."""

from __future__ import annotations

from penstock.sql.settings import (
    ExponentialDelay,
    Failures,
    FixedDelay,
    NoRestart,
    after_failure,
)


def delays(strategy, ran_ms=0, failures=20):
    """The delays of a job that fails again and again after `ran_ms`."""
    state, found = Failures(), []
    for _ in range(failures):
        decision = after_failure(strategy, state, ran_ms=ran_ms)
        if decision is None:
            return found
        state = decision
        found.append(decision.delay_ms)
    return found


def test_the_delay_doubles_up_to_its_maximum_and_ends_after_ten():
    """Ten failures in a row are ridden out over five minutes, the eleventh is final."""
    seconds = [delay // 1000 for delay in delays(ExponentialDelay())]

    assert seconds == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]


def test_a_long_run_without_failure_makes_the_delay_new():
    """A job that runs well for the threshold and then fails starts counting at one."""
    strategy = ExponentialDelay(attempts=2, reset_after_ms=1_000)

    assert delays(strategy, ran_ms=999) == [1_000, 2_000]
    assert delays(strategy, ran_ms=1_000, failures=4) == [1_000] * 4


def test_fixed_delay_counts_over_the_life_of_the_job():
    """Flink's fixed-delay never forgets a failure."""
    strategy = FixedDelay(attempts=3, delay_ms=500)

    assert delays(strategy, ran_ms=10**9) == [500, 500, 500]


def test_without_a_strategy_the_first_failure_is_final():
    """`none` gives up at once."""
    assert delays(NoRestart()) == []
