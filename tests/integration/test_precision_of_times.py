"""Times in columns of fewer digits of a second: written by tasks, by Spark, by keyed operators, in VALUES."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import penstock
from penstock.sql.convert.statement import parse_statement
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.script.splitter import split
from penstock.sql.statements.dml import InsertInto
from tests.sql.sql_objects import new_namespace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READ = """
CREATE TEMPORARY TABLE readings (k STRING, at TIMESTAMP(6), tz TIMESTAMP_LTZ(6), n BIGINT,
  r ROW<at TIMESTAMP(6), n BIGINT>, l ARRAY<TIMESTAMP(6)>, m MAP<STRING, TIMESTAMP_LTZ(6)>)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
"""
WRITTEN = """
CREATE TEMPORARY TABLE kept (k STRING, at TIMESTAMP(3), whole TIMESTAMP(0), tz TIMESTAMP_LTZ(3), full TIMESTAMP(6))
WITH ('connector' = 'delta', 'path' = 'kept', 'sink.writer' = '{writer}');
INSERT INTO kept SELECT k, at, at, tz, at FROM readings;
"""
ROWS = [
    {
        "k": k,
        "at": f"2026-01-02 10:00:00.{fraction}",
        "tz": f"2026-01-02 10:00:00.{fraction}Z",
        "n": 1,
        "r": {"at": f"2026-01-02 10:00:00.{fraction}", "n": 2},
        "l": [f"2026-01-02 10:00:00.{fraction}", None],
        "m": {"x": f"2026-01-02 10:00:00.{fraction}Z"},
    }
    for k, fraction in (("a", "123456"), ("a", "123999"), ("b", "5"))
]


def at(micros: int) -> datetime:
    """The time of the rows, with so many microseconds."""
    return datetime(2026, 1, 2, 10, 0, 0, micros)


def run(spark: SparkSession, project: Path, script: str) -> None:
    """Run a script over the rows, to its end."""
    (project / "in").mkdir(exist_ok=True)
    text = "\n".join(json.dumps(row) for row in ROWS)
    (project / "in" / "rows.json").write_text(text, encoding="utf-8")
    path = project / "times.sql"
    path.write_text(READ + script, encoding="utf-8")
    with penstock.connect(spark) as session:
        for job in session.run_file(path, available_now=True):
            assert job.exception is None


def rows(spark: SparkSession, table: Path, *columns: str) -> list[tuple[Any, ...]]:
    """The rows of a Delta table, instants as times in UTC."""
    frame = spark.read.format("delta").load(str(table)).select(*columns)
    return sorted(tuple(_plain(value) for value in row) for row in frame.collect())


def _plain(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


@pytest.mark.parametrize(("writer", "tasks"), [("auto", True), ("spark", False)])
def test_times_are_cut_to_the_columns_whoever_writes(
    spark: SparkSession, project: Path, writer: str, *, tasks: bool
) -> None:
    """As Flink casts what it writes; a column of all digits has all."""
    run(spark, project, WRITTEN.format(writer=writer))
    files = list((project / "kept").glob("*.parquet"))

    texts = "CAST(tz AS STRING) AS tz"
    found = spark.read.format("delta").load(str(project / "kept"))
    assert {"arrow" in pq.ParquetFile(file).metadata.created_by for file in files} == {tasks}
    assert sorted(
        tuple(row) for row in found.selectExpr("k", "at", "whole", texts, "full").collect()
    ) == [
        ("a", at(123000), at(0), "2026-01-02 10:00:00.123", at(123456)),
        ("a", at(123000), at(0), "2026-01-02 10:00:00.123", at(123999)),
        ("b", at(500000), at(0), "2026-01-02 10:00:00.5", at(500000)),
    ]


def test_rows_whose_keys_are_cut_alike_are_one(spark: SparkSession, project: Path) -> None:
    """Which the last one of an upsert is, and all of an aggregation by it."""
    run(
        spark,
        project,
        """
CREATE TEMPORARY TABLE latest (k STRING, at TIMESTAMP(3), n BIGINT, PRIMARY KEY (k, at) NOT ENFORCED)
WITH ('connector' = 'delta', 'path' = 'latest');
INSERT INTO latest SELECT k, at, n FROM readings;
CREATE TEMPORARY TABLE newest (k STRING, at TIMESTAMP(3), n BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'delta', 'path' = 'newest');
INSERT INTO newest SELECT k, MAX(at), SUM(n) FROM readings GROUP BY k;
""",
    )

    assert rows(spark, project / "latest", "k", "at", "n") == [
        ("a", at(123000), 1),
        ("b", at(500000), 1),
    ]
    assert rows(spark, project / "newest", "k", "at", "n") == [
        ("a", at(123000), 2),
        ("b", at(500000), 1),
    ]


def test_times_inside_of_values_are_cut(spark: SparkSession, project: Path) -> None:
    """Of rows, arrays and maps."""
    run(
        spark,
        project,
        """
CREATE TEMPORARY TABLE nested (k STRING, r ROW<at TIMESTAMP(3), n BIGINT>, l ARRAY<TIMESTAMP(0)>,
  m MAP<STRING, TIMESTAMP_LTZ(3)>) WITH ('connector' = 'delta', 'path' = 'nested');
INSERT INTO nested SELECT k, r, l, m FROM readings WHERE k = 'a' AND at < TIMESTAMP '2026-01-02 10:00:00.1239';
""",
    )
    (row,) = (
        spark.read.format("delta")
        .load(str(project / "nested"))
        .selectExpr("r.at", "r.n", "l", "CAST(m['x'] AS STRING)")
        .collect()
    )

    assert tuple(row) == (at(123000), 2, [at(0), None], "2026-01-02 10:00:00.123")


CUTS = """
CREATE TABLE exact (k STRING, at TIMESTAMP(3), ms BIGINT, tz AS TO_TIMESTAMP_LTZ(ms, 3), l ARRAY<TIMESTAMP(3)>)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE timed (k STRING, at TIMESTAMP(3), pt AS PROCTIME())
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE VIEW clock AS SELECT CURRENT_TIMESTAMP AS now_at FROM timed;
CREATE TABLE target (at TIMESTAMP(3), tz TIMESTAMP_LTZ(3), full TIMESTAMP(6), l ARRAY<TIMESTAMP(3)>)
WITH ('connector' = 'delta', 'path' = 'target');
"""


@pytest.mark.parametrize(
    ("columns", "query", "cut"),
    [
        ("at, tz, full, l", "SELECT at, tz, at, l FROM exact", set()),
        ("at", "SELECT CAST(k AS TIMESTAMP(3)) FROM exact WHERE ms > 3", set()),
        ("at, tz", "SELECT * FROM (SELECT at, tz FROM exact)", set()),
        ("at, full", "SELECT at, TIMESTAMP '2026-01-02 10:00:00' FROM exact", {"at"}),
        ("at, l", "SELECT at + INTERVAL '0.0001' SECOND, l FROM exact", {"at", "l"}),
        ("tz", "SELECT pt FROM timed", {"tz"}),
        ("tz", "SELECT now_at FROM clock", {"tz"}),
        ("at", "SELECT at FROM readings", {"at"}),
        ("full", "SELECT at FROM readings", set()),
    ],
)
def test_columns_are_cut_where_a_time_of_the_query_may_have_more_digits(
    spark: SparkSession, project: Path, columns: str, query: str, cut: set[str]
) -> None:
    """What has the digits of the column is written as it is, without a cast of each row."""
    (project / "in").mkdir()
    namespace = new_namespace(READ.replace("TEMPORARY ", "") + CUTS)
    (text,) = split(f"INSERT INTO target ({columns}) {query};", "f.sql")
    statement = parse_statement(text, namespace)
    assert isinstance(statement, InsertInto)
    with closing(Planner(namespace=namespace, project=project)) as planner:
        planned = planner.plan_insert(planner.analyse_insert(statement), spark)

        assert planned.cut == cut


def test_values_and_changed_rows_are_cut(spark: SparkSession, project: Path) -> None:
    """In INSERT VALUES, INSERT OVERWRITE and UPDATE; the time of now has milliseconds."""
    stamp = "TIMESTAMP '2026-01-02 10:00:00.123456'"
    table = project / "kept"
    with penstock.connect(spark) as session:
        session.sql(
            "CREATE TEMPORARY TABLE kept (k STRING, at TIMESTAMP(3), tz TIMESTAMP_LTZ(3)) "
            "WITH ('connector' = 'delta', 'path' = 'kept')"
        )
        session.sql(f"INSERT INTO kept VALUES ('v', {stamp}, CURRENT_TIMESTAMP)")
        inserted = rows(spark, table, "k", "at", "tz")
        session.sql(f"INSERT OVERWRITE kept SELECT 'o', {stamp}, NOW()")
        overwritten = rows(spark, table, "k", "at", "tz")
        session.sql("UPDATE kept SET at = TIMESTAMP '2026-01-02 10:00:00.654321' WHERE k = 'o'")
        updated = rows(spark, table, "k", "at")

    assert [row[:2] for row in inserted] == [("v", at(123000))]
    assert [row[:2] for row in overwritten] == [("o", at(123000))]
    assert {row[2].microsecond % 1000 for row in (*inserted, *overwritten)} == {0}
    assert updated == [("o", at(654000))]
