"""How materialized tables are kept fresh by the jobs of a run: how often, and what SUSPEND ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.catalog.identifier import Identifier
from penstock.connector.contract import Continuous, Trigger
from penstock.sql.change_statements import ChangeMaterializedTable, CreateMaterializedTable
from penstock.sql.plan.refresh_name import refresh_name
from penstock.sql.run.progress import short_name
from penstock.sql.run.scene import Scene
from penstock.sql.statements import Statement

if TYPE_CHECKING:
    from penstock.sql.run.query import PlannedQuery

__all__ = ["refresh_trigger", "stop_refreshes"]


def refresh_trigger(statement: Statement, queries: Sequence[PlannedQuery]) -> Trigger | None:
    """Give the trigger of a query that keeps a materialized table; None for others, and where every table ends.

    Delta tables are followed: that a query over them alone has an end holds for other statements.
    """
    match statement:
        case CreateMaterializedTable(table=table) | ChangeMaterializedTable(table=table):
            leaves = [leaf for query in queries for leaf in query.leaves]
            if table.materialization is None or all(x.by_splits and x.bounded for x in leaves):
                return None
            return Continuous(interval_ms=table.materialization.interval_ms)
    return None


def stop_refreshes(table: Identifier, scene: Scene) -> None:
    """Let the jobs of this session that fill a table finish their batch and stop; ask those of others to do so."""
    own = [job for job in scene.jobs if job.progress.sink == short_name(table)]
    for job in own:
        job.request_stop()
    for job in own:
        job.wait()
    names = {job.name for job in own}
    for claim in scene.namespace.catalog.claims():
        pipeline = claim.lease.pipeline
        if pipeline not in names and pipeline.rpartition("/")[2] == refresh_name(table):
            scene.namespace.catalog.request_stop(pipeline)
