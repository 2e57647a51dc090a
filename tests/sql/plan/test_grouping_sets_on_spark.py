"""Grouping sets as they are unfolded for streams, and as Spark groups tables at rest: both what DuckDB says, in one job."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

import duckdb
from sqlglot import exp

from penstock.sql.binding.binder import annotate
from penstock.sql.dialect import to_spark_query
from penstock.sql.dialect.rewrites.unfold_grouping_sets import (
    unfold_group_ids,
    unfold_grouping_sets,
)
from penstock.sql.plan.rules.inline import find_relations
from penstock.sql.statements.statement import Select
from tests.sql.plan.changing import NAMESPACE
from tests.sql.sql_objects import run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = [
    (1, "a", 1), (2, "a", 2), (3, "b", 1), (4, None, 1), (5, None, None), (6, "b", None), (7, "a", 1),
]  # fmt: skip
# mean the same in Flink SQL and to DuckDB
QUERIES = (
    "SELECT k, x, GROUPING_ID(k, x) AS g, COUNT(*), COUNT(k), SUM(x), COUNT(DISTINCT k) FROM events GROUP BY CUBE (k, x)",
    "SELECT k, x, GROUPING(x), GROUPING(k), MAX(k), SUM(x) FILTER (WHERE k = 'a') FROM events "
    "GROUP BY GROUPING SETS ((k), (x), ()) HAVING GROUPING(k) = 1 OR COUNT(*) > 2",
    "SELECT COALESCE(k, 'none') AS k, x + 1 AS more, GROUPING_ID(x + 1, k) AS g, SUM(x + 1) FROM events "
    "GROUP BY ROLLUP (k, x + 1)",
    "SELECT k, GROUPING(k) AS g, COUNT(*) FROM events GROUP BY GROUPING SETS ((k), k, ())",
    "SELECT k, x, GROUPING(x) AS g, MIN(id) FROM events GROUP BY k, ROLLUP (x)",
    "SELECT CASE WHEN GROUPING(k) = 1 THEN 'all' ELSE k END AS k, COUNT(*) FROM events "
    "GROUP BY GROUPING SETS ((k), ()), ROLLUP (x)",
    "SELECT x, COUNT(*) FROM events GROUP BY GROUPING SETS ((x))",
)
# Flink's, which DuckDB has not or reads otherwise: an INT there is the place of a column
OWN = {
    "SELECT k, GROUP_ID() AS g, COUNT(*) FROM events GROUP BY GROUPING SETS ((k), (), k) HAVING COUNT(*) > 2": [
        ("a", 0, 3), ("a", 1, 3), (None, 0, 7),
    ],
    "SELECT 1 AS one, ROUND(id / 4, 1) AS r, GROUPING(1) AS g, GROUP_ID() AS i, COUNT(*) FROM events "
    "GROUP BY ROUND(id / 4, 1), ROLLUP (1)": [(1, 0, 0, 0, 3), (1, 1, 0, 0, 4), (None, 0, 1, 0, 3), (None, 1, 1, 0, 4)],
    "SELECT k, GROUPING(k) AS g, GROUP_ID() AS i, COUNT(*) FROM events GROUP BY k HAVING k = 'a'": [("a", 0, 0, 3)],
}  # fmt: skip


WAYS: Mapping[str, Callable[[exp.Expr], None]] = {
    "streamed": unfold_grouping_sets,
    "at rest": unfold_group_ids,
}


def rewritten(sql: str, way: str) -> exp.Expr:
    """The query as it is run in one of the ways."""
    (statement,) = run(sql, NAMESPACE)
    assert isinstance(statement, Select)
    query = find_relations(statement.query, NAMESPACE).query
    annotate(query, NAMESPACE)
    WAYS[way](query)
    return query


def frame(spark: SparkSession, query: exp.Expr, name: str) -> DataFrame:
    """Its rows as texts, with a name."""
    rows = spark.sql(to_spark_query(query))
    columns = [f"c{n}" for n in range(len(rows.columns))]
    text = "to_json(struct(*), map('ignoreNullFields', 'false'))"
    return rows.toDF(*columns).selectExpr(f"'{name}' AS name", f"{text} AS row")


def texts(rows: list[tuple[Any, ...]]) -> list[str]:
    """Rows as Spark writes them, sorted."""
    named = ({f"c{n}": value for n, value in enumerate(row)} for row in rows)
    return sorted(json.dumps(row, separators=(",", ":")) for row in named)


def expected() -> Iterator[tuple[str, list[str]]]:
    """The queries, and their rows."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE events (id BIGINT, k STRING, x INT)")
        connection.executemany("INSERT INTO events VALUES (?, ?, ?)", ROWS)
        for query in QUERIES:
            yield query, texts(connection.execute(query).fetchall())
    for query, rows in OWN.items():
        yield query, texts(rows)


def test_every_set_has_the_rows_that_it_groups(spark: SparkSession) -> None:
    """NULL in a column is not the NULL of a set without it, and aggregates see the columns as they are."""
    data = spark.createDataFrame(ROWS, "id BIGINT, k STRING, x INT").coalesce(1)
    data.createOrReplaceTempView("events")
    answers = list(expected())
    frames = [
        frame(spark, rewritten(query, way), f"{way} {number}")
        for number, (query, _) in enumerate(answers)
        for way in WAYS
    ]
    found = reduce(lambda one, other: one.unionAll(other), frames).collect()

    for number, (query, rows) in enumerate(answers):
        for way in WAYS:
            given = sorted(row["row"] for row in found if row["name"] == f"{way} {number}")
            assert given == rows, f"{way}: {query}"
