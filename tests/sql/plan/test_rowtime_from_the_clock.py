"""Rowtimes that are the time at which a batch is planned: CURRENT_TIMESTAMP and its kin."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.catalog.model.table import Table
from penstock.connector.event_time.rowtime import evaluate_watermarks, highest_watermark
from penstock.sql.convert.statement import parse_statement
from penstock.sql.expressions.rowtime import rowtime_of
from penstock.sql.jobs.live_query import Row, live_query
from penstock.sql.plan.analyzer import Analyzer, analyse_unbounded
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.script.splitter import split
from penstock.sql.statements.statement import Select
from tests.sql.sql_objects import new_namespace, run

HOUR_MS = 3_600_000
MADE = """CREATE TABLE {name} (k INT, r AS {clock}, WATERMARK FOR r AS r - INTERVAL '0.1' SECOND)
  WITH ('connector' = 'datagen', 'rows-per-second' = '20', 'fields.k.min' = '1', 'fields.k.max' = '9')"""
COUNTED = """SELECT '{name}' AS name, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE {name}, DESCRIPTOR(r), INTERVAL '1' SECOND))
  GROUP BY window_start, window_end"""


def table_of(clock: str, watermark: str = "r") -> Table:
    """A table whose rowtime is this."""
    namespace = new_namespace()
    run(
        f"CREATE TABLE t (k INT, r AS {clock}, WATERMARK FOR r AS {watermark}) WITH ('connector' = 'datagen')",
        namespace,
    )
    found = namespace.lookup(namespace.resolve(("t",)))
    assert isinstance(found, Table)
    return found


@pytest.mark.parametrize(
    ("clock", "hours", "grain_ms"),
    [
        ("CURRENT_TIMESTAMP", 0, 1),
        ("NOW()", 0, 1),
        ("CURRENT_ROW_TIMESTAMP()", 0, 1),
        ("CAST(CURRENT_TIMESTAMP AS TIMESTAMP(3))", 9, 1),
        ("LOCALTIMESTAMP", 9, 1),
        ("CAST(LOCALTIMESTAMP AS TIMESTAMP(0))", 9, 1000),
        ("TO_TIMESTAMP(FROM_UNIXTIME(UNIX_TIMESTAMP()))", 9, 1000),
        ("TO_TIMESTAMP_LTZ(UNIX_TIMESTAMP(), 0)", 0, 1000),
    ],
)
def test_the_clock_is_a_rowtime_and_never_later_than_it_is(
    clock: str, hours: int, grain_ms: int
) -> None:
    """In the session's time zone; cut as its rows are, which are given their batch's time later."""
    rowtime = rowtime_of(table_of(clock))
    assert rowtime is not None
    records = pa.RecordBatch.from_pydict({"k": pa.array([1, 2], pa.int32())})
    before_ms = time.time_ns() // 1_000_000
    values = evaluate_watermarks(rowtime, records, "Asia/Tokyo")
    top = highest_watermark(rowtime, records, "Asia/Tokyo")
    after_ms = time.time_ns() // 1_000_000

    assert rowtime.inputs == ("k",)
    assert rowtime.of_clock
    for value in (*values, top):
        assert value is not None
        assert before_ms - grain_ms < value - hours * HOUR_MS <= after_ms


def test_a_watermark_of_the_clock_keeps_its_delay() -> None:
    """As of any other column."""
    rowtime = rowtime_of(table_of("CURRENT_TIMESTAMP", "r - INTERVAL '1' HOUR"))
    assert rowtime is not None
    records = pa.RecordBatch.from_pydict({"k": pa.array([1], pa.int32())})
    found = highest_watermark(rowtime, records, "UTC")

    assert found is not None
    assert found <= time.time_ns() // 1_000_000 - HOUR_MS


def test_windows_over_the_clock_close_as_batches_go_by(spark: SparkSession, project: Path) -> None:
    """No row is late: each has the time of its batch, which begins after the watermark was told."""
    clocks = {"a": "CAST(CURRENT_TIMESTAMP AS TIMESTAMP(3))"}
    namespace = new_namespace()
    for name, clock in clocks.items():
        run(MADE.format(name=name, clock=clock), namespace)
    (text,) = split(" UNION ALL ".join(COUNTED.format(name=name) for name in clocks), "test")
    statement = parse_statement(text, namespace)
    assert isinstance(statement, Select)
    analysed = analyse_unbounded(statement.query, Analyzer(namespace=namespace, project=project))
    assert analysed is not None
    planner, rows, seen = Planner(namespace=namespace, project=project), list[Row](), Event()

    def take(found: list[Row]) -> None:
        rows.extend(found)
        if {row[0] for row in rows} == set(clocks):
            seen.set()

    query = live_query(analysed, planner, spark).start(project / "checkpoint", take)
    try:
        closed = seen.wait(240)
        progress = query.recentProgress
    finally:
        query.stop()
        planner.close()

    assert closed, query.exception()
    assert sum(o.numRowsDroppedByWatermark for p in progress for o in p.stateOperators) == 0
