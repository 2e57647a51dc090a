"""Every row of the compatibility tables that is not refused runs on Spark, over a few rows in memory, in two jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.catalog.errors import PenstockError
from penstock.sql.compatibility import Kind, Row, Status
from penstock.sql.compatibility.page import ROWS
from penstock.sql.compatibility.tables import define_tables
from penstock.sql.convert.statement import parse_statement
from penstock.sql.execution.functions import register_called
from penstock.sql.expressions.expression import to_spark
from penstock.sql.plan.analysed import TableScan
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.script.splitter import split
from penstock.sql.statements.statement import Select
from tests.sql.sql_objects import new_namespace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BOUNDED = "'connector' = 'filesystem', 'path' = '{0}', 'format' = 'json'"
BID = {
    "auction": 1, "bidder": 2, "price": 150.5, "channel": "a", "tags": ["x", "y"], "attributes": {"x": 1},
    "item": {"id": 7, "name": "seven"}, "ts": "2026-01-31 10:00:00",
}  # fmt: skip
CONTENTS = {
    "bids": [BID, {**BID, "price": 99, "ts": "2026-01-31 10:01:00"}],
    "auctions": [{"id": 1, "seller": 3, "category": "c", "ts": "2026-01-31 09:59:00"}],
    "people": [
        {"id": 2, "name": "Ann", "since": "2020-02-29"},
        {"id": 1, "name": "Ben", "since": None},
    ],
    "totals": [{"auction": 1, "total": 249.5}],
    "reserves": [{"auction": 1, "reserve": 120, "ts": "2026-01-31 09:59:30"}],
}
SCHEMAS = {
    "bids": "auction BIGINT, bidder BIGINT, price DECIMAL(10, 2), channel STRING, tags ARRAY<STRING>, "
    "attributes MAP<STRING, INT>, item STRUCT<id: BIGINT, name: STRING>, ts TIMESTAMP_NTZ",
    "auctions": "id BIGINT, seller BIGINT, category STRING, ts TIMESTAMP_NTZ",
    "people": "id BIGINT, name STRING, since DATE",
    "totals": "auction BIGINT, total DECIMAL(38, 2)",
    "reserves": "auction BIGINT, reserve DECIMAL(10, 2), ts TIMESTAMP_NTZ",
}
TEXTS = """
from pyspark.sql.functions import udtf


@udtf(returnType="word STRING")
class words:
    def eval(self, text):
        for word in (text or "").split():
            yield (word,)
"""
QUICK = {  # a hundred small plans: compiling each would take longer than running it
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.timeType.enabled": "true",  # as in a session that Penstock starts
}
RUN = [row for row in ROWS if row.status != Status.REFUSE]
QUERIES = [row for row in RUN if row.kind in (Kind.QUERY, Kind.HINT)]
VALUES = [row for row in RUN if row.kind in (Kind.EXPRESSION, Kind.TYPE)]


def rows_in_memory(spark: SparkSession, leaf: TableScan) -> DataFrame:
    """What a table's source would give: the columns that a query uses, and those computed of them."""
    name = leaf.table.identifier.name
    text, schema = json.dumps(CONTENTS[name]), SCHEMAS[name]
    read = spark.sql(f"SELECT inline(from_json('{text}', 'ARRAY<STRUCT<{schema}>>'))")
    computed = [f"{to_spark(sql, leaf.table.schema)} AS `{n}`" for n, sql in leaf.computed.items()]
    return read.selectExpr(*(f"`{column}`" for column in leaf.columns), *computed)


@pytest.fixture
def planner(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Planner]:
    """Plans over the tables of the examples, whose rows are in memory."""

    def leaf_frame(_: Any, leaf: TableScan, *_args: Any, **_named: Any) -> tuple[DataFrame, bool]:
        return rows_in_memory(spark, leaf), False

    monkeypatch.setattr("penstock.sql.plan.physical.frames.FrameBuilder._leaf_frame", leaf_frame)
    before = {key: spark.conf.get(key, None) for key in QUICK}
    for key, value in QUICK.items():
        spark.conf.set(key, value)
    (tmp_path / "texts.py").write_text(TEXTS, encoding="utf-8")
    given = "".join({row.setup for row in QUERIES})
    tables = define_tables(stream=BOUNDED.format, rest=BOUNDED.format) + given
    yield Planner(namespace=new_namespace(tables), project=tmp_path)
    for key, old in before.items():
        spark.conf.unset(key) if old is None else spark.conf.set(key, old)


def plan(sql: str, planner: Planner, spark: SparkSession) -> DataFrame:
    """The frame of a query."""
    (text,) = split(sql, "row.sql")
    statement = parse_statement(text, planner.namespace)
    assert isinstance(statement, Select)
    register_called(statement.query, planner.namespace, spark, planner.project)
    return planner.select(statement, spark)


def plan_query(row: Row, planner: Planner, spark: SparkSession) -> DataFrame:
    """One row of text for each row of an example's result, with all its columns in it."""
    try:
        frame = plan(row.example, planner, spark)
        return frame.selectExpr(f"'{row.name}' AS name", "to_json(struct(*)) AS result")
    except PenstockError as error:
        pytest.fail(f"{row.name}: {error.message}")


@pytest.mark.nightly
def test_every_query_runs(planner: Planner, spark: SparkSession) -> None:
    """In one job: the results of all, side by side; what has no rows among our few has none."""
    frames = [plan_query(row, planner, spark) for row in QUERIES]
    found = reduce(lambda one, other: one.unionAll(other), frames).collect()
    results = {row["name"] for row in found}

    assert len(results) > len(QUERIES) * 0.8


GROUP_WINDOWS = {
    "SELECT auction, TUMBLE_START({ts}, {m}) AS s, TUMBLE_ROWTIME({ts}, {m}) AS t, SUM(price) AS n {from_} "
    "GROUP BY auction, TUMBLE({ts}, {m}) HAVING TUMBLE_END({ts}, {m}) > TIMESTAMP '2026-01-31 10:01:00'": (
        "SELECT auction, window_start AS s, window_time AS t, SUM(price) AS n FROM TABLE(TUMBLE(TABLE bids, "
        "DESCRIPTOR(ts), {m})) GROUP BY auction, window_start, window_end, window_time "
        "HAVING window_end > TIMESTAMP '2026-01-31 10:01:00'"
    ),
    "SELECT auction, HOP_START({ts}, {m}, {h}) AS s, HOP_END({ts}, {m}, {h}) AS t, SUM(price) AS n {from_} "
    "GROUP BY auction, HOP({ts}, {m}, {h})": (
        "SELECT auction, window_start AS s, window_end AS t, SUM(price) AS n FROM TABLE(HOP(TABLE bids, "
        "DESCRIPTOR(ts), {m}, {h})) GROUP BY auction, window_start, window_end"
    ),
    "SELECT auction, SESSION_START({ts}, {h}) AS s, SESSION_END({ts}, {h}) AS t, SUM(price) AS n {from_} "
    "GROUP BY auction, SESSION({ts}, {h}) HAVING SESSION_END({ts}, {h}) > TIMESTAMP '2026-01-31 10:01:00' "
    "ORDER BY SESSION_START({ts}, {h})": (
        "SELECT auction, window_start AS s, window_end AS t, SUM(price) AS n FROM TABLE(SESSION(TABLE bids "
        "PARTITION BY auction, DESCRIPTOR(ts), {h})) GROUP BY auction, window_start, window_end"
    ),
}
SOURCES = (
    ("ts", "FROM bids"),
    ("b.ts", "FROM bids AS b JOIN people AS p ON b.bidder = p.id"),
    ("c.t", "FROM c"),
)


def test_a_group_window_gives_the_rows_of_its_function(
    planner: Planner, spark: SparkSession
) -> None:
    """Over a table, a join and a query of WITH; all in one job."""
    lengths = {"m": "INTERVAL '1' MINUTE", "h": "INTERVAL '3' MINUTE"}
    frames = []
    for number, (group, function) in enumerate(GROUP_WINDOWS.items()):
        texts = [function.format(**lengths)]
        with_ = "WITH c AS (SELECT auction, price, ts AS t FROM bids) "
        texts += [with_ + group.format(ts=ts, from_=from_, **lengths) for ts, from_ in SOURCES]
        for place, text in enumerate(texts):
            frame = plan(text, planner, spark)
            frames.append(frame.selectExpr(f"{number} AS window", f"{place} AS place", "*"))
    rows = reduce(lambda one, other: one.unionAll(other), frames).collect()
    found = {
        (window, place): sorted(row[2:] for row in rows if row[:2] == (window, place))
        for window in range(len(GROUP_WINDOWS))
        for place in range(len(SOURCES) + 1)
    }

    assert [len(found[window, 0]) for window in range(len(GROUP_WINDOWS))] == [1, 4, 1]
    assert all(rows == found[window, 0] for (window, _), rows in found.items())


def test_every_literal_operator_and_type_runs(planner: Planner, spark: SparkSession) -> None:
    """In one SELECT; a type is what a NULL is cast to."""
    items = [
        f"CAST(NULL AS {row.example})" if row.kind == Kind.TYPE else row.example for row in VALUES
    ]
    sql = "SELECT " + ", ".join(f"{item} AS `c{n}`" for n, item in enumerate(items))
    frame = plan(sql, planner, spark)
    frame.write.format("noop").mode("overwrite").save()  # Python has no INTERVAL YEAR TO MONTH

    assert len(frame.columns) == len(VALUES)
