"""`--from-scratch`: sets the checkpoints of what is to run aside, so that it begins anew. Removes nothing.

A new checkpoint gives the query a new id, under which sinks that remember batches take the first one again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.catalog.errors import StateMismatchError
from penstock.sql.plan.checkpoint import checkpoint_files, set_aside
from penstock.sql.plan.checkpoint_identity import check_target, read_identity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.sql.run.clock import Clock
    from penstock.sql.run.query import PlannedQuery
    from penstock.sql.run.script_check import CheckedScript

__all__ = ["set_aside_all"]

log = logging.getLogger(__name__)


def set_aside_all(scripts: Sequence[CheckedScript], clock: Clock) -> None:
    """Rename every checkpoint of the files' queries, and say so. The caller holds their leases.

    Raises ConfigError when a file system refuses, StateMismatchError for the checkpoint of another target.
    """
    for query in (one for script in scripts for s in script.statements for one in s.queries):
        if query.is_stream:
            _check_own(query)
    now_ms = clock.now_ms()
    for spark, location in _checkpoints(scripts):
        target = set_aside(spark, location, now_ms)
        if target is not None:
            log.info(
                "from scratch: the checkpoint %s was set aside as %s; remove it when it is of no more use",
                location,
                target.rpartition("/")[2],
            )


def _check_own(query: PlannedQuery) -> None:
    try:
        found = read_identity(checkpoint_files(query.spark)(query.checkpoint))
    except StateMismatchError:
        return  # what is damaged is to be set aside
    if found is not None:
        check_target(found, query.place.identity, query.checkpoint)


def _checkpoints(scripts: Sequence[CheckedScript]) -> Iterator[tuple[SparkSession, str]]:
    for script in scripts:
        for one in script.statements:
            for query in one.queries:
                if query.is_stream:
                    yield query.spark, query.checkpoint
            if one.planned_set is not None:
                for rival in one.planned_set.rivals:
                    yield one.planned_set.spark, rival
