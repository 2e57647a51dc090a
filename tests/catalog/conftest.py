"""Stores for the catalog's tests, on both databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.catalog.store.sql_catalog import SqlCatalog
from tests.postgres_server import USER, PostgresServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Where a catalog may be, and a way to run a statement past it."""

    url: str
    execute: Callable[[str], list[tuple[Any, ...]]]

    @property
    def is_server(self) -> bool:
        """Whether it is PostgreSQL."""
        return self.url.startswith("postgresql")

    def open(self) -> SqlCatalog:
        """A catalog of its own, as another process has."""
        return SqlCatalog(self.url)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the store on SQLite will be."""
    return tmp_path / ".penstock" / "catalog.db"


@pytest.fixture
def sqlite_store(file: Path) -> Store:
    """A file that is not there yet."""

    def execute(text: str) -> list[tuple[Any, ...]]:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        connection = sqlite3.connect(file)
        try:
            with connection:
                return connection.execute(text).fetchall()
        finally:
            connection.close()

    return Store(url=f"sqlite:///{file}", execute=execute)


@pytest.fixture
def postgresql_store(postgres: PostgresServer) -> Iterator[Store]:
    """An empty schema."""
    with postgres.schema() as schema:
        yield Store(
            url=f"postgresql://{USER}@127.0.0.1:{postgres.port}/postgres?options=-csearch_path%3D{schema}",
            execute=partial(postgres.execute, schema=schema),
        )


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest) -> Store:
    """Each kind in turn."""
    made: Store = request.getfixturevalue(f"{request.param}_store")
    return made


@pytest.fixture
def catalog(store: Store) -> Iterator[SqlCatalog]:
    """A catalog on each kind in turn."""
    made = store.open()
    yield made
    made.close()
