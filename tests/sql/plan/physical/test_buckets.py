"""Inputs of keyed operators as reading tasks give them: of one table, of what tasks compute, by keys that they hash."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.connector.arrow import arrow_type
from penstock.connector.changelog import ChangelogMode
from penstock.connector.expression import BucketedRows
from penstock.sql.incremental.keyed.operator import KeyedLayout
from penstock.sql.incremental.keyed.runtime.plan import BucketInput
from penstock.sql.incremental.stages import COUNT
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.analysis import analyse
from penstock.sql.plan.physical.buckets import bucketed_rows
from penstock.sql.plan.placement.place import SinkTable
from penstock.sql.statements.statement import Select
from tests.sql.sql_objects import new_namespace, run

TABLES = """
CREATE TABLE events (kind INT, item ROW<id BIGINT, owner BIGINT, price DOUBLE>, person ROW<id BIGINT, name STRING>,
  at AS CASE WHEN kind = 1 THEN item.id ELSE person.id END, moment TIMESTAMP(3))
WITH ({options}, 'topic' = 'events');
CREATE TABLE others (id BIGINT) WITH ({options}, 'topic' = 'others');
CREATE TABLE changes (id BIGINT, name STRING) WITH ({changelog}, 'topic' = 'changes');
CREATE VIEW items AS SELECT item.id, item.owner, item.price, at FROM events WHERE kind = 1;
CREATE VIEW people AS SELECT person.id, person.name FROM events WHERE kind = 0
"""
OPTIONS = (
    "'connector' = 'kafka', 'properties.bootstrap.servers' = 'b:9092', 'format' = '{}', "
    "'scan.startup.mode' = 'earliest-offset'"
)
KINDS = {
    "id": pa.int64(),
    "owner": pa.int64(),
    "at": pa.int64(),
    "name": pa.string(),
    "price": pa.float64(),
}


def analysed(sql: str, folder: Path) -> AnalysedQuery:
    """A query into a sink that takes changes."""
    text = TABLES.format(options=OPTIONS.format("json"), changelog=OPTIONS.format("debezium-json"))
    namespace = new_namespace(text)
    (statement,) = run(sql, namespace)
    assert isinstance(statement, Select)
    sink = SinkTable(name="sink", accepts=ChangelogMode.ALL, columns=())
    return analyse(statement.query, namespace, folder, appends=True, sink=sink)


def found(sql: str, folder: Path, *keys: str, zone: str = "UTC") -> BucketedRows | None:
    """What tasks give of a query whose inputs have these keys."""
    query = analysed(sql, folder)
    assert query.maintained is not None
    feeds = query.maintained.feeds
    schemas = {
        feed.name: pa.schema([(name, KINDS.get(name, pa.string())) for name in feed.columns])
        for feed in feeds
    }
    inputs = [
        BucketInput(
            stage="",
            feed=feed.name,
            panes=None,
            layout=KeyedLayout(
                dims=tuple(schemas[feed.name]), values=(pa.field(COUNT, pa.int64()),), key=(key,)
            ),
        )
        for feed, key in zip(feeds, keys, strict=True)
    ]
    return bucketed_rows(query, inputs, schemas, 6, zone)


def test_inputs_over_one_table_come_from_one_scan(tmp_path: Path) -> None:
    """Each with its condition and its columns, computed ones of the table among them, as Spark has them."""
    rows = found(
        "SELECT i.id, i.at, p.name FROM items AS i JOIN people AS p ON i.owner = p.id",
        tmp_path,
        "owner",
        "id",
    )

    assert rows is not None
    assert rows.buckets == 6
    assert [[column.name for column in one.columns] for one in rows.inputs] == [
        ["id", "owner", "at"],
        ["id", "name"],
    ]
    assert [one.key for one in rows.inputs] == [(1,), (0,)]
    assert all(one.condition is not None for one in rows.inputs)
    kinds = {arrow_type(column.value.type) for column in rows.inputs[0].columns}
    assert kinds == {pa.int64()}


def test_what_hangs_on_a_time_zone_comes_by_bucket_in_utc(tmp_path: Path) -> None:
    """In another time zone Spark computes it."""
    sql = (
        "SELECT DATE_FORMAT(moment, 'yyyy-MM-dd') AS d, COUNT(DISTINCT item.id) AS n FROM events "
        "GROUP BY DATE_FORMAT(moment, 'yyyy-MM-dd')"
    )
    rows = found(sql, tmp_path, "__group0")

    assert rows is not None
    assert rows.inputs[0].columns[0].name == "__group0"
    assert found(sql, tmp_path, "__group0", zone="Asia/Tokyo") is None


@pytest.mark.parametrize(
    ("sql", "keys"),
    [
        ("SELECT i.id FROM items AS i JOIN others AS o ON i.owner = o.id", ("owner", "id")),
        ("SELECT i.id FROM items AS i JOIN items AS o ON i.price = o.price", ("price",)),
        ("SELECT name, COUNT(DISTINCT id) FROM changes GROUP BY name", ("name",)),
        (
            "SELECT p.name FROM people AS p JOIN "
            "(SELECT owner AS id FROM items WHERE RAND() < 2) AS i ON i.id = p.id",
            ("id", "id"),
        ),
    ],
    ids=["two tables", "a key with two zeros", "changes", "another value each time"],
)
def test_other_inputs_are_left_to_spark(tmp_path: Path, sql: str, keys: tuple[str, ...]) -> None:
    """Their rows go through its own plan."""
    assert found(sql, tmp_path, *keys) is None
