"""Flink's watermark, case by case, in both executors: Spark's source (without a JVM) and the local runtime.

The table: records of one partition, in batches, under WATERMARK FOR ts AS ts - INTERVAL '5' SECOND.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import PhysicalColumn, Schema, Table
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.local.job import LocalJob
from penstock.connector.local.job_master import JobSettings
from penstock.connector.scan import Delayed, Rowtime, Scan
from penstock.connector.source.state import decode_state
from penstock.connector.spark.source.columns import scan_schema
from penstock.connector.spark.source.stream import SplitStreamReader
from penstock.connector.testing.connector import FixtureSettings, as_fixture
from penstock.connector.testing.decode import FixtureRecord, publish, write_records

DEADLINE_S = 20.0
NULL, BAD = "null", "bad"

CASES = {
    "in order": ([["10:00:01", "10:01:00"]], "10:00:55"),
    "NULL last": ([["10:00:01", "10:01:00", NULL]], "10:00:55"),
    "a bad record last": ([["10:00:01", "10:01:00", BAD]], "10:00:55"),
    "NULL first": ([[NULL, "10:00:01", "10:01:00"]], "10:00:55"),
    "out of order": ([["10:01:00", "10:00:01"]], "10:00:55"),
    "NULL last in the second batch": (
        [["10:00:01", "10:01:00"], ["10:05:00", NULL]],
        "10:04:55",
    ),
    "a late row in the second batch": (
        [["10:00:01", "10:01:00", NULL], ["10:00:02"]],
        "10:00:55",
    ),
    "nothing but NULL": ([[NULL, NULL], [NULL]], None),
    "a bad record with the highest time": ([["10:00:01", "10:01:00", "10:30:00 bad"]], "10:00:55"),
    "the highest behind many records": ([["10:01:00", *(["10:00:01"] * 40)]], "10:00:55"),
    "NULL behind many": ([["10:01:00", *([NULL] * 200)]], "10:00:55"),
}

ROWTIME = Rowtime(
    column="ts",
    inputs=("ts",),
    expression="\"ts\" - INTERVAL '5' SECOND",
    instant=False,
    delayed=Delayed(column="ts", delay_us=5_000_000),
)


def value(record: str) -> bytes:
    """Write a record: its time, no time, or an amount that is no number."""
    if record == BAD:
        return b'{"id": "bad", "amount": "x"}'
    if record == NULL:
        return b'{"id": "a", "amount": 1}'
    at, _, bad = record.partition(" ")
    amount = '"x"' if bad else "1"
    return f'{{"id": "a", "amount": {amount}, "ts": "2026-11-22 {at}"}}'.encode()


def scan_of(folder: Path, batches: Sequence[Sequence[str]], *, ends: bool) -> Scan:
    """Make the table; nothing of it is published yet."""
    records = [record for batch in batches for record in batch]
    write_records(
        folder / "records",
        [
            FixtureRecord(split="o-0", offset=i, key=None, value=value(record))
            for i, record in enumerate(records)
        ],
    )
    names = {"id": "STRING", "amount": "DOUBLE", "ts": "TIMESTAMP(3)"}
    options = {
        "connector": "kafka",
        "topic": "o",
        "properties.bootstrap.servers": "nowhere:1",
        "scan.startup.mode": "earliest-offset",
        "format": "json",
        "bad-records": "skip",
    }
    table = Table(
        identifier=Identifier(catalog="c", database="d", name="o"),
        schema=Schema(
            columns=tuple(PhysicalColumn(name=n, type=parse_type(t)) for n, t in names.items())
        ),
        options=tuple(options.items()),
    )
    double = as_fixture(
        table, FixtureSettings(folder=str(folder / "records"), location="p", ends=ends)
    )
    return Scan(
        table=double,
        columns=tuple(names),
        rowtime=ROWTIME,
        time_zone="UTC",
        project=str(folder),
        event_times=str(folder / "event-times"),
    )


def in_batches(folder: Path, batches: Sequence[Sequence[str]]) -> int | None:
    """Give the watermark when Spark's source has read everything, step by step, and has nothing more to do."""
    scan = scan_of(folder, batches, ends=False)
    source = scan.open_source()
    schema = StructType(scan_schema(scan, counts_skipped=True).fields)
    reader = SplitStreamReader(scan, source, schema)
    at, end = reader.initialOffset(), 0
    for batch in batches:
        end += len(batch)
        publish(folder / "records", {"o-0": end})
        while (planned := reader.latestOffset(at, ReadAllAvailable())) != at:
            for task in reader.partitions(at, planned):
                list(reader.read(task))
            at = planned
    reader.stop()
    state = decode_state(at)
    assert state.positions == {"o-0": end}
    return state.watermark_ms


def in_local_job(folder: Path, batches: Sequence[Sequence[str]]) -> int | None:
    """Give the watermark behind the last row of the local runtime (`tail --watermarks`)."""
    scan = scan_of(folder, batches, ends=True)
    publish(folder / "records", {"o-0": sum(map(len, batches))})
    settings = JobSettings(columns=scan.columns, rowtime=ROWTIME, time_zone="UTC", name="o")
    watermark_ms: int | None = None
    until = time.monotonic() + DEADLINE_S
    with LocalJob(scan.open_source(), settings) as job:
        while time.monotonic() < until:
            ended = job.ended
            if (emission := job.take(0.05)) is not None:
                watermark_ms = emission.watermark_ms
            elif ended:
                return watermark_ms
    raise AssertionError(f"not read to the end: {job.status}")


@pytest.mark.parametrize("executor", [in_batches, in_local_job])
@pytest.mark.parametrize("case", CASES)
def test_the_watermark_is_the_largest_event_time_less_the_bound(
    case: str, executor: object, tmp_path: Path
) -> None:
    """Not the last record's: NULL, bad records and disorder change nothing."""
    batches, expected = CASES[case]
    assert callable(executor)
    found = executor(tmp_path, batches)

    shown = None if found is None else datetime.fromtimestamp(found / 1000, UTC)
    assert (None if shown is None else f"{shown:%H:%M:%S}") == expected
