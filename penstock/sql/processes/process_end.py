"""What follows from the end of a pipeline's process: a decision of its exit status and its restart strategy. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import StrEnum

from penstock.sql.settings import Failures, RestartStrategy, after_failure

FAILED, WRONG_INPUT, ENGINE_GONE, INTERRUPTED = 1, 2, 3, 130
"""Exit statuses of `penstock run` but 0."""


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
    stopping: bool,
    restarts: RestartStrategy,
    before: Failures,
    ran_ms: int,
    error: str | None = None,
) -> Ended | StartsAgain:
    """Decide on an exit status: negative ones are those of signals, as `subprocess` has them.

    A process that ends by itself has restarted its queries by their strategy already, so its failure is final. One
    that died, or whose Java process did, starts again by the same strategy, unless it was to stop. `error` is the last
    error that it wrote.
    """
    if stopping:
        # 1 may be the failure of a batch that was given back
        return Ended(state=ProcessState.FAILED if status == WRONG_INPUT else ProcessState.STOPPED)
    match status:
        case 0:
            return Ended(state=ProcessState.FINISHED)
        case 130:
            return Ended(state=ProcessState.STOPPED)
        case 1 | 2:
            return Ended(
                state=ProcessState.FAILED, reason=error or f"it ended with status {status}"
            )
    reason = end_text(status)
    failures = after_failure(restarts, before, ran_ms=ran_ms)
    if failures is None:
        gave_up = f"; gave up after {before.count} restarts" if before.count else ""
        return Ended(state=ProcessState.FAILED, reason=f"{reason}{gave_up}")
    return StartsAgain(failures=failures, reason=reason)


def end_text(status: int) -> str:
    """Say in words how a process died."""
    if status == ENGINE_GONE:
        return "Spark's Java process has died"
    number = -status if status < 0 else status - 128 if status > 128 else None
    if number is None:
        return f"the process ended with status {status}"
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    memory = ": was the machine out of memory?" if number == signal.SIGKILL else ""
    return f"the process was killed by {name}{memory}"
