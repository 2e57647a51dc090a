"""Streaming queries that are watched: each batch's rows, also of queries that are kept up to date."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.connector.changelog import ChangelogMode
from penstock.sql.convert.statement import parse_statement
from penstock.sql.jobs.live_query import LiveQuery, Row, live_query
from penstock.sql.plan.analysis import analyse
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.plan.rules.sink_changelog import SinkTable
from penstock.sql.script.splitter import split
from penstock.sql.statements.statement import Select
from tests.sql.sql_objects import new_namespace, run

SCREEN = SinkTable(name="the screen", accepts=ChangelogMode.ALL, columns=())
ROWS = """CREATE TABLE made (id BIGINT, k BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen',
  'number-of-rows' = '30', 'rows-per-second' = '1000', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1',
  'fields.id.end' = '30', 'fields.k.kind' = 'sequence', 'fields.k.start' = '1', 'fields.k.end' = '30')"""


def watched(spark: SparkSession, folder: Path, query: str) -> tuple[LiveQuery, list[Row]]:
    """Watch a query over what is there to its end; gives its rows."""
    namespace = new_namespace()
    run(ROWS, namespace)
    planner = Planner(namespace=namespace, project=folder, settings={})
    (text,) = split(query, "test")
    statement = parse_statement(text, namespace)
    assert isinstance(statement, Select)
    analysed = analyse(statement.query, namespace, folder, appends=True, sink=SCREEN)
    rows: list[Row] = []
    live = live_query(analysed, planner, spark)
    started = live.start(folder / "checkpoint", rows.extend, available_now=True)
    started.awaitTermination(120)
    assert started.exception() is None
    planner.close()
    return live, rows


def test_changes_of_a_maintained_query_come_with_their_kinds(
    spark: SparkSession, project: Path
) -> None:
    """An aggregation of an aggregation, which Spark does not stream."""
    query = """SELECT n, COUNT(*) AS keys FROM (SELECT k / 10 AS k, COUNT(*) AS n FROM made GROUP BY k / 10) AS c
      GROUP BY n"""
    live, rows = watched(spark, project, query)
    signs = {"+I": 1, "+U": 1, "-U": -1, "-D": -1}
    left: Counter[tuple[int, int]] = Counter()
    for op, n, keys in rows:
        left[n, keys] += signs[op]

    assert live.query.maintained is not None
    assert tuple(live.shown.columns) == ("op", "n", "keys")
    assert +left == {(9, 1): 1, (10, 2): 1, (1, 1): 1}


@pytest.mark.parametrize(
    ("query", "maintained"),
    [
        ("SELECT id, COUNT(*) OVER (ORDER BY ts ROWS UNBOUNDED PRECEDING) AS n FROM made", True),
        ("SELECT id, k AS n FROM made", False),
    ],
)
def test_rows_that_stay_have_no_kind(
    spark: SparkSession, project: Path, query: str, maintained: bool
) -> None:
    """Whoever makes them."""
    live, rows = watched(spark, project, query)

    assert (live.query.maintained is not None) is maintained
    assert tuple(live.shown.columns) == ("id", "n")
    assert sorted(rows) == [(i, i) for i in range(1, 31)]
