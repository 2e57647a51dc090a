"""Rows that a condition leaves out in the reading tasks: results, counts and watermarks are as if Spark did it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.sql.jobs.progress import JobProgress

TABLES = """
CREATE TEMPORARY TABLE orders (id BIGINT, name STRING, at TIMESTAMP(3), item ROW<price DOUBLE>, WATERMARK FOR at AS at)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'source.monitor-interval' = '1 s',
      'json.ignore-parse-errors' = 'true');
CREATE TEMPORARY TABLE dear (id BIGINT, name STRING) WITH (
  'connector' = 'delta', 'path' = 'dear', 'sink.writer' = '{writer}', 'auto-compaction' = 'false');
CREATE TEMPORARY TABLE windows (at TIMESTAMP(3), n BIGINT) WITH (
  'connector' = 'delta', 'path' = 'windows', 'auto-compaction' = 'false');
"""
CONDITIONS = (
    "item.price > 100 AND name <> 'none'",
    "item.price > 100 AND UPPER(name) <> 'NONE'",
    "UPPER(name) <> 'NONE' AND item.price > 100",
)
"""Checked by tasks, by tasks and then Spark, by Spark."""


def record(number: int, name: str | None, price: float | None, minute: int = 0) -> str:
    """A line of the source."""
    at = f"2026-03-02 10:{minute:02}:00"
    return json.dumps({"id": number, "name": name, "at": at, "item": {"price": price}})


@pytest.mark.parametrize("writer", ["spark", "auto"])
def test_rows_and_counts_do_not_depend_on_who_checks(
    spark: SparkSession, project: Path, writer: str
) -> None:
    """Nor on who writes; what is not TRUE is left out, NULL too, and bad records are found."""
    script = project / "orders.sql"
    (project / "in").mkdir()
    found: list[JobProgress] = []
    for number, condition in enumerate(CONDITIONS):
        lines = [
            record(1, "a", 200.0), record(2, "none", 300.0), record(3, "b", 100.0), record(4, None, 500.0),
            record(5, "c", None), "bad", record(6, "d", 100.5),
        ]  # fmt: skip
        (project / "in" / f"{number}.json").write_text("\n".join(lines), encoding="utf-8")
        insert = f"INSERT INTO dear SELECT id * 10, name || '!' FROM orders WHERE {condition};"
        script.write_text(TABLES.format(writer=writer) + insert, encoding="utf-8")
        with penstock.connect(spark) as session:
            (job,) = session.run_file(script, available_now=True, from_scratch=number > 0)
            assert job.exception is None
            found.append(job.progress)
    rows = spark.read.format("delta").load(str(project / "dear")).collect()

    # each starts anew: the third reads the files of the first two, too
    assert [(p.rows_in, p.rows_out, p.bad_records) for p in found] == [
        (6, 2, 1),
        (12, 4, 2),
        (18, 6, 3),
    ]
    assert {(row["id"], row["name"]) for row in rows} == {(10, "a!"), (60, "d!")}


def test_rows_that_are_left_out_move_the_watermark(spark: SparkSession, project: Path) -> None:
    """A window closes by the times of all rows of the table."""
    (project / "in").mkdir()
    early = [record(number, "a", 200.0) for number in range(3)]
    (project / "in" / "0.json").write_text("\n".join(early), encoding="utf-8")
    script = project / "windows.sql"
    insert = """
INSERT INTO windows SELECT window_start, COUNT(*)
FROM TUMBLE((SELECT at FROM orders WHERE item.price > 100), DESCRIPTOR(at), INTERVAL '1' MINUTE)
GROUP BY window_start, window_end;
"""
    script.write_text(TABLES.format(writer="spark") + insert, encoding="utf-8")
    with penstock.connect(spark) as session:
        (first,) = session.run_file(script, available_now=True)
        later = record(9, "a", 1.0, minute=5)
        (project / "in" / "1.json").write_text(later, encoding="utf-8")
        (second,) = session.run_file(script, available_now=True)
    rows = spark.read.format("delta").load(str(project / "windows")).collect()

    assert (first.exception, second.exception) == (None, None)
    assert [row["n"] for row in rows] == [3]
    assert (first.progress.rows_in, second.progress.rows_in) == (3, 1)
