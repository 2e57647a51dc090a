"""The format maxwell-json: whole rows in `data`, and in `old` only what an update changed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from penstock.catalog.errors import BadRecordError
from tests.connector.formats.decoding import changes

NAME = "maxwell-json"
COLUMNS = {"id": "BIGINT NOT NULL", "name": "STRING", "note": "STRING"}
ROW = {"id": 1, "name": "a", "note": "n"}


def update(new: dict, old: object, **more: object) -> dict:
    """Make an update."""
    return {"type": "update", "data": new, "old": old, **more}


def test_operations_become_the_kinds_of_changes_in_flink():
    """A deletion is the row in `data`."""
    records = [
        {"type": "insert", "data": ROW},
        update({**ROW, "name": "b"}, {"name": "a"}),
        {"type": "delete", "data": {**ROW, "name": "b"}},
        None,
    ]

    assert changes(NAME, COLUMNS, records) == [
        ("+I", 1, "a", "n"),
        ("-U", 1, "a", "n"),
        ("+U", 1, "b", "n"),
        ("-D", 1, "b", "n"),
    ]


@pytest.mark.parametrize(
    ("new", "old", "before"),
    [
        (ROW, {}, (1, "a", "n")),
        (ROW, {"name": None}, (1, None, "n")),
        (ROW, {"name": None, "note": "m"}, (1, None, "m")),
        (ROW, {"id": 2, "note": None}, (2, "a", None)),
        ({**ROW, "name": None}, {"note": None}, (1, None, None)),
        ({**ROW, "name": None}, {"name": "b"}, (1, "b", "n")),
        ({**ROW, "name": '"old":{"note":null}'}, {"id": 1}, (1, '"old":{"note":null}', "n")),
    ],
)
def test_a_column_that_old_lists_had_that_value_and_any_other_did_not_change(new, old, before):
    """Listed as null, it was NULL; not listed, it is as in the new row."""
    found = changes(NAME, COLUMNS, [{"type": "insert", "data": ROW}, update(new, old)])

    assert found[1] == ("-U", *before)


def test_names_that_are_written_with_escapes_are_found():
    """A column listed as null under an escaped name, or beside one."""
    name = 'the "n"/ä'
    record = update({name: "new"}, {name: None})

    assert changes(NAME, {name: "STRING"}, [record])[0] == ("-U", None)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"type": "bootstrap-start", "data": {"id": 1}}, "'type' is 'bootstrap-start'"),
        ({"type": "insert"}, "'data' of the change 'insert' is null"),
        ({"type": "update", "data": ROW}, "'old' of the change 'update' is null"),
    ],
)
def test_a_bad_change_is_an_error(record, message):
    """It names the record and what is wrong."""
    with pytest.raises(BadRecordError, match=message):
        changes(NAME, COLUMNS, [record])


def test_metadata_is_that_of_flink():
    """Maxwell's time is in seconds."""
    more = {"database": "shop", "table": "orders", "ts": 1596684883, "primary_key_columns": ["id"]}
    keys = ["database", "table", "primary-key-columns", "ingestion-timestamp"]
    at = datetime(2020, 8, 6, 3, 34, 43, tzinfo=UTC)

    assert changes(NAME, {}, [update(ROW, {}, **more)], metadata=keys) == [
        ("-U", "shop", "orders", ["id"], at),
        ("+U", "shop", "orders", ["id"], at),
    ]
