"""The SQL of the sink: names quoted, values bound, in both dialects."""

from __future__ import annotations

import pytest
from sqlalchemy import Dialect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import psycopg

from penstock.connector.jdbc import statements as sql
from penstock.connector.jdbc.address import Backend
from penstock.connector.spark.sink.last_batch import LastBatch

TARGET = sql.target_table("Order's", "sales", ["id", 'na"me', "select"])
BATCH = sql.batch_table(["id", 'na"me', "select"])


@pytest.mark.parametrize(
    ("backend", "dialect"),
    [(Backend.POSTGRESQL, postgresql.dialect()), (Backend.SQLITE, sqlite.dialect())],
)
def test_names_are_quoted_and_kinds_are_bound(backend: Backend, dialect: Dialect) -> None:
    """Whatever a table and its columns are called."""
    put = str(sql.upsert_rows(TARGET, BATCH, ("id",), backend).compile(dialect=dialect))
    delete = str(sql.delete_rows(TARGET, BATCH, ("id",)).compile(dialect=dialect))
    made = sql.create_batch(TARGET, dialect)

    assert '"na""me" = excluded."na""me"' in put
    assert "ON CONFLICT (id) DO UPDATE SET" in put
    assert '"Order\'s"' in put
    assert delete.startswith('DELETE FROM sales."Order\'s" WHERE')
    assert "POSTCOMPILE" in put
    assert "POSTCOMPILE" in delete
    assert ("ON COMMIT DROP" in made) == (backend is Backend.POSTGRESQL)


def test_of_two_runners_of_a_new_pipeline_one_fails() -> None:
    """The first row of the ledger is never written over: its key refuses the second."""
    ledger = sql.ledger_table("sales")
    batch = LastBatch(batch_id=0, digest="d")
    first = str(sql.write_ledger(ledger, "q", batch, first=True).compile())
    later = str(sql.write_ledger(ledger, "q", batch, first=False).compile())

    assert first.startswith("INSERT INTO sales.penstock_ledger")
    assert "CONFLICT" not in first
    assert later.startswith("UPDATE sales.penstock_ledger SET")
    assert "FOR UPDATE" in str(sql.read_ledger(ledger, "q").compile(dialect=postgresql.dialect()))


def test_a_table_of_keys_alone_has_nothing_to_replace() -> None:
    """The row that is there is the row that would come."""
    keys = sql.target_table("k", None, ["a", "b"])
    put = sql.upsert_rows(keys, sql.batch_table(["a", "b"]), ("a", "b"), Backend.POSTGRESQL)

    assert "ON CONFLICT (a, b) DO NOTHING" in str(put.compile(dialect=postgresql.dialect()))


def test_rows_are_sent_by_quoted_names() -> None:
    """COPY for PostgreSQL, a mark for each value for SQLite."""
    columns = ["id", 'na"me']

    assert (
        sql.copy_in(TARGET, columns, postgresql.dialect())
        == 'COPY sales."Order\'s" (id, "na""me") FROM STDIN (FORMAT csv)'
    )
    assert sql.copy_in(TARGET, ["100%"], psycopg.dialect()).endswith(
        '("100%") FROM STDIN (FORMAT csv)'
    )
    assert (
        sql.insert_values(BATCH, columns, sqlite.dialect())
        == 'INSERT INTO penstock_batch (id, "na""me") VALUES (?, ?)'
    )
