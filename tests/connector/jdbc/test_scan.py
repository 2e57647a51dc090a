"""Tests for reading tables of databases: partitions, the SELECT of each, and rows as Arrow batches of the right types."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.catalog.errors import (
    BadRecordError,
    ConfigError,
    DefinitionError,
    OptionError,
    QueryFailedError,
    UnsupportedError,
)
from penstock.connector.arrow import arrow_schema
from penstock.connector.jdbc.address import Backend
from penstock.connector.jdbc.database import JdbcDatabase
from penstock.connector.jdbc.scan import read_batches, select_text
from penstock.connector.jdbc.settings import (
    JdbcTable,
    Partition,
    read_jdbc_table,
    read_scan_settings,
)
from tests.connector.jdbc.conftest import TestDatabase
from tests.connector.jdbc.tables import jdbc_table

TYPES = {
    "b": "BOOLEAN",
    "i": "INT",
    "l": "BIGINT",
    "d": "DOUBLE",
    "n": "DECIMAL(12, 2)",
    "s": "STRING",
    "x": "BYTES",
    "day": "DATE",
    "at": "TIME(6)",
    "ts": "TIMESTAMP(6)",
    "tz": "TIMESTAMP_LTZ(6)",
}
DDL = {
    Backend.POSTGRESQL: "CREATE TABLE every (b boolean, i integer, l bigint, d double precision, n numeric(12, 2), "
    "s text, x bytea, day date, at time, ts timestamp, tz timestamptz)",
    Backend.SQLITE: "CREATE TABLE every (b BOOLEAN, i INTEGER, l INTEGER, d REAL, n NUMERIC, s TEXT, x BLOB, "
    "day DATE, at TIME, ts TIMESTAMP, tz TIMESTAMP)",
}
COMMON = """-7, 9000000000, 1.5, 12.50, 'a "b", c
d'"""
ROW = {
    Backend.POSTGRESQL: f"true, {COMMON}, '\\x00ff', '2024-02-29', '23:59:59.25', '2024-01-01 00:00:00.000001', "
    "'2024-01-01 01:00:00+01'",
    Backend.SQLITE: f"1, {COMMON}, x'00ff', '2024-02-29', '23:59:59.25', '2024-01-01 00:00:00.000001', "
    "'2024-01-01 00:00:00'",
}


def declared(
    database: TestDatabase, name: str, types: Mapping[str, str], **options: str
) -> JdbcTable:
    given = {**database.options, "table-name": name, **options}
    return read_jdbc_table(jdbc_table(given, types=types), Path("/project"))


def scan(
    table: JdbcTable, part: Partition | None = None, rows: int = 10_000
) -> list[pa.RecordBatch]:
    columns, backend = table.schema.physical, table.address.backend
    place = JdbcDatabase(
        address=table.address,
        username=table.username,
        password=table.password,
        connect_timeout_s=5,
        retries=0,
        shown=table.shown,
    )
    with place.reading() as connection:
        text = select_text(
            columns, table.name, None, part, backend=backend, dialect=connection.dialect
        )
        found = read_batches(
            connection, text, columns, backend=backend, rows_at_once=rows, shown=table.shown
        )
        return list(found)


def test_every_type_comes_as_the_arrow_type_that_spark_reads(database: TestDatabase) -> None:
    """Values, NULLs and an empty text are what they are in the database, in the types of the definition."""
    table = declared(database, "every", TYPES)
    backend = table.address.backend
    database.execute(DDL[backend])
    database.execute(f"INSERT INTO every VALUES ({ROW[backend]})")
    database.execute("INSERT INTO every (i, s) VALUES (1, '')")

    (batch,) = scan(table)

    assert batch.schema == arrow_schema((c.name, c.type) for c in table.schema.physical)
    assert batch.to_pylist() == [
        {
            "b": True,
            "i": -7,
            "l": 9_000_000_000,
            "d": 1.5,
            "n": Decimal("12.50"),
            "s": 'a "b", c\nd',
            "x": b"\x00\xff",
            "day": date(2024, 2, 29),
            "at": time(23, 59, 59, 250_000),
            "ts": datetime(2024, 1, 1, 0, 0, 0, 1),
            "tz": datetime(2024, 1, 1, tzinfo=UTC),
        },
        {**dict.fromkeys(TYPES), "i": 1, "s": ""},
    ]


def test_partitions_together_have_each_row_within_the_bounds_once(database: TestDatabase) -> None:
    """Rows outside of the bounds are not read, nor those without a value, as in Flink."""
    database.execute("CREATE TABLE orders (id bigint, name text)")
    values = ", ".join(f"({number}, 'n{number}')" for number in range(20))
    database.execute(f"INSERT INTO orders VALUES {values}, (NULL, 'none')")
    options = {
        "scan.partition.column": "id",
        "scan.partition.num": "3",
        "scan.partition.lower-bound": "5",
        "scan.partition.upper-bound": "14",
    }
    types = {"id": "BIGINT", "name": "STRING"}
    settings = read_scan_settings(jdbc_table({**database.options, **options}, types=types))
    table = declared(database, "orders", types, **options)

    parts = [scan(table, part, rows=2) for part in settings.partitions]

    ids = [[row["id"] for batch in part for row in batch.to_pylist()] for part in parts]
    assert [sorted(part) for part in ids] == [[5, 6, 7, 8], [9, 10, 11], [12, 13, 14]]
    assert max(batch.num_rows for part in parts for batch in part) == 2


def test_names_of_columns_may_hold_anything(database: TestDatabase) -> None:
    """A percent sign is no place for a value."""
    database.execute('CREATE TABLE orders ("100% ""a""" bigint)')
    database.execute("INSERT INTO orders VALUES (7)")

    (batch,) = scan(declared(database, "orders", {'100% "a"': "BIGINT"}))

    assert batch.column(0).to_pylist() == [7]


def test_a_value_of_another_type_is_a_bad_record(sqlite_database: TestDatabase) -> None:
    """SQLite keeps a text in a column of numbers; it is not read as 0."""
    sqlite_database.execute("CREATE TABLE orders (id INTEGER, name TEXT)")
    sqlite_database.execute("INSERT INTO orders VALUES ('many', 'a')")
    table = declared(sqlite_database, "orders", {"id": "BIGINT", "name": "STRING"})

    with pytest.raises(BadRecordError, match="not of the declared type"):
        scan(table)


def test_a_missing_table_is_told_before_rows(database: TestDatabase) -> None:
    """The error names the table; it is the configuration's where the database says so."""
    database.execute("CREATE TABLE other (id bigint)")

    with pytest.raises((ConfigError, QueryFailedError), match="orders"):
        scan(declared(database, "orders", {"id": "BIGINT"}))


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"scan.partition.num": "2"}, OptionError, "given together"),
        ({"scan.partition.column": "nam"}, DefinitionError, "not a physical column"),
        ({"scan.partition.column": "name"}, UnsupportedError, "has type STRING"),
        ({"scan.partition.lower-bound": "9"}, OptionError, "is above"),
        ({"scan.partition.num": "0"}, OptionError, "at least 1"),
        ({"scan.fetch-size": "-1"}, OptionError, "less than 0"),
    ],
)
def test_options_of_reading_are_checked_without_a_database(
    options: dict[str, str], kind: type[Exception], message: str
) -> None:
    """What cannot be read so is refused when the table is created."""
    whole = {
        "scan.partition.column": "id",
        "scan.partition.num": "2",
        "scan.partition.lower-bound": "1",
        "scan.partition.upper-bound": "8",
    }
    given: dict[str, Any] = options if "given" in message else {**whole, **options}

    with pytest.raises(kind, match=message):
        read_scan_settings(jdbc_table(given))


def test_fewer_values_than_partitions_make_fewer_tasks() -> None:
    """A range is never empty."""
    options = {
        "scan.partition.column": "id",
        "scan.partition.num": "9",
        "scan.partition.lower-bound": "1",
        "scan.partition.upper-bound": "2",
    }

    found = read_scan_settings(jdbc_table(options)).partitions

    assert [(part.first, part.last) for part in found] == [(1, 1), (2, 2)]
