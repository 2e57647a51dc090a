"""Runs whose tasks write the Delta table, and runs of the same checkpoint in which Spark does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import penstock
from penstock.sql.jobs.progress import JobProgress

SCRIPT = """
CREATE TEMPORARY TABLE orders (id BIGINT, name STRING, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH (
  'connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'source.monitor-interval' = '1 s',
  'json.ignore-parse-errors' = 'true');
CREATE TEMPORARY TABLE kept (id BIGINT NOT NULL, `name` STRING) WITH (
  'connector' = 'delta', 'path' = 'kept', 'sink.writer' = '{writer}', 'auto-compaction' = 'false');
INSERT INTO kept SELECT id, name FROM orders;
"""


def commits(table: Path) -> list[dict[str, Any]]:
    """The actions of each commit."""
    return [
        {
            name: value
            for line in log.read_text().splitlines()
            for name, value in json.loads(line).items()
        }
        for log in sorted((table / "_delta_log").glob("*.json"))
    ]


def test_a_checkpoint_goes_on_whoever_writes(spark: SparkSession, project: Path) -> None:
    """Rows in and out, bad records and batches are counted alike; each row is there once."""
    script = project / "orders.sql"
    (project / "in").mkdir()
    found: list[JobProgress] = []
    for number, writer in enumerate(("tasks", "spark", "tasks", "tasks")):
        lines = [json.dumps({"id": 10 * number + at, "name": f"n{at}"}) for at in range(5)]
        if number < 3:
            text = "\n".join((*lines, "bad"))
            (project / "in" / f"{number}.json").write_text(text, encoding="utf-8")
        script.write_text(SCRIPT.format(writer=writer), encoding="utf-8")
        with penstock.connect(spark) as session:
            (job,) = session.run_file(script, available_now=True)
            assert job.exception is None
            found.append(job.progress)
    frame = spark.read.format("delta").load(str(project / "kept"))
    (_, first, second, third) = commits(project / "kept")

    assert [(p.batches, p.rows_in, p.rows_out, p.bad_records) for p in found] == [
        *[(1, 5, 5, 1)] * 3,
        (0, 0, 0, 0),
    ]
    assert sorted(row["id"] for row in frame.collect()) == [
        10 * number + at for number in range(3) for at in range(5)
    ]
    assert [c["txn"]["version"] for c in (first, second, third)] == [0, 1, 2]
    assert ["userMetadata" in c["commitInfo"] for c in (first, second, third)] == [
        True,
        False,
        True,
    ]
    assert first["commitInfo"]["operation"] == second["commitInfo"]["operation"]
