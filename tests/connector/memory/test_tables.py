"""Rows in memory: those of queries that differ in whether a column may be NULL."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.connector.memory.tables import MemoryTable


def test_rows_of_a_column_that_is_never_null_and_of_one_that_may_be_are_one_table() -> None:
    """As of COUNT in Spark's update mode, and by a keyed operator."""
    never = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    table = MemoryTable()
    for schema in (never, pa.schema([("n", pa.int64())]), never):
        table.append(pa.table({"n": [1]}, schema=schema))

    assert table.rows is not None
    assert table.rows.column("n").to_pylist() == [1, 1, 1]


def row(of: pa.Field) -> pa.Field:
    """A column of rows with a field."""
    return pa.field("c", pa.struct([of]))


NEVER, MAYBE = pa.field("x", pa.int64(), nullable=False), pa.field("x", pa.int64())


@pytest.mark.parametrize(
    ("never", "maybe", "value"),
    [
        (row(NEVER).type, row(MAYBE).type, {"x": None}),
        (pa.list_(NEVER), pa.list_(MAYBE), [None]),
        (pa.list_(row(NEVER)), pa.list_(row(MAYBE)), [{"x": None}]),
        (pa.map_(pa.string(), NEVER), pa.map_(pa.string(), MAYBE), [("k", None)]),
        (pa.map_(row(NEVER).type, NEVER), pa.map_(row(MAYBE).type, MAYBE), [({"x": 1}, None)]),
    ],
)
def test_values_in_values_that_are_never_null_and_that_may_be_are_one_table(
    never: pa.DataType, maybe: pa.DataType, value: object
) -> None:
    """As of a row that one query makes of columns that are NOT NULL, and another one of some that are not."""
    table = MemoryTable()
    for kind, rows in ((never, []), (maybe, [value, None]), (never, [])):
        table.append(pa.table({"c": pa.array(rows, kind)}))

    assert table.rows is not None
    assert table.rows.column("c").to_pylist() == [value, None]
