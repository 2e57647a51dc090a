"""Every sink runs the contract of writes, on Spark."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from penstock.catalog.model.table import Schema
from penstock.connector.changelog import RowKind
from penstock.connector.memory.tables import clear_tables
from tests.contract.sink_writes import SinkWritesContract, Target

NESTED = (
    "ARRAY<INT>",
    "MAP<STRING, ROW<x INT>>",
    "MULTISET<STRING>",
    "ROW<x INT, y ARRAY<STRING>>",
)


class TestFiles(SinkWritesContract):
    """`filesystem` of JSON lines."""

    @pytest.fixture
    def target(self) -> Target:
        """Read by the splits of files."""
        return Target(options={"connector": "filesystem", "path": "orders", "format": "json"})


class TestSqlite(SinkWritesContract):
    """`jdbc` without a key, in SQLite."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> Target:
        """Columns without an affinity hold what they get."""
        path = tmp_path / "shop.db"

        def create(schema: Schema) -> Mapping[str, str]:
            names = ", ".join(double_quoted(column.name) for column in schema.physical)
            with sqlite3.connect(path) as connection:
                connection.execute(f"CREATE TABLE orders ({names})")
            return {}

        options = {"connector": "jdbc", "url": f"jdbc:sqlite:{path}", "table-name": "orders"}
        return Target(options=options, create=create, types=NESTED)


class TestMemory(SinkWritesContract):
    """`memory`, with a key and without one."""

    @pytest.fixture(params=[(), ("id",)], ids=["appends", "keyed"])
    def target(self, request: pytest.FixtureRequest) -> Iterator[Target]:
        """No rows of other tests."""
        clear_tables()
        yield Target(options={"connector": "memory"}, key=request.param)
        clear_tables()


class TestPrint(SinkWritesContract):
    """`print`."""

    @pytest.fixture
    def target(self, capsys: pytest.CaptureFixture[str]) -> Target:
        """Rows are seen as lines; the texts of their values are in the connector's own tests."""
        lines: list[str] = []

        def seen() -> list[tuple[RowKind, tuple[int, str]]]:
            lines.extend(capsys.readouterr().out.splitlines())
            return printed(lines)

        return Target(options={"connector": "print"}, seen=seen)


class TestBlackhole(SinkWritesContract):
    """`blackhole`."""

    @pytest.fixture
    def target(self) -> Target:
        """Nothing is seen."""
        return Target(options={"connector": "blackhole"}, seen=list, keeps=False)


def printed(lines: Sequence[str]) -> list[tuple[RowKind, tuple[int, str]]]:
    """The changes that lines say, as in `+I[1, a]`."""
    kinds: Mapping[str, RowKind] = {kind.short: kind for kind in RowKind}
    cells = [(line[:2], line[3:-1].split(", ")) for line in lines]
    return [(kinds[kind], (int(number), name)) for kind, (number, name) in cells]


def double_quoted(name: str) -> str:
    """A name in the databases' own quotes."""
    return '"' + name.replace('"', '""') + '"'
