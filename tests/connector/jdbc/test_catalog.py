"""Tests for a database server as a catalog: databases, tables, definitions with types and keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.catalog.definitions.federated import NotReachedError
from penstock.catalog.errors import ConfigError, OptionError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.namespaces import CatalogDescriptor
from penstock.catalog.model.table import PrimaryKey, Table
from penstock.connector.jdbc.catalog import JdbcCatalog
from penstock.connector.jdbc.connector import JdbcConnector
from tests.connector.jdbc.conftest import TestDatabase
from tests.postgres_server import USER, PostgresServer


def server(folder: Path, *, offline: bool = False, **options: str) -> JdbcCatalog:
    given = {"type": "jdbc", **{key.replace("_", "-"): value for key, value in options.items()}}
    descriptor = CatalogDescriptor(name="c", options=tuple(given.items()))
    return JdbcCatalog(
        descriptor=descriptor, project=folder, seal=lambda text: text, offline=offline
    )


def named(database: str, name: str) -> Identifier:
    return Identifier(catalog="c", database=database, name=name)


def types(table: Table | None) -> dict[str, str]:
    assert table is not None
    return {column.name: str(column.type) for column in table.schema.columns}


@pytest.fixture
def shop(tmp_path: Path, sqlite_database: TestDatabase) -> JdbcCatalog:
    """A folder with the database target.db in it."""
    return server(tmp_path, base_url=f"jdbc:sqlite:{tmp_path}", default_database="target.db")


def test_files_of_a_folder_are_databases(
    shop: JdbcCatalog, tmp_path: Path, sqlite_database: TestDatabase
) -> None:
    """Other files are none; the sink's ledger is no table."""
    sqlite_database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    sqlite_database.execute("CREATE TABLE penstock_ledger (application_id TEXT)")
    sqlite_database.execute("CREATE VIEW latest AS SELECT * FROM orders")
    (tmp_path / "notes.txt").write_text("none")

    assert shop.databases() == ["target.db"]
    assert shop.tables("target.db") == ["latest", "orders"]
    assert shop.tables("other.db") == ()


def test_a_table_is_a_definition_that_the_connector_takes(
    shop: JdbcCatalog, tmp_path: Path, sqlite_database: TestDatabase
) -> None:
    """Types and key are those of the database; whole numbers of SQLite have 64 bits."""
    sqlite_database.execute(
        "CREATE TABLE orders (id INTEGER NOT NULL, line INT, price DECIMAL(10, 2), at TIMESTAMP, "
        "name VARCHAR(20) NOT NULL, paid BOOLEAN, raw BLOB, PRIMARY KEY (id, line))"
    )

    found = shop.find(named("target.db", "orders"))

    assert types(found) == {
        "id": "BIGINT NOT NULL",
        "line": "BIGINT NOT NULL",
        "price": "DECIMAL(10, 2)",
        "at": "TIMESTAMP(6)",
        "name": "VARCHAR(20) NOT NULL",
        "paid": "BOOLEAN",
        "raw": "BYTES",
    }
    assert found is not None
    assert found.schema.primary_key == PrimaryKey(columns=("id", "line"))
    JdbcConnector(project=tmp_path).check(found)
    assert shop.find(named("target.db", "nope")) is None
    assert shop.find(named("nope.db", "orders")) is None


def test_a_folder_without_the_default_database_is_refused(tmp_path: Path) -> None:
    """CREATE CATALOG connects, as in Flink."""
    missing = server(tmp_path, base_url=f"jdbc:sqlite:{tmp_path}", default_database="nope.db")

    with pytest.raises(ConfigError, match="no such file"):
        missing.check()


def test_a_catalog_that_is_not_to_be_asked_asks_nobody(tmp_path: Path) -> None:
    """A check of texts opens no connection."""
    away = server(
        tmp_path, offline=True, base_url="jdbc:postgresql://192.0.2.1", default_database="a"
    )
    asked: list[Callable[[], object]] = [
        away.check,
        away.databases,
        lambda: away.tables("a"),
        lambda: away.find(named("a", "t")),
    ]

    for ask in asked:
        with pytest.raises(NotReachedError, match="not asked"):
            ask()


def test_a_url_with_a_password_in_it_is_refused(tmp_path: Path) -> None:
    """It would be shown with the URL."""
    told = server(
        tmp_path, base_url="jdbc:postgresql://app:hunter2@localhost:5432", default_database="a"
    )

    with pytest.raises(OptionError, match="holds a user or a password"):
        told.check()


def test_a_server_of_postgresql_is_a_catalog(postgres: PostgresServer, tmp_path: Path) -> None:
    """Tables of `public` have plain names, others `schema.table`; types without one of ours are text."""
    catalog = server(
        tmp_path,
        base_url=f"jdbc:{postgres.url.rpartition('/')[0]}/",
        default_database="postgres",
        username=USER,
        password="hunter2",
    )
    with postgres.schema() as schema:
        postgres.execute(
            "CREATE TABLE every (id integer PRIMARY KEY, big bigint, small smallint, r real, d double precision, "
            "n numeric(8, 3), any_n numeric, flag boolean, v varchar(9), c char(3), body jsonb, tags text[], "
            "u uuid, raw bytea, day date, at time(3), ts timestamp(3), tz timestamptz NOT NULL)",
            schema=schema,
        )
        postgres.execute("COMMENT ON COLUMN every.big IS 'of 64 bits'", schema=schema)
        name = f"{schema}.every"

        catalog.check()
        found = catalog.find(named("postgres", name))

        assert "postgres" in catalog.databases()
        assert name in catalog.tables("postgres")
    assert types(found) == {
        "id": "INT NOT NULL",
        "big": "BIGINT",
        "small": "SMALLINT",
        "r": "FLOAT",
        "d": "DOUBLE",
        "n": "DECIMAL(8, 3)",
        "any_n": "DECIMAL(38, 18)",
        "flag": "BOOLEAN",
        "v": "VARCHAR(9)",
        "c": "CHAR(3)",
        "body": "STRING",
        "tags": "STRING",
        "u": "STRING",
        "raw": "BYTES",
        "day": "DATE",
        "at": "TIME(3)",
        "ts": "TIMESTAMP(3)",
        "tz": "TIMESTAMP_LTZ(6) NOT NULL",
    }
    assert found is not None
    assert found.schema.column("big").comment == "of 64 bits"
    assert found.option_map["table-name"] == name
    JdbcConnector(project=tmp_path).check(found)


def test_a_server_that_is_away_says_so(tmp_path: Path) -> None:
    """The message has the address, and no password."""
    away = server(
        tmp_path,
        base_url="jdbc:postgresql://127.0.0.1:1",
        default_database="a",
        username="app",
        password="hunter2",
    )

    with pytest.raises(ConfigError, match=r"127\.0\.0\.1:1/a") as caught:
        away.check()
    assert "hunter2" not in caught.value.message
