"""Goes through the statements of a case's files: definitions on paper, INSERTs planned and made ready to run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputError
from penstock.sql.check.script_check import CheckedScript
from penstock.sql.ddl.apply_ddl import filling_insert, is_definition
from penstock.sql.execution.commands import run_command
from penstock.sql.execution.context import SessionContext
from penstock.sql.execution.ddl import define, set_option
from penstock.sql.execution.functions import add_jar, register_called
from penstock.sql.jobs.startable_query import StartableQuery
from penstock.sql.plan.analysed import AnalysedInsert
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.runner.plan import plan_set
from penstock.sql.script.project import Project
from penstock.sql.statements.dml import DeleteRows, InsertInto, TruncateTable, UpdateRows
from penstock.sql.statements.show import AddJar
from penstock.sql.statements.statement import ResetOption, SetOption, Statement, StatementSet
from penstock.sql.testing.queries import RunningQuery
from penstock.sql.testing.substitutes import FixedClock, TableSubstitutes


@dataclass(slots=True, kw_only=True)
class Statements:
    """The statements of one case. `queries` are its streams, in the order of the files.

    INSERT .. VALUES and changes of rows take effect in their turn; an INSERT that reads once and replaces waits for
    `run_last`, when all rows are there.
    """

    spark: SparkSession
    doubles: TableSubstitutes
    folder: Path
    project: Project
    settings: dict[str, str]
    clock: FixedClock | None
    queries: list[RunningQuery] = field(default_factory=list)
    _last: list[StartableQuery] = field(default_factory=list)
    _planners: list[Planner] = field(default_factory=list)

    def run(self, scripts: Sequence[CheckedScript], namespace: Namespace) -> None:
        """Define and plan everything; `namespace` has the tables as they are. Raises InputError, RunError."""
        context = SessionContext(
            namespace=namespace,
            project=self.folder,
            settings=dict(self.settings),
            spark=lambda: self.spark,
        )
        checkpoints = {k: v for k, v in self.settings.items() if k.endswith("checkpointing.dir")}
        for script in scripts:
            planner = Planner(
                namespace=namespace,
                project=self.folder,
                settings=context.settings,
                default_pipeline=script.file.pipeline,
            )
            self._planners.append(planner)
            for one in script.statements:
                self._one(one.statement, context, planner)
                # wherever the files keep them, a test has its own
                context.settings.update(checkpoints)

    def run_last(self) -> None:
        """Run the INSERTs that read once."""
        for query in self._last:
            query.prepare()
            query.write()

    def close(self) -> None:
        """Remove the files that told data sources what to read."""
        for planner in self._planners:
            planner.close()

    def _one(self, statement: Statement, context: SessionContext, planner: Planner) -> None:
        namespace = context.namespace
        try:
            if is_definition(statement):
                define(statement, namespace)
            insert = filling_insert(statement)
            if insert is not None:
                statement = insert
            match statement:
                case SetOption() | ResetOption():
                    set_option(statement, context.settings)
                case AddJar(path=path):
                    add_jar(path, self.spark, self.project.root)
                case InsertInto():
                    self._plan((statement,), namespace, planner, self._planned_alone)
                case StatementSet(inserts=inserts):
                    self._plan(inserts, namespace, planner, self._planned_together)
                case UpdateRows() | DeleteRows() | TruncateTable():
                    run_command(
                        statement, replace(context, namespace=self.doubles.stage(namespace))
                    )
        except InputError as error:
            error.span = error.span or statement.span
            raise

    def _plan(
        self,
        inserts: Sequence[InsertInto],
        namespace: Namespace,
        planner: Planner,
        plan: Callable[[Sequence[AnalysedInsert], Planner], Sequence[StartableQuery]],
    ) -> None:
        planner.namespace = self.doubles.stage(namespace)
        analysed: list[AnalysedInsert] = []
        for insert in inserts:
            register_called(insert.query, namespace, self.spark, self.project.root)
            analysed.append(self._analysed(insert, planner))
        for query in plan(analysed, planner):
            if query.is_stream:
                live = all(leaf.by_splits for leaf in query.leaves)
                self.queries.append(RunningQuery(query=query, stays_up=live))
            elif query.sources or any(one.query.leaves for one in analysed):
                self._last.append(query)
            else:
                query.prepare()
                query.write()

    def _analysed(self, insert: InsertInto, planner: Planner) -> AnalysedInsert:
        if self.clock is None:
            return planner.analyse_insert(insert)
        fixed = replace(insert, query=self.clock.fixed(insert.query))
        analysed = planner.analyse_insert(fixed)
        return replace(analysed, query=self.clock.fixed_columns(analysed.query))

    def _planned_alone(
        self, analysed: Sequence[AnalysedInsert], planner: Planner
    ) -> Sequence[StartableQuery]:
        return [planner.plan_insert(one, self.spark) for one in analysed]

    def _planned_together(
        self, analysed: Sequence[AnalysedInsert], planner: Planner
    ) -> Sequence[StartableQuery]:
        return plan_set(analysed, planner, self.spark).queries
