"""What follows from the end of a process."""

from __future__ import annotations

import pytest

from penstock.sql.processes.process_end import (
    Ended,
    ProcessState,
    StartsAgain,
    after_end,
    after_stop,
)
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
    restarts: RestartStrategy = STRATEGY,
    before: Failures | None = None,
    ran_ms: int = 1_000,
    error: str | None = None,
) -> Ended | StartsAgain:
    """Decide with what is usual."""
    return after_end(
        status,
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


def test_one_that_could_not_start_for_now_starts_again() -> None:
    """With its own error as the reason: the catalog was away, or Java did not start."""
    away = "error[PEN-6001]: the catalog cannot be used: connection refused"
    failures = Failures(count=1, delay_ms=1_000)

    assert ended(75, error=away) == StartsAgain(failures=failures, reason=away)
    assert ended(75) == StartsAgain(failures=failures, reason="the process could not start for now")
    assert stopped(75, left_running=False) == Ended(state=ProcessState.STOPPED)


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


def stopped(
    status: int, *, left_running: bool = True, killed: bool = False, error: str | None = None
) -> Ended:
    """Decide on a process that was to stop, in the middle of its work."""
    return after_stop(status, left_running=left_running, killed=killed, error=error)


@pytest.mark.parametrize("status", [0, 1])
def test_a_process_that_came_to_its_end_has_stopped(status: int) -> None:
    """Also where its batch failed when it was given back: a pipeline that has failed for good is reported."""
    assert stopped(status) == Ended(state=ProcessState.STOPPED)


@pytest.mark.parametrize("status", [130, -15, 143])
def test_one_without_a_pipeline_that_runs_has_stopped_by_the_signal(status: int) -> None:
    """As it starts, before it listens, or once its pipelines have ended: nothing was in flight."""
    assert stopped(status, left_running=False) == Ended(state=ProcessState.STOPPED)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (130, "its batch did not end in time: the next run does it again"),
        (
            -9,
            "while it stopped: the process was killed by SIGKILL: was the machine out of memory?",
        ),
        (
            137,
            "while it stopped: the process was killed by SIGKILL: was the machine out of memory?",
        ),
        (-15, "while it stopped: the process was killed by SIGTERM"),
        (3, "while it stopped: Spark's Java process has died"),
        (70, "while it stopped: the process ended with status 70"),
    ],
)
def test_one_that_leaves_its_batch_or_dies_while_it_stops_has_failed(
    status: int, reason: str
) -> None:
    """Nothing starts again that was to stop."""
    assert stopped(status) == Ended(state=ProcessState.FAILED, reason=reason)


def test_wrong_input_is_a_failure_of_a_stop_too() -> None:
    """With its error, else its status."""
    failed = ProcessState.FAILED
    assert stopped(2, error="error[PEN-2001]: no") == Ended(
        state=failed, reason="error[PEN-2001]: no"
    )
    assert stopped(2) == Ended(state=failed, reason="it ended with status 2")


def test_one_that_the_supervisor_killed_is_told_from_one_that_another_did() -> None:
    """Unless it had ended by itself just before."""
    reason = "it did not stop in time and was killed: the next run does its batch again"

    assert stopped(-9, killed=True) == Ended(state=ProcessState.FAILED, reason=reason)
    assert stopped(0, killed=True) == Ended(state=ProcessState.STOPPED)
