"""Rows that reading tasks give keyed operators by bucket: results, counts and state are as if Spark had found the buckets."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.connector import scan
from penstock.connector.scan import Scan
from penstock.connector.spark.source import frame as scan_frames
from penstock.sql.jobs.progress import JobProgress
from penstock.sql.plan.physical import incremental

TABLES = """
CREATE TEMPORARY TABLE events (kind STRING, id BIGINT, item ROW<owner BIGINT, name STRING>, at TIMESTAMP(3),
  owner AS CASE WHEN kind = 'item' THEN item.owner ELSE id END, WATERMARK FOR at AS at - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'source.monitor-interval' = '1 s',
      'json.ignore-parse-errors' = 'true');
CREATE TEMPORARY VIEW people AS SELECT id, item.name AS name, at FROM events WHERE kind = 'person';
CREATE TEMPORARY VIEW items AS SELECT id, owner, item.name AS name, at FROM events WHERE kind = 'item';
CREATE TEMPORARY TABLE found ({columns}) WITH ('connector' = 'delta', 'path' = 'found', 'auto-compaction' = 'false');
"""
QUERIES = {
    "join": (
        "person STRING, item BIGINT, name STRING",
        "SELECT p.name, i.id, i.name FROM items AS i JOIN people AS p ON i.owner = p.id",
    ),
    "totals in order": (
        "owner BIGINT, id BIGINT, total BIGINT",
        "SELECT owner, id, SUM(id) OVER (PARTITION BY owner ORDER BY at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) "
        "FROM items",
    ),
    "counts": (
        "n BIGINT, owners BIGINT, PRIMARY KEY (n) NOT ENFORCED",
        "SELECT n, COUNT(*) FROM (SELECT owner, COUNT(DISTINCT name) AS n FROM items GROUP BY owner) GROUP BY n",
    ),
}


def write(project: Path, number: int) -> None:
    """Write a file of records, and one that is none."""
    lines = ["bad"]
    for n in range(number * 60, number * 60 + 60):
        kind = ("person", "item", "item", "other")[n % 4]
        owner = None if n % 17 == 0 else n * 31 % 20
        at = f"2026-03-02 10:{number:02}:{n % 60 // 20:02}"
        item = {"owner": owner, "name": f"n{n % 23}"}
        lines.append(json.dumps({"kind": kind, "id": n // 4 if kind == "person" else n, "item": item, "at": at}))  # fmt: skip
    (project / "in").mkdir(exist_ok=True)
    (project / "in" / f"{number}.json").write_text("\n".join(lines), encoding="utf-8")


def run(spark: SparkSession, project: Path, query: str) -> JobProgress:
    """Run the job until it has read all files."""
    columns, select = QUERIES[query]
    text = TABLES.format(columns=columns) + f"INSERT INTO found {select};"
    (project / "job.sql").write_text(text, encoding="utf-8")
    with penstock.connect(spark) as session:
        (job,) = session.run_file(project / "job.sql", available_now=True)
    assert job.exception is None
    return job.progress


def results(spark: SparkSession, project: Path) -> Counter[tuple[Any, ...]]:
    """Return the rows of the target."""
    return Counter(map(tuple, spark.read.format("delta").load(str(project / "found")).collect()))


@pytest.mark.parametrize("query", list(QUERIES))
def test_results_and_counts_do_not_depend_on_who_finds_the_buckets(
    spark: SparkSession,
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    query: str,
) -> None:
    """A checkpoint that began with rows of Spark's goes on with the tasks' buckets, and back, with the same state."""
    scans: list[Scan] = []

    def note(one: Scan, path: Path) -> None:
        scans.append(one)
        scan.write_scan(one, path)

    monkeypatch.setattr(scan_frames, "write_scan", note)
    by_bucket: list[bool] = []
    rows_in: list[int] = []
    for number in range(3):
        write(project, number)
        scans.clear()
        with monkeypatch.context() as patched:
            if number != 1:
                patched.setattr(incremental, "bucketed_rows", lambda *_: None)
            progress = run(spark, project, query)
        by_bucket.append(any(one.buckets is not None for one in scans))
        rows_in.append(progress.rows_in)
        assert progress.bad_records == 1
    alternating = results(spark, project)
    whole = tmp_path / "whole"
    whole.mkdir()
    monkeypatch.chdir(whole)
    for number in range(3):
        write(whole, number)
    run(spark, whole, query)

    assert by_bucket == [False, True, False]
    assert rows_in == [60, 60, 60]
    assert alternating == results(spark, whole)
    assert len(alternating) > 2
