"""Settings of a session that the planner reads, with Flink's names where Flink has them.

Those that Spark itself acts upon are carried into its session.
"""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo

from penstock.catalog.options.option import DURATION, STRING, Option, OptionType, Resolved

__all__ = [
    "CARRIED",
    "CHECKPOINT_DIR",
    "CHECKPOINT_INTERVAL",
    "LOCAL_TIME_ZONE",
    "PIPELINE_NAME",
    "SETTINGS",
    "STATE_PARTITIONS",
    "STATE_TTL",
    "SUBSTITUTION",
    "TARGET",
    "TIME_ZONE",
    "engine_conf",
]

_OFFSET = re.compile(r"Z|(?:UTC|GMT|UT)?[+-](?:0?\d|1[0-8])(?::[0-5]\d)?")


def _zone(text: str) -> str:
    if _OFFSET.fullmatch(text) is None:
        try:
            ZoneInfo(text)
        except (KeyError, OSError) as error:
            raise ValueError(text) from error
    return text


def _count(text: str) -> int:
    if not 1 <= (number := int(text)) <= 1 << 15:
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
    doc="Where checkpoints are kept, as <dir>/<pipeline>/<sink>: a path relative to the project, or a Hadoop URL.",
)

CHECKPOINT_INTERVAL = Option(
    key="execution.checkpointing.interval",
    type=DURATION,
    default=1_000,
    doc="Time between the starts of two micro-batches of a continuous query; a longer one is followed at once. "
    "0 runs one after the other: with few rows that keeps a core busy and makes many small files.",
)

LOCAL_TIME_ZONE = Option(
    key="table.local-time-zone",
    type=OptionType(name="a time zone such as 'Europe/Berlin' or '+02:00'", parse=_zone),
    default=None,
    doc="The session's time zone, for TIMESTAMP_LTZ and conversions. Default: Spark's, which is UTC where "
    "Penstock starts it. (Flink: the machine's.)",
)

STATE_PARTITIONS = Option(
    key="parallelism.default",
    type=OptionType(name="a whole number above 0", parse=_count),
    default=None,
    doc="Number of partitions of an operator with state; fixed when a pipeline first starts.",
)

STATE_TTL = Option(
    key="table.exec.state.ttl",
    type=DURATION,
    default=0,
    doc="How long the state of an updating query is kept for a key that nothing comes for (of a join: for a row); 0 is "
    "without limit. Later rows of the key start from nothing.",
)

TARGET = Option(
    key="penstock.target",
    type=STRING,
    default=None,
    doc="The target of penstock.toml that statements run for, empty for the default one: given by the project, where "
    "targets have checkpoints in one folder.",
)

SETTINGS = (
    PIPELINE_NAME,
    CHECKPOINT_DIR,
    CHECKPOINT_INTERVAL,
    LOCAL_TIME_ZONE,
    STATE_PARTITIONS,
    STATE_TTL,
    TARGET,
)

SUBSTITUTION = "spark.sql.variable.substitute"
"""Spark's own default is true: then `${env:X}` in a statement is the variable's value, `${x}` mostly nothing."""

TIME_ZONE = "spark.sql.session.timeZone"

CARRIED = {
    TIME_ZONE: LOCAL_TIME_ZONE,
    # a checkpoint keeps the number that its query first started with, whatever is set later
    "spark.sql.shuffle.partitions": STATE_PARTITIONS,
}


def engine_conf(settings: Resolved) -> dict[str, str]:
    """Return the Spark settings that the session's settings ask for, and those that every query has."""
    return {SUBSTITUTION: "false"} | {
        key: str(settings.get(option)) for key, option in CARRIED.items() if settings.is_set(option)
    }
