"""Rows that reading tasks give keyed operators by bucket: results, counts and state are as if Spark had found the buckets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.connector import scan
from penstock.connector.expression import ENCODED
from penstock.connector.scan import Scan
from penstock.connector.spark.source import frame as scan_frames
from penstock.sql.incremental.keyed.runtime import run as keyed_run
from penstock.sql.incremental.keyed.runtime.job import KeyedJob
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
    "windows": (
        "owner BIGINT, names BIGINT, least BIGINT, n BIGINT",
        "SELECT i.owner, i.names, i.least, p.n FROM (SELECT owner, window_start, window_end, COUNT(name) AS names, "
        "MIN(id) AS least FROM TABLE(TUMBLE(TABLE items, DESCRIPTOR(at), INTERVAL '30' SECOND)) "
        "GROUP BY owner, window_start, window_end) AS i JOIN (SELECT id, window_start, window_end, COUNT(*) AS n "
        "FROM TABLE(TUMBLE(TABLE people, DESCRIPTOR(at), INTERVAL '30' SECOND)) GROUP BY id, window_start, window_end) "
        "AS p ON i.owner = p.id AND i.window_start = p.window_start AND i.window_end = p.window_end",
    ),
    "rows and windows": (
        "id BIGINT, owner BIGINT, name STRING, at TIMESTAMP(3)",
        "SELECT i.id, i.owner, i.name, i.at FROM items AS i JOIN (SELECT MAX(owner) AS owner, window_end AS until "
        "FROM TABLE(TUMBLE(TABLE items, DESCRIPTOR(at), INTERVAL '30' SECOND)) GROUP BY window_start, window_end) AS w "
        "ON i.owner = w.owner WHERE i.at BETWEEN w.until - INTERVAL '30' SECOND AND w.until",
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

    def batches(folder: Path, in_tasks: Sequence[bool]) -> list[bool]:
        """Run a batch for each file; returns whether reading tasks found the buckets."""
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        found = []
        for number, in_task in enumerate(in_tasks):
            write(folder, number)
            scans.clear()
            with monkeypatch.context() as patched:
                if not in_task:
                    patched.setattr(incremental, "bucketed_rows", lambda *_: None)
                progress = run(spark, folder, query)
            assert (progress.rows_in, progress.bad_records) == (60, 1)
            assert {one.split_by_split for one in scans} == {query == "totals in order"}
            found.append(any(one.buckets is not None for one in scans))
        return found

    by_spark = tmp_path / "by_spark"
    assert batches(by_spark, [False] * 3) == [False] * 3
    assert batches(project, [False, True, False]) == [False, True, False]

    assert results(spark, project) == results(spark, by_spark)
    assert len(results(spark, project)) > 2


def test_one_task_reads_rows_by_bucket_beside_windows(
    spark: SparkSession, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a join of rows with windows over them: a checkpoint goes on either way, with the same rows."""
    by_bucket = tmp_path / "by_bucket"
    by_bucket.mkdir()
    ran: list[bool] = []
    build = KeyedJob.build

    def noted(job: KeyedJob, frame: DataFrame) -> DataFrame:
        ran.append(job.one_task is not None)
        assert ENCODED in frame.columns
        return build(job, frame)

    monkeypatch.setattr(KeyedJob, "build", noted)
    for folder, ways in ((by_bucket, [False] * 3), (project, [True, False, True])):
        monkeypatch.chdir(folder)
        for number, one_task in enumerate(ways):
            ran.clear()
            write(folder, number)
            with monkeypatch.context() as patched:
                patched.setattr(keyed_run, "is_small", lambda *_, one=one_task: one)
                run(spark, folder, "rows and windows")
            assert set(ran) == {one_task}

    assert results(spark, project) == results(spark, by_bucket)
    assert len(results(spark, project)) > 2


def test_a_batch_without_a_row_for_its_inputs_changes_nothing(
    spark: SparkSession, project: Path
) -> None:
    """Its rows are counted, and later ones join what came before."""
    write(project, 0)
    run(spark, project, "join")
    before = results(spark, project)
    others = [json.dumps({"kind": "other", "id": n, "at": "2026-03-02 10:01:00"}) for n in range(9)]
    (project / "in" / "1.json").write_text("\n".join(others), encoding="utf-8")
    progress = run(spark, project, "join")

    assert progress.rows_in == 9
    assert results(spark, project) == before
    write(project, 2)
    run(spark, project, "join")
    assert results(spark, project) > before
