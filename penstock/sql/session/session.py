"""The session: Flink SQL, one statement or one file at a time, on a Spark session and a catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from penstock.catalog.definitions.contract import Catalog
from penstock.catalog.errors import SqlSyntaxError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.options.reference_rules import add_rules
from penstock.catalog.secrets.private_folder import make_private_folder
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.connector.contract import AvailableNow, Continuous, Trigger
from penstock.connector.spark.errors import share_failure_mark
from penstock.connector.spark.internals import remember_members
from penstock.connector.spark.session import set_conf
from penstock.connector.spark.source.data_source import bind_table_source, register_data_source
from penstock.sql.check.explain import explain_lines
from penstock.sql.clock import SystemClock
from penstock.sql.convert.statement import parse_statement
from penstock.sql.ddl.apply_ddl import (
    check_connector,
    check_written_secrets,
    filling_insert,
    is_definition,
)
from penstock.sql.ddl.redefinition import log_existing_definition
from penstock.sql.errors.render import errors_explained
from penstock.sql.execution.commands import check_command, is_command, run_command
from penstock.sql.execution.context import SessionContext, open_names
from penstock.sql.execution.ddl import Listing, define, set_option
from penstock.sql.execution.functions import register_called
from penstock.sql.execution.show import answer
from penstock.sql.jobs.job import Job, start_jobs
from penstock.sql.jobs.lease import write_once
from penstock.sql.jobs.startable_query import StartableQuery
from penstock.sql.plan.physical.insert import PlannedInsert
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.publish.publisher import CatalogPublisher, read_publishing, start_publishing
from penstock.sql.runner.plan import plan_set
from penstock.sql.runner.refresh import (
    FullRefresh,
    refresh_trigger,
    start_refreshes,
    stop_own_refreshes,
    stop_refreshes,
)
from penstock.sql.script.project import Project, find_project
from penstock.sql.script.splitter import split
from penstock.sql.session.file_run import run_file
from penstock.sql.session.reading import (
    Selected,
    select_all,
    select_frame,
    stream_frame,
    table_frame,
)
from penstock.sql.settings import CARRIED, check_settings, restart_strategy, split_limit
from penstock.sql.spark_process.jvm import launch_jvm, log_files
from penstock.sql.spark_process.spark_session import (
    DEFAULT_MASTER,
    FOR_PEOPLE,
    check_spark,
    leave_variables,
    refuse_connect,
    start_spark,
)
from penstock.sql.statements.dml import InsertInto
from penstock.sql.statements.statement import (
    Explain,
    ResetOption,
    Select,
    SetOption,
    Statement,
    StatementSet,
    ends_refresh_of,
    starts_refresh,
)


@errors_explained
def connect(
    spark: SparkSession | None = None,
    catalog: str | None = None,
    *,
    publish: str | None = None,
    **conf: str,
) -> Session:
    """Open a session. See `penstock.connect`."""
    refuse_connect(spark)
    publishing = read_publishing(publish)
    project = find_project(Path.cwd())
    add_rules(project.reference_rules)
    if spark is None:
        settings = {**FOR_PEOPLE, **project.spark_conf, **conf}
        files = log_files(project.data_directory / "logs")
        spark = start_spark(
            project.master or DEFAULT_MASTER,
            settings,
            launch=lambda launched: launch_jvm(launched, files),
        )
    else:
        check_spark(spark)
        for key, value in conf.items():
            spark.conf.set(key, value)
        leave_variables(spark)
    share_failure_mark(spark)
    remember_members(spark)
    with suppress(OSError):  # whoever needs it there says so
        make_private_folder(project.data_directory)
    url = catalog or project.default_catalog_url
    keys = project.secret_key_file
    register_data_source(spark, bind_table_source(url, project.root, keys))
    leases = None if catalog else project.lease_url
    store = SqlCatalog(url, secret_key_file=keys, lease_url=leases)
    session = Session(spark, store, project, catalog_url=url)
    session.published = start_publishing(
        spark, session.namespace, publishing, project=project.root, catalog=url
    )
    return session


class Session:
    """Runs Flink SQL. Tables and views persist in the catalog, temporary ones and SETs last as long as the session."""

    def __init__(
        self, spark: SparkSession, catalog: Catalog, project: Project, *, catalog_url: str
    ) -> None:
        self.spark = spark
        self.catalog = catalog
        self.catalog_url = catalog_url
        self.project = project
        self.published: CatalogPublisher | None = None
        self.settings: dict[str, str] = dict(project.settings)
        self.namespace = open_names(catalog, project.root, spark=lambda: spark)
        self.namespace.functions.has_engine = spark.catalog.functionExists
        self._planner = Planner(
            namespace=self.namespace,
            project=project.root,
            settings=self.settings,
            running=lambda: {job.name for job in self._jobs if not job.status.final},
        )
        self._jobs: list[Job] = []
        self.context = SessionContext(
            namespace=self.namespace,
            project=project.root,
            settings=self.settings,
            spark=lambda: self.spark,
            jobs=self._jobs,
        )
        self._spark_conf = {key: spark.conf.get(key, None) for key in CARRIED}
        self._carry_settings()

    @errors_explained
    def sql(self, text: str) -> DataFrame | Job | tuple[Job, ...] | None:
        """Run one statement.

        Definitions and SET return None; a query returns a frame, streaming where one of its tables has no end; SHOW,
        DESCRIBE and EXPLAIN return a frame of text, UPDATE and DELETE one with the number of rows. INSERT starts and
        returns a Job, or None for INSERT .. VALUES and INSERT OVERWRITE, which have ended then; so do statements that
        schedule refreshes of a materialized table. A statement set returns the jobs of its queries, of which there is
        one where its INSERTs share their read. Raises InputError before anything is started.
        """
        texts = split(text, "<statement>")
        if len(texts) != 1:
            raise SqlSyntaxError(
                f"sql() runs one statement, this text has {len(texts)}",
                hint="run_file(path) runs a whole file",
            )
        return self._run(parse_statement(texts[0], self.namespace))

    @errors_explained
    def run_file(
        self,
        path: str | Path,
        variables: Mapping[str, Any] | None = None,
        *,
        available_now: bool = False,
        from_scratch: bool = False,
    ) -> Sequence[Job]:
        """Run a file: check all of it, then run its statements in order. Returns the jobs of its INSERTs.

        `available_now` reads the present data and returns when it is written; otherwise the jobs of unbounded queries
        continue running. `from_scratch` sets the checkpoints of the INSERTs aside first, by renaming them. Raises
        InputErrors with everything that is wrong in the file, before anything is started.
        """
        jobs = run_file(
            Path(path),
            variables or {},
            self.context,
            self.project,
            available_now=available_now,
            from_scratch=from_scratch,
        )
        self.take_over(jobs)
        return jobs

    def take_over(self, jobs: Sequence[Job]) -> None:
        """Count jobs among the session's, which `stop` ends, and see what their script has set and defined."""
        self._jobs.extend(jobs)
        self._carry_settings()
        self.refresh()

    def select(self, statement: Select) -> Selected:
        """Return the frame of a query that was parsed, and what is known of it. Raises InputError."""
        self._register(statement.query)
        return select_frame(statement, self._planner, self.spark)

    @errors_explained
    def table(self, name: str) -> DataFrame:
        """Return what a table or view holds: `name`, `database.name` or `catalog.database.name`.

        An unbounded table is read to its ends when the frame first runs, one of changes to its final rows. Raises
        InputError.
        """
        return self._reading(name, stream=False)

    @errors_explained
    def stream(self, name: str) -> DataFrame:
        """Follow a table or view: a streaming frame that carries the table's watermark, as Flink computes it.

        Windows, joins and deduplication on the column of WATERMARK FOR close by it; no `withWatermark` is needed, or
        wanted. Changes have their kind in the column `op`. Raises InputError.
        """
        return self._reading(name, stream=True)

    @errors_explained
    def refresh(self) -> None:
        """Publish to plain Spark SQL what the catalog holds now, definitions of other processes too. Raises
        CatalogError.

        Definitions of this session are seen without it.
        """
        if self.published is not None:
            self.published.refresh()

    def plan_trigger(self, *, bounded: bool) -> Trigger:
        """Choose the trigger of a query: to the end where every table has one, else without end."""
        return (
            AvailableNow()
            if bounded
            else Continuous(interval_ms=self._planner.checkpoint_interval_ms)
        )

    def stop(self) -> None:
        """Stop the session's jobs, drop its temporary objects, remove published names. The Spark session stays."""
        for job in self._jobs:
            job.stop()
        if self.published is not None:
            self.published.close()
        set_conf(self.spark, self._spark_conf)
        self._planner.close()

    def _run(self, statement: Statement) -> DataFrame | Job | tuple[Job, ...] | None:
        check_connector(statement, self.project.root)
        check_written_secrets(statement)
        check_command(statement, self.namespace, self.project.root)
        if is_command(statement):
            listed = run_command(statement, self.context)
            return None if listed is None else self._frame(listed)
        log_existing_definition(statement, self.namespace)
        if (insert := filling_insert(statement)) is not None:
            self._check_filling(statement, insert)
        if is_definition(statement):
            define(statement, self.namespace)
            self.refresh()
            if insert is not None:
                planned = self._plan(insert)
                if starts_refresh(statement):
                    return self._keep_refreshed(planned, insert.target)
                return self._run_insert(planned, refresh_trigger(statement, (planned,)))
            if (table := ends_refresh_of(statement)) is not None:
                stop_refreshes(table, self.context)
            return None
        match statement:
            case SetOption() | ResetOption():
                changed = dict(self.settings)
                set_option(statement, changed)
                check_settings(changed)
                set_option(statement, self.settings)
                self._carry_settings()
                return None
            case InsertInto():
                return self._run_insert(self._plan(statement))
            case StatementSet():
                return self._statement_set(statement)
            case Explain():
                text = "\n".join(explain_lines(statement, self._planner))
                return self._frame(Listing(columns=("result",), rows=((text,),)))
            case Select():
                self._register(statement.query)
                return self._planner.select(statement, self.spark)
        return self._frame(answer(statement, self.context))

    def _register(self, query: exp.Expr) -> None:
        """Register with Spark the users' functions that a query calls."""
        register_called(query, self.namespace, self.spark, self.project.root)

    def _check_filling(self, statement: Statement, insert: InsertInto) -> None:
        """Plan on an overlay what fills a table, and prepare its target: only then is it defined. Raises InputError."""
        overlay = self.namespace.overlay()
        define(statement, overlay)
        self._register(insert.query)
        planner = Planner(namespace=overlay, project=self.project.root, settings=self.settings)
        try:
            planner.plan_insert(planner.analyse_insert(insert), self.spark).prepare()
        finally:
            planner.close()

    def _carry_settings(self) -> None:
        """Apply the settings to the user's own frames; what is reset becomes what it was before."""
        set_conf(self.spark, {**self._spark_conf, **self._planner.engine_conf})

    def _plan(self, statement: InsertInto) -> PlannedInsert:
        self._register(statement.query)
        planned = self._planner.plan_insert(self._planner.analyse_insert(statement), self.spark)
        planned.check_checkpoint()
        return planned

    def _run_insert(self, planned: PlannedInsert, trigger: Trigger | None = None) -> Job | None:
        """Run a bounded INSERT without a stream to its end, start another with `trigger` (None: its tables' own)."""
        if not planned.is_stream:
            write_once(planned, self.catalog.leases, SystemClock())
            self.refresh()
            return None
        (job,) = self._start((planned,), trigger)
        return job

    def _keep_refreshed(self, first: PlannedInsert, table: Identifier) -> Job:
        """Refresh a FULL table now and at its times; a job of this session that does so already makes way."""
        stop_own_refreshes(table, self._jobs)
        refresh = FullRefresh(
            table=table, context=replace(self.context, settings=dict(self.settings))
        )
        job = start_refreshes(first, refresh, leases=self.catalog.leases)
        self._jobs.append(job)
        self.refresh()
        return job

    def _statement_set(self, statement: StatementSet) -> tuple[Job, ...]:
        analysed = [self._planner.analyse_insert(insert) for insert in statement.inserts]
        for one in analysed:
            self._register(one.statement.query)
        planned = plan_set(analysed, self._planner, self.spark)
        planned.check_checkpoints()
        return self._start(planned.queries)

    def _start(
        self, queries: Sequence[StartableQuery], trigger: Trigger | None = None
    ) -> tuple[Job, ...]:
        bounded = all(query.bounded for query in queries)
        jobs = start_jobs(
            queries,
            trigger=trigger or self.plan_trigger(bounded=bounded),
            leases=self.catalog.leases,
            restarts=restart_strategy(self.settings),
            split_limit=split_limit(self.settings),
        )
        self._jobs += jobs
        self.refresh()  # the first rows of a table make it one that Spark reads by itself
        return tuple(jobs)

    def _reading(self, name: str, *, stream: bool) -> DataFrame:
        statement = select_all(name, self.namespace)
        self._register(statement.query)
        read = stream_frame if stream else table_frame
        return read(statement, self._planner, self.spark)

    def _frame(self, answer: Listing) -> DataFrame:
        schema = ", ".join(f"`{name}` STRING" for name in answer.columns)
        return self.spark.createDataFrame(list(answer.rows), schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
