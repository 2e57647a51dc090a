"""Keys and rows as columns: which key each row has, and the rows of each key."""

from __future__ import annotations

import pyarrow as pa

from penstock.connector.lookup.keyed_rows import (
    distinct_keys,
    group_rows,
    key_numbers,
    rows_as_lists,
)

ROWS = pa.table({"id": [1, 3, 9, 3], "s": ["x", "a", "z", "a"], "v": [10, 20, 30, 40]})


def test_a_batch_asks_for_each_key_once_and_for_none_with_a_null() -> None:
    """In the order in which they come first."""
    asked = distinct_keys([pa.array([3, None, 1, 3, 1]), pa.array(["a", "b", None, "a", "x"])])

    assert [column.to_pylist() for column in asked.columns] == [[3, 1], ["a", "x"]]
    assert asked.of_row.tolist() == [0, -1, -1, 0, 1]


def test_each_row_of_a_batch_gets_all_rows_of_its_key() -> None:
    """Rows of other keys are left out; a key without rows, or no key, has none."""
    asked = distinct_keys([pa.array([3, None, 1, 3, 7]), pa.array(["a", "b", "x", "a", "x"])])
    keys = [ROWS["id"].combine_chunks(), ROWS["s"].combine_chunks()]

    rows, places = group_rows(ROWS, key_numbers(keys, asked.columns), len(asked.columns[0]))
    found = rows_as_lists(rows.select(["v"]), places, asked.of_row).to_pylist()

    assert found == [[{"v": 20}, {"v": 40}], [], [{"v": 10}], [{"v": 20}, {"v": 40}], []]


def test_a_batch_without_keys_or_rows_has_no_rows() -> None:
    """The lists are there all the same, one for each row."""
    for values in ([None, None], []):
        asked = distinct_keys([pa.array(values, pa.int64())])
        rows, places = group_rows(ROWS.slice(0, 0), asked.of_row[:0], 0)

        assert rows_as_lists(rows, places, asked.of_row).to_pylist() == [[] for _ in values]
