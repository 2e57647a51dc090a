"""Tests for opening catalogs of all kinds: what a check of texts asks, and what it leaves unchecked. No Spark."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import ConfigError, InputErrors, UnknownObjectError
from penstock.catalog.model.table import Table
from penstock.catalog.secrets.crypto import KEY_VARIABLE, new_key
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.check.script_check import CheckedScript, check_scripts
from penstock.sql.execution.context import SessionContext, open_names
from penstock.sql.script.files import ScriptFile
from tests.sql.sql_objects import run

SHOP = (
    "CREATE CATALOG shop WITH ('type' = 'jdbc', 'base-url' = 'jdbc:sqlite:db', "
    "'default-database' = 'shop.db');"
)
METASTORE = "CREATE CATALOG metastore WITH ('type' = 'spark');"
LAKE = "CREATE CATALOG lake WITH ('type' = 'delta-path', 'path' = 'lake');"


def names(project: Path, *, offline: bool = False) -> Namespace:
    return open_names(SqlCatalog(f"sqlite:///{project}/catalog.db"), project, offline=offline)


def check(text: str, names: Namespace, project: Path) -> CheckedScript:
    (checked,) = check_scripts(
        (ScriptFile(name="job.sql", text=text),),
        SessionContext(namespace=names, project=project),
        variables={},
        env={},
    )
    return checked


def test_a_static_check_leaves_unchecked_what_it_may_not_ask(project: Path) -> None:
    """Neither the statement nor what stands on it is wrong; it is counted."""
    text = (
        f"{SHOP} {METASTORE} SELECT * FROM shop.`shop.db`.customers; SELECT 1 AS a;"
        "CREATE VIEW v AS SELECT id FROM metastore.d.t; SELECT id FROM v"
    )

    checked = check(text, names(project, offline=True), project)

    assert len(checked.statements) == 3
    assert checked.unchecked == 2


def test_what_is_wrong_beside_it_is_told(project: Path) -> None:
    """A misspelt table of the store is an error, whatever else was not checked."""
    text = f"{SHOP} SELECT * FROM shop.`shop.db`.customers; SELECT * FROM nothing"

    with pytest.raises(InputErrors) as caught:
        check(text, names(project, offline=True), project)
    (error,) = caught.value.errors
    assert isinstance(error, UnknownObjectError)
    assert "nothing" in error.message


def test_a_check_that_may_ask_looks_into_a_database(project: Path) -> None:
    """Its columns are checked before anything is started."""
    (project / "db").mkdir()
    connection = sqlite3.connect(project / "db" / "shop.db")
    connection.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
    connection.close()

    checked = check(f"{SHOP} SELECT name FROM shop.`shop.db`.customers", names(project), project)
    assert checked.unchecked == 0
    with pytest.raises(InputErrors, match="no column 'nam'"):
        check(f"{SHOP} SELECT nam FROM shop.`shop.db`.customers", names(project), project)


def test_sparks_catalog_is_refused_where_spark_is_not_to_be_started(project: Path) -> None:
    """The error says who starts it."""
    with pytest.raises(InputErrors, match="Spark's, which is not started here"):
        check(METASTORE, names(project), project)


def test_a_missing_folder_is_told_by_a_static_check(project: Path) -> None:
    """A folder of this machine is looked into without a network."""
    with pytest.raises(InputErrors, match="there is no folder"):
        check(LAKE, names(project, offline=True), project)


def test_a_table_of_a_folder_needs_no_options(project: Path) -> None:
    """They are its catalog's, also where the table is made of a query; SHOW TABLES has it in a new session."""
    (project / "lake" / "sales").mkdir(parents=True)
    session = names(project)
    run(f"{LAKE} USE lake.sales; CREATE TABLE a (id BIGINT)", session)

    again = names(project)
    found = again.lookup(again.resolve(("lake", "sales", "a")))

    assert isinstance(found, Table)
    assert found.option_map == {"connector": "delta", "path": "lake/sales/a"}
    made = check("CREATE TABLE lake.sales.b AS SELECT id FROM lake.sales.a", again, project)
    assert made.statements[0].analysed is not None
    assert made.statements[0].analysed.target.option_map["path"] == "lake/sales/b"


def test_a_password_that_is_not_there_is_told_by_create_catalog(project: Path) -> None:
    """A reference is looked at when the catalog connects."""
    text = (
        "CREATE CATALOG pg WITH ('type' = 'jdbc', 'base-url' = 'jdbc:postgresql://127.0.0.1:1', "
        "'default-database' = 'a', 'username' = 'u', 'password' = '${secret:nope}')"
    )

    with pytest.raises((InputErrors, UnknownObjectError, ConfigError), match="nope"):
        check(text, names(project), project)


def test_a_catalog_may_need_a_secret_of_the_same_file(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check connects with it though nothing is kept yet; the run after it keeps both."""
    monkeypatch.setenv(KEY_VARIABLE, new_key())
    (project / "db").mkdir()
    sqlite3.connect(project / "db" / "shop.db").execute("CREATE TABLE customers (id INTEGER)")
    with_secret = SHOP.replace(");", ", 'username' = 'u', 'password' = '${secret:pg}');")
    text = f"CREATE SECRET pg AS 'hunter2-pg'; {with_secret} SELECT * FROM shop.`shop.db`.customers"
    session = names(project)

    checked = check(text, session, project)

    assert (len(checked.statements), checked.unchecked) == (3, 0)
    assert (session.catalogs(), session.secrets.listed()) == (["default_catalog"], [])
    run(text.rpartition(";")[0], session)
    assert session.catalog.tables("shop.db", "shop")[0].name == "customers"
