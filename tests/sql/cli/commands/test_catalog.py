"""`penstock catalog log`: who changed a definition, when and how."""

from __future__ import annotations

import json
import re

import pytest

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.cli.commands.app import app
from tests.sql.cli.command_runner import CommandRunner
from tests.sql.sql_objects import run

CHANGES = """
CREATE DATABASE sales COMMENT 'of the house';
CREATE TABLE orders (id BIGINT, name STRING)
WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.sasl.password' = 'hunter2');
ALTER TABLE orders SET ('topic' = 'b');
ALTER TABLE orders SET ('properties.sasl.password' = 'hunter3');
ALTER TABLE orders RENAME TO purchases;
DROP TABLE purchases
"""
WHEN = r"by \S+@\S+ \(process \d+\) at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"


@pytest.fixture
def penstock(project):
    """Runs a command in a folder whose catalog was changed."""
    store = SqlCatalog(f"sqlite:///{project}/.penstock/catalog.db")
    run(CHANGES, Namespace(store))
    runner = CommandRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})
    return lambda *arguments: runner.invoke(app, ["catalog", "log", *arguments])


def test_each_change_is_shown_as_a_difference(penstock):
    """The newest first, of a table that is long gone; secrets are not in it."""
    result = penstock("orders")
    lines = result.stdout.splitlines()
    titles = [line for line in lines if not line.startswith(" ") and line]

    assert result.exit_code == 0
    assert "hunter" not in result.stdout
    name = "default_catalog.default_database.orders"
    assert [re.sub(WHEN, "by WHOM", title) for title in titles] == [
        f"table {name}, version 4: renamed to default_catalog.default_database.purchases by WHOM",
        f"table {name}, version 3: changed by WHOM",
        f"table {name}, version 2: changed by WHOM",
        f"table {name}, version 1: created by WHOM",
    ]
    assert "  only what is not shown here was changed, such as a password" in lines
    assert {"  -  'topic' = 'a',", "  +  'topic' = 'b',"} <= set(lines)
    assert "  --- nothing" in lines


def test_a_program_reads_the_same(penstock):
    """All changes, with the statements before and after; not more than asked for."""
    changes = json.loads(penstock("--format", "json").stdout)["changes"]
    newest = json.loads(penstock("--format", "json", "--limit", "1").stdout)["changes"]

    assert [(c["action"], c["kind"], c["name"][-1], c["version"]) for c in changes] == [
        ("drop", "table", "purchases", 5),
        ("rename", "table", "orders", 4),
        ("replace", "table", "orders", 3),
        ("replace", "table", "orders", 2),
        ("create", "table", "orders", 1),
        ("create", "database", "sales", 1),
    ]
    assert newest == changes[:1]
    assert changes[-1]["before"] is None
    assert changes[-1]["after"] == (
        "CREATE DATABASE `default_catalog`.`sales`\nCOMMENT 'of the house'"
    )
    assert changes[1]["renamed_to"][-1] == "purchases"
    assert "hunter" not in json.dumps(changes)


def test_what_never_was_there_is_an_error_with_the_nearest(penstock, project):
    """Of what is there now."""
    store = SqlCatalog(f"sqlite:///{project}/.penstock/catalog.db")
    run("CREATE TABLE clicks (id INT) WITH ('connector' = 'datagen')", Namespace(store))
    unknown = penstock("click")

    assert unknown.exit_code == 2
    assert "did you mean 'clicks'?" in unknown.stderr


def test_an_empty_catalog_has_no_history(project):
    """It is not made to be asked."""
    result = CommandRunner().invoke(app, ["catalog", "log"])

    assert result.exit_code == 0
    assert result.stdout == ""
    assert "no change is recorded" in result.stderr
    assert not (project / ".penstock").exists()
