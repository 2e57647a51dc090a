"""Passwords that are written into definitions: warned of, refused under `--strict`, removed from the history."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.cli.commands.app import app
from tests.sql.cli.command_runner import CommandRunner
from tests.sql.sql_objects import run

RUNNER = CommandRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})
TABLE = """
CREATE TABLE orders (id BIGINT) WITH (
  'connector' = 'kafka', 'topic' = 'a', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset',
  'properties.bootstrap.servers' = 'h:1', 'properties.security.protocol' = 'SASL_SSL',
  'properties.sasl.mechanism' = 'PLAIN', 'properties.sasl.username' = 'u',
  'properties.sasl.password' = {password});
"""


@pytest.mark.parametrize("command", ["validate", "run", "plan"])
def test_a_literal_password_is_refused_under_strict(project: Path, command: str) -> None:
    """At its place, and by every command that checks files; without it there is a warning with the remedy."""
    (project / "job.sql").write_text(TABLE.format(password="'hunter2'"))
    result = RUNNER.invoke(app, [command, "job.sql", "--strict"])

    assert result.exit_code == 2
    assert "job.sql:6" in result.output
    assert "'properties.sasl.password' holds a password or key itself" in result.output
    assert "penstock secret set" in result.output
    assert "hunter2" not in result.output


def test_a_literal_password_is_warned_of(project: Path) -> None:
    """The file is still right. A reference is no literal."""
    (project / "job.sql").write_text(TABLE.format(password="'hunter2'"))
    warned = RUNNER.invoke(app, ["validate", "job.sql"])
    assert warned.exit_code == 0
    assert "job.sql:6: table" in warned.stderr
    assert "holds a password or key itself" in warned.stderr
    assert "hunter2" not in warned.output

    (project / "job.sql").write_text(TABLE.format(password="'${env:KAFKA_PASSWORD}'"))
    right = RUNNER.invoke(app, ["validate", "job.sql", "--strict"])
    assert right.exit_code == 0
    assert not right.stderr


def test_a_purged_history_leaves_nothing_of_a_password(project: Path) -> None:
    """Neither in the catalog's file nor in its journal; that it was purged, by whom and when stays."""
    folder = project / ".penstock"
    store = SqlCatalog(f"sqlite:///{folder}/catalog.db")
    run(
        TABLE.format(password="'hunter2'")
        + "ALTER TABLE orders SET ('properties.sasl.password' = '${env:P}');"
        + TABLE.format(password="'hunter3'").replace("orders", "other"),
        Namespace(store),
    )
    assert any(b"hunter2" in file.read_bytes() for file in folder.iterdir())

    asked = RUNNER.invoke(app, ["catalog", "purge-history", "orders"])
    assert asked.exit_code == 2
    assert "2 recorded changes would be removed" in asked.output
    done = RUNNER.invoke(app, ["catalog", "purge-history", "orders", "--yes", "--format", "json"])

    assert json.loads(done.stdout) == {"removed": 2}
    assert not any(b"hunter2" in file.read_bytes() for file in folder.iterdir())
    history = store.history(("default_catalog", "default_database", "orders"))
    assert [(change.action, change.version) for change in history] == [("purge", 2)]
    assert "recorded changes removed by" in str(history[0])
    assert len(store.history(("default_catalog", "default_database", "other"))) == 1
    # versions resume from where they were
    run("ALTER TABLE orders SET ('topic' = 'b')", Namespace(store))
    assert store.history(limit=1)[0].version == 3


def test_young_changes_stay(project: Path) -> None:
    """`--older-than` keeps what is younger."""
    store = SqlCatalog(f"sqlite:///{project}/.penstock/catalog.db")
    run(TABLE.format(password="'hunter2'"), Namespace(store))
    done = RUNNER.invoke(app, ["catalog", "purge-history", "--older-than", "1 d", "--yes"])

    assert done.exit_code == 0
    assert len(store.history()) == 1
    assert RUNNER.invoke(app, ["catalog", "purge-history", "--older-than", "soon"]).exit_code == 2
