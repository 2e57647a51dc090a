"""How materialized tables are kept fresh by the jobs of a run: how often, and what ends them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.catalog.identifier import Identifier
from penstock.connector.contract import Continuous, Trigger
from penstock.sql.change_statements import ChangeMaterializedTable, CreateMaterializedTable
from penstock.sql.plan.refresh_name import refresh_name
from penstock.sql.run.clock import Clock, SystemClock
from penstock.sql.run.job import Job
from penstock.sql.run.job_reporting import report_of
from penstock.sql.run.lease import PipelineLease, hold_lease
from penstock.sql.run.progress import short_name
from penstock.sql.run.refresher import Refresher
from penstock.sql.run.scene import Scene
from penstock.sql.statements import Statement

if TYPE_CHECKING:
    from penstock.catalog.contract import Catalog
    from penstock.sql.run.full_refresh import FullRefresh
    from penstock.sql.run.query import PlannedQuery

__all__ = ["keep_refreshed", "refresh_trigger", "stop_own_refreshes", "stop_refreshes"]


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


def keep_refreshed(
    first: PlannedQuery,
    refresh: FullRefresh,
    *,
    catalog: Catalog,
    clock: Clock | None = None,
    lease: PipelineLease | None = None,
) -> Job:
    """Refresh a table here and now by `first`, its query as it is planned, and from then on by a job.

    A `lease` that is held already passes to the job. Raises PipelineLockedError when another runner refreshes it, and
    what the first refresh raises.
    """
    clock = clock or SystemClock()
    held = lease or hold_lease(catalog, first.pipeline, clock)
    refresher = Refresher(
        refresh,
        pipeline=first.pipeline,
        clock=clock,
        lost_lease=held.lost,
        at_end=held.release,
    )
    held.on_stop_request(refresher.request_stop)
    held.on_report(lambda: report_of(refresher.progress()))
    try:
        first.prepare()
        first.write(held.lost)
        refresher.start(refresh.interval_ms())
    except BaseException:
        held.release()
        raise
    return Job(refresher)


def stop_refreshes(table: Identifier, scene: Scene) -> None:
    """Let the jobs of this session that fill a table finish their batch and stop; ask those of others to do so."""
    names = stop_own_refreshes(table, scene.jobs)
    for claim in scene.namespace.catalog.claims():
        pipeline = claim.lease.pipeline
        if pipeline not in names and pipeline.rpartition("/")[2] == refresh_name(table):
            scene.namespace.catalog.request_stop(pipeline)


def stop_own_refreshes(table: Identifier, jobs: Sequence[Job]) -> set[str]:
    """Let those of `jobs` that fill a table finish their batch, and wait until they have; gives their names."""
    name = short_name(table)
    own = [job for job in jobs if job.progress.sink == name and not job.status.final]
    for job in own:
        job.request_stop()
    for job in own:
        job.wait()
    return {job.name for job in own}
