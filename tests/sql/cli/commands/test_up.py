"""`penstock up`: what its options become, and what it refuses before it starts anything."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from penstock.catalog.definitions.leases import this_process
from penstock.catalog.store import sqlite
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.cli import up_run
from penstock.sql.cli.commands.app import app
from penstock.sql.processes.child import Lines, ProcessPlan
from penstock.sql.processes.reports import (
    MARK_VARIABLE,
    REPORT_MARK,
    PipelineReport,
    read_report,
)
from tests.sql.cli.command_runner import CommandRunner

RUNNER = CommandRunner()
PIPELINE = """CREATE TABLE orders (id BIGINT) WITH ('connector' = 'datagen');
CREATE TABLE {hole} (id BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO {hole} SELECT id FROM orders;"""


class Finished:
    """A process that has done its work as soon as it is looked at."""

    pid = 1
    pids = (1,)

    def __init__(self, plan: ProcessPlan, lines: Lines) -> None:
        PLANS.append(plan)
        lines.printed("a row")
        document = {"time": "", "name": plan.pipelines[0], "status": "finished", "mark": plan.mark}
        lines.logged(json.dumps(document))

    def status(self) -> int:
        """Return that of a success."""
        return 0

    def close(self) -> None:
        """Nothing is left."""


PLANS: list[ProcessPlan] = []


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[ProcessPlan]:
    """The processes that the command starts, none of which runs."""
    PLANS.clear()
    monkeypatch.setattr(up_run, "ChildProcess", Finished)
    return PLANS


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of two pipelines, in a folder below the current one."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        file = tmp_path / "shop" / "sql" / f"{name}.sql"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(PIPELINE.format(hole=f"hole_{name}"), encoding="utf-8")
    return tmp_path / "shop"


def test_each_file_is_a_run_with_the_options_that_were_typed(
    shop: Path, plans: list[ProcessPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the project's folder; what is in variables is not put onto a command line, nor what is the supervisor's."""
    monkeypatch.setenv("PENSTOCK_CONF", "spark.app.name=secret")
    Path("vars.toml").write_text("x = 1\n", encoding="utf-8")
    options = ("--var", "y=2", "--vars-file", "vars.toml", "--continuous", "--stop-timeout", "7")

    result = RUNNER.invoke(app, ["up", "shop", *options])

    assert result.exit_code == 0, result.stderr
    first, second = plans
    assert (first.name, second.name) == ("sql/a.sql", "sql/b.sql")
    assert first.folder == shop
    assert first.pipelines == ("a/hole_a",)
    words = list(first.command[first.command.index("run") + 1 :])
    assert words == [
        str(shop / "sql" / "a.sql"),
        *("--var", "y=2", "--vars-file", str(shop.parent / "vars.toml"), "--continuous"),
        *("--progress", "json", "--progress-interval", "1"),
        *("--metrics-port", "0", "--stop-timeout", "7.0"),
    ]
    assert first.environment["PENSTOCK_CONF"] == "spark.app.name=secret"
    assert "finished  sql/a.sql" in result.stderr
    assert "sql/a.sql | a row" in result.stdout


def test_shared_is_one_run_of_all_files(shop: Path, plans: list[ProcessPlan]) -> None:
    """With the names of all pipelines; its documents are on stdout as JSON."""
    result = RUNNER.invoke(app, ["up", "shop", "--shared", "--format", "json"])

    (plan,) = plans
    assert result.exit_code == 0, result.stderr
    assert plan.name == "all"
    assert plan.pipelines == ("a/hole_a", "b/hole_b")
    assert "--keep-going" in plan.command
    assert {str(shop / "sql" / "a.sql"), str(shop / "sql" / "b.sql")} < set(plan.command)
    assert '"name": "a/hole_a", "status": "finished"' in result.stdout
    assert "a row" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere",), "there is no folder nowhere"),
        ((), "has a pipeline"),
    ],
)
def test_what_cannot_be_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    """As wrong input, before a process is started."""
    monkeypatch.chdir(tmp_path)

    result = RUNNER.invoke(app, ["up", *arguments])

    assert result.exit_code == 2
    assert words in result.stderr


def test_files_that_are_wrong_start_nothing(shop: Path, plans: list[ProcessPlan]) -> None:
    """All faults are told, with their files."""
    (shop / "sql" / "c.sql").write_text("SELEC 1;", encoding="utf-8")
    (shop / "sql" / "d.sql").write_text("INSERT INTO x SELECT 1 FROM y;", encoding="utf-8")

    result = RUNNER.invoke(app, ["up", "shop"])

    assert (result.exit_code, plans) == (2, [])
    assert "sql/c.sql:1:1" in result.stderr
    assert "sql/d.sql:1:" in result.stderr


def test_a_file_that_waits_for_another_is_not_shared(shop: Path, plans: list[ProcessPlan]) -> None:
    """Apart, it starts after the other; together, none would wait."""
    filled = (
        "CREATE TABLE kept WITH ('connector' = 'delta', 'path' = 'kept') AS SELECT id FROM orders;"
    )
    (shop / "sql" / "b.sql").write_text(filled, encoding="utf-8")
    reading = PIPELINE.format(hole="hole_c").replace("FROM orders", "FROM kept")
    (shop / "sql" / "c.sql").write_text(reading, encoding="utf-8")

    shared = RUNNER.invoke(app, ["up", "shop", "--shared"])

    assert (shared.exit_code, plans) == (2, [])
    assert "sql/c.sql reads a table that sql/b.sql creates by its query" in shared.stderr


@pytest.mark.parametrize("option", ["--dry-run", "--from-scratch"])
def test_files_that_run_apart_are_not_planned_as_one(shop: Path, option: str) -> None:
    """`penstock run --keep-going` says so before Spark is started."""
    result = RUNNER.invoke(app, ["run", "shop/sql/a.sql", "--keep-going", option])

    assert result.exit_code == 2
    assert "--keep-going goes neither with" in result.stderr


def test_a_file_that_cannot_start_is_said_and_its_pipeline_reported(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By `penstock run --keep-going`, with the place of the error; the supervisor shows it while the others run."""
    monkeypatch.chdir(shop)
    (shop / "blocked").write_text("no folder", encoding="utf-8")
    table = "CREATE TABLE blocked (id BIGINT) WITH ('connector' = 'delta', 'path' = 'blocked');"
    file = shop / "sql" / "c.sql"
    text = PIPELINE.replace("CREATE TABLE {hole}", f"{table}\nCREATE TABLE {{hole}}")
    file.write_text(text.format(hole="hole_c").replace("INTO hole_c", "INTO blocked"), "utf-8")

    result = RUNNER.invoke(app, ["run", "sql/c.sql", "--keep-going", "--progress", "json"])

    assert result.exit_code == 2
    assert "c.sql:4:1" in result.stderr
    assert "blocked is a file" in result.stderr
    reports = [read_report(line) for line in result.stderr.splitlines()]
    (report,) = [each for each in reports if isinstance(each, PipelineReport)]
    assert (report.name, report.document["status"]) == ("c/blocked", "failed")
    assert "blocked is a file" in report.document["sentence"]


COMMANDS = pytest.mark.parametrize(
    "command",
    [("up", "shop"), ("run", "shop/sql/a.sql"), ("run", "shop/sql/a.sql", "--keep-going")],
    ids=["up", "run", "keep going"],
)


def not_restarted() -> list[int]:
    """The exit statuses after which systemd leaves the unit ended."""
    unit = files("penstock.sql.cli").joinpath("service_template", "penstock.service").read_text()
    (found,) = [line for line in unit.splitlines() if line.startswith("RestartPreventExitStatus=")]
    assert "StartLimitIntervalSec=0" in unit.splitlines(), "however often it is started"
    return [int(word) for word in found.partition("=")[2].split()]


@contextmanager
def server_that_is_away(folder: Path) -> Iterator[str]:
    """PostgreSQL at a port where nothing listens."""
    yield "postgresql://penstock@127.0.0.1:1/penstock"


@contextmanager
def store_that_is_locked(folder: Path) -> Iterator[str]:
    """SQLite in the midst of another process's transaction."""
    url = f"sqlite:///{folder / 'catalog.db'}"
    SqlCatalog(url).upgrade()
    with sqlite3.connect(folder / "catalog.db", isolation_level=None) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("BEGIN EXCLUSIVE")
        yield url
    other.close()


@contextmanager
def claim_of_the_boot_before(folder: Path) -> Iterator[str]:
    """The machine was reset: the claim of its last run looks like that of a live process, which nobody can ask."""
    url = f"sqlite:///{folder / 'catalog.db'}"
    owner = replace(this_process(), boot_id="the boot before", pid=4711)
    SqlCatalog(url).leases.acquire("a/hole_a", owner)
    yield url


@COMMANDS
@pytest.mark.parametrize(
    ("passing", "words"),
    [
        (server_that_is_away, "cannot be used"),
        (store_that_is_locked, "locked"),
        (claim_of_the_boot_before, "is already run by process"),
    ],
)
def test_what_passes_by_itself_is_no_wrong_input_for_systemd(
    shop: Path,
    plans: list[ProcessPlan],
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    passing: Callable[[Path], AbstractContextManager[str]],
    words: str,
) -> None:
    """Status 75, with nothing started: the unit starts again."""
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.01)
    with passing(shop.parent) as url:
        result = RUNNER.invoke(app, [*command, "--catalog", url])

    assert (result.exit_code, plans) == (75, []), result.stderr
    assert words in " ".join(result.stderr.split())
    assert result.exit_code not in not_restarted()


def test_a_catalog_that_stays_wrong_is_wrong_input(shop: Path, plans: list[ProcessPlan]) -> None:
    """A file of something else is so at the next start, too: the unit stays ended."""
    with sqlite3.connect(shop.parent / "other.db") as other:
        other.execute("CREATE TABLE something (x)")
    other.close()

    result = RUNNER.invoke(
        app, ["up", "shop", "--catalog", f"sqlite:///{shop.parent / 'other.db'}"]
    )

    assert (result.exit_code, plans) == (2, []), result.stderr
    assert result.exit_code in not_restarted()


def test_a_run_takes_the_mark_out_of_the_environment(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it starts anything, even where it refuses its options."""
    monkeypatch.setenv(MARK_VARIABLE, "0123")

    RUNNER.invoke(app, ["run", "shop/sql/a.sql", "--keep-going", "--dry-run"])

    assert MARK_VARIABLE not in os.environ
    REPORT_MARK.take()
