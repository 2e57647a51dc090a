"""FULL materialized tables of files: when a job refreshes them, and how long it lives. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.catalog.definitions.leases import this_process
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import PipelineLockedError
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.check.checkpoint_assignment import name_scripts_here
from penstock.sql.check.script_check import CheckedScript, CheckedStatement, check_scripts
from penstock.sql.convert.statement import parse_statement
from penstock.sql.execution.context import SessionContext
from penstock.sql.observation.pipeline import JobStatus
from penstock.sql.runner.run import ScriptRun
from penstock.sql.runner.run_mode import RunMode, StopRequest
from penstock.sql.script.files import ScriptFile
from penstock.sql.script.splitter import split
from tests.sql.run.scripted import ScriptedInsert, ScriptedQuery

TABLES = """
CREATE TABLE orders (id BIGINT) WITH ('connector' = 'delta', 'path' = 'orders');
CREATE TABLE copies (id BIGINT) WITH ('connector' = 'delta', 'path' = 'copies')
"""
DAILY = (
    "CREATE MATERIALIZED TABLE daily WITH ('connector' = 'delta', 'path' = 'daily') "
    "FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS SELECT id FROM orders"
)


@pytest.fixture
def namespace() -> Namespace:
    """Two tables in a catalog of its own."""
    names = Namespace(SqlCatalog("sqlite://"))
    for text in split(TABLES, "tables.sql"):
        names.create(parse_statement(text, names).table)  # type: ignore[union-attr]
    return names


class Running:
    """A run of one file."""

    def __init__(self, namespace: Namespace, mode: RunMode, *statements: CheckedStatement) -> None:
        self.stop = StopRequest()
        context = SessionContext(namespace=namespace, project=Path("/nowhere"))
        file = ScriptFile(name="job.sql", text="")
        self.script = CheckedScript(file=file, statements=statements)
        self.run = ScriptRun(context, mode=mode, stop=self.stop, listener=self)
        self.when_started: Callable[[], None] = lambda: None

    def job_started(self, _job: Any) -> None:
        """Do what the test wants then."""
        self.when_started()

    def rows_came(self, _columns: Any, _rows: Any) -> None:
        """Nothing to do."""

    def statement_ended(self, _result: Any) -> None:
        """Nothing to do."""

    def results(self) -> list[tuple[str, int | None]]:
        return [(r.status.value, r.batches) for r in self.run.run((self.script,))]


def daily(namespace: Namespace, *, fails: Exception | None = None) -> CheckedStatement:
    """CREATE of the FULL table; its query writes at once, or fails."""
    (text,) = split(DAILY, "job.sql")
    writes = ScriptedInsert(starts=[fails], sink="daily", pipeline="job/daily", is_stream=False)
    return CheckedStatement(statement=parse_statement(text, namespace), planned=writes)  # type: ignore[arg-type]


def copies(namespace: Namespace) -> CheckedStatement:
    """An INSERT that never ends."""
    (text,) = split("INSERT INTO copies SELECT id FROM orders", "job.sql")
    query = ScriptedInsert(
        starts=[ScriptedQuery([0])], sink="copies", pipeline="job/copies", bounded=False
    )
    return CheckedStatement(statement=parse_statement(text, namespace), planned=query)  # type: ignore[arg-type]


def held(namespace: Namespace) -> list[str]:
    """Pipelines that somebody runs."""
    return [claim.lease.pipeline for claim in namespace.catalog.leases.claims()]


def test_what_is_there_now_is_written_once(namespace: Namespace) -> None:
    """`--available-now` leaves no job behind."""
    running = Running(namespace, RunMode.AVAILABLE_NOW, daily(namespace))

    assert running.results() == [("finished", None)]
    assert running.run.jobs == []
    assert held(namespace) == []


def test_without_anything_endless_beside_it_a_table_is_written_once_too(
    namespace: Namespace,
) -> None:
    """A file whose queries all end does end."""
    running = Running(namespace, RunMode.BY_TABLES, daily(namespace))

    assert running.results() == [("finished", 1)]
    assert held(namespace) == []


@pytest.mark.parametrize("mode", [RunMode.BY_TABLES, RunMode.CONTINUOUS])
def test_a_table_is_refreshed_as_long_as_the_run_goes_on(
    mode: RunMode, namespace: Namespace
) -> None:
    """Under its own lease; one request stops all."""
    running = Running(namespace, mode, daily(namespace), copies(namespace))
    seen: list[str] = []

    def look() -> None:
        seen[:] = held(namespace)
        running.stop.count = int(len(running.run.jobs) > 1)

    running.when_started = look

    assert running.results() == [("stopped", 1), ("stopped", 1)]
    assert sorted(seen) == ["job/copies", "job/daily"]
    assert held(namespace) == []


def test_where_nothing_is_to_end_a_table_alone_keeps_the_run_alive(namespace: Namespace) -> None:
    """`--continuous`."""
    running = Running(namespace, RunMode.CONTINUOUS, daily(namespace))
    running.when_started = lambda: setattr(running.stop, "count", 1)

    assert running.results() == [("stopped", 1)]


def test_a_first_refresh_that_fails_is_the_statements_failure(namespace: Namespace) -> None:
    """And no job is left."""
    running = Running(namespace, RunMode.CONTINUOUS, daily(namespace, fails=RuntimeError("full")))

    assert running.results() == [("failed", None)]
    assert held(namespace) == []


def test_a_table_that_another_runner_refreshes_is_refused(namespace: Namespace) -> None:
    """Before anything is written."""
    namespace.catalog.leases.acquire("job/daily", this_process())
    running = Running(namespace, RunMode.BY_TABLES, daily(namespace))

    with pytest.raises(PipelineLockedError):
        running.results()


@pytest.fixture
def kept(namespace: Namespace) -> Iterator[Running]:
    """A run that was left to itself, as a session's, with the table in the catalog."""
    running = Running(namespace, RunMode.BY_TABLES, daily(namespace))
    running.run.run((running.script,), wait=False)
    yield running
    for job in running.run.jobs:
        job.stop()


def test_a_sessions_job_goes_on_until_its_table_is_dropped(
    kept: Running, namespace: Namespace
) -> None:
    """It says what it waits for; DROP ends it, as SUSPEND does."""
    (job,) = kept.run.jobs
    waiting = job.progress
    (text,) = split("DROP MATERIALIZED TABLE daily", "job.sql")
    statement = parse_statement(text, namespace)
    kept.script = CheckedScript(
        file=kept.script.file, statements=(CheckedStatement(statement=statement),)
    )
    kept.run.run((kept.script,), wait=False)

    assert (waiting.status, waiting.activity[:15]) == (JobStatus.RUNNING, "next refresh at")
    assert job.wait(0)
    assert job.status is JobStatus.STOPPED


def test_a_check_names_the_pipeline_of_a_table_that_is_refreshed(namespace: Namespace) -> None:
    """So that a second runner is refused before Spark starts."""
    (script,) = check_scripts(
        (ScriptFile(name="etl.sql", text=DAILY),),
        SessionContext(namespace=namespace, project=Path("/nowhere")),
        variables={},
        env={},
    )

    (named,) = name_scripts_here((script,), Path("/nowhere"))

    assert [one.pipelines for one in named.statements] == [("etl/daily",)]
