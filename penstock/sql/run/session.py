"""The session: Flink SQL, one statement or one file at a time, on a Spark session and a catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession

from penstock.catalog.contract import Catalog
from penstock.catalog.errors import SqlSyntaxError
from penstock.catalog.names import Namespace
from penstock.catalog.store import SqlCatalog
from penstock.connector.contract import AvailableNow, Continuous, Trigger
from penstock.connector.registry import connector_of
from penstock.connector.spark.datasource import bind_table_source
from penstock.sql.config import Project, find_project
from penstock.sql.lower import parse_statement
from penstock.sql.plan.engine import CARRIED
from penstock.sql.plan.planner import Planner
from penstock.sql.run.ddl import Listing, define, is_definition, listing, set_option
from penstock.sql.run.explain import explain_lines
from penstock.sql.run.job import Job, start_jobs
from penstock.sql.run.query import PlannedQuery
from penstock.sql.run.session_settings import check_settings, restart_strategy
from penstock.sql.run.spark_session import DEFAULT_MASTER, check_spark, start_spark
from penstock.sql.run.statement_set import plan_set
from penstock.sql.script import split
from penstock.sql.statements import (
    CreateTable,
    Explain,
    InsertInto,
    ResetOption,
    Select,
    SetOption,
    Statement,
    StatementSet,
)

__all__ = ["Session", "connect"]


def connect(spark: SparkSession | None = None, catalog: str | None = None, **conf: str) -> Session:
    """Open a session. See `penstock.connect`."""
    project = find_project(Path.cwd())
    if spark is None:
        spark = start_spark(project.master or DEFAULT_MASTER, {**project.spark_conf, **conf})
    else:
        check_spark(spark)
        for key, value in conf.items():
            spark.conf.set(key, value)
    url = catalog or project.default_catalog_url
    spark.dataSource.register(bind_table_source(url, project.root))
    return Session(spark, SqlCatalog(url), project)


class Session:
    """Runs Flink SQL. Tables and views persist in the catalog, temporary ones and SETs live as long as the session."""

    def __init__(self, spark: SparkSession, catalog: Catalog, project: Project) -> None:
        self.spark = spark
        self.catalog = catalog
        self.project = project
        self.settings: dict[str, str] = dict(project.settings)
        self.namespace = Namespace(catalog)
        self._planner = Planner(
            namespace=self.namespace, project=project.root, settings=self.settings
        )
        self._jobs: list[Job] = []
        self._spark_conf = {key: spark.conf.get(key) or "" for key in CARRIED}
        self._carry_settings()

    def sql(self, text: str) -> DataFrame | Job | tuple[Job, ...] | None:
        """Run one statement.

        Definitions and SET give None; a query gives a frame, streaming where one of its tables has no end; SHOW,
        DESCRIBE and EXPLAIN give a frame of text; INSERT starts and gives a Job, or None for INSERT .. VALUES. A
        statement set gives the jobs of its queries, of which there is one where its INSERTs share their read.
        Raises InputError before anything is started.
        """
        texts = split(text, "<statement>")
        if len(texts) != 1:
            raise SqlSyntaxError(
                f"sql() runs one statement, this text has {len(texts)}",
                hint="run_file(path) runs a whole file",
            )
        return self._run(parse_statement(texts[0], self.namespace))

    def run_file(
        self,
        path: str | Path,
        variables: Mapping[str, Any] | None = None,
        *,
        available_now: bool = False,
        from_scratch: bool = False,
    ) -> Sequence[Job]:
        """Run a file: check all of it, then run its statements in order. Gives the jobs of its INSERTs.

        `available_now` reads what is there and returns when it is written; otherwise the jobs of unbounded
        queries go on running. `from_scratch` sets the checkpoints of the INSERTs aside first, by renaming
        them. Raises InputErrors with everything that is wrong in the file, before anything is started.
        """
        from penstock.sql.run.script_run import run_script_in_session

        jobs = run_script_in_session(
            self,
            Path(path),
            variables or {},
            available_now=available_now,
            from_scratch=from_scratch,
        )
        self._jobs.extend(jobs)
        return jobs

    def plan_trigger(self, *, bounded: bool) -> Trigger:
        """Choose the trigger of a query: to the end where every table has one, else for ever."""
        return (
            AvailableNow()
            if bounded
            else Continuous(interval_ms=self._planner.checkpoint_interval_ms)
        )

    def stop(self) -> None:
        """Stop the session's jobs and forget its temporary objects. The Spark session stays."""
        for job in self._jobs:
            job.stop()
        for key, value in self._spark_conf.items():
            self.spark.conf.set(key, value)
        self._planner.close()

    def _run(self, statement: Statement) -> DataFrame | Job | tuple[Job, ...] | None:
        if isinstance(statement, CreateTable):
            connector_of(statement.table, project=self.project.root).check(statement.table)
        if is_definition(statement):
            define(statement, self.namespace)
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
                return self._insert(statement)
            case StatementSet():
                return self._statement_set(statement)
            case Explain():
                text = "\n".join(explain_lines(statement, self._planner))
                return self._frame(Listing(columns=("result",), rows=((text,),)))
            case Select():
                return self._planner.select(statement, self.spark)
        return self._frame(listing(statement, self.namespace, self.settings))

    def _carry_settings(self) -> None:
        """Let frames that the user works on see the settings too; what is reset is again as it was found."""
        for key, value in (self._spark_conf | self._planner.engine_conf).items():
            self.spark.conf.set(key, value)

    def _insert(self, statement: InsertInto) -> Job | None:
        planned = self._planner.plan_insert(self._planner.analyse_insert(statement), self.spark)
        if not planned.is_stream:
            planned.prepare()
            planned.write()
            return None
        planned.check_checkpoint()
        (job,) = self._start((planned,))
        return job

    def _statement_set(self, statement: StatementSet) -> tuple[Job, ...]:
        analysed = [self._planner.analyse_insert(insert) for insert in statement.inserts]
        planned = plan_set(analysed, self._planner, self.spark)
        planned.check_checkpoints()
        return self._start(planned.queries)

    def _start(self, queries: Sequence[PlannedQuery]) -> tuple[Job, ...]:
        jobs = start_jobs(
            queries,
            trigger=self.plan_trigger(bounded=all(query.bounded for query in queries)),
            catalog=self.catalog,
            restarts=restart_strategy(self.settings),
        )
        self._jobs += jobs
        return tuple(jobs)

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
