"""Runs whose tasks write the Delta table, and runs of the same checkpoint in which Spark does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.connector.contract import AvailableNow
from penstock.connector.scan import Scan, write_scan
from penstock.connector.spark.source import frame as scan_frames
from penstock.sql.convert.statement import parse_statement
from penstock.sql.jobs.progress import JobProgress, batch_events
from penstock.sql.plan.physical.insert import PlannedInsert
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.script.splitter import split
from penstock.sql.statements.dml import InsertInto
from tests.sql.sql_objects import new_namespace

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


def by_tasks(project: Path, commit: dict[str, Any]) -> bool:
    """Tell whether the file of a commit was written by Arrow, which tasks have, or by Spark."""
    file = pq.ParquetFile(project / "kept" / commit["add"]["path"])
    return "arrow" in file.metadata.created_by


def test_a_checkpoint_goes_on_whoever_writes(spark: SparkSession, project: Path) -> None:
    """Rows in and out, bad records and batches are counted alike; each row is there once."""
    script = project / "orders.sql"
    (project / "in").mkdir()
    found: list[JobProgress] = []
    for number, writer in enumerate(("auto", "spark", "auto", "auto")):
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
    assert all("userMetadata" in c["commitInfo"] for c in (first, second, third))
    assert [by_tasks(project, c) for c in (first, second, third)] == [True, False, True]
    assert first["commitInfo"]["operation"] == second["commitInfo"]["operation"]


def test_a_start_loads_the_data_source_once_whoever_writes(
    spark: SparkSession, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each load is a process of Python that Spark starts and waits for; a table that is new is as one that is there."""
    loaded: list[bool] = []

    def write(scan: Scan, path: Path) -> None:
        loaded.append(scan.output is not None)
        write_scan(scan, path)

    monkeypatch.setattr(scan_frames, "write_scan", write)
    script = project / "orders.sql"
    (project / "in").mkdir()
    found: list[list[bool]] = []
    for number, writer in enumerate(("auto", "auto", "spark")):
        (project / "in" / f"{number}.json").write_text(f'{{"id": {number}}}', encoding="utf-8")
        script.write_text(SCRIPT.format(writer=writer), encoding="utf-8")
        with penstock.connect(spark) as session:
            (job,) = session.run_file(script, available_now=True)
            assert job.exception is None
        found.append(loaded.copy())
        loaded.clear()
    rows = spark.read.format("delta").load(str(project / "kept")).collect()

    assert found == [[True], [True], [False]]
    assert sorted(row["id"] for row in rows) == [0, 1, 2]


@contextmanager
def planned_insert(spark: SparkSession, project: Path) -> Iterator[PlannedInsert]:
    """The INSERT of the script, checked and not started."""
    *tables, text = split(SCRIPT.format(writer="auto"), "orders.sql")
    namespace = new_namespace("".join(f"{table.text};" for table in tables))
    statement = parse_statement(text, namespace)
    assert isinstance(statement, InsertInto)
    with closing(Planner(namespace=namespace, project=project)) as planner:
        yield planner.plan_insert(planner.analyse_insert(statement), spark)


def test_a_table_that_is_changed_behind_the_check_is_written_as_it_is_at_the_start(
    spark: SparkSession, project: Path
) -> None:
    """By Spark where it got a constraint, by tasks again where it lost that; no row is left out."""
    (project / "in").mkdir()
    writers = []
    for number, change in enumerate(
        (None, "ADD CONSTRAINT small CHECK (id < 100)", "DROP CONSTRAINT small")
    ):
        (project / "in" / f"{number}.json").write_text(f'{{"id": {number}}}', encoding="utf-8")
        with planned_insert(spark, project) as planned:
            planned.prepare()
            checked = planned.unused[-1].output is not None
            if change is not None:
                spark.sql(f"ALTER TABLE delta.`{project / 'kept'}` {change}")
            query = planned.start(AvailableNow())
            query.awaitTermination()
            events = batch_events(query, after=None)
            *_, progress = (planned.read_metrics(event) for event in events)
        newest = commits(project / "kept")[-1]
        writers.append((checked, by_tasks(project, newest), progress.rows_out))
    rows = spark.read.format("delta").load(str(project / "kept")).collect()

    assert writers == [(True, True, 1), (True, False, 1), (False, True, 1)]
    assert sorted(row["id"] for row in rows) == [0, 1, 2]


WIDER = """
CREATE TEMPORARY TABLE orders (id INT, small SMALLINT, part FLOAT, at TIMESTAMP(3)) WITH (
  'connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TEMPORARY TABLE kept (id BIGINT, small DOUBLE, part DOUBLE, day DATE) WITH (
  'connector' = 'delta', 'path' = '{writer}', 'sink.writer' = '{writer}');
INSERT INTO kept SELECT id, small, part, at FROM orders;
"""


def test_values_are_cast_to_the_columns_alike_whoever_writes(
    spark: SparkSession, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks write where their casts are Spark's."""
    written: list[bool] = []

    def write(scan: Scan, path: Path) -> None:
        written.append(scan.output is not None)
        write_scan(scan, path)

    monkeypatch.setattr(scan_frames, "write_scan", write)
    (project / "in").mkdir()
    rows = [
        {"id": 2**31 - 1, "small": -(2**15), "part": 0.1, "at": "1969-12-31 23:59:59.999"},
        {"id": -1, "small": 7, "part": -0.0, "at": "2026-03-29 02:30:00"},
        {"id": None, "small": None, "part": None, "at": None},
    ]
    (project / "in" / "0.json").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    found = []
    for writer in ("auto", "spark"):
        script = project / f"{writer}.sql"
        script.write_text(WIDER.format(writer=writer), encoding="utf-8")
        with penstock.connect(spark) as session:
            (job,) = session.run_file(script, available_now=True)
            assert job.exception is None
        table = spark.read.format("delta").load(str(project / writer))
        found.append(sorted(repr(row) for row in table.collect()))

    assert found[0] == found[1]
    assert len(found[0]) == 3
    assert written == [True, False]


ARRAYS = """
CREATE TEMPORARY TABLE orders (id BIGINT, items ARRAY<ROW<sku STRING, n INT>>) WITH (
  'connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'json.ignore-parse-errors' = 'true');
CREATE TEMPORARY TABLE kept (id BIGINT, sku STRING, n BIGINT) WITH (
  'connector' = 'delta', 'path' = '{writer}', 'sink.writer' = '{writer}');
INSERT INTO kept SELECT o.id, i.sku, i.n FROM orders AS o LEFT JOIN UNNEST(o.items) AS i (sku, n) ON TRUE
WHERE o.id <> 3 AND (i.n IS NULL OR i.n > 0);
"""


def test_rows_of_arrays_are_counted_alike_whoever_writes(
    spark: SparkSession, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows in are records, whatever they become; rows out are those in the table."""
    made: list[bool] = []

    def write(scan: Scan, path: Path) -> None:
        made.append(scan.unnesting is not None)
        write_scan(scan, path)

    monkeypatch.setattr(scan_frames, "write_scan", write)
    (project / "in").mkdir()
    items = ([{"sku": "a", "n": 1}, {"sku": "b", "n": 0}, {"sku": None, "n": 7}], [], None, [None])
    lines = [json.dumps({"id": n, "items": each}) for n, each in enumerate((*items, items[0]))]
    (project / "in" / "0.json").write_text("\n".join((*lines, "bad")), encoding="utf-8")
    counts, rows = [], []
    for writer in ("auto", "spark"):
        script = project / f"{writer}.sql"
        script.write_text(ARRAYS.format(writer=writer), encoding="utf-8")
        with penstock.connect(spark) as session:
            (job,) = session.run_file(script, available_now=True)
            assert job.exception is None
            counts.append((job.progress.rows_in, job.progress.rows_out, job.progress.bad_records))
        table = spark.read.format("delta").load(str(project / writer))
        rows.append(sorted(map(repr, table.collect())))

    assert counts == [(5, 6, 1)] * 2
    assert rows[0] == rows[1]
    assert len(rows[0]) == 6
    assert made == [True, False]
