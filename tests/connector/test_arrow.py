"""DuckDB as a calculator: locked down, in the session's time zone, one connection for each process."""

from __future__ import annotations

import multiprocessing
import threading
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Message

from penstock.catalog.errors import DefinitionError, UnsupportedError
from penstock.catalog.model.table import MetadataColumn
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.arrow import CalculationError, arrow_type, cast_metadata, query
from penstock.connector.checks import castable, check_record_type
from penstock.connector.contract import ReadRequest
from penstock.connector.event_time.rowtime import highest_watermark
from penstock.connector.kafka.client.connection import TopicPartition
from penstock.connector.kafka.connector import describe
from penstock.connector.kafka.sink.records import check_writable, record_expressions
from penstock.connector.kafka.source.records import Records
from penstock.connector.scan import Rowtime
from tests.connector.kafka.tables import kafka_source, kafka_table

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


# --- metadata declared as another type: Flink's CAST, in the session's time zone, where ---


AT_MS = 1_700_000_000_123
AT = datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)
"""23:13:20.123 in Berlin."""


def decoded(
    metadata: dict[str, tuple[str, str]],
    time_zone: str = "UTC",
    value: bytes = b'{"id": 1}',
    **options: str,
) -> pa.RecordBatch:
    """A record at offset 2^32 + 7 of partition 3, read with these metadata columns."""
    source = kafka_source(options, metadata=metadata)
    decoder = source.decoder(ReadRequest(columns=tuple(metadata), time_zone=time_zone))
    headers: Any = [("trace", b"\xc3\xa9\xff")]
    message = Message(
        topic="orders",
        partition=3,
        offset=2**32 + 7,
        value=value,
        headers=headers,
        timestamp=(1, AT_MS),
    )
    ((_, batch),) = decoder.decode(Records.of({TopicPartition("orders", 3): [message]})).batches
    return batch


@pytest.mark.parametrize(
    ("time_zone", "local"),
    [
        ("UTC", datetime(2023, 11, 14, 22, 13, 20, 123_000)),
        ("Europe/Berlin", datetime(2023, 11, 14, 23, 13, 20, 123_000)),
        ("+05:30", datetime(2023, 11, 15, 3, 43, 20, 123_000)),
        ("Z", datetime(2023, 11, 14, 22, 13, 20, 123_000)),
    ],
)
def test_a_record_timestamp_becomes_timestamp_in_the_sessions_time_zone(
    time_zone: str, local: datetime
) -> None:
    """As TIMESTAMP, DATE and STRING; TIMESTAMP_LTZ stays the instant."""
    metadata = {
        "et": ("timestamp", "TIMESTAMP(3)"),
        "s": ("timestamp", "TIMESTAMP(0)"),
        "d": ("timestamp", "DATE"),
        "t": ("timestamp", "STRING"),
        "i": ("timestamp", "TIMESTAMP_LTZ(3)"),
        "i1": ("timestamp", "TIMESTAMP_LTZ(1)"),
    }
    (row,) = decoded(metadata, time_zone).to_pylist()

    assert row == {
        "et": local,
        "s": local.replace(microsecond=0),
        "d": local.date(),
        "t": local.isoformat(sep=" ", timespec="milliseconds"),
        "i": AT,
        "i1": AT.replace(microsecond=100_000),
    }


def test_numbers_and_texts_of_metadata_are_cast_as_in_java() -> None:
    """Upper bits are cut, VARCHAR is cut, CHAR is filled up, bytes that are no UTF-8 are replaced."""
    metadata = {
        "o_int": ("offset", "INT"),
        "o_text": ("offset", "STRING"),
        "o_short": ("offset", "VARCHAR(3)"),
        "o_dec": ("offset", "DECIMAL(20, 1)"),
        "o_double": ("offset", "DOUBLE"),
        "p_big": ("partition", "BIGINT"),
        "p_tiny": ("partition", "TINYINT"),
        "t_char": ("topic", "CHAR(8)"),
        "t_short": ("topic", "VARCHAR(2)"),
        "h": ("headers", "MAP<STRING, STRING>"),
        "hl": ("header-list", "ARRAY<ROW<k STRING, v STRING>>"),
    }
    batch = decoded(metadata)
    (row,) = batch.to_pylist()

    assert row == {
        "o_int": 7,
        "o_text": "4294967303",
        "o_short": "429",
        "o_dec": Decimal("4294967303.0"),
        "o_double": 4294967303.0,
        "p_big": 3,
        "p_tiny": 3,
        "t_char": "orders  ",
        "t_short": "or",
        "h": [("trace", "\u00e9\ufffd")],
        "hl": [{"k": "trace", "v": "\u00e9\ufffd"}],
    }
    assert batch.schema.types == [arrow_type(parse_type(text)) for _, text in metadata.values()]


def test_metadata_of_the_format_is_cast_too() -> None:
    """Flink's own pages declare value.ingestion-timestamp as TIMESTAMP(3)."""
    value = b'{"before": null, "after": {"id": 1}, "op": "c", "ts_ms": %d}' % AT_MS
    metadata = {"origin": ("value.ingestion-timestamp", "TIMESTAMP(3)")}
    batch = decoded(metadata, "Europe/Berlin", value, format="debezium-json")

    assert batch.to_pylist() == [{"origin": datetime(2023, 11, 14, 23, 13, 20, 123_000)}]


def test_a_watermark_on_cast_metadata_is_that_of_the_rows() -> None:
    """What planning peeks is what tasks deliver: a TIMESTAMP counts as UTC in both."""
    rowtime = Rowtime(
        column="et", inputs=("et",), expression='"et"', instant=False, bound_us=0, delayed=None
    )
    batch = decoded({"et": ("timestamp", "TIMESTAMP(3)")}, "Europe/Berlin")

    assert highest_watermark(rowtime, batch, "Europe/Berlin") == AT_MS + 3_600_000


def test_metadata_without_a_value_stays_null() -> None:
    """In every type."""
    offered = parse_type("TIMESTAMP_LTZ(3)")
    array = pa.array([None, AT_MS, -1], pa.int64()).cast(pa.timestamp("ms", tz="UTC"))
    for text in ("TIMESTAMP(3)", "DATE", "STRING", "TIMESTAMP_LTZ(0)"):
        assert cast_metadata(array, offered, parse_type(text), "Europe/Berlin")[0].as_py() is None
    days = cast_metadata(array, offered, parse_type("DATE"), "UTC").to_pylist()

    assert days == [None, date(2023, 11, 14), date(1969, 12, 31)]


def test_what_flink_makes_null_or_fails_on_is_not_cast() -> None:
    """A number too large for a DECIMAL, an instant as a number, a text as a number, a map as a text."""
    for offered, declared in (
        ("BIGINT", "DECIMAL(18, 0)"),
        ("TIMESTAMP_LTZ(3)", "BIGINT"),
        ("STRING", "INT"),
        ("MAP<STRING, STRING>", "STRING"),
    ):
        assert not castable(parse_type(offered), parse_type(declared))


def written(metadata: dict[str, tuple[str, str]]) -> list[str]:
    """The expressions of the records of a table whose metadata columns are written."""
    table = kafka_table(metadata=metadata)
    columns = tuple(
        replace(c, virtual=False) if isinstance(c, MetadataColumn) else c
        for c in table.schema.columns
    )
    described = describe(replace(table, schema=replace(table.schema, columns=columns)))
    check_writable(described, owner="table orders")
    return record_expressions(described, set(described.schema.names), owner="table orders")


def test_written_metadata_is_cast_back() -> None:
    """A TIMESTAMP in the session's time zone, texts of headers to their UTF-8; an instant as it was."""
    local = written({"et": ("timestamp", "TIMESTAMP(3)"), "h": ("headers", "MAP<STRING, STRING>")})
    instant = written({"et": ("timestamp", "TIMESTAMP_LTZ(3)")})

    assert any("unix_millis(CAST(`et` AS TIMESTAMP))" in text for text in local)
    assert "map_entries(CAST(`h` AS MAP<STRING, BINARY>)) AS headers" in local
    assert any("unix_millis(`et`)" in text for text in instant)


def test_metadata_that_is_not_cast_back_is_read_only() -> None:
    """A text is no time of a record."""
    with pytest.raises(DefinitionError, match="when a row is written") as caught:
        written({"et": ("timestamp", "STRING")})

    assert caught.value.column == "et"
    assert "declare it VIRTUAL" in str(caught.value.hint)


# --- which types records carry, told without Arrow, is what Arrow's types are made of ---


CARRIED = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "CHAR(3)", "STRING",
    "BINARY(3)", "BYTES", "DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "MULTISET<STRING>",
    "ROW<a ARRAY<INT>, b MAP<STRING, DOUBLE>>",
)  # fmt: skip
NOT_CARRIED = (
    "INTERVAL DAY",
    "INTERVAL YEAR TO MONTH",
    "ROW<a INT, b ARRAY<INTERVAL DAY>>",
    "MAP<STRING, INTERVAL DAY>",
)


@pytest.mark.parametrize("text", CARRIED)
def test_what_is_carried_has_an_arrow_type(text: str) -> None:
    """A definition that passed its check can be read."""
    check_record_type(parse_type(text))

    assert arrow_type(parse_type(text)) is not None


@pytest.mark.parametrize("text", NOT_CARRIED)
def test_intervals_are_refused_wherever_they_stand(text: str) -> None:
    """By the check of a definition, and by what reads one that was not checked."""
    for refuse in (check_record_type, arrow_type):
        with pytest.raises(UnsupportedError, match="cannot be read from records"):
            refuse(parse_type(text))
