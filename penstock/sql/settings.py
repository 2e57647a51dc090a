"""The keys of SET: what they mean to the planner, to jobs and to Spark, and the check of all keys that a file sets.

Keys have Flink's names where Flink has them. Restart strategies are values, and one pure function says whether and
when a failed query starts again.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, assert_never
from zoneinfo import ZoneInfo

from penstock.catalog.errors import OptionError, did_you_mean
from penstock.catalog.options.option import (
    DURATION,
    INT,
    STRING,
    Option,
    OptionType,
    Resolved,
    enum_type,
    resolve,
)

_T = TypeVar("_T")

FIXED_ZONE = re.compile(r"Z|(?:UTC|GMT|UT)?([+-])(0?\d|1[0-8])(?::([0-5]\d))?")
"""A time zone of one offset: its sign, hours and minutes."""


def _zone(text: str) -> str:
    if FIXED_ZONE.fullmatch(text) is None:
        try:
            ZoneInfo(text)
        except (KeyError, OSError) as error:
            raise ValueError(text) from error
    return text


def _count(text: str) -> int:
    if not 1 <= (number := int(text)) <= 1 << 15:
        raise ValueError(text)
    return number


def _buckets(text: str) -> int:
    # each bucket is a task of every stage, and has files of its own
    if not 0 <= (number := int(text)) <= 4096:
        raise ValueError(text)
    return number


def _records(text: str) -> int:
    if (number := int(text)) < 0:
        raise ValueError(text)
    return number


PIPELINE_NAME = Option(
    key="pipeline.name",
    type=STRING,
    default=None,
    doc="Name of the pipeline: its checkpoints and its lease. Default: the name of the SQL file.",
)

CHECKPOINT_DIR = Option(
    key="execution.checkpointing.dir",
    type=STRING,
    default=".penstock/checkpoints",
    flink="where checkpoints are kept, by the id of each job",
    doc="Where checkpoints are kept, as <dir>/<pipeline>/<sink>: a path relative to the project, or a Hadoop URL.",
)

CHECKPOINT_INTERVAL = Option(
    key="execution.checkpointing.interval",
    type=DURATION,
    default=1_000,
    flink="time between checkpoints; without it there are none",
    doc="Time between the starts of two micro-batches of a continuous query; a longer one is followed at once. "
    "0 runs one after the other: with few rows that keeps a core busy and makes many small files.",
)

LOCAL_TIME_ZONE = Option(
    key="table.local-time-zone",
    type=OptionType(name="a time zone such as 'Europe/Berlin' or '+02:00'", parse=_zone),
    default=None,
    doc="The session's time zone, for TIMESTAMP_LTZ and conversions. Default: Spark's, which is UTC where "
    "Penstock starts it.",
    flink="the default is the machine's",
)

STATE_PARTITIONS = Option(
    key="parallelism.default",
    type=OptionType(name="a whole number above 0", parse=_count),
    default=None,
    doc="Number of partitions of an operator with state; fixed when a pipeline first starts.",
    flink="tasks of every operator",
)

STATE_TTL = Option(
    key="table.exec.state.ttl",
    type=DURATION,
    default=0,
    doc="How long the state of an updating query is kept for a key that nothing comes for (of a join: for a row; of "
    "Top-N and deduplication of rows that stay: for a key whose result stays the same); 0 is without limit. Later rows "
    "of the key start from nothing.",
    flink="a value of DISTINCT expires by itself, and counts again while its key goes on",
)

ONE_TASK_RECORDS = Option(
    key="penstock.keyed.one-task-records",
    type=OptionType(name="a whole number", parse=_records),
    default=100_000,
    doc="Records of a micro-batch up to which one task runs all keyed operators of an updating query, which is "
    "cheapest where there are few, if their state has at most 1,000,000 rows and 32 MiB; never OVER and temporal "
    "joins. Otherwise tasks share them, one for each bucket of keys and stage; 0: always.",
    flink=None,
)

KEYED_BUCKETS = Option(
    key="penstock.keyed.buckets",
    type=OptionType(name="a whole number from 0 to 4096", parse=_buckets),
    default=0,
    doc="Number of buckets of keys that the state of keyed operators has, each of which one task processes: fixed with "
    "a pipeline's first batch; a later value changes nothing, and the log says so. 0: two for each core at that time.",
    flink=None,
)

TARGET = Option(
    key="penstock.target",
    type=STRING,
    default=None,
    doc="The target of penstock.toml that statements run for, empty for the default one: given by the project, where "
    "targets have checkpoints in one folder.",
    flink=None,
)

SPLIT_METRICS = Option(
    key="metrics.per-split",
    type=enum_type("auto", "true", "false"),
    default="auto",
    doc="Whether metrics have series of each split of a table, twelve of one: auto where it has at most 100 splits, "
    "true where it has at most 10,000, false nowhere. Those of whole tables are there all the same.",
    flink=None,
)

SETTINGS = (
    PIPELINE_NAME,
    CHECKPOINT_DIR,
    CHECKPOINT_INTERVAL,
    LOCAL_TIME_ZONE,
    STATE_PARTITIONS,
    STATE_TTL,
    ONE_TASK_RECORDS,
    KEYED_BUCKETS,
    SPLIT_METRICS,
    TARGET,
)

SUBSTITUTION = "spark.sql.variable.substitute"
"""Spark's own default is true: then `${env:X}` in a statement is the variable's value, `${x}` mostly nothing."""

TIME_ZONE = "spark.sql.session.timeZone"

ONE_TASK = "spark.penstock.keyed.one-task-records"
"""What tells a running query of `penstock.keyed.one-task-records`."""

BUCKETS = "spark.penstock.keyed.buckets"
"""What tells it of `penstock.keyed.buckets`."""

CARRIED = {
    TIME_ZONE: LOCAL_TIME_ZONE,
    # a checkpoint keeps the number that its query first started with, whatever is set later
    "spark.sql.shuffle.partitions": STATE_PARTITIONS,
    ONE_TASK: ONE_TASK_RECORDS,
    BUCKETS: KEYED_BUCKETS,
}


def engine_conf(settings: Resolved) -> dict[str, str]:
    """Return the Spark settings that the session's settings ask for, and those that every query has."""
    return {SUBSTITUTION: "false"} | {
        key: str(settings.get(option)) for key, option in CARRIED.items() if settings.is_set(option)
    }


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


STOP_LIMIT_MS = 600_000
"""What a batch in flight gets to finish in once the end is requested; a second request does not wait."""

RestartStrategy = NoRestart | FixedDelay | ExponentialDelay

DEFAULT_RESTART = ExponentialDelay()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """What a job remembers of its failures: how many count, and the delay before the last restart."""

    count: int = 0
    delay_ms: int = 0


def restart_limit(strategy: RestartStrategy) -> int:
    """Return how many of the restarts that count there may be."""
    return 0 if isinstance(strategy, NoRestart) else strategy.attempts


def counted_failures(strategy: RestartStrategy, before: Failures, *, ran_ms: int) -> Failures:
    """Return what counts of the failures before a run that goes on for `ran_ms`: of a long one none."""
    if isinstance(strategy, ExponentialDelay) and ran_ms >= strategy.reset_after_ms:
        return Failures()
    return before


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
            known = counted_failures(strategy, before, ran_ms=ran_ms)
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


MOST_SPLITS = 100
"""Splits of a table up to which each has series of its own: some 1,200. Above it the table has its sums only."""

MOST_SPLITS_ASKED = 10_000
"""The same where series of splits are asked for: 120,000 of a table are what a Prometheus takes."""


def setting(settings: Mapping[str, str], option: Option[_T]) -> _T:
    """Return the value of one key of SET, else its default. Raises OptionError."""
    asked = {key: value for key, value in settings.items() if key == option.key}
    return resolve(asked, (option,), owner="SET").get(option)


def split_limit(settings: Mapping[str, str]) -> int:
    """Return the number of splits of a table up to which metrics have series of each. Raises OptionError."""
    match setting(settings, SPLIT_METRICS):
        case "true":
            return MOST_SPLITS_ASKED
        case "false":
            return 0
    return MOST_SPLITS


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
    flink="the default is 1.5",
    doc="What the time grows by from restart to restart.",
)
ATTEMPTS = Option(
    key="restart-strategy.exponential-delay.attempts-before-reset-backoff",
    type=_COUNT,
    default=_DEFAULT.attempts,
    flink="without limit by default",
    doc="Restarts in a row before the job fails for good.",
)
RESET_AFTER = Option(
    key="restart-strategy.exponential-delay.reset-backoff-threshold",
    type=DURATION,
    default=_DEFAULT.reset_after_ms,
    flink="the default is 1 h",
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
        supported = f"supported are: {', '.join(sorted(_KNOWN))}; docs/options.md describes them"
        raise OptionError(f"SET: unknown key {key!r}", hint=near or supported)


def _slip_of(key: str) -> str | None:
    """Find the key that is read and differs from `key` by a letter or two."""
    near = difflib.get_close_matches(key, _KNOWN, n=1, cutoff=0.92)
    return f"did you mean {near[0]!r}?" if near else None
