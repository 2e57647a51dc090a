"""Databases for the sink's tests: a file of SQLite, and a schema of the run's PostgreSQL."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.postgres_server import USER, PostgresServer


@dataclass(frozen=True, slots=True, kw_only=True)
class TestDatabase:
    """A database: what a table's options say of it, and a way to run a statement past the connector."""

    __test__ = False
    options: dict[str, str]
    execute: Callable[[str], list[tuple[Any, ...]]]


def rows_read(database: TestDatabase, table: str) -> tuple[int, int]:
    """Rows of a PostgreSQL table that were read one after the other, and by an index, since it was made."""
    deadline = time.monotonic() + 10
    # a session counts what it read before it is gone
    while database.execute("SELECT 1 FROM pg_stat_activity WHERE application_name = 'penstock'"):
        assert time.monotonic() < deadline, "a connection was left open"
    ((in_order, by_index),) = database.execute(
        f"SELECT seq_tup_read, idx_tup_fetch FROM pg_stat_all_tables WHERE relid = '{table}'::regclass"
    )
    return in_order, by_index


@pytest.fixture
def sqlite_database(tmp_path: Path) -> TestDatabase:
    """An empty file."""
    path = tmp_path / "target.db"

    def execute(text: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(path)
        try:
            with connection:
                return connection.execute(text).fetchall()
        finally:
            connection.close()

    return TestDatabase(options={"url": f"jdbc:sqlite:{path}"}, execute=execute)


@pytest.fixture
def postgresql_database(postgres: PostgresServer) -> Iterator[TestDatabase]:
    """An empty schema, which the connection of a table is in."""
    with postgres.schema() as schema:
        yield TestDatabase(
            options={
                "url": f"jdbc:{postgres.url}?currentSchema={schema}",
                "username": USER,
                "password": "hunter2",
            },
            execute=partial(postgres.execute, schema=schema),
        )


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest) -> TestDatabase:
    """Each kind in turn."""
    made: TestDatabase = request.getfixturevalue(f"{request.param}_database")
    return made
