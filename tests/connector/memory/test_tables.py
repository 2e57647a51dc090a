"""Rows in memory: those of queries that differ in whether a column may be NULL."""

from __future__ import annotations

import pyarrow as pa

from penstock.connector.memory.tables import MemoryTable


def test_rows_of_a_column_that_is_never_null_and_of_one_that_may_be_are_one_table() -> None:
    """As of COUNT in Spark's update mode, and by a keyed operator."""
    never = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    table = MemoryTable()
    for schema in (never, pa.schema([("n", pa.int64())]), never):
        table.append(pa.table({"n": [1]}, schema=schema))

    assert table.rows is not None
    assert table.rows.column("n").to_pylist() == [1, 1, 1]
