"""How many jobs of Spark a micro-batch takes: each is planned and waited for, 50 to 200 ms of a batch."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.connector.contract import AvailableNow
from penstock.connector.spark.internals import java_session
from penstock.sql.convert.statement import parse_statement
from penstock.sql.jobs.progress import batch_events
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.script.splitter import split
from penstock.sql.statements.dml import InsertInto
from tests.sql.sql_objects import new_namespace

SOURCE = """
CREATE TEMPORARY TABLE orders (id BIGINT, name STRING, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH (
  'connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'source.monitor-interval' = '1 s');
"""
SINK = "CREATE TEMPORARY TABLE kept ({}) WITH ('connector' = 'delta', 'path' = 'kept'{});"
COLUMNS = "id BIGINT, name STRING"
COPY = "INSERT INTO kept SELECT id, name FROM orders"
WINDOWS = """INSERT INTO kept
SELECT window_start, COUNT(*)
FROM TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '1' MINUTE) GROUP BY window_start, window_end
"""


def run_jobs(spark: SparkSession, project: Path, script: str) -> tuple[int, int]:
    """Run an INSERT over what is there; gives its micro-batches, and the jobs of Spark in them."""
    *tables, text = split(script, "orders.sql")
    namespace = new_namespace("".join(f"{table.text};" for table in tables))
    statement = parse_statement(text, namespace)
    assert isinstance(statement, InsertInto)
    with closing(Planner(namespace=namespace, project=project)) as planner:
        planned = planner.plan_insert(planner.analyse_insert(statement), spark)
        planned.prepare()
        query = planned.start(AvailableNow())
        query.awaitTermination()
        batches = len(batch_events(query, after=None))
    # the tracker is told of jobs by another thread
    java_session(spark).sparkContext().listenerBus().waitUntilEmpty()
    # Spark runs what a streaming query does as a group named by its run
    return batches, len(spark.sparkContext.statusTracker().getJobIdsForGroup(str(query.runId)))


def put_file(project: Path, number: int) -> None:
    """Put a file with a row of each of two minutes into the source."""
    rows = [
        {"id": number, "name": "n", "at": f"2026-01-01 00:{2 * number + at:02}:00.000"}
        for at in range(2)
    ]
    (project / "in").mkdir(exist_ok=True)
    text = "\n".join(json.dumps(row) for row in rows)
    (project / "in" / f"{number}.json").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("writer", ["spark", "auto"])
def test_an_append_into_delta_is_one_job(spark: SparkSession, project: Path, writer: str) -> None:
    """Whoever writes it; small files of a batch are read by one task, which makes one file of the table."""
    script = SOURCE + SINK.format(COLUMNS, f", 'sink.writer' = '{writer}'") + COPY
    found = []
    for number in range(3):
        put_file(project, 2 * number)
        put_file(project, 2 * number + 1)
        found.append(run_jobs(spark, project, script))
    rows = spark.read.format("delta").load(str(project / "kept"))

    assert found == [(1, 1)] * 3
    assert rows.count() == 12
    assert len(rows.inputFiles()) == 3


def test_a_windowed_aggregate_into_delta_is_one_job(spark: SparkSession, project: Path) -> None:
    """State, shuffle and files are stages of it; a batch without rows, which closes windows, is one too."""
    script = SOURCE + SINK.format("start TIMESTAMP(3), n BIGINT", "") + WINDOWS
    found = []
    for number in range(3):
        put_file(project, number)
        found.append(run_jobs(spark, project, script))

    assert [jobs for _, jobs in found] == [batches for batches, _ in found]
    assert spark.read.format("delta").load(str(project / "kept")).count() > 0


CHANGES = """
CREATE TEMPORARY TABLE kept (size BIGINT, n BIGINT, PRIMARY KEY (size) NOT ENFORCED)
WITH ('connector' = 'blackhole');
"""
CHAIN = """INSERT INTO kept
SELECT n, COUNT(*) FROM (SELECT name, COUNT(*) AS n FROM orders GROUP BY name) GROUP BY n
"""


def test_aggregates_over_changes_are_one_job(spark: SparkSession, project: Path) -> None:
    """Reading, the shuffles to both operators, their state and the sink are stages of it."""
    found = []
    for number in range(3):
        put_file(project, number)
        found.append(run_jobs(spark, project, SOURCE + CHANGES + CHAIN))

    assert found == [(1, 1)] * 3


VERSIONED = """
CREATE TEMPORARY VIEW newest AS SELECT id, name, at FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY name ORDER BY at DESC) AS n FROM orders) WHERE n = 1;
"""
AS_OF = """INSERT INTO kept
SELECT o.id, v.name FROM orders AS o JOIN newest FOR SYSTEM_TIME AS OF o.at AS v ON o.name = v.name
"""


def test_a_temporal_join_is_one_job(spark: SparkSession, project: Path) -> None:
    """Rows that wait, versions, both shuffles and the sink; a batch that only moves the watermark is one, too."""
    script = SOURCE + SINK.format(COLUMNS, "") + VERSIONED + AS_OF
    found = []
    for number in range(3):
        put_file(project, number)
        found.append(run_jobs(spark, project, script))

    assert [jobs for _, jobs in found] == [batches for batches, _ in found]
    assert spark.read.format("delta").load(str(project / "kept")).count() > 0


PAIRS = "CREATE TEMPORARY TABLE kept (one BIGINT, other BIGINT) WITH ('connector' = 'blackhole');"
WITHIN = """INSERT INTO kept
SELECT a.id, b.id FROM orders AS a, orders AS b
WHERE a.name = b.name AND b.at BETWEEN a.at - INTERVAL '1' MINUTE AND a.at
"""


def test_a_join_in_time_is_one_job(spark: SparkSession, project: Path) -> None:
    """The table is read once for both sides; the watermark that ends rows asks for no job of its own."""
    found = []
    for number in range(3):
        put_file(project, number)
        found.append(run_jobs(spark, project, SOURCE + PAIRS + WITHIN))

    assert [jobs for _, jobs in found] == [batches for batches, _ in found]
