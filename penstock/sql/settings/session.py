"""The SET keys of restarts, and the check of all keys that a file sets.

Keys are Flink's. `sql/settings/pipeline.py` has those that the planner reads.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from penstock.catalog.errors import OptionError, did_you_mean
from penstock.catalog.options.option import DURATION, INT, Option, OptionType, enum_type, resolve
from penstock.sql.settings.pipeline import SETTINGS
from penstock.sql.settings.restart import ExponentialDelay, FixedDelay, NoRestart, RestartStrategy

__all__ = ["RESTART_SETTINGS", "check_settings", "restart_strategy"]

_DEFAULT = ExponentialDelay()
_FIXED = FixedDelay()


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _factor(text: str) -> float:
    number = float(text)
    if not 1.0 <= number <= 100.0:
        raise ValueError(text)
    return number


def _part(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError(text)
    return value


_COUNT: OptionType[int] = OptionType(name="a whole number above 0", parse=_positive)
_PART: OptionType[float] = OptionType(name="a number from 0 to 1", parse=_part)
_FACTOR: OptionType[float] = OptionType(name="a number from 1 to 100", parse=_factor)

TYPE = Option(
    key="restart-strategy.type",
    type=enum_type(
        "exponential-delay",
        "fixed-delay",
        "none",
        "exponentialdelay",
        "fixeddelay",
        "off",
        "disable",
    ),
    default="exponential-delay",
    aliases=("restart-strategy",),
    doc="How a failed query starts again from its checkpoint: exponential-delay, fixed-delay or none.",
)
INITIAL_BACKOFF = Option(
    key="restart-strategy.exponential-delay.initial-backoff",
    type=DURATION,
    default=_DEFAULT.initial_ms,
    doc="Time before the first restart, such as '1 s'.",
)
MAX_BACKOFF = Option(
    key="restart-strategy.exponential-delay.max-backoff",
    type=DURATION,
    default=_DEFAULT.max_ms,
    doc="The longest time before a restart, such as '1 min'.",
)
MULTIPLIER = Option(
    key="restart-strategy.exponential-delay.backoff-multiplier",
    type=_FACTOR,
    default=_DEFAULT.multiplier,
    doc="What the time grows by from restart to restart.",
)
ATTEMPTS = Option(
    key="restart-strategy.exponential-delay.attempts-before-reset-backoff",
    type=_COUNT,
    default=_DEFAULT.attempts,
    doc="Restarts in a row before the job fails for good.",
)
RESET_AFTER = Option(
    key="restart-strategy.exponential-delay.reset-backoff-threshold",
    type=DURATION,
    default=_DEFAULT.reset_after_ms,
    doc="A run of this length without a failure makes time and count new, such as '10 min'.",
)
JITTER = Option(
    key="restart-strategy.exponential-delay.jitter-factor",
    type=_PART,
    default=_DEFAULT.jitter,
    doc="The part of the time by which chance makes it shorter or longer.",
)
FIXED_ATTEMPTS = Option(
    key="restart-strategy.fixed-delay.attempts",
    type=INT,
    default=_FIXED.attempts,
    doc="Restarts before the job fails for good.",
)
FIXED_DELAY = Option(
    key="restart-strategy.fixed-delay.delay",
    type=DURATION,
    default=_FIXED.delay_ms,
    doc="Time before each restart, such as '1 s'.",
)
RESTART_SETTINGS: tuple[Option[Any], ...] = (
    TYPE,
    INITIAL_BACKOFF,
    MAX_BACKOFF,
    MULTIPLIER,
    ATTEMPTS,
    RESET_AFTER,
    JITTER,
    FIXED_ATTEMPTS,
    FIXED_DELAY,
)

_KNOWN = {option.key: option for option in (*SETTINGS, *RESTART_SETTINGS)} | {
    "restart-strategy": TYPE
}
# Families of Flink's own keys: files bring many of them along, and those Penstock does not read do no harm.
_FLINK_FAMILIES = (
    "akka.",
    "blob.",
    "classloader.",
    "client.",
    "cluster.",
    "env.",
    "execution.",
    "heartbeat.",
    "high-availability.",
    "jobmanager.",
    "kubernetes.",
    "metrics.",
    "parallelism.",
    "pipeline.",
    "rest.",
    "security.",
    "sql-client.",
    "state.",
    "table.",
    "taskmanager.",
    "web.",
    "yarn.",
)


def restart_strategy(settings: Mapping[str, str]) -> RestartStrategy:
    """Read the restart strategy from SET keys. Raises OptionError."""
    known = {key: value for key, value in settings.items() if key.startswith("restart-strategy")}
    values = resolve(known, RESTART_SETTINGS, owner="SET")
    match values.get(TYPE):
        case "none" | "off" | "disable":
            return NoRestart()
        case "fixed-delay" | "fixeddelay":
            return FixedDelay(attempts=values.get(FIXED_ATTEMPTS), delay_ms=values.get(FIXED_DELAY))
    return ExponentialDelay(
        initial_ms=values.get(INITIAL_BACKOFF),
        max_ms=values.get(MAX_BACKOFF),
        multiplier=values.get(MULTIPLIER),
        attempts=values.get(ATTEMPTS),
        reset_after_ms=values.get(RESET_AFTER),
        jitter=values.get(JITTER),
    )


def check_settings(settings: Mapping[str, str]) -> None:
    """Check the values of known keys, and refuse unknown keys. Raises OptionError.

    A key of one of Flink's families that Penstock does not read is kept and changes nothing, unless it looks like a
    typo of one that it reads.
    """
    resolve(
        {key: value for key, value in settings.items() if key in _KNOWN},
        tuple(_KNOWN.values()),
        owner="SET",
    )
    for key in settings:
        if key in _KNOWN:
            continue
        slip = _slip_of(key)
        if slip is None and key.startswith(_FLINK_FAMILIES):
            continue
        near = slip or did_you_mean(key, _KNOWN)
        supported = f"supported are: {', '.join(sorted(_KNOWN))}"
        raise OptionError(f"SET: unknown key {key!r}", hint=near or supported)


def _slip_of(key: str) -> str | None:
    """Find the key that is read and differs from `key` by a letter or two."""
    near = difflib.get_close_matches(key, _KNOWN, n=1, cutoff=0.92)
    return f"did you mean {near[0]!r}?" if near else None
