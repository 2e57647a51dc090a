"""Whether and when a failed query starts again: Flink's restart strategies as values and one pure function.

Owns no clock and no thread; `sql/jobs/supervisor.py` asks `after_failure` and does the waiting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

__all__ = [
    "DEFAULT_RESTART",
    "ExponentialDelay",
    "Failures",
    "FixedDelay",
    "NoRestart",
    "RestartStrategy",
    "after_failure",
    "with_jitter",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRestart:
    """The first failure is the last (Flink: `none`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedDelay:
    """At most `attempts` restarts in the life of the job, `delay_ms` after each failure (Flink: `fixed-delay`)."""

    attempts: int = 1
    delay_ms: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialDelay:
    """Restarts at growing intervals (Flink: `exponential-delay`).

    `attempts` restarts in a row, then the job fails; a run of `reset_after_ms` without a failure resets both the delay
    and the count. Flink's own defaults are 1.5, no limit and an hour; ours survive five minutes without a broker and
    then fail. `jitter` is the random part of a delay, so that queries which failed together do not restart together.
    """

    initial_ms: int = 1_000
    max_ms: int = 60_000
    multiplier: float = 2.0
    attempts: int = 10
    reset_after_ms: int = 600_000
    jitter: float = 0.1


RestartStrategy = NoRestart | FixedDelay | ExponentialDelay

DEFAULT_RESTART = ExponentialDelay()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """What a job remembers of its failures: how many count, and the delay before the last restart."""

    count: int = 0
    delay_ms: int = 0


def after_failure(strategy: RestartStrategy, before: Failures, *, ran_ms: int) -> Failures | None:
    """Decide on a failure after a run of `ran_ms`: the new count with the delay to wait, or None to give up."""
    match strategy:
        case NoRestart():
            return None
        case FixedDelay(attempts=attempts, delay_ms=delay_ms):
            return (
                Failures(count=before.count + 1, delay_ms=delay_ms)
                if before.count < attempts
                else None
            )
        case ExponentialDelay():
            known = Failures() if ran_ms >= strategy.reset_after_ms else before
            if known.count >= strategy.attempts:
                return None
            grown = (
                int(known.delay_ms * strategy.multiplier) if known.count else strategy.initial_ms
            )
            return Failures(count=known.count + 1, delay_ms=min(grown, strategy.max_ms))
        case _:
            assert_never(strategy)


def with_jitter(strategy: RestartStrategy, delay_ms: int, chance: float) -> int:
    """Return the time to wait for a delay, by a number from 0 up to 1 that was drawn; the next
    delay grows without it.
    """
    if not isinstance(strategy, ExponentialDelay):
        return delay_ms
    return round(delay_ms * (1 + strategy.jitter * (2 * chance - 1)))
