"""Rows of keys, out of SQLite and a real PostgreSQL: those of the whole table, and no others are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import Dialect
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from penstock.catalog.errors import ConfigError, QueryFailedError
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.arrow import arrow_type
from penstock.connector.jdbc.address import Backend
from penstock.connector.jdbc.connector import JdbcConnector
from penstock.connector.jdbc.lookup import (
    DatabaseColumn,
    JdbcLookup,
    KeyQuery,
    compared_type,
    is_plain,
    key_queries,
    key_texts,
    possible,
    types_text,
)
from penstock.connector.jdbc.source import JdbcSource
from penstock.connector.lookup.cache import LookupCache
from penstock.connector.lookup.contract import LookupKey, MissRetry
from tests.catalog.examples import columns
from tests.connector.jdbc.conftest import TestDatabase, rows_read
from tests.connector.jdbc.tables import jdbc_table

TYPES = {"id": "BIGINT", "region": "STRING", "name": "STRING"}
CUSTOMERS = "CREATE TABLE customers (id INTEGER, region VARCHAR(10), name TEXT)"


def lookup_in(
    database: TestDatabase,
    keys: Sequence[str],
    *,
    types: Mapping[str, str] = TYPES,
    columns: Sequence[str] = ("name",),
    **options: str,
) -> JdbcLookup:
    """A lookup in the table `customers` by columns that are compared in their declared types."""
    given = {**database.options, "table-name": "customers", **options}
    table = jdbc_table(given, types=types)
    connector = JdbcConnector(project=Path("/project"))
    connector.check(table)
    source = connector.source(table)
    assert isinstance(source, JdbcSource)
    declared = {column.name: column.type for column in table.schema.physical}
    compared = []
    for name in keys:
        kind = source.key_type(name, declared[name])
        assert kind is not None, "it can be compared"
        compared.append(LookupKey(column=name, type=kind))
    return source.lookup(compared, columns)


def found(
    lookup: JdbcLookup,
    *parts: Sequence[object],
    cache: LookupCache | None = None,
    now_ms: int = 0,
    wait: Callable[[float], None] = pytest.fail,
) -> list[list[dict[str, Any]]]:
    """The rows of each key of one batch."""
    types = [arrow_type(key.type) for key in lookup.keys]
    arrays = tuple(pa.array(part, kind) for part, kind in zip(parts, types, strict=True))
    batches: Iterator[tuple[pa.Array, ...]] = iter([arrays])
    held = lookup.new_cache() if cache is None else cache
    (rows,) = lookup.rows_by(batches, held, lambda: now_ms, wait)
    assert isinstance(rows, pa.ListArray)
    given: list[list[dict[str, Any]]] = rows.to_pylist()
    return given


def test_a_key_has_all_its_rows_and_null_has_none(database: TestDatabase) -> None:
    """Also where NULL stands in the table."""
    database.execute(CUSTOMERS)
    database.execute(
        "INSERT INTO customers VALUES (1, 'eu', 'Ann'), (1, 'us', 'Bob'), (2, 'eu', ''), (NULL, 'eu', 'Cid')"
    )

    assert found(lookup_in(database, ["id"]), [2, 1, None, 9_000_000_000, 1]) == [
        [{"name": ""}],
        [{"name": "Ann"}, {"name": "Bob"}],
        [],
        [],
        [{"name": "Ann"}, {"name": "Bob"}],
    ]


def test_a_key_of_several_parts_has_the_rows_that_agree_in_all(database: TestDatabase) -> None:
    """A text is itself, whatever it holds."""
    database.execute(CUSTOMERS)
    database.execute(
        "INSERT INTO customers VALUES (1, 'e%s''\"', 'Ann'), (1, 'us', 'Bob'), (2, 'us', NULL)"
    )
    lookup = lookup_in(database, ["id", "region"], columns=["name", "id"])

    assert found(lookup, [1, 2, 1, 2], ["e%s'\"", "us", "US", "a\0"]) == [
        [{"id": 1, "name": "Ann"}],
        [{"id": 2, "name": None}],
        [],
        [],
    ]


def test_every_type_of_postgresql_that_can_be_a_key_finds_its_rows(
    postgresql_database: TestDatabase,
) -> None:
    """In the type of the database, or in what it is read as: a UUID, or a number that is a text there."""
    types = {
        "flag": "BOOLEAN",
        "day": "DATE",
        "ts": "TIMESTAMP(6)",
        "tz": "TIMESTAMP_LTZ(6)",
        "price": "DECIMAL(10, 2)",
        "code": "STRING",
        "fixed": "STRING",
        "number": "INT",
    }
    postgresql_database.execute(
        "CREATE TABLE customers (flag boolean, day date, ts timestamp, tz timestamptz, price numeric, code uuid, "
        "fixed char(5), number text)"
    )
    code = "0d2f1c6e-4a51-4b0e-9d0e-0c3f9a7b6a11"
    postgresql_database.execute(
        "INSERT INTO customers VALUES (true, '2024-02-29', '2024-01-01 00:00:00.000001', "
        f"'2024-01-01 01:00:00+01', 1.499, '{code}', 'ab', '7')"
    )
    keys: dict[str, tuple[object, object]] = {
        "flag": (True, False),
        "day": (date(2024, 2, 29), date(2024, 2, 28)),
        "ts": (datetime(2024, 1, 1, 0, 0, 0, 1), datetime(2024, 1, 1)),
        "tz": (datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 1, tzinfo=UTC)),
        "price": (Decimal("1.50"), Decimal("1.49")),
        "code": (code, "no uuid"),
        "fixed": ("ab", "ab   "),
        "number": (7, 8),
    }

    for name, (there, not_there) in keys.items():
        rows = found(
            lookup_in(postgresql_database, [name], types=types, columns=["number"]),
            [there, not_there],
        )
        assert rows == [[{"number": 7}], []], name


def test_only_the_rows_of_keys_are_read_and_the_index_is_used(
    postgresql_database: TestDatabase,
) -> None:
    """As the server counts it."""
    postgresql_database.execute(
        "CREATE TABLE customers (id integer PRIMARY KEY, region text, name text)"
    )
    postgresql_database.execute(
        "INSERT INTO customers SELECT n, 'eu', 'name ' || n FROM generate_series(1, 20000) AS n"
    )

    rows = found(lookup_in(postgresql_database, ["id"]), [5, 19_999, 5, 30_000])

    assert rows == [[{"name": "name 5"}], [{"name": "name 19999"}], [{"name": "name 5"}], []]
    assert rows_read(postgresql_database, "customers") == (0, 2)


def test_a_row_that_was_updated_is_seen_when_the_cache_expires(database: TestDatabase) -> None:
    """Not before; a key that was missing is asked for again then, too."""
    database.execute(CUSTOMERS)
    database.execute("INSERT INTO customers VALUES (1, 'eu', 'Ann')")
    lookup = lookup_in(
        database,
        ["id"],
        **{"lookup.cache": "PARTIAL", "lookup.partial-cache.expire-after-write": "1 min"},
    )
    cache = lookup.new_cache()
    first = found(lookup, [1, 2], cache=cache)
    database.execute("UPDATE customers SET name = 'Eve'")
    database.execute("INSERT INTO customers VALUES (2, 'eu', 'Bob')")

    assert first == [[{"name": "Ann"}], []]
    assert found(lookup, [1, 2], cache=cache, now_ms=59_999) == first
    assert found(lookup, [1, 2], cache=cache, now_ms=60_000) == [
        [{"name": "Eve"}],
        [{"name": "Bob"}],
    ]


def test_a_key_without_rows_is_asked_for_again(database: TestDatabase) -> None:
    """With the hint LOOKUP: after the delay, so often at most, and for such keys alone; the last answer is kept."""
    database.execute(CUSTOMERS)
    database.execute("INSERT INTO customers VALUES (1, 'eu', 'Ann')")
    lookup = replace(
        lookup_in(
            database, ["id"], **{"lookup.cache": "PARTIAL", "lookup.partial-cache.max-rows": "9"}
        ),
        retry=MissRetry(delay_ms=1500, attempts=3),
    )
    cache = lookup.new_cache()
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 2:
            database.execute("UPDATE customers SET name = 'Eve'")
            database.execute("INSERT INTO customers VALUES (2, 'eu', 'Bob')")

    first = found(lookup, [2, None, 1, 3, 2], cache=cache, wait=wait)

    assert first == [[{"name": "Bob"}], [], [{"name": "Ann"}], [], [{"name": "Bob"}]]
    assert waited == [1.5, 1.5, 1.5]
    assert found(lookup, [1, 2, 3], cache=cache) == [[{"name": "Ann"}], [{"name": "Bob"}], []]


def test_a_lookup_whose_connection_was_lost_asks_again(
    postgresql_database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As often as `lookup.max-retries` says, over another connection."""
    monkeypatch.setattr("penstock.connector.jdbc.database.RETRY_S", 0.0)
    postgresql_database.execute(CUSTOMERS)
    postgresql_database.execute("INSERT INTO customers VALUES (1, 'eu', 'Ann'), (2, 'eu', 'Bob')")
    cut_off = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'penstock'"

    def batches() -> Iterator[tuple[pa.Array, ...]]:
        yield (pa.array([1]),)
        assert postgresql_database.execute(cut_off) == [(True,)]
        yield (pa.array([2]),)

    def names(lookup: JdbcLookup) -> list[str]:
        given = lookup.rows_by(batches(), lookup.new_cache(), lambda: 0)
        return [row["name"] for rows in given for (row,) in rows.to_pylist()]

    assert names(lookup_in(postgresql_database, ["id"])) == ["Ann", "Bob"]
    with pytest.raises(QueryFailedError, match="customers"):
        names(lookup_in(postgresql_database, ["id"], **{"lookup.max-retries": "0"}))


def test_a_table_that_is_gone_is_told_as_the_scan_does(database: TestDatabase) -> None:
    """With the table's name; no attempt is repeated."""
    with pytest.raises(ConfigError, match="customers"):
        found(lookup_in(database, ["id"]), [1])


# --- in which types keys are compared, and which columns the database compares as they are ---


POSTGRESQL, SQLITE = Backend.POSTGRESQL, Backend.SQLITE


@pytest.mark.parametrize(
    ("declared", "given", "compared"),
    [
        ("INT NOT NULL", "BIGINT", "BIGINT"),
        ("BIGINT NOT NULL", "SMALLINT", "BIGINT"),
        ("VARCHAR(10)", "CHAR(3)", "STRING"),
        ("DECIMAL(10, 2)", "DECIMAL(9, 4)", "DECIMAL(12, 4)"),
        ("DECIMAL(38, 0)", "DECIMAL(9, 4)", None),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(3)"),
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", None),
        ("BOOLEAN", "BOOLEAN", "BOOLEAN"),
        ("DATE", "DATE", "DATE"),
        ("DOUBLE", "DOUBLE", None),
        ("BIGINT", "STRING", None),
        ("BYTES", "BYTES", None),
    ],
)
def test_values_are_compared_in_the_type_that_spark_would_take(
    declared: str, given: str, compared: str | None
) -> None:
    """Where values have one form only in the database."""
    found = compared_type(parse_type(declared), parse_type(given), POSTGRESQL)

    assert found == (None if compared is None else parse_type(compared))


def test_sqlite_is_asked_by_what_it_has_one_form_of() -> None:
    """A time may stand there as a text of several spellings."""
    one = parse_type("INT"), parse_type("INT")

    assert compared_type(*one, SQLITE) == parse_type("INT")
    for name in ("TIMESTAMP(3)", "BOOLEAN", "DECIMAL(10, 2)"):
        assert compared_type(parse_type(name), parse_type(name), SQLITE) is None


@pytest.mark.parametrize(
    ("declared", "there", "plain"),
    [
        ("BIGINT", DatabaseColumn(oid=23), True),
        ("BIGINT", DatabaseColumn(oid=25), False),
        ("STRING", DatabaseColumn(oid=1043), True),
        ("STRING", DatabaseColumn(oid=2950), False),  # uuid
        ("STRING", DatabaseColumn(oid=1042), False),  # char(n)
        ("DATE", DatabaseColumn(oid=1114), False),
        ("DECIMAL(10, 2)", DatabaseColumn(oid=1700, scale=2), True),
        ("DECIMAL(10, 2)", DatabaseColumn(oid=1700, scale=3), False),
        ("DECIMAL(10, 2)", DatabaseColumn(oid=1700), False),
    ],
)
def test_a_column_is_compared_as_it_is_where_it_has_the_declared_type(
    declared: str, there: DatabaseColumn, *, plain: bool
) -> None:
    """Its index is of use then; else what it is read as is compared."""
    assert is_plain(parse_type(declared), there, POSTGRESQL) is plain


def test_sqlite_compares_texts_as_they_are_where_it_keeps_them_as_texts() -> None:
    """Its rules of affinity: INT goes before CHAR."""
    text = parse_type("STRING")

    assert is_plain(text, DatabaseColumn(words="varchar(10)"), SQLITE)
    assert not is_plain(text, DatabaseColumn(words="CHARINT"), SQLITE)
    assert not is_plain(text, DatabaseColumn(), SQLITE)
    assert is_plain(parse_type("BIGINT"), DatabaseColumn(), SQLITE)


# --- the SQL that asks for keys: arrays for PostgreSQL, values for SQLite, nothing of them in ---


POSTGRESQL_DIALECT: Dialect = PGDialect_psycopg()
SQLITE_DIALECT: Dialect = SQLiteDialect_pysqlite()
ID, NAME = columns(id="INT", Name="STRING")


def queries(
    dialect: Dialect, *texts: list[str], plain: tuple[str, ...] = ("id", "Name")
) -> list[KeyQuery]:
    backend = Backend.SQLITE if dialect is SQLITE_DIALECT else Backend.POSTGRESQL
    keys = (ID, NAME)[: len(texts)]
    return list(
        key_queries("SELECT x FROM t", keys, texts, plain=plain, backend=backend, dialect=dialect)
    )


def test_postgresql_gets_all_keys_as_one_array() -> None:
    """In the widest type of the kind, so that no key of the stream is too large for it."""
    assert queries(POSTGRESQL_DIALECT, ["1", "2"]) == [
        KeyQuery(text="SELECT x FROM t WHERE id = ANY(CAST(%s AS bigint[]))", values=(["1", "2"],))
    ]


def test_keys_of_several_parts_are_compared_together() -> None:
    """Each part in an array of its own; a column of another type in what it is read as."""
    (query,) = queries(POSTGRESQL_DIALECT, ["1", "2"], ["a", "b"], plain=("id",))

    assert query == KeyQuery(
        text='SELECT x FROM t WHERE (id, CAST("Name" AS text)) IN '
        "(SELECT * FROM unnest(CAST(%s AS bigint[]), CAST(%s AS text[])))",
        values=(["1", "2"], ["a", "b"]),
    )


def test_sqlite_gets_values_row_by_row() -> None:
    """Whole numbers as numbers."""
    (query,) = queries(SQLITE_DIALECT, ["1", "2"], ["a", "b"])

    assert query == KeyQuery(
        text='SELECT x FROM t WHERE (id, "Name") IN (VALUES (?, ?), (?, ?))',
        values=(1, "a", 2, "b"),
    )


def test_many_keys_are_asked_for_in_several_queries() -> None:
    """As many as the database takes at once; none for no keys."""
    texts = [str(number) for number in range(1_200)]

    assert [len(query.values) for query in queries(SQLITE_DIALECT, texts)] == [500, 500, 200]
    assert [len(query.values) for query in queries(SQLITE_DIALECT, texts, texts)] == [
        500,
        500,
        500,
        500,
        400,
    ]
    (query,) = queries(POSTGRESQL_DIALECT, texts)
    assert query.values == (texts,)
    assert queries(POSTGRESQL_DIALECT, []) == []


def test_no_rows_tell_the_types() -> None:
    """Names are quoted."""
    assert types_text((ID, NAME), "orders", "sales", POSTGRESQL_DIALECT) == (
        'SELECT id, "Name" FROM sales.orders LIMIT 0'
    )


def test_keys_that_no_database_has_are_not_asked_for() -> None:
    """PostgreSQL would fail the query."""
    texts = pa.array(["a", "a\0", ""])
    days = pa.array([date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31)])
    far = pa.array([-1_000_000, 19_000, 4_000_000], pa.int32()).cast(pa.date32())

    assert possible([texts, days]).to_pylist() == [True, False, True]
    assert possible([far]).to_pylist() == [False, True, False]
    assert key_texts([days])[0][0] == "2024-02-29"
