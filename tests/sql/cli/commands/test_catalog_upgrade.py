"""`penstock catalog upgrade`: what it says before it does anything, and that it asks."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from penstock.catalog.definitions.leases import this_process
from penstock.catalog.migrations import HEAD
from penstock.catalog.store.leases import _acquire
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.cli.commands.app import app
from penstock.sql.runner.doctor import Examined, Level, _catalog
from penstock.sql.script.project import find_project
from tests.catalog.examples import table
from tests.postgres_server import USER
from tests.sql.cli.command_runner import CommandRunner


@pytest.fixture
def store(project):
    """A catalog of version 4, in which a pipeline runs."""
    file = project / ".penstock" / "catalog.db"
    catalog = SqlCatalog(f"sqlite:///{file}")
    catalog.create(table("orders"))
    with sqlite3.connect(file) as connection:
        connection.execute("DROP TABLE penstock_alembic_step")
        connection.execute("DROP TABLE penstock_job_states")
    connection.close()
    return catalog


@pytest.fixture
def penstock(store):
    """Runs the command."""
    runner = CommandRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})
    return lambda *arguments: runner.invoke(app, ["catalog", "upgrade", *arguments])


def claim(store: SqlCatalog) -> None:
    """Let a pipeline run, without a change of the store in passing."""
    with store.leases._writing() as connection:
        _acquire(connection, "etl/orders", this_process())


def test_running_pipelines_are_named_before_anything_is_done(store, penstock):
    """And nothing is done without being told to."""
    claim(store)
    refused = penstock()

    assert refused.exit_code == 2
    assert f"is of version 4; this Penstock makes it {HEAD}" in refused.stderr
    assert "these pipelines run, and keep running:" in refused.stderr
    assert f"etl/orders, process {this_process().pid}" in refused.stderr
    assert "add --yes" in refused.stderr
    assert store.version() == 4


def test_a_catalog_is_upgraded_once(store, penstock):
    """The second time there is nothing to do."""
    first, second = penstock("--yes", "--format", "json"), penstock()

    assert json.loads(first.stdout) == {"before": 4, "after": HEAD, "running": []}
    assert second.exit_code == 0
    assert "nothing to upgrade" in second.stderr
    assert store.version() == HEAD


def test_doctor_says_that_a_servers_store_is_to_be_upgraded(postgres):
    """Nothing else does: it is used as it is."""
    with postgres.schema() as schema:
        place = f"options=-csearch_path%3D{schema}"
        url = f"postgresql://{USER}@127.0.0.1:{postgres.port}/postgres?{place}"
        catalog = SqlCatalog(url)
        catalog.create(table("orders"))
        examined = Examined(
            project=lambda: find_project(Path.cwd()), catalog=lambda: catalog, catalog_url=url
        )
        (fresh,) = _catalog(examined)
        for name in ("penstock_alembic_step", "penstock_job_states"):
            postgres.execute(f"DROP TABLE {name}", schema=schema)
        (old,) = _catalog(examined)
        catalog.close()

    assert (fresh.level, old.level) == (Level.OK, Level.WARNING)
    assert "penstock catalog upgrade" in (old.hint or "")
