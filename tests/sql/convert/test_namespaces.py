"""Databases and catalogs in SQL: what each statement says, and where it is wrong."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.model.namespaces import CatalogDescriptor
from penstock.sql.ddl.show_create import show_create_catalog
from penstock.sql.execution.ddl import listing
from penstock.sql.statements.definitions import CreateCatalog, CreateDatabase
from tests.catalog.strategies import comments, names
from tests.sql.convert.test_alter_table import problems
from tests.sql.sql_objects import new_namespace, run

SETUP = """
CREATE DATABASE sales COMMENT 'all' WITH ('owner' = 'x');
CREATE CATALOG memory WITH ('type' = 'generic_in_memory');
CREATE CATALOG kept WITH ('type' = 'penstock', 'default-database' = 'main');
CREATE TABLE sales.t (a INT);
CREATE TABLE kept.main.t (a INT)
"""


@pytest.fixture
def namespace() -> Namespace:
    return new_namespace(SETUP)


def test_names_are_looked_up_where_use_has_led(namespace: Namespace) -> None:
    """USE of a database, of a catalog, of both."""
    run("USE sales", namespace)
    assert str(namespace.resolve(["t"])) == "default_catalog.sales.t"
    run("USE CATALOG memory", namespace)
    assert str(namespace.resolve(["t"])) == "memory.default.t"
    run("CREATE DATABASE d; USE d", namespace)
    assert str(namespace.resolve(["t"])) == "memory.d.t"
    run("USE kept.main; ALTER TABLE t ADD b INT", namespace)
    assert namespace.tables() == [namespace.resolve(["t"])]


def test_options_and_comments_are_kept(namespace: Namespace) -> None:
    """SET adds to what is there."""
    (made,) = run("CREATE DATABASE d COMMENT 'x' WITH ('a' = 'b')", namespace)
    run("ALTER DATABASE d SET ('c' = 'd', 'a' = 'e')", namespace)
    run("ALTER CATALOG memory COMMENT 'fast'", namespace)
    run("ALTER CATALOG kept RESET ('none')", namespace)

    assert isinstance(made, CreateDatabase)
    assert namespace.catalog.database("default_catalog", "d").option_map == {"a": "e", "c": "d"}
    assert namespace.catalog.database("default_catalog", "d").comment == "x"
    assert [one.comment for one in namespace.catalog.catalogs()] == [None, None, "fast"]


@pytest.mark.parametrize(
    ("sql", "place", "message"),
    [
        ("CREATE DATABASE sales COMMENT 'x'", "sales", "there is a database 'sales' already"),
        ("CREATE DATABASE none.d", "none.d", "there is no catalog 'none'"),
        ("CREATE DATABASE a.b.c", "a.b.c", "this is not the name of a database"),
        ("CREATE DATABASE d WITH ('a' = 'b', 'a' = 'c')", "'a'", "the option 'a' is given twice"),
        ("ALTER DATABASE seles SET ('a' = 'b')", "seles", "there is no database 'seles'"),
        ("DROP DATABASE sales", "sales", "the database 'sales' is not empty: t"),
        ("DROP DATABASE default_database", "default_database", "the database 'default_database' is in use"),
        ("DROP DATABASE memory.`default`", "memory.`default`", "'default' is the default database of the catalog 'memory': it cannot be dropped"),
        ("CREATE CATALOG c", "c", "catalog c: one or more required options are missing: type"),
        ("CREATE CATALOG c WITH ('type' = 'hive')", "c", "catalog c: the type 'hive' is not supported"),
        ("CREATE CATALOG c WITH ('type' = 'penstock', 'x' = 'y')", "'x'", "catalog c: unsupported option 'x'"),
        ("CREATE CATALOG a.b WITH ('type' = 'penstock')", "a.b", "this is not the name of a catalog"),
        ("ALTER CATALOG kept SET ('type' = 'generic_in_memory')", "SET ('type' = 'generic_in_memory')", "catalog kept: 'type' and 'default-database' cannot be changed"),
        ("ALTER CATALOG kept RESET ('type')", "RESET ('type')", "catalog kept: one or more required options are missing: type"),
        ("ALTER CATALOG kept RESET ()", "RESET ()", "RESET names no option"),
        ("DROP CATALOG kept", "kept", "the catalog 'kept' is not empty: t"),
        ("DROP CATALOG default_catalog", "default_catalog", "the catalog 'default_catalog' is built in: it cannot be dropped"),
        ("USE memry.d", "memry.d", "there is no catalog 'memry'"),
        ("USE CATALOG memry", "memry", "there is no catalog 'memry'"),
        ("CREATE TABLE seles.t (a INT)", "seles.t", "there is no database 'seles'"),
        ("SELECT * FROM kept.man.t", "kept.man.t", "there is no database 'man' in the catalog 'kept'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_at_its_place(
    sql: str, place: str, message: str, namespace: Namespace
) -> None:
    """With the name that is wrong."""
    assert problems(sql, namespace) == [(place, message)]


def test_what_a_database_holds_goes_with_it(namespace: Namespace) -> None:
    """CASCADE; a catalog that is empty can be dropped then."""
    run("DROP DATABASE sales CASCADE; DROP TABLE kept.main.t; DROP CATALOG kept", namespace)

    assert namespace.databases() == ["default_database"]
    assert namespace.catalogs() == ["default_catalog", "memory"]
    run("DROP CATALOG IF EXISTS kept; DROP DATABASE IF EXISTS sales", namespace)


def test_a_catalog_is_shown_as_it_was_created(namespace: Namespace) -> None:
    """SHOW CREATE CATALOG."""
    (asked,) = run("SHOW CREATE CATALOG memory", namespace)
    ((text,),) = listing(asked, namespace, {}).rows

    assert text == "CREATE CATALOG `memory`\nWITH (\n  'type' = 'generic_in_memory'\n)"


@pytest.mark.slow
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    name=names,
    database=names,
    comment=comments,
    kind=st.sampled_from(("penstock", "generic_in_memory")),
)
def test_what_show_writes_is_read_back_as_the_same_catalog(
    name: str, database: str, comment: str | None, kind: str
) -> None:
    """Names and comments of any shape."""
    catalog = CatalogDescriptor(
        name=name, options=(("type", kind), ("default-database", database)), comment=comment
    )
    (statement,) = run(show_create_catalog(catalog, redacted=False), new_namespace())

    assert isinstance(statement, CreateCatalog)
    assert statement.catalog == catalog
