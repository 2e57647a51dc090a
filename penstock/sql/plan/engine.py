"""Settings of SET that Spark itself acts upon, carried into its session while a query is built and started."""

from __future__ import annotations

from penstock.catalog.options import Resolved
from penstock.sql.plan.settings import LOCAL_TIME_ZONE, STATE_PARTITIONS

__all__ = ["CARRIED", "SUBSTITUTION", "TIME_ZONE", "engine_conf"]

SUBSTITUTION = "spark.sql.variable.substitute"
"""Spark's own default is true: then `${env:X}` in a statement is the variable's value, `${x}` mostly nothing."""

TIME_ZONE = "spark.sql.session.timeZone"
CARRIED = {
    TIME_ZONE: LOCAL_TIME_ZONE,
    # a checkpoint keeps the number that its query first started with, whatever is set later
    "spark.sql.shuffle.partitions": STATE_PARTITIONS,
}


def engine_conf(settings: Resolved) -> dict[str, str]:
    """Give the Spark settings that the session's settings ask for, and those that every query has."""
    return {SUBSTITUTION: "false"} | {
        key: str(settings.get(option)) for key, option in CARRIED.items() if settings.is_set(option)
    }
