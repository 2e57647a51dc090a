"""What follows from the end of a pipeline's process: a decision of its exit status and its restart strategy. Pure."""

from __future__ import annotations

import errno
import signal
from dataclasses import dataclass
from enum import StrEnum

from penstock.sql.errors.exit_status import ExitStatus
from penstock.sql.settings import Failures, RestartStrategy, after_failure

_SHORT = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
"""Errors of a machine that is out of something for a while."""

_ASKED = (-signal.SIGTERM, 128 + signal.SIGTERM)
"""Statuses of a process that the request to stop ended itself, before it listened or once it was done."""


class ProcessState(StrEnum):
    """The state of a process; the last three are final."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def final(self) -> bool:
        """Whether no process follows."""
        return self in {ProcessState.FINISHED, ProcessState.STOPPED, ProcessState.FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The process has ended, and none follows it. `reason` says why it failed."""

    state: ProcessState
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartsAgain:
    """Another process follows, `failures.delay_ms` later, but for a part by chance."""

    failures: Failures
    reason: str


def after_end(
    status: int,
    *,
    restarts: RestartStrategy,
    before: Failures,
    ran_ms: int,
    error: str | None = None,
) -> Ended | StartsAgain:
    """Decide on an exit status: negative ones are those of signals, as `subprocess` has them.

    A process that ends by itself has restarted its queries by their strategy already, so its failure is final. One
    that died, whose Java process did, or that could not start for now, starts again by the same strategy. `error` is
    the last error that it wrote.
    """
    match status:
        case 0:
            return Ended(state=ProcessState.FINISHED)
        case ExitStatus.INTERRUPTED:
            return Ended(state=ProcessState.STOPPED)
        case ExitStatus.FAILED | ExitStatus.WRONG_INPUT:
            return _failed(error or _status_text(status))
    reason = (error if status == ExitStatus.MAY_PASS else None) or end_text(status)
    return _again(reason, restarts, before, ran_ms=ran_ms)


def after_refusal(
    error: OSError, *, restarts: RestartStrategy, before: Failures
) -> Ended | StartsAgain:
    """Decide on a process that the operating system did not start: again where it lacks memory, processes or files."""
    reason = f"no process could be started: {error.strerror or error}"
    if error.errno not in _SHORT:
        return _failed(reason)
    return _again(reason, restarts, before, ran_ms=0)


def _again(
    reason: str, restarts: RestartStrategy, before: Failures, *, ran_ms: int
) -> Ended | StartsAgain:
    failures = after_failure(restarts, before, ran_ms=ran_ms)
    if failures is None:
        gave_up = f"; gave up after {before.count} restarts" if before.count else ""
        return _failed(f"{reason}{gave_up}")
    return StartsAgain(failures=failures, reason=reason)


def after_stop(status: int, *, left_running: bool, killed: bool, error: str | None = None) -> Ended:
    """Decide on the exit status of a process that was to stop: none follows it.

    It has stopped where it came to its own end, or had not begun. `left_running` tells whether a pipeline runs by its
    last report: with INTERRUPTED the process did not wait for the batch then. `killed` tells whether the supervisor
    killed it, as it took too long.
    """
    if killed and status == -signal.SIGKILL:
        return _failed("it did not stop in time and was killed: the next run does its batch again")
    match status:
        # a batch that was given back, or none had begun; a pipeline that has failed is reported
        case 0 | ExitStatus.FAILED | ExitStatus.MAY_PASS:
            return Ended(state=ProcessState.STOPPED)
        case ExitStatus.WRONG_INPUT:
            return _failed(error or _status_text(status))
        case ExitStatus.INTERRUPTED if left_running:
            return _failed("its batch did not end in time: the next run does it again")
        case ExitStatus.INTERRUPTED:
            return Ended(state=ProcessState.STOPPED)
    if status in _ASKED and not left_running:
        return Ended(state=ProcessState.STOPPED)
    return _failed(f"while it stopped: {end_text(status)}")


def _failed(reason: str) -> Ended:
    return Ended(state=ProcessState.FAILED, reason=reason)


def _status_text(status: int) -> str:
    return f"it ended with status {status}"


def end_text(status: int) -> str:
    """Say in words how a process died."""
    if status == ExitStatus.ENGINE_GONE:
        return "Spark's Java process has died"
    if status == ExitStatus.MAY_PASS:
        return "the process could not start for now"
    number = -status if status < 0 else status - 128 if status > 128 else None
    if number is None:
        return f"the process ended with status {status}"
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    memory = ": was the machine out of memory?" if number == signal.SIGKILL else ""
    return f"the process was killed by {name}{memory}"
