"""Refresh materialized tables: once by ALTER MATERIALIZED TABLE ... REFRESH, or periodically by jobs of a run.

Flink's scheduler runs the same statement at each of its times. The query is planned again each time, in a Spark
session of the job's own: names and settings in it do not reach the user's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql import SparkSession

from penstock.catalog.errors import UnknownObjectError
from penstock.catalog.model.identifier import Identifier, short_name
from penstock.catalog.model.table import RefreshMode, Table
from penstock.connector.contract import Continuous, Trigger
from penstock.connector.spark.internals import clone_session
from penstock.connector.spark.session import drop_temporary_views
from penstock.sql.checkpoint.identity import refresh_name
from penstock.sql.clock import Clock, SystemClock
from penstock.sql.convert.statement import parse_statement
from penstock.sql.execution.context import SessionContext
from penstock.sql.execution.functions import register_called
from penstock.sql.jobs.job import Job, report_of
from penstock.sql.jobs.lease import PipelineLease, hold_lease
from penstock.sql.jobs.refresher import Refresher
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.script.splitter import split
from penstock.sql.statements.definitions import ChangeMaterializedTable, CreateMaterializedTable
from penstock.sql.statements.statement import Statement

if TYPE_CHECKING:
    from penstock.catalog.definitions.contract import Leases
    from penstock.connector.contract import LostLease
    from penstock.sql.jobs.startable_query import StartableQuery
    from penstock.sql.statements.dml import InsertInto


@dataclass(frozen=True, slots=True, kw_only=True)
class FullRefresh:
    """Rewrites `table` (`refresher.Refresh`). The settings are those of the statement that scheduled it.

    `group` names its Spark jobs, so that they can be cancelled.
    """

    table: Identifier
    context: SessionContext
    group: str = field(default_factory=lambda: f"penstock-refresh-{uuid4().hex}")
    _copies: list[SparkSession] = field(default_factory=list, compare=False, repr=False)

    @property
    def sink(self) -> str:
        """The table written, as messages name it."""
        return short_name(self.table)

    def interval_ms(self) -> int | None:
        """Return the table's freshness; None where it was dropped, suspended, or made another table."""
        try:
            found = self.context.namespace.lookup(self.table)
        except UnknownObjectError:
            return None
        materialized = found.materialization if isinstance(found, Table) else None
        if (
            materialized is None
            or materialized.suspended
            or materialized.refresh_mode is not RefreshMode.FULL
        ):
            return None
        return materialized.interval_ms

    def write(self, lost_lease: LostLease | None = None) -> None:
        """Rewrite the table, in one commit. Raises InputError, the error of `lost_lease`, what Spark raises."""
        if not self._copies:
            self._copies.append(clone_session(self.context.spark()))
        (spark,) = self._copies
        spark.sparkContext.setJobGroup(self.group, f"refresh {self.sink}", interruptOnCancel=True)
        insert = self._insert()
        namespace, project = self.context.namespace, self.context.project
        register_called(insert.query, namespace, spark, project)
        planner = Planner(
            namespace=namespace, project=project, settings=dict(self.context.settings)
        )
        try:
            planned = planner.plan_insert(planner.analyse_insert(insert), spark)
            planned.prepare()
            planned.write(lost_lease)
        finally:
            planner.close()
            drop_temporary_views(spark)

    def cancel(self) -> None:
        """End a `write` that runs."""
        self.context.spark().sparkContext.cancelJobGroup(self.group)

    def _insert(self) -> InsertInto:
        (text,) = split(f"ALTER MATERIALIZED TABLE {self.table} REFRESH", "<refresh>")
        statement = parse_statement(text, self.context.namespace)
        assert isinstance(statement, ChangeMaterializedTable), "it says so"
        assert statement.insert is not None, "REFRESH has one"
        return statement.insert


def refresh_trigger(statement: Statement, queries: Sequence[StartableQuery]) -> Trigger | None:
    """Return the trigger of a query that keeps a materialized table; None for others, and where every table ends.

    Delta tables are followed: only in other statements a query over them alone is bounded.
    """
    match statement:
        case CreateMaterializedTable(table=table) | ChangeMaterializedTable(table=table):
            leaves = [leaf for query in queries for leaf in query.leaves]
            if table.materialization is None or all(x.by_splits and x.bounded for x in leaves):
                return None
            return Continuous(interval_ms=table.materialization.interval_ms)
    return None


def start_refreshes(
    first: StartableQuery,
    refresh: FullRefresh,
    *,
    leases: Leases,
    clock: Clock | None = None,
    lease: PipelineLease | None = None,
) -> Job:
    """Refresh a table at once by `first`, its planned query, and then periodically by a job.

    A `lease` that is held already passes to the job. Raises PipelineLockedError when another runner refreshes it, and
    what the first refresh raises.
    """
    clock = clock or SystemClock()
    held = lease or hold_lease(leases, first.pipeline, clock)
    refresher = Refresher(
        refresh,
        pipeline=first.pipeline,
        clock=clock,
        lost_lease=held.lost,
        at_end=held.release,
    )
    held.on_stop_request(refresher.request_stop)
    job = Job(refresher, lease_expires_ms=held.expires_ms)
    held.on_report(lambda: report_of(job.observed, clock.now_ms()))
    try:
        first.prepare()
        first.write(held.lost)
        refresher.start(refresh.interval_ms())
    except BaseException:
        held.release()
        raise
    return job


def stop_refreshes(table: Identifier, context: SessionContext) -> None:
    """Stop the jobs of this session that fill a table, after their batch; request the same of others' jobs."""
    names = stop_own_refreshes(table, context.jobs)
    for claim in context.leases.claims():
        pipeline = claim.lease.pipeline
        if pipeline not in names and pipeline.rpartition("/")[2] == refresh_name(table):
            context.leases.request_stop(pipeline)


def stop_own_refreshes(table: Identifier, jobs: Sequence[Job]) -> set[str]:
    """Stop those of `jobs` that fill a table, after their batch, and wait for that; returns their names."""
    name = short_name(table)
    own = [job for job in jobs if job.progress.sink == name and not job.status.final]
    for job in own:
        job.request_stop()
    for job in own:
        job.wait()
    return {job.name for job in own}
