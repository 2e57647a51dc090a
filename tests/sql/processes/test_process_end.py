"""What follows from the end of a process."""

from __future__ import annotations

import pytest

from penstock.sql.processes.process_end import Ended, ProcessState, StartsAgain, after_end
from penstock.sql.settings import (
    ExponentialDelay,
    Failures,
    FixedDelay,
    NoRestart,
    RestartStrategy,
)

STRATEGY = ExponentialDelay(attempts=2)


def ended(
    status: int,
    *,
    stopping: bool = False,
    restarts: RestartStrategy = STRATEGY,
    before: Failures | None = None,
    ran_ms: int = 1_000,
    error: str | None = None,
) -> Ended | StartsAgain:
    """Decide with what is usual."""
    return after_end(
        status,
        stopping=stopping,
        restarts=restarts,
        before=before or Failures(),
        ran_ms=ran_ms,
        error=error,
    )


@pytest.mark.parametrize(
    ("status", "state"),
    [(0, ProcessState.FINISHED), (130, ProcessState.STOPPED), (1, ProcessState.FAILED)],
)
def test_a_process_that_ends_by_itself_stays_ended(status: int, state: ProcessState) -> None:
    """A failure is final: the queries were restarted by their strategy before."""
    found = ended(status)

    assert isinstance(found, Ended)
    assert found.state is state


def test_a_failure_has_the_last_error() -> None:
    """What the process wrote, else its status."""
    assert ended(2, error="error[PEN-2001]: no such column") == Ended(
        state=ProcessState.FAILED, reason="error[PEN-2001]: no such column"
    )
    assert ended(1) == Ended(state=ProcessState.FAILED, reason="it ended with status 1")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (-9, "the process was killed by SIGKILL: was the machine out of memory?"),
        (137, "the process was killed by SIGKILL: was the machine out of memory?"),
        (-11, "the process was killed by SIGSEGV"),
        (3, "Spark's Java process has died"),
        (70, "the process ended with status 70"),
    ],
)
def test_one_that_died_starts_again(status: int, words: str) -> None:
    """By the strategy of its queries, and with the reason in words."""
    assert ended(status) == StartsAgain(failures=Failures(count=1, delay_ms=1_000), reason=words)


def test_delays_grow_and_end() -> None:
    """Twice, then it has failed for good; a long run makes the count new."""
    second = ended(-9, before=Failures(count=1, delay_ms=1_000))
    third = ended(-9, before=Failures(count=2, delay_ms=2_000))
    later = ended(-9, before=Failures(count=2, delay_ms=2_000), ran_ms=STRATEGY.reset_after_ms)

    assert isinstance(second, StartsAgain)
    assert second.failures == Failures(count=2, delay_ms=2_000)
    assert isinstance(third, Ended)
    assert third.state is ProcessState.FAILED
    assert third.reason is not None
    assert third.reason.endswith("gave up after 2 restarts")
    assert isinstance(later, StartsAgain)
    assert later.failures.count == 1


def test_the_strategy_of_the_file_holds() -> None:
    """None restarts nothing, a fixed delay is as it says."""
    fixed = ended(-9, restarts=FixedDelay(attempts=1, delay_ms=70))

    assert isinstance(ended(-9, restarts=NoRestart()), Ended)
    assert isinstance(fixed, StartsAgain)
    assert fixed.failures.delay_ms == 70


@pytest.mark.parametrize("status", [0, 1, 130, -9, -15, 3])
def test_nothing_starts_again_that_was_to_stop(status: int) -> None:
    """Whatever its status."""
    assert ended(status, stopping=True) == Ended(state=ProcessState.STOPPED)
