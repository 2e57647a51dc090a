"""Every sink runs the contract of writes, on Spark."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from penstock.catalog.model.table import Schema
from penstock.connector.changelog import RowKind
from penstock.connector.memory.tables import clear_tables
from tests.contract.sink_writes import SinkWritesContract, Target, Written, check_computed_once
from tests.postgres_server import USER

if TYPE_CHECKING:
    from tests.kafka_server import KafkaServer
    from tests.postgres_server import PostgresServer

NESTED = (
    "ARRAY<INT>",
    "MAP<STRING, ROW<x INT>>",
    "MULTISET<STRING>",
    "ROW<x INT, y ARRAY<STRING>>",
)
NUMBERS = count()


class TestDelta(SinkWritesContract):
    """`delta` without a key."""

    @pytest.fixture
    def target(self) -> Target:
        """Rows are appended."""
        options = {"connector": "delta", "path": "orders", "delta.columnMapping.mode": "name"}
        return Target(options=options)


class TestDeltaByTasks(SinkWritesContract):
    """`delta` without a key, its files written by tasks."""

    @pytest.fixture
    def target(self) -> Target:
        """Rows are appended."""
        refused = ("two words", "a,b", "(a)")
        return Target(
            options={"connector": "delta", "path": "orders"},
            names=refused,
            by_tasks=True,
        )


class TestPartitionedDeltaByTasks(SinkWritesContract):
    """`delta` in partitions, its files written by tasks."""

    @pytest.fixture
    def target(self) -> Target:
        """Rows are appended to a folder for each id."""
        refused = ("two words", "a,b", "(a)")
        return Target(
            options={"connector": "delta", "path": "orders"},
            names=refused,
            by_tasks=True,
            partitions=("id",),
        )


class TestKeyedDelta(SinkWritesContract):
    """`delta` with a PRIMARY KEY."""

    @pytest.fixture
    def target(self) -> Target:
        """Rows are replaced by position."""
        refused = ("two words", "a,b", "(a)")
        return Target(options={"connector": "delta", "path": "orders"}, key=("id",), names=refused)


@pytest.mark.parametrize(
    "options",
    [
        {"sink.writer": "spark"},
        {"delta.enableChangeDataFeed": "true"},
        {"delta.enableDeletionVectors": "false"},
    ],
    ids=["by choice", "with a feed", "without vectors"],
)
@pytest.mark.parametrize("key", [("id",), ()], ids=["keyed", "appended"])
def test_rows_that_delta_itself_writes_are_computed_once(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], key: tuple[str, ...]
) -> None:
    """MERGE reads its rows more than once, and keeps them."""
    given = {"connector": "delta", "path": "orders", **options}
    check_computed_once(Written.make(spark, Target(options=given, key=key), tmp_path), spark)


class TestFiles(SinkWritesContract):
    """`filesystem` of JSON lines."""

    @pytest.fixture
    def target(self) -> Target:
        """Read by the splits of files."""
        return Target(options={"connector": "filesystem", "path": "orders", "format": "json"})


class TestParquetByTasks(SinkWritesContract):
    """`filesystem` of Parquet, its files written by tasks."""

    @pytest.fixture
    def target(self) -> Target:
        """Read by Spark."""
        options = {"connector": "filesystem", "path": "orders", "format": "parquet"}
        return Target(options=options, by_tasks=True, published=True)


class TestPartitionedParquetByTasks(SinkWritesContract):
    """`filesystem` of Parquet in partitions, its files written by tasks."""

    @pytest.fixture
    def target(self) -> Target:
        """Read by Spark, from a folder for each id."""
        return Target(
            options={"connector": "filesystem", "path": "orders", "format": "parquet"},
            by_tasks=True,
            published=True,
            partitions=("id",),
        )


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


class TestPostgres(SinkWritesContract):
    """`jdbc` with a PRIMARY KEY, in PostgreSQL."""

    @pytest.fixture
    def target(self, postgres: PostgresServer) -> Iterator[Target]:
        """Each in a schema of its own."""
        with postgres.schema() as schema:
            yield Target(
                options={
                    "connector": "jdbc",
                    "url": f"jdbc:{postgres.url}?currentSchema={schema}",
                    "username": USER,
                    "password": "any",
                    "table-name": "orders",
                },
                key=("id",),
                create=partial(create_in_postgres, postgres, schema),
                types=NESTED,
            )


class TestTopic(SinkWritesContract):
    """`kafka`, at least once."""

    @pytest.fixture
    def target(self, kafka: KafkaServer) -> Target:
        """Two partitions."""
        return topic_target(kafka, partitions=2)


class TestTopicOnce(SinkWritesContract):
    """`kafka`, exactly once."""

    @pytest.fixture
    def target(self, kafka: KafkaServer) -> Target:
        """In two slots."""
        options = {
            "sink.delivery-guarantee": "exactly-once",
            "sink.transactional-id-prefix": f"contract-{next(NUMBERS)}",
            "sink.parallelism": "2",
        }
        return topic_target(kafka, options, partitions=2)


class TestTopicOfChanges(SinkWritesContract):
    """`kafka` in a format of changes."""

    @pytest.fixture
    def target(self, kafka: KafkaServer) -> Target:
        """In one partition, whose order is that of the changes."""
        return topic_target(kafka, {"format": "debezium-json", "sink.parallelism": "1"})


class TestUpsertTopic(SinkWritesContract):
    """`upsert-kafka`."""

    @pytest.fixture
    def target(self, kafka: KafkaServer) -> Target:
        """The last record of a key counts."""
        made = topic_target(kafka, partitions=2)
        options = {k: v for k, v in made.options.items() if k != "format" and "startup" not in k}
        formats = {"connector": "upsert-kafka", "key.format": "json", "value.format": "json"}
        return replace(made, options={**options, **formats}, key=("id",))


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


def topic_target(
    kafka: KafkaServer, options: Mapping[str, str] | None = None, *, partitions: int = 1
) -> Target:
    """A topic of its own, read from its beginning to its end."""

    def create(schema: Schema) -> Mapping[str, str]:
        return {"topic": kafka.create_topic(partitions=partitions)}

    plain = {
        "connector": "kafka",
        "topic": "t",
        "properties.bootstrap.servers": kafka.bootstrap,
        "format": "json",
        "scan.startup.mode": "earliest-offset",
        "scan.bounded.mode": "latest-offset",
    }
    return Target(options={**plain, **(options or {})}, create=create)


def printed(lines: Sequence[str]) -> list[tuple[RowKind, tuple[int, str]]]:
    """The changes that lines say, as in `+I[1, a]`."""
    kinds: Mapping[str, RowKind] = {kind.short: kind for kind in RowKind}
    cells = [(line[:2], line[3:-1].split(", ")) for line in lines]
    return [(kinds[kind], (int(number), name)) for kind, (number, name) in cells]


def double_quoted(name: str) -> str:
    """A name in the databases' own quotes."""
    return '"' + name.replace('"', '""') + '"'


POSTGRES_TYPES = {
    "TINYINT": "SMALLINT",
    "FLOAT": "REAL",
    "DOUBLE": "DOUBLE PRECISION",
    "STRING": "TEXT",
    "BYTES": "BYTEA",
    "TIMESTAMP_LTZ(3)": "TIMESTAMPTZ",
}


def create_in_postgres(postgres: PostgresServer, schema: str, columns: Schema) -> Mapping[str, str]:
    """Make the table `orders` by its key `id`."""
    types = [
        f"{double_quoted(c.name)} {POSTGRES_TYPES.get(kind, kind)}"
        for c in columns.physical
        for kind in [str(replace(c.type, nullable=True))]
    ]
    postgres.execute(f"CREATE TABLE orders ({', '.join(types)}, PRIMARY KEY (id))", schema=schema)
    return {}
