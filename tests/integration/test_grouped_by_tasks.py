"""Windows and groups whose rows the reading tasks group: over restarts, late rows and checkpoints of all versions."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.sql.jobs.progress import JobProgress
from penstock.sql.plan import analysis

TABLES = """
CREATE TEMPORARY TABLE bids (k STRING, price BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'source.monitor-interval' = '1 s',
      'json.ignore-parse-errors' = 'true');
CREATE TEMPORARY TABLE counts (k STRING, n BIGINT, total BIGINT, average BIGINT, second INT) WITH (
  'connector' = 'delta', 'path' = 'counts', 'auto-compaction' = 'false');
"""
INSERT = """INSERT INTO counts SELECT k, COUNT(*), SUM(price), AVG(price), CAST(EXTRACT(SECOND FROM window_start) AS INT)
FROM TABLE(TUMBLE({bids}, DESCRIPTOR(at), INTERVAL '10' SECOND)) {where} GROUP BY window_start, window_end, k;"""
TABLE, QUERY = (
    "TABLE bids",
    "(SELECT at, k, price * 1.0 AS unused, price FROM bids WHERE price > 0 OR price IS NULL)",
)
WHERE = "WHERE price < 100"
UPDATED = """CREATE TEMPORARY TABLE totals (k STRING, n BIGINT, total BIGINT, average BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'delta', 'path' = 'totals', 'auto-compaction' = 'false');
INSERT INTO totals SELECT k, COUNT(*), SUM(price), AVG(price) FROM bids WHERE k IS NOT NULL{where} GROUP BY k;"""

Bid = tuple[str | None, int | None, int | None]
"""Key, price, and second of the minute; None: without a time."""

FIRST: list[Bid] = [
    ("a", 1, 1),
    ("a", 2, 2),
    ("b", 3, 3),
    ("a", None, 4),
    ("a", 500, 5),
    (None, 7, 11),
    ("b", 8, 15),
]
SECOND: list[Bid] = [
    ("a", 9, 3), ("a", 9, 3), ("b", 999, 4), ("z", 9, None),  # late: of a window that closed, or of none
    ("b", 10, 12), (None, 11, 13), ("b", 12, 22),
]  # fmt: skip
THIRD: list[Bid] = [("b", 1, 21), ("a", 1, 45)]
LATE = 4


def write(project: Path, name: str, bids: list[Bid]) -> None:
    """Write a file of records, and one that is none."""
    lines = ["bad"]
    for key, price, second in bids:
        at = None if second is None else f"2026-03-02 10:00:{second:02}"
        lines.append(json.dumps({"k": key, "price": price, "at": at}))
    (project / "in").mkdir(exist_ok=True)
    (project / "in" / f"{name}.json").write_text("\n".join(lines), encoding="utf-8")


def run(spark: SparkSession, project: Path, where: str = WHERE, bids: str = TABLE) -> JobProgress:
    """Run the job until it has read all files."""
    text = TABLES + INSERT.format(where=where, bids=bids)
    (project / "job.sql").write_text(text, encoding="utf-8")
    with penstock.connect(spark) as session:
        (job,) = session.run_file(project / "job.sql", available_now=True)
    assert job.exception is None
    return job.progress


def results(spark: SparkSession, project: Path) -> Counter[tuple[Any, ...]]:
    """Return the rows of the target."""
    return Counter(map(tuple, spark.read.format("delta").load(str(project / "counts")).collect()))


def state(project: Path) -> str:
    """Return what the checkpoint says of the query's state."""
    (path,) = project.rglob("penstock-query.json")
    return path.read_text(encoding="utf-8")


WINDOWS = Counter([
    ("a", 2, 3, 1, 0), ("b", 1, 3, 3, 0), (None, 2, 18, 9, 10), ("b", 2, 18, 9, 10), ("b", 2, 13, 6, 20),
])  # fmt: skip


@pytest.mark.parametrize(
    ("before", "bids"), [("two phases", TABLE), ("one phase", TABLE), ("two phases", QUERY)]
)
def test_results_and_counts_are_those_of_rows(
    spark: SparkSession, project: Path, monkeypatch: pytest.MonkeyPatch, before: str, bids: str
) -> None:
    """Late rows are counted one by one, whether the condition holds for them or not; state outlives a restart.

    A checkpoint of a version that had one phase goes on in one. Behind a query in FROM they are counted so, too.
    """
    with monkeypatch.context() as patched:
        if before == "one phase":
            patched.setattr(analysis, "find_two_phases", lambda *_, **__: {})
        write(project, "1", FIRST)
        first = run(spark, project, bids=bids)
    assert ("TWO PHASES" in state(project)) is (before == "two phases")
    write(project, "2", SECOND)
    second = run(spark, project, bids=bids)
    write(project, "3", THIRD)
    third = run(spark, project, bids=bids)

    assert results(spark, project) == WINDOWS
    found = [(p.rows_in, p.rows_dropped, p.bad_records) for p in (first, second, third)]
    assert found == [(7, 0, 1), (7, LATE, 1), (2, 0, 1)]
    assert sum(p.rows_out for p in (first, second, third)) == WINDOWS.total()
    assert ("TWO PHASES" in state(project)) is (before == "two phases")


def test_a_condition_may_become_one_of_spark_s(spark: SparkSession, project: Path) -> None:
    """The state stays that of two phases, which Spark makes both, until tasks make the first one again."""
    write(project, "1", FIRST)
    run(spark, project)
    write(project, "2", SECOND)
    second = run(spark, project, f"{WHERE} AND MD5(COALESCE(k, 'x')) <> 'Y'")
    write(project, "3", THIRD)
    run(spark, project)

    assert results(spark, project) == WINDOWS
    assert (second.rows_in, second.rows_dropped) == (7, LATE)


def update(spark: SparkSession, project: Path, where: str = "") -> JobProgress:
    """Run the job with results that are updated until it has read all files."""
    text = TABLES + UPDATED.format(where=where)
    (project / "job.sql").write_text(text, encoding="utf-8")
    with penstock.connect(spark) as session:
        (job,) = session.run_file(project / "job.sql", available_now=True)
    assert job.exception is None
    return job.progress


@pytest.mark.parametrize("before", ["two phases", "one phase"])
def test_updated_results_are_those_of_rows(
    spark: SparkSession, project: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """No row is late; a checkpoint of a version that had one phase goes on in one, and one in two where Spark checks."""
    with monkeypatch.context() as patched:
        if before == "one phase":
            patched.setattr(analysis, "find_two_phases", lambda *_, **__: {})
        write(project, "1", FIRST)
        first = update(spark, project)
    assert ("TWO PHASES" in state(project)) is (before == "two phases")
    write(project, "2", SECOND)
    second = update(spark, project)
    write(project, "3", THIRD)
    third = update(spark, project, " AND MD5(k) <> 'x'")
    rows = spark.read.format("delta").load(str(project / "totals")).collect()

    expected = []
    for key in ("a", "b", "z"):
        prices = [price for k, price, _ in FIRST + SECOND + THIRD if k == key]
        known = [price for price in prices if price is not None]
        expected.append((key, len(prices), sum(known), sum(known) // len(known)))
    assert sorted(map(tuple, rows)) == expected
    found = [(p.rows_in, p.rows_dropped, p.bad_records) for p in (first, second, third)]
    assert found == [(7, 0, 1), (7, 0, 1), (2, 0, 1)]
    assert ("TWO PHASES" in state(project)) is (before == "two phases")


ARRAYS = """
CREATE TEMPORARY TABLE bids (k STRING, parts ARRAY<BIGINT>, at TIMESTAMP(3), WATERMARK FOR at AS at)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'source.monitor-interval' = '1 s');
CREATE TEMPORARY TABLE counts (k STRING, n BIGINT, total BIGINT) WITH (
  'connector' = 'delta', 'path' = 'counts', 'auto-compaction' = 'false');
INSERT INTO counts SELECT k, COUNT(*), SUM(part) FROM {rows} GROUP BY window_start, window_end, k;
"""
WINDOW = "TABLE(TUMBLE({}, DESCRIPTOR(at), INTERVAL '10' SECOND))"
UNNEST = "CROSS JOIN UNNEST(parts) AS t (part)"
PARTS: list[list[tuple[str, int | None, list[int]]]] = [
    [("a", 1, [1, 2]), ("b", 2, []), ("a", 11, [3])],
    # the first three are late: of a window that closed, or of none
    [("a", 3, [5, 6, 7]), ("b", 4, []), ("z", None, [9]), ("a", 12, [4]), ("b", 25, [1, 1])],
    [("a", 45, [])],
]


@pytest.mark.parametrize(
    ("rows", "late", "before"),
    [
        (f"{WINDOW.format('TABLE bids')} AS w {UNNEST}", 3, "two phases"),
        (f"{WINDOW.format('TABLE bids')} AS w {UNNEST}", 3, "one phase"),
        (WINDOW.format(f"(SELECT k, at, part FROM bids {UNNEST})"), 4, "two phases"),
    ],
)
def test_late_rows_of_arrays_are_those_that_windows_get(
    spark: SparkSession,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows: str,
    late: int,
    before: str,
) -> None:
    """Records where UNNEST is behind the window, elements where it is in front of it; rows in are records."""
    (project / "in").mkdir()
    (project / "job.sql").write_text(ARRAYS.format(rows=rows), encoding="utf-8")
    found = []
    for number, bids in enumerate(PARTS):
        lines = []
        for key, second, parts in bids:
            at = None if second is None else f"2026-03-02 10:00:{second:02}"
            lines.append(json.dumps({"k": key, "parts": parts, "at": at}))
        (project / "in" / f"{number}.json").write_text("\n".join(lines), encoding="utf-8")
        with monkeypatch.context() as patched:
            if number == 0 and before == "one phase":
                patched.setattr(analysis, "find_two_phases", lambda *_, **__: {})
            with penstock.connect(spark) as session:
                (job,) = session.run_file(project / "job.sql", available_now=True)
            assert job.exception is None
            found.append((job.progress.rows_in, job.progress.rows_dropped))
        assert ("TWO PHASES" in state(project)) is (before == "two phases")

    assert results(spark, project) == Counter([("a", 2, 3), ("a", 2, 7), ("b", 2, 2)])
    assert found == [(3, 0), (5, late), (1, 0)]
