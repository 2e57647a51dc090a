"""The format canal-json: several rows in a record, texts as values, databases and tables chosen by name."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from penstock.catalog.errors import BadRecordError, OptionError
from penstock.connector.formats.json.decoder import RecordReader
from tests.connector.formats.decoding import changes, decode, make_decoder

NAME = "canal-json"
COLUMNS = {"id": "BIGINT NOT NULL", "name": "STRING", "price": "DECIMAL(5, 2)"}


def change(kind: str, data: object, old: object = None, **more: object) -> dict:
    """Make a record."""
    return {"type": kind, "data": data, "old": old, "database": "shop", "table": "orders", **more}


def row(number: int, name: str | None, price: str = "1.5") -> dict:
    """Make a row as Canal writes it."""
    return {"id": str(number), "name": name, "price": price}


PRICE = Decimal("1.50")


def test_each_row_of_a_record_is_a_change_of_its_own():
    """In the order of the list; an update gives its two rows together."""
    records = [
        change("INSERT", [row(1, "a"), row(2, "b")]),
        change("UPDATE", [row(1, "c"), row(2, "d")], [{"name": "a"}, {"name": "b", "price": "2"}]),
        change("DELETE", [row(1, "c"), row(2, "d")]),
    ]

    assert changes(NAME, COLUMNS, records) == [
        ("+I", 1, "a", PRICE),
        ("+I", 2, "b", PRICE),
        ("-U", 1, "a", PRICE),
        ("+U", 1, "c", PRICE),
        ("-U", 2, "b", Decimal("2.00")),
        ("+U", 2, "d", PRICE),
        ("-D", 1, "c", PRICE),
        ("-D", 2, "d", PRICE),
    ]


def test_a_column_listed_as_null_was_null():
    """In the row that lists it, not in the others of the record."""
    record = change("UPDATE", [row(1, "a"), row(2, "b"), row(3, "c")], [{}, {"name": None}, {}])
    before = [found for found in changes(NAME, COLUMNS, [record]) if found[0] == "-U"]

    assert [found[2] for found in before] == ["a", None, "c"]


def test_numbers_in_texts_are_decoded_as_a_batch(monkeypatch):
    """Nothing of what Canal usually writes is read record by record."""

    def refuse(_: RecordReader, value: bytes) -> None:
        raise AssertionError(value)

    monkeypatch.setattr(RecordReader, "read", refuse)
    columns = {**COLUMNS, "good": "BOOLEAN", "share": "DOUBLE"}
    record = change("INSERT", [{**row(1, "a"), "good": "true", "share": "0.5"}])

    assert changes(NAME, columns, [record, record])[1] == ("+I", 1, "a", PRICE, True, 0.5)


def test_values_that_are_no_texts_are_read_too():
    """As newer versions of Canal may write them."""
    record = change("INSERT", [{"id": 1, "name": "a", "price": 1.5}])

    assert changes(NAME, COLUMNS, [record]) == [("+I", 1, "a", PRICE)]


def test_create_gives_no_row_and_other_ddl_is_a_bad_record():
    """As in Flink; the hint says how Canal leaves DDL out."""
    create = change("CREATE", None, isDdl=True)
    result = decode(COLUMNS, [json.dumps(create), None], name=NAME)
    with pytest.raises(BadRecordError, match="'type' is 'ALTER'") as caught:
        changes(NAME, COLUMNS, [create, change("ALTER", None, isDdl=True)])

    assert (result.rows, result.skipped) == ([], 0)
    assert "filter.query.ddl" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (change("INSERT", None), "'data' of the change 'INSERT' is null"),
        (change("UPDATE", [row(1, "a")]), "'old' of the change 'UPDATE' is null"),
        (change("UPDATE", [row(1, "a")], []), "'old' has fewer rows than 'data'"),
        (change("UPDATE", [row(1, "a")], [None]), "a row in 'data' or 'old' is null"),
        (change("DELETE", [None]), "a row in 'data' or 'old' is null"),
    ],
)
def test_a_bad_change_is_an_error(record, message):
    """It names the record and what is wrong; with ignored errors it is skipped and counted."""
    with pytest.raises(BadRecordError, match=message):
        changes(NAME, COLUMNS, [record])
    ignore = {"canal-json.ignore-parse-errors": "true"}

    assert changes(NAME, COLUMNS, [record], ignore) == []


def test_changes_of_other_tables_are_left_out_before_they_are_decoded():
    """Their columns need not fit. The patterns are Java's, for the whole name."""
    of_others = change("INSERT", [{"id": "no number"}], table="orders_old")
    elsewhere = change("INSERT", [row(1, "a")], database="test")
    nameless = {"type": "INSERT", "data": [row(1, "a")]}
    options = {
        "canal-json.database.include": "shop|\\Qshop.eu\\E",
        "canal-json.table.include": "order.",
    }
    records = [of_others, change("INSERT", [row(2, "b")]), elsewhere, nameless]

    assert changes(NAME, COLUMNS, records, options) == [("+I", 2, "b", PRICE)]
    with pytest.raises(BadRecordError, match="offset 101: it is not valid JSON"):
        decode(COLUMNS, [json.dumps(elsewhere), "{"], options, name=NAME)


def test_a_pattern_that_is_none_is_refused():
    """With the option's name."""
    with pytest.raises(OptionError, match=r"'canal-json\.table\.include' = '\('"):
        make_decoder(COLUMNS, {"canal-json.table.include": "("}, NAME)


def test_metadata_is_that_of_flink():
    """Every row of a record has it."""
    more = {"sqlType": {"id": 4}, "pkNames": ["id"], "ts": 1, "es": 2}
    keys = ["database", "table", "sql-type", "pk-names", "ingestion-timestamp", "event-timestamp"]
    record = change("DELETE", [row(1, "a"), row(2, "b")], **more)
    at = [datetime.fromtimestamp(ms / 1000, UTC) for ms in (1, 2)]

    assert changes(NAME, {"id": "INT"}, [record], metadata=keys) == [
        ("-D", number, "shop", "orders", [("id", 4)], ["id"], *at) for number in (1, 2)
    ]


# --- the format maxwell-json: whole rows in `data`, and in `old` only what an update changed ---


MAXWELL = "maxwell-json"
MAXWELL_COLUMNS = {"id": "BIGINT NOT NULL", "name": "STRING", "note": "STRING"}
MAXWELL_ROW = {"id": 1, "name": "a", "note": "n"}


def update(new: dict, old: object, **more: object) -> dict:
    """Make an update."""
    return {"type": "update", "data": new, "old": old, **more}


def test_operations_of_maxwell_become_the_kinds_of_changes_in_flink():
    """A deletion is the row in `data`."""
    records = [
        {"type": "insert", "data": MAXWELL_ROW},
        update({**MAXWELL_ROW, "name": "b"}, {"name": "a"}),
        {"type": "delete", "data": {**MAXWELL_ROW, "name": "b"}},
        None,
    ]

    assert changes(MAXWELL, MAXWELL_COLUMNS, records) == [
        ("+I", 1, "a", "n"),
        ("-U", 1, "a", "n"),
        ("+U", 1, "b", "n"),
        ("-D", 1, "b", "n"),
    ]


@pytest.mark.parametrize(
    ("new", "old", "before"),
    [
        (MAXWELL_ROW, {}, (1, "a", "n")),
        (MAXWELL_ROW, {"name": None}, (1, None, "n")),
        (MAXWELL_ROW, {"name": None, "note": "m"}, (1, None, "m")),
        (MAXWELL_ROW, {"id": 2, "note": None}, (2, "a", None)),
        ({**MAXWELL_ROW, "name": None}, {"note": None}, (1, None, None)),
        ({**MAXWELL_ROW, "name": None}, {"name": "b"}, (1, "b", "n")),
        (
            {**MAXWELL_ROW, "name": '"old":{"note":null}'},
            {"id": 1},
            (1, '"old":{"note":null}', "n"),
        ),
    ],
)
def test_a_column_that_old_lists_had_that_value_and_any_other_did_not_change(new, old, before):
    """Listed as null, it was NULL; not listed, it is as in the new row."""
    found = changes(
        MAXWELL, MAXWELL_COLUMNS, [{"type": "insert", "data": MAXWELL_ROW}, update(new, old)]
    )

    assert found[1] == ("-U", *before)


def test_names_that_are_written_with_escapes_are_found():
    """A column listed as null under an escaped name, or beside one."""
    name = 'the "n"/ä'
    record = update({name: "new"}, {name: None})

    assert changes(MAXWELL, {name: "STRING"}, [record])[0] == ("-U", None)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"type": "bootstrap-start", "data": {"id": 1}}, "'type' is 'bootstrap-start'"),
        ({"type": "insert"}, "'data' of the change 'insert' is null"),
        ({"type": "update", "data": MAXWELL_ROW}, "'old' of the change 'update' is null"),
    ],
)
def test_a_bad_change_of_maxwell_is_an_error(record, message):
    """It names the record and what is wrong."""
    with pytest.raises(BadRecordError, match=message):
        changes(MAXWELL, MAXWELL_COLUMNS, [record])


def test_metadata_of_maxwell_is_that_of_flink():
    """Maxwell's time is in seconds."""
    more = {"database": "shop", "table": "orders", "ts": 1596684883, "primary_key_columns": ["id"]}
    keys = ["database", "table", "primary-key-columns", "ingestion-timestamp"]
    at = datetime(2020, 8, 6, 3, 34, 43, tzinfo=UTC)

    assert changes(MAXWELL, {}, [update(MAXWELL_ROW, {}, **more)], metadata=keys) == [
        ("-U", "shop", "orders", ["id"], at),
        ("+U", "shop", "orders", ["id"], at),
    ]
