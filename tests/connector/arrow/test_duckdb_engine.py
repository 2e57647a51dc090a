"""DuckDB as a calculator: locked down, in the session's time zone, one connection for each process."""

from __future__ import annotations

import multiprocessing
import threading

import pyarrow as pa
import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.connector.arrow import CalculationError, query

RECORDS = pa.table({"n": [1, 2, 3]})
MIDNIGHT_US = 1_704_067_200_000_000


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM '/etc/passwd'",
        "COPY (SELECT 1) TO '/tmp/penstock-test'",
        "ATTACH '/tmp/penstock-test.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 8",
        "SET enable_external_access = true",
        "SET memory_limit = '100GB'",
        "SELECT getenv('HOME')",
        "SELECT * FROM RECORDS_OF_THIS_MODULE",
    ],
)
def test_a_query_reaches_nothing_outside(sql):
    """No file, no network, no code, no setting, no Python variable."""
    globals()["RECORDS_OF_THIS_MODULE"] = RECORDS

    with pytest.raises(CalculationError):
        query(sql, RECORDS)


def test_a_query_sees_its_own_records_only():
    """Nothing is left of the one before."""
    assert query("SELECT sum(n) AS s FROM records", RECORDS).to_pylist() == [{"s": 6}]
    assert query("SELECT sum(n) AS s FROM records", RECORDS.slice(2)).to_pylist() == [{"s": 3}]


@pytest.mark.parametrize(
    ("time_zone", "offset_minutes"),
    [
        *(("UTC", 0), ("Z", 0), ("Europe/Berlin", 60), ("America/New_York", -300)),
        *(("Asia/Kathmandu", 345), ("+05:30", 330), ("UTC+05:30", 330), ("GMT-03:30", -210)),
        *(("+02", 120), ("GMT+8", 480), ("-0800", -480), ("Etc/GMT+5", -300), ("+18:00", 1080)),
    ],
)
def test_time_zones_are_spelled_as_for_spark(time_zone, offset_minutes):
    """Names and offsets, half hours included."""
    sql = "SELECT epoch_us(CAST(TIMESTAMP '2024-01-01 00:00:00' AS TIMESTAMPTZ)) AS us FROM records LIMIT 1"
    (row,) = query(sql, RECORDS, time_zone=time_zone).to_pylist()

    assert row["us"] == MIDNIGHT_US - offset_minutes * 60_000_000


@pytest.mark.parametrize("time_zone", ["Mars/Olympus", "'; SET threads = 8; --", ""])
def test_an_unknown_time_zone_is_refused(time_zone):
    """By its name, whatever is in it."""
    with pytest.raises(UnsupportedError, match="the time zone"):
        query("SELECT 1 FROM records", RECORDS, time_zone=time_zone)


def test_a_forked_process_has_a_connection_of_its_own():
    """The parent's does not work there."""
    query("SELECT 1 FROM records", RECORDS)
    results = multiprocessing.get_context("fork").Queue()

    def in_child() -> None:
        results.put(query("SELECT sum(n) AS s FROM records", RECORDS).to_pylist())

    child = multiprocessing.get_context("fork").Process(target=in_child)
    child.start()
    assert results.get(timeout=60) == [{"s": 6}]
    child.join(60)

    assert child.exitcode == 0


def test_threads_take_turns():
    """Planning and reading may ask at the same time."""
    answers: list[int] = []

    def ask(n: int) -> None:
        for _ in range(20):
            found = query("SELECT sum(n) AS s FROM records", pa.table({"n": [n]}))
            answers.extend(value - n for value in found["s"].to_pylist())

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == [0] * 80
