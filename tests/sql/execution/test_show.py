"""What SHOW and DESCRIBE answer, and jobs by their names; nothing here starts an engine."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from penstock.catalog.definitions.leases import JobReport, this_process
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import UnknownObjectError, UnsupportedError
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.convert.statement import parse_statement
from penstock.sql.dialect.parser.calls import built_in_functions
from penstock.sql.execution.commands import TITLES, check_command, is_command, run_command, stop_job
from penstock.sql.execution.context import SessionContext
from penstock.sql.execution.show import answer
from penstock.sql.jobs.observation import ObservedJob
from penstock.sql.observation.pipeline import JobStatus
from penstock.sql.runner.refresh import stop_refreshes
from penstock.sql.script.splitter import split
from tests.sql.sql_objects import TABLES, run

MORE = """;
CREATE MATERIALIZED TABLE live WITH ('connector' = 'delta') AS SELECT auction FROM bids;
CREATE FUNCTION discount AS 'pricing.discount' LANGUAGE PYTHON;
CREATE TABLE topic (id BIGINT) WITH ('connector' = 'kafka')
"""


def no_spark() -> NoReturn:
    """Nobody may ask."""
    raise AssertionError("Spark was asked for")


class ScriptedJob:
    """A job that stops when it is asked to."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.status = JobStatus.RUNNING
        self.stops = 0

    @property
    def progress(self) -> Any:
        return SimpleNamespace(
            name=self.name,
            status=self.status,
            started_ms=0,
            sink=self.name.rpartition("/")[2],
            last_commit_ms=1_000,
            activity="next refresh at noon",
            restarts=0,
            last_error=None,
            outage=None,
            rows_dropped=12,
            bad_records=3,
            refreshes=False,
            batch_id=4,
            lag_records=None,
        )

    @property
    def observed(self) -> ObservedJob:
        return ObservedJob(progress=self.progress)

    def request_stop(self) -> None:
        self.stops += 1
        self.status = JobStatus.STOPPED

    def wait(self) -> bool:
        return True


def context(*jobs: Any) -> SessionContext:
    """Tables, a materialized one and a function; the jobs given."""
    namespace = Namespace(SqlCatalog("sqlite://"))
    run(TABLES + MORE, namespace)
    return SessionContext(
        namespace=namespace, settings={}, project=Path("/nowhere"), spark=no_spark, jobs=jobs
    )


def asked(sql: str, where: SessionContext) -> tuple[tuple[str, ...], list[tuple[str | None, ...]]]:
    """The answer's titles and rows."""
    (text,) = split(sql, "a.sql")
    statement = parse_statement(text, where.namespace)
    found = run_command(statement, where) if is_command(statement) else answer(statement, where)
    return (found.columns, list(found.rows)) if found is not None else ((), [])


@pytest.mark.parametrize(
    ("sql", "title", "names"),
    [
        ("SHOW CATALOGS", "catalog name", ["default_catalog"]),
        ("SHOW CURRENT CATALOG", "current catalog name", ["default_catalog"]),
        ("SHOW DATABASES FROM default_catalog", "database name", ["default_database"]),
        ("SHOW DATABASES NOT LIKE 'd%'", "database name", []),
        ("SHOW CURRENT DATABASE", "current database name", ["default_database"]),
        ("SHOW MATERIALIZED TABLES", "table name", ["live"]),
        ("SHOW FUNCTIONS LIKE 'disc%'", "function name", ["discount"]),
        ("SHOW FUNCTIONS LIKE 'to_timestamp'", "function name", ["to_timestamp"]),
        ("SHOW USER FUNCTIONS", "function name", ["discount", "my_function"]),
        ("SHOW PROCEDURES", "procedure name", []),
        ("SHOW MODULES", "module name", ["core"]),
    ],
)
def test_a_list_has_flinks_title(sql: str, title: str, names: list[str]) -> None:
    """And the names that LIKE keeps."""
    columns, rows = asked(sql, context())

    assert columns == (title,)
    assert [row[0] for row in rows] == names


def test_the_columns_of_a_view_have_the_types_of_its_query() -> None:
    """Its own names, and nothing that only a table has."""
    columns, rows = asked("SHOW COLUMNS FROM halves", context())

    assert len(columns) == 7
    assert [row[:3] for row in rows] == [("a", "BIGINT", "TRUE"), ("h", "BIGINT", "TRUE")]


def test_columns_of_time_are_marked() -> None:
    """As in Flink: the one that the watermark follows, and the time of processing."""
    where = context()
    run(
        "CREATE TABLE timed (ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts)",
        where.namespace,
    )
    _, rows = asked("SHOW COLUMNS FROM timed", where)

    assert [row[1:3] for row in rows] == [
        ("TIMESTAMP(3) *ROWTIME*", "TRUE"),
        ("TIMESTAMP_LTZ(3) *PROCTIME*", "FALSE"),
    ]


def test_columns_are_shown_as_they_are_described() -> None:
    """Those that LIKE keeps."""
    columns, rows = asked("SHOW COLUMNS FROM sink LIKE '_'", context())

    assert columns[0] == "name"
    assert [row[0] for row in rows] == ["k", "o", "c"]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("DESCRIBE CATALOG default_catalog", {"name": "default_catalog", "type": "penstock"}),
        ("DESCRIBE DATABASE default_database", {"catalog": "default_catalog", "comment": None}),
        ("DESCRIBE FUNCTION upper", {"is system function": "true"}),
        ("DESCRIBE FUNCTION Discount", {"class name": "pricing.discount", "is temporary": "false"}),
        ("DESCRIBE FUNCTION EXTENDED discount", {"called as": "discount(...)"}),
    ],
)
def test_a_thing_is_described_in_pairs(sql: str, expected: dict[str, str | None]) -> None:
    """Titles as in Flink."""
    columns, rows = asked(sql, context())
    found = {row[0]: row[1] for row in rows}

    assert columns == ("info name", "info value")
    assert {key: found[key] for key in expected} == expected


def test_what_is_not_there_cannot_be_described() -> None:
    """The nearest name is said."""
    with pytest.raises(UnknownObjectError) as caught:
        asked("DESCRIBE FUNCTION discont", context())

    assert caught.value.hint == "did you mean 'discount'?"


def test_built_in_functions_are_those_that_run() -> None:
    """Names in lower case, each once."""
    names = built_in_functions()

    assert {"upper", "count", "cast"} <= set(names)
    assert "ml_predict" not in names
    assert names == sorted(set(names))


def test_jobs_are_those_of_the_session_and_of_the_catalog() -> None:
    """A job of another runner is known by its lease."""
    where = context(ScriptedJob("etl/a"))
    where.namespace.catalog.leases.acquire("other/b", this_process())
    columns, rows = asked("SHOW JOBS", where)

    assert columns == TITLES
    assert [(row[0], row[2]) for row in rows] == [("etl/a", "RUNNING"), ("other/b", "RUNNING")]
    assert rows[0][4] == "this session"
    assert [row[columns.index("late rows")] for row in rows] == ["12", None]
    assert [row[columns.index("bad records")] for row in rows] == ["3", None]
    assert rows[0][columns.index("sentence")] == "runs: batch 4 is the last one"
    assert asked("DESCRIBE JOB 'other/b'", where) == (columns, [rows[1]])
    assert asked("DESCRIBE JOB 'etl/a'", where) == (
        (*columns, "last commit", "activity"),
        [(*rows[0], "1970-01-01T00:00:01", "next refresh at noon")],
    )


def test_the_state_of_a_job_is_seen_from_elsewhere() -> None:
    """Its restarts, what it failed of, what it waits for and left out; one that failed is listed for a day."""
    where = context()
    catalog = where.namespace.catalog
    broken = JobReport(status="restarting", restarts=7, last_error="the disk is full")
    catalog.leases.report_job(catalog.leases.acquire("etl/a", this_process()), broken)
    waiting = JobReport(
        status="running",
        waiting_for="Kafka at b:9092 (refused)",
        waiting_since_ms=0,
        late_rows=12,
        bad_records=0,
        sentence="waits for Kafka",
    )
    catalog.leases.report_job(catalog.leases.acquire("etl/b", this_process()), waiting)
    for name, status in (("etl/c", "failed"), ("etl/d", "stopped")):
        lease = catalog.leases.acquire(name, this_process())
        catalog.leases.report_job(lease, JobReport(status=status, last_error="no such topic"))
        catalog.leases.release(lease)
    _, rows = asked("SHOW JOBS", where)

    assert [(row[0], row[2], *row[5:]) for row in rows] == [
        ("etl/a", "RESTARTING", "7", "the disk is full", None, None, None, None),
        (
            "etl/b",
            "RUNNING",
            "0",
            None,
            "Kafka at b:9092 (refused) since 1970-01-01T00:00:00",
            "12",
            "0",
            "waits for Kafka",
        ),
        ("etl/c", "FAILED", "0", "no such topic", None, None, None, None),
    ]


def test_a_job_whose_process_is_gone_has_failed(tmp_path: Path) -> None:
    """By the last sign of life, not by its report, which may be of long ago; it was in no list."""
    catalog, own = SqlCatalog(f"sqlite:///{tmp_path / 'catalog.db'}"), this_process()
    where, leases = replace(context(), namespace=Namespace(catalog)), catalog.leases
    dead = replace(own, started=(own.started or 0) - 1)
    leases.report_job(
        leases.acquire("etl/a", dead), JobReport(status="running", sentence="caught up")
    )
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as store, store:
        store.execute("UPDATE penstock_job_states SET changed_ms = 0")
    columns, (row,) = asked("SHOW JOBS", where)

    found = dict(zip(columns, row, strict=True))
    assert (found["job id"], found["status"], found["runner"]) == ("etl/a", "FAILED", None)
    assert (found["last error"] or "").startswith(f"its process is gone (process {own.pid} on ")
    assert found["sentence"] == f"failed: {found['last error']}"
    _, (described,) = asked("DESCRIBE JOB 'etl/a'", where)
    assert described[:6] == row[:6]


def test_a_job_is_stopped_by_its_name() -> None:
    """Here at once; elsewhere its runner is asked; one that does not run is unknown."""
    job = ScriptedJob("etl/a")
    where = context(job)
    lease = where.namespace.catalog.leases.acquire("other/b", this_process())
    asked("STOP JOB 'etl/a'", where)
    titles, _ = asked("STOP JOB 'other/b' WITH SAVEPOINT", where)

    assert job.stops == 1
    assert where.namespace.catalog.leases.is_asked_to_stop(lease)
    assert titles == ("savepoint path",)
    with pytest.raises(UnknownObjectError, match="there is no job 'other/c'") as caught:
        stop_job("other/c", where, savepoint=False)
    assert caught.value.hint == "did you mean 'other/b'?"


def test_suspending_ends_the_jobs_of_the_table() -> None:
    """Those of this session, and those of other runners by the last part of their names."""
    job, other, over = ScriptedJob("etl/live"), ScriptedJob("etl/totals"), ScriptedJob("own/live")
    over.status = JobStatus.FINISHED
    where = context(job, other, over)
    leases = [
        where.namespace.catalog.leases.acquire(name, this_process())
        for name in ("nightly/live", "own/live")
    ]
    stop_refreshes(where.namespace.resolve(("live",)), where)

    assert (job.stops, other.stops, over.stops) == (1, 0, 0)
    assert all(map(where.namespace.catalog.leases.is_asked_to_stop, leases))


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("TRUNCATE TABLE topic", "tables of the connector 'kafka' cannot be emptied"),
        ("DELETE FROM topic", "tables of the connector 'kafka' cannot be changed"),
        ("CALL default_catalog.a.p()", "catalogs of Penstock have none"),
    ],
)
def test_a_table_that_cannot_be_changed_is_refused_without_an_engine(
    sql: str, message: str
) -> None:
    """By its connector's name."""
    where = context()
    (text,) = split(sql, "a.sql")
    statement = parse_statement(text, where.namespace)

    with pytest.raises(UnsupportedError, match=message):
        check_command(statement, where.namespace, where.project)
