"""The SQL that asks for keys: arrays for PostgreSQL, values for SQLite, nothing of them in the text."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
from sqlalchemy import Dialect
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from penstock.connector.jdbc.address import Backend
from penstock.connector.jdbc.lookup import (
    KeyQuery,
    key_queries,
    key_texts,
    possible,
    types_text,
)
from tests.catalog.examples import columns

POSTGRESQL: Dialect = PGDialect_psycopg()
SQLITE: Dialect = SQLiteDialect_pysqlite()
ID, NAME = columns(id="INT", Name="STRING")


def queries(
    dialect: Dialect, *texts: list[str], plain: tuple[str, ...] = ("id", "Name")
) -> list[KeyQuery]:
    backend = Backend.SQLITE if dialect is SQLITE else Backend.POSTGRESQL
    keys = (ID, NAME)[: len(texts)]
    return list(
        key_queries("SELECT x FROM t", keys, texts, plain=plain, backend=backend, dialect=dialect)
    )


def test_postgresql_gets_all_keys_as_one_array() -> None:
    """In the widest type of the kind, so that no key of the stream is too large for it."""
    assert queries(POSTGRESQL, ["1", "2"]) == [
        KeyQuery(text="SELECT x FROM t WHERE id = ANY(CAST(%s AS bigint[]))", values=(["1", "2"],))
    ]


def test_keys_of_several_parts_are_compared_together() -> None:
    """Each part in an array of its own; a column of another type in what it is read as."""
    (query,) = queries(POSTGRESQL, ["1", "2"], ["a", "b"], plain=("id",))

    assert query == KeyQuery(
        text='SELECT x FROM t WHERE (id, CAST("Name" AS text)) IN '
        "(SELECT * FROM unnest(CAST(%s AS bigint[]), CAST(%s AS text[])))",
        values=(["1", "2"], ["a", "b"]),
    )


def test_sqlite_gets_values_row_by_row() -> None:
    """Whole numbers as numbers."""
    (query,) = queries(SQLITE, ["1", "2"], ["a", "b"])

    assert query == KeyQuery(
        text='SELECT x FROM t WHERE (id, "Name") IN (VALUES (?, ?), (?, ?))',
        values=(1, "a", 2, "b"),
    )


def test_many_keys_are_asked_for_in_several_queries() -> None:
    """As many as the database takes at once; none for no keys."""
    texts = [str(number) for number in range(1_200)]

    assert [len(query.values) for query in queries(SQLITE, texts)] == [500, 500, 200]
    assert [len(query.values) for query in queries(SQLITE, texts, texts)] == [
        500,
        500,
        500,
        500,
        400,
    ]
    (query,) = queries(POSTGRESQL, texts)
    assert query.values == (texts,)
    assert queries(POSTGRESQL, []) == []


def test_no_rows_tell_the_types() -> None:
    """Names are quoted."""
    assert types_text((ID, NAME), "orders", "sales", POSTGRESQL) == (
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
