"""How many jobs of Spark a micro-batch takes: each is planned and waited for, 50 to 200 ms of a batch."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.connector.contract import AvailableNow
from penstock.connector.spark.internals import java_session
from penstock.connector.spark.session import configured
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


HOLE = f"CREATE TEMPORARY TABLE kept ({COLUMNS}) WITH ('connector' = 'blackhole');"
BY_DEFAULT = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
"""The sessions of tests have it disabled."""
GENERATED = "[codegen id"
"""What a described plan has at each operator for which Spark writes code."""


def plans_after(spark: SparkSession, execution: int) -> list[str]:
    """Describe the plans that Spark has run after the one of this number, the oldest first."""
    java_session(spark).sparkContext().listenerBus().waitUntilEmpty()
    kept = java_session(spark).sharedState().statusStore().executionsList()
    found = [kept.apply(at) for at in range(kept.size())]
    return [one.physicalPlanDescription() for one in found if one.executionId() > execution]


def newest_execution(spark: SparkSession) -> int:
    """The number of the plan that Spark has run last."""
    java_session(spark).sparkContext().listenerBus().waitUntilEmpty()
    kept = java_session(spark).sharedState().statusStore().executionsList()
    return max((kept.apply(at).executionId() for at in range(kept.size())), default=-1)


def test_rows_that_tasks_write_take_one_plan_without_generated_code(
    spark: SparkSession, project: Path
) -> None:
    """That of the stream: the batch is run as it is, and has a row or two for each task."""
    found = []
    for number in range(2):
        put_file(project, number)
        before = newest_execution(spark)
        with configured(spark, BY_DEFAULT):
            run = run_jobs(spark, project, SOURCE + HOLE + COPY)
            after = {key: spark.conf.get(key) for key in BY_DEFAULT}
        found.append((run, plans_after(spark, before)))

    assert [run for run, _ in found] == [(1, 1)] * 2
    assert [len(plans) for _, plans in found] == [1, 1]
    assert not any(GENERATED in plan for _, plans in found for plan in plans)
    assert after == BY_DEFAULT


def test_code_is_generated_where_the_sink_runs_queries(spark: SparkSession, project: Path) -> None:
    """Delta reads its log by Spark, with the settings of the stream."""
    put_file(project, 0)
    before = newest_execution(spark)
    with configured(spark, BY_DEFAULT):
        run_jobs(spark, project, SOURCE + SINK.format(COLUMNS, "") + COPY)

    assert any(GENERATED in plan for plan in plans_after(spark, before))


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
