"""Interval joins: outer ones over times without a zone, as Flink's TIMESTAMP is, and inner ones of processing time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import penstock

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SCRIPT = """
SET 'table.local-time-zone' = 'America/New_York';
SET 'parallelism.default' = '1';
CREATE TEMPORARY TABLE a (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'filesystem', 'path' = 'a', 'format' = 'json', 'source.monitor-interval' = '1 s');
CREATE TEMPORARY TABLE b (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'filesystem', 'path' = 'b', 'format' = 'json', 'source.monitor-interval' = '1 s');
CREATE TEMPORARY TABLE joined (a BIGINT, b BIGINT) WITH ('connector' = 'delta', 'path' = 'joined');
INSERT INTO joined SELECT a.id, b.id FROM a FULL JOIN b ON a.id = b.id
  AND b.ts BETWEEN a.ts - INTERVAL '5' MINUTE AND a.ts + INTERVAL '1' HOUR;
"""


def write(project: Path, file: str, **tables: dict[int, str]) -> None:
    """Write a file of each table: times of a day on which clocks in New York go from 02:00 to 03:00."""
    for table, rows in tables.items():
        path = project / table / file
        path.parent.mkdir(exist_ok=True)
        lines = [json.dumps({"id": i, "ts": f"2026-03-08 {at}"}) for i, at in rows.items()]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.nightly
@pytest.mark.slow
def test_rows_without_a_partner_come_once_the_watermark_is_past_the_bound(
    spark: SparkSession, project: Path
) -> None:
    """The clock's hour that is not there counts: no zone has a part in it."""
    script = project / "joined.sql"
    script.write_text(SCRIPT, encoding="utf-8")
    write(
        project,
        "1.json",
        a={3: "01:00:00", 5: "01:10:00", 1: "01:50:00", 2: "02:15:00"},
        b={4: "01:00:00", 5: "01:06:00", 2: "02:40:00", 1: "03:10:00"},
    )
    found = []
    for later in ({9: "12:00:00"}, {}):
        with penstock.connect(spark) as session:
            (job,) = session.run_file(script, available_now=True)
            assert job.exception is None
        rows = spark.read.format("delta").load(str(project / "joined")).collect()
        found.append(sorted((tuple(row) for row in rows), key=str))
        write(project, "2.json", a=later, b=later)

    by_quarter_past_two = [(2, 2), (3, None), (5, 5), (None, 4)]
    assert found[0] == by_quarter_past_two
    assert found[1] == sorted([*by_quarter_past_two, (1, None), (None, 1), (9, 9)], key=str)


OF_PROCESSING_TIME = """
SET 'parallelism.default' = '1';
CREATE TEMPORARY TABLE a (id BIGINT, p AS PROCTIME())
  WITH ('connector' = 'filesystem', 'path' = 'a', 'format' = 'json');
CREATE TEMPORARY TABLE b (id BIGINT, p AS PROCTIME())
  WITH ('connector' = 'filesystem', 'path' = 'b', 'format' = 'json');
CREATE TEMPORARY TABLE joined (a BIGINT, b BIGINT)
  WITH ('connector' = 'filesystem', 'path' = 'joined', 'format' = 'json');
INSERT INTO joined SELECT a.id, b.id FROM a, b
  WHERE a.id = b.id AND a.p BETWEEN b.p - INTERVAL '1' HOUR AND b.p + INTERVAL '1' HOUR;
"""


def test_an_inner_interval_join_of_processing_time_runs(spark: SparkSession, project: Path) -> None:
    """As `validate` takes it: the rows of a batch have its time, so those of one batch are partners by their ids."""
    script = project / "joined.sql"
    script.write_text(OF_PROCESSING_TIME, encoding="utf-8")
    write(project, "1.json", a={1: "01:00:00", 2: "01:00:00"}, b={1: "01:00:00", 3: "01:00:00"})

    with penstock.connect(spark) as session:
        (job,) = session.run_file(script, available_now=True)
        assert job.exception is None

    lines = [line for file in project.glob("joined/part-*") for line in file.read_text().split()]
    assert [json.loads(line) for line in lines] == [{"a": 1, "b": 1}]
