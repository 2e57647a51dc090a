"""Run the cases of test files one after the other, each in a folder of its own.

The statements of its files run on substitutes of their tables.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.catalog.definitions.contract import Catalog
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputError, InputErrors, PenstockError
from penstock.catalog.model.table import Table
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.check.script_check import CheckedScript, check_scripts
from penstock.sql.errors.spark import translate
from penstock.sql.execution.context import SessionContext
from penstock.sql.script.files import read_script
from penstock.sql.script.project import Project, find_project
from penstock.sql.settings import CHECKPOINT_DIR
from penstock.sql.testing.cases import Case, TestFile
from penstock.sql.testing.comparison import Problem, check_expected, compare
from penstock.sql.testing.queries import (
    ActualResults,
    ActualRow,
    RunningQuery,
    dead_letters,
    rows_of,
    watermark_of,
)
from penstock.sql.testing.sources import NamedTables, Sources, name_tables
from penstock.sql.testing.statements import Statements
from penstock.sql.testing.substitutes import FixedClock, TableSubstitutes, read_clock


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """The result of a case. `problems` is empty where it passed; `found` is None where it ended with an `error`.

    `tables` are those that the case names, by the names that it uses.
    """

    case: Case
    seconds: float
    problems: tuple[Problem, ...] = ()
    found: ActualResults | None = None
    error: PenstockError | None = None
    tables: Mapping[str, Table] = field(default_factory=dict, repr=False)

    @property
    def passed(self) -> bool:
        """Whether all results are as expected."""
        return not self.problems


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRunner:
    """Runs cases one after the other on one Spark. `catalog` is an empty one, which no case changes.

    `lenient`: a case may expect nothing; all that is written is looked at then.
    """

    spark: SparkSession
    catalog: Catalog
    project: Project
    folder: Path
    lenient: bool = False

    def run(self, case: Case, number: int) -> CaseResult:
        """Run a case; `number` identifies it. Raises InputError for a mistake in the case itself."""
        began_ns = time.monotonic_ns()
        folder = self.folder / str(number)
        found: ActualResults | None = None
        error: PenstockError | None = None
        prepared: _PreparedCase | None = None
        try:
            prepared = _prepared(case, self.catalog, self.project, folder, lenient=self.lenient)
            found = _Run(runner=self, prepared=prepared, folder=folder).result()
        except _CaseMistake as mistake:
            raise mistake.error from mistake
        except PenstockError as failure:
            error = failure
        seconds = (time.monotonic_ns() - began_ns) / 1e9
        named = NamedTables() if prepared is None else prepared.named
        skips = case.then is None and case.error is None and self.lenient and error is None
        return CaseResult(
            case=case,
            seconds=seconds,
            problems=() if skips else compare(case, found, error, named.tables),
            found=found,
            error=error,
            tables=named.tables,
        )


def check_case(
    case: Case, catalog: Catalog, project: Project, folder: Path, *, lenient: bool
) -> None:
    """Check a case for mistakes, without Spark; errors in its SQL are reported by its run.

    Rows are written into `folder`. Raises InputError.
    """
    try:
        prepared = _prepared(case, catalog, project, folder, lenient=lenient)
        with _mistakes():
            prepared.sources(folder).write(case.steps, prepared.named)
            check_expected(case, prepared.named.tables, lenient=lenient)
    except _CaseMistake as mistake:
        raise mistake.error from mistake
    except PenstockError:
        return


class _CaseMistake(Exception):
    """Wraps a mistake in the case, which is no result of its SQL."""

    def __init__(self, error: InputError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True, kw_only=True)
class _PreparedCase:
    """A case whose SQL was checked and whose names were found."""

    case: Case
    project: Project
    base: Namespace
    settings: dict[str, str]
    scripts: tuple[CheckedScript, ...]
    named: NamedTables
    doubles: TableSubstitutes
    clock: FixedClock | None

    def sources(self, folder: Path) -> Sources:
        """Make the sources of a run."""
        return Sources(doubles=self.doubles, project=folder)


def _prepared(
    case: Case, catalog: Catalog, project: Project, folder: Path, *, lenient: bool
) -> _PreparedCase:
    """Check a case's files, as `penstock validate` does, and find what it names. Raises InputError, _CaseMistake."""
    if case.target is not None:
        with _mistakes():
            project = find_project(project.root, target=case.target)
    base = Namespace(catalog)
    location = {CHECKPOINT_DIR.key: str(folder / "checkpoints")}
    settings = {**project.settings, **case.settings, **location}
    scripts = _checked(case, base, project, settings)
    with _mistakes():
        named = name_tables(case, scripts, base, lenient=lenient)
        clock = None if case.now is None else read_clock(case.now)
    tables = () if case.then is None else case.then.tables
    doubles = TableSubstitutes(
        folder=folder,
        run=str(folder),
        ends=case.ends,
        goes_idle=case.goes_idle,
        changes=frozenset(named.tables[t.name].identifier for t in tables if t.changes),
        shared=named.shared,
        keeps_letters=case.then is not None and case.then.dead_letters is not None,
        clock=clock,
    )
    return _PreparedCase(
        case=case,
        project=project,
        base=base,
        settings=settings,
        scripts=scripts,
        named=named,
        doubles=doubles,
        clock=clock,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One run of one case."""

    runner: CaseRunner
    prepared: _PreparedCase
    folder: Path

    def result(self) -> ActualResults:
        """Run the case to its end. Raises the error of its SQL, _CaseMistake for a mistake in the case."""
        prepared = self.prepared
        sources = prepared.sources(self.folder)
        with _mistakes():
            sources.write(prepared.case.steps, prepared.named)
        statements = Statements(
            spark=self.runner.spark,
            doubles=prepared.doubles,
            folder=self.folder,
            project=prepared.project,
            settings=prepared.settings,
            clock=prepared.clock,
        )
        with ExitStack() as stack:
            stack.callback(statements.close)
            stack.callback(prepared.doubles.forget, prepared.named.all)
            self._run(statements, sources, stack)
            return self._found(statements.queries)

    def _run(self, statements: Statements, sources: Sources, stack: ExitStack) -> None:
        spark = self.runner.spark
        try:
            statements.run(self.prepared.scripts, self.prepared.base.overlay())
            for running in statements.queries:
                stack.callback(running.stop)
                sources.prepare(running.query, spark)
            for running in statements.queries:
                running.start()
            for number in range(max(1, len(self.prepared.case.steps))):
                sources.publish(number, spark)
                for running in statements.queries:
                    running.step()
            statements.run_last()
        except Exception as error:
            raise translate(error) from error

    def _found(self, queries: Sequence[RunningQuery]) -> ActualResults:
        then, named, doubles = self.prepared.case.then, self.prepared.named, self.prepared.doubles
        changes = {table.name: table.changes for table in (() if then is None else then.tables)}
        wanted = changes if then is not None else dict.fromkeys(named.written, False)
        rows: dict[str, list[ActualRow]] = {}
        for name, wants_changes in wanted.items():
            own = named.tables[name]
            location = doubles.location(own.identifier)
            double = doubles.of(own)
            rows[name] = rows_of(double, own, location, self.runner.spark, changes=wants_changes)
        batches = [batch for running in queries for batch in running.batches]
        letters = doubles.keeps_letters
        return ActualResults(
            tables=rows,
            late=sum(batch.rows_dropped for batch in batches),
            bad_records=sum(batch.bad_records for batch in batches),
            watermark=watermark_of(queries),
            dead_letters=dead_letters(queries, self.runner.spark) if letters else (),
        )


def _checked(
    case: Case, namespace: Namespace, project: Project, settings: dict[str, str]
) -> tuple[CheckedScript, ...]:
    """Check the files with the tables as they are. Raises InputErrors."""
    return check_scripts(
        tuple(map(read_script, case.files)),
        SessionContext(namespace=namespace, project=project.root, settings=settings),
        variables={**project.variables, **case.variables},
        env=project.environment,
        folders=project.folders,
    )


@contextmanager
def _mistakes() -> Iterator[None]:
    """Separate input errors of the case itself from those of its SQL."""
    try:
        yield
    except InputError as error:
        raise _CaseMistake(error) from error


SPARK_CONF = {
    # a few rows each: more partitions only cost time, and one keeps the order of changes
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Settings that make short runs quick; those of the project win."""


def check_suite(cases: Sequence[tuple[TestFile, Case]], project: Project, *, lenient: bool) -> None:
    """Check all cases for mistakes, before Spark is started. Raises InputErrors."""
    errors: list[InputError] = []
    with tempfile.TemporaryDirectory(prefix="penstock-test-") as folder:
        catalog = SqlCatalog("sqlite://")
        for number, (_, case) in enumerate(cases, start=1):
            try:
                check_case(case, catalog, project, Path(folder) / str(number), lenient=lenient)
            except InputError as error:
                errors.append(error)
    if errors:
        raise InputErrors(errors) if len(errors) > 1 else errors[0]


def run_suite(
    cases: Sequence[tuple[TestFile, Case]],
    spark: SparkSession,
    project: Project,
    *,
    lenient: bool,
    ended: Callable[[TestFile, CaseResult], None],
) -> Iterator[CaseResult]:
    """Run cases and return their results; `ended` is called with each. `lenient`: see CaseRunner.

    Raises InputError for a mistake in a case.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-test-", ignore_cleanup_errors=True) as folder:
        path = Path(folder)
        runner = CaseRunner(
            spark=spark,
            catalog=SqlCatalog(f"sqlite:///{(path / 'catalog.db').as_posix()}"),
            project=project,
            folder=path,
            lenient=lenient,
        )
        for number, (file, case) in enumerate(cases, start=1):
            result = runner.run(case, number)
            ended(file, result)
            yield result
