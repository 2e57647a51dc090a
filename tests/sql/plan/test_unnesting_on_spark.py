"""UNNEST gives the same rows in reading tasks (Arrow) and in Spark."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.connector.filesystem.connector import FilesystemConnector
from penstock.connector.fragments import RowFilter, evaluate
from penstock.connector.scan import Scan
from penstock.connector.spark.source.columns import scan_schema
from penstock.connector.spark.source.offsets import TaskPartition
from penstock.connector.spark.source.task import read_partition
from penstock.connector.spark.source.unnesting import RowUnnester
from penstock.sql.convert.statement import parse_statement
from penstock.sql.plan.analysis import analyse
from penstock.sql.plan.physical.frames import FrameBuilder
from penstock.sql.script.splitter import split
from penstock.sql.statements.statement import Select
from tests.connector.filesystem.tables import planned, planning
from tests.sql.sql_objects import new_namespace

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession

    from penstock.sql.plan.analysed import AnalysedQuery

TABLE = """
CREATE TABLE orders (
  id BIGINT, s STRING, tags ARRAY<STRING>, whole ARRAY<INT NOT NULL>, times ARRAY<TIMESTAMP(3)>,
  items ARRAY<ROW<id BIGINT, price DECIMAL(10, 2), labels ARRAY<STRING>, more ROW<x DOUBLE, y STRING>>>,
  strict ARRAY<ROW<a INT NOT NULL, b STRING> NOT NULL>, counts MAP<STRING, INT>, deep MAP<STRING, ARRAY<ROW<n INT>>>,
  r ROW<tags ARRAY<STRING>, counts MAP<STRING, BIGINT>>, `at` TIMESTAMP_LTZ(3), twice AS id * 2
) WITH ('connector' = 'filesystem', 'path' = 'orders', 'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601');
CREATE VIEW lines AS SELECT o.id AS number, i.id AS id, i.price, i.labels FROM orders AS o
  CROSS JOIN UNNEST(items) AS i (id, price, labels, more) WHERE o.id > -3;
"""
QUERIES = (
    "SELECT id, tag FROM orders CROSS JOIN UNNEST(tags) AS t (tag)",
    "SELECT tag, s FROM orders CROSS JOIN UNNEST(tags) AS tag",
    "SELECT o.id, t.tag FROM orders AS o, UNNEST(o.tags) AS t (tag) WHERE o.id > 0 AND t.tag <> 'a'",
    "SELECT id, tag, n FROM orders CROSS JOIN UNNEST(tags) WITH ORDINALITY AS t (tag, n)",
    "SELECT id, tag, n FROM orders LEFT JOIN UNNEST(tags) WITH ORDINALITY AS t (tag, n) ON TRUE",
    "SELECT id, tag FROM orders LEFT JOIN UNNEST(tags) AS t (tag) ON TRUE WHERE tag IS NULL OR tag LIKE 'b%'",
    "SELECT o.id, i.id, i.price * 2, labels, i.more.x, CHAR_LENGTH(i.more.y) FROM orders AS o "
    "CROSS JOIN UNNEST(o.items) AS i (id, price, labels, more)",
    "SELECT o.id, i.id, i.more FROM orders AS o LEFT JOIN UNNEST(o.items) AS i (id, price, labels, more) ON TRUE",
    "SELECT o.id, i.n, i.more.y FROM orders AS o "
    "LEFT JOIN UNNEST(o.items) WITH ORDINALITY AS i (id, price, labels, more, n) ON TRUE WHERE i.price IS NULL OR n > 1",
    "SELECT o.twice, i.id, l.label FROM orders AS o CROSS JOIN UNNEST(o.items) AS i (id, price, labels, more) "
    "CROSS JOIN UNNEST(i.labels) AS l (label)",
    "SELECT o.id, i.id, l.label FROM orders AS o LEFT JOIN UNNEST(o.items) AS i (id, price, labels, more) ON TRUE "
    "LEFT JOIN UNNEST(i.labels) AS l (label) ON TRUE WHERE o.s IS NOT NULL",
    "SELECT id, t.tag, w.number FROM orders CROSS JOIN UNNEST(tags) AS t (tag) CROSS JOIN UNNEST(whole) AS w (number) "
    "WHERE w.number > 0 OR t.tag IS NULL",
    "SELECT id, a, b FROM orders LEFT JOIN UNNEST(strict) AS t (a, b) ON TRUE",
    "SELECT id, k, v FROM orders CROSS JOIN UNNEST(counts) AS m (k, v)",
    "SELECT id, k, v + 1, n FROM orders LEFT JOIN UNNEST(counts) WITH ORDINALITY AS m (k, v, n) ON TRUE",
    "SELECT id, k, d.n FROM orders CROSS JOIN UNNEST(deep) AS m (k, v) CROSS JOIN UNNEST(m.v) AS d (n)",
    "SELECT id, t.tag, k, v FROM orders CROSS JOIN UNNEST(r.tags) AS t (tag) LEFT JOIN UNNEST(orders.r.counts) AS m (k, v) ON TRUE",
    "SELECT id, time_of, `at` FROM orders CROSS JOIN UNNEST(times) AS t (time_of) WHERE time_of > TIMESTAMP '2026-01-01 00:00:00'",
    "SELECT 1 FROM orders CROSS JOIN UNNEST(tags) AS t (tag)",
    "SELECT number, id, price FROM lines WHERE price > 0 AND number < 9",
    "SELECT number, lines.id, label FROM lines CROSS JOIN UNNEST(labels) AS l (label) WHERE label IS NOT NULL",
    "SELECT x, tag || 'z' FROM (SELECT id AS x, tags AS y FROM orders WHERE id <> 2) AS q CROSS JOIN UNNEST(q.y) AS t (tag) WHERE x > 0",
)  # fmt: skip


def orders(seed: int, count: int) -> list[dict[str, Any]]:
    """Draw rows in which arrays and maps are NULL, empty, or have NULL among their elements."""
    draw = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if draw.random() < 0.2 else value

    def some(one: Any) -> Any:
        return maybe([one() for _ in range(draw.choice([0, 0, 1, 2, 5]))])

    def text() -> Any:
        return maybe(draw.choice(["", "a", "b", "bä", "\U0001f986"]))

    def item() -> Any:
        more = maybe({"x": maybe(draw.randrange(9) / 4), "y": text()})
        price = maybe(draw.randrange(-99, 99) / 4)
        return maybe({"id": maybe(draw.randrange(5)), "price": price, "labels": some(text), "more": more})  # fmt: skip

    def moment() -> Any:
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=draw.randrange(-9999, 9999))
        return maybe(f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}")

    def pairs(value: Any) -> Any:
        return maybe({f"k{n}": value() for n in range(draw.choice([0, 1, 3]))})

    def number() -> Any:
        return maybe(draw.randrange(-5, 5))

    return [
        {
            "id": draw.randrange(-5, 10),
            "s": text(),
            "tags": some(text),
            "whole": some(lambda: draw.randrange(-3, 3)),
            "times": some(moment),
            "items": some(item),
            "strict": some(lambda: {"a": draw.randrange(5), "b": text()}),
            "counts": pairs(number),
            "deep": pairs(lambda: some(lambda: maybe({"n": number()}))),
            "r": maybe({"tags": some(text), "counts": pairs(number)}),
            "at": maybe("2026-01-01T00:00:00Z"),
        }
        for _ in range(count)
    ]


def analysed(text: str, project: Path) -> AnalysedQuery:
    """Check a query."""
    namespace = new_namespace(TABLE)
    (statement,) = (parse_statement(one, namespace) for one in split(f"{text};", "f.sql"))
    assert isinstance(statement, Select)
    return analyse(statement.query, namespace, project, appends=True)


def read(query: AnalysedQuery, project: Path) -> list[pa.RecordBatch]:
    """Read the rows of a query's table as a task does."""
    (leaf,) = query.leaves
    source = FilesystemConnector(project=project).source(leaf.read_table)
    planner = planning(source)
    partition = TaskPartition(
        splits=tuple(planner.split(i, *at) for i, at in planned(planner).items()),
        watermarks=None,
        heartbeat=False,
    )
    scan = Scan(
        table=leaf.read_table,
        columns=leaf.columns,
        rowtime=None,
        time_zone="UTC",
        project=str(project),
    )
    schema = scan_schema(scan, counts_skipped=False)
    return list(read_partition(partition, scan, source, schema))


def in_tasks(query: AnalysedQuery, project: Path) -> list[tuple[Any, ...]]:
    """Compute the rows of a query as tasks that write them do, and check how they are counted."""
    fragment = query.leaves[0].fragment
    assert fragment is not None, "a table read by splits"
    assert fragment.unnesting is not None, "it has UNNEST"
    assert fragment.columns is not None, "all is in the set"
    values = [value for _, value in fragment.columns if value is not None]
    assert len(values) == len(fragment.columns), fragment.columns
    passed, unnester = RowFilter(fragment.condition), RowUnnester(fragment.unnesting, values)
    found: list[tuple[Any, ...]] = []
    count = 0
    for batch in read(query, project):
        count += batch.num_rows
        for made in unnester.rows(passed.passing(batch)):
            found += zip(*(evaluate(value, made).to_pylist() for value in values), strict=True)
    assert len(found) - unnester.more + passed.left_out == count
    return found


def test_rows_of_arrays_are_those_of_spark(
    spark: SparkSession, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of arrays, arrays of rows and maps, NULL and empty ones among them, one in another, in pieces of any size."""
    (project / "orders").mkdir()
    for part in range(2):
        lines = "\n".join(map(json.dumps, orders(part, 150)))
        (project / "orders" / f"{part}.json").write_text(lines, encoding="utf-8")
    builder = FrameBuilder(
        spark=spark, workdir=project, project=project, conf={}, default_limit=None
    )
    for text in QUERIES:
        query = analysed(text, project)
        table = builder.build(query, streaming=False).toArrow()
        by_spark = zip(*(column.to_pylist() for column in table.columns), strict=True)
        expected = Counter(map(repr, by_spark))
        for size in (65_536, 3):
            monkeypatch.setattr("penstock.connector.spark.source.unnesting.ROWS_AT_ONCE", size)
            found = in_tasks(query, project)

            assert len(found) > 3, text
            assert Counter(map(repr, found)) == expected, text
