"""Types of columns from JSON values."""

from __future__ import annotations

from decimal import Decimal

import pytest

from penstock.catalog.options.option import resolve
from penstock.connector.formats.json.options import json_options, json_settings
from penstock.connector.inference.value_types import infer_fields, infer_type


def standard(name="SQL"):
    """Give a way of writing timestamps."""
    options = {"json.timestamp-format.standard": name}
    return json_settings(resolve(options, json_options(""), owner="t"), "").standard


@pytest.mark.parametrize(
    ("values", "name", "expected"),
    [
        ([1, 250], "quantity", "INT"),
        ([1, 250], "order_id", "BIGINT"),
        ([1, 250], "orderId", "BIGINT"),
        ([1, 2_000_000], "n", "BIGINT"),
        ([1, 2**63], "n", "DECIMAL(38, 0)"),
        ([10**40], "n", "STRING"),
        ([Decimal("1.5"), Decimal("12.25")], "x", "DECIMAL(10, 2)"),
        ([Decimal("1.5")], "price", "DECIMAL(10, 1)"),
        ([Decimal("1.5"), 2], "x", "DOUBLE"),
        ([Decimal("1.234567")], "amount", "DOUBLE"),
        ([Decimal("1234567890.25")], "amount", "DECIMAL(14, 2)"),
        ([Decimal("1E+3"), Decimal("1.25")], "x", "DECIMAL(10, 2)"),
        ([Decimal("1E+7"), Decimal("1.25")], "x", "DOUBLE"),
        ([Decimal("1E+3")], "price", "DOUBLE"),
        ([True, False], "x", "BOOLEAN"),
        (["a", "b"], "x", "STRING"),
        (["2026-01-31", "2026-02-01"], "x", "DATE"),
        (["2026-01-31", "2026-02-31"], "x", "STRING"),
        (["2026-01-31 10:00:00"], "x", "TIMESTAMP(3)"),
        (["2026-01-31 10:00:00.123456"], "x", "TIMESTAMP(6)"),
        (["2026-01-31 10:00:00Z"], "x", "TIMESTAMP_LTZ(3)"),
        (["2026-01-31T10:00:00"], "x", "STRING"),
        ([1, "a"], "x", "STRING"),
        ([{"a": 1}, "a"], "x", "STRING"),
        ([], "x", "STRING"),
        ([[1], [2, 3]], "x", "ARRAY<INT>"),
        ([[]], "x", "ARRAY<STRING>"),
        ([[{"a": 1}], [{"b": None}]], "x", "ARRAY<ROW<`a` INT, `b` STRING>>"),
        ([{"a": {"b": [True]}}], "x", "ROW<`a` ROW<`b` ARRAY<BOOLEAN>>>"),
        ([{}], "x", "MAP<STRING, STRING>"),
    ],
)
def test_a_type_takes_every_value_that_was_seen(values, name, expected):
    """Whole and exact numbers, times, nested objects; STRING where kinds meet."""
    assert str(infer_type(values, standard(), name=name).type) == expected


def test_objects_of_many_names_are_a_map():
    """Names that each stand in few objects are data."""
    values = [{f"user{n}": n, f"user{n + 1}": n} for n in range(40)]

    assert str(infer_type(values, standard()).type) == "MAP<STRING, INT>"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("ISO-8601", "2026-01-31T10:00:00", "TIMESTAMP(3)"),
        ("ISO-8601", "2026-01-31T10:00:00Z", "TIMESTAMP_LTZ(3)"),
        ("ISO-8601", "2026-01-31T10:00:00+01:00", "STRING"),
        ("ISO-8601-WITH-OFFSET", "2026-01-31T10:00:00+01:00", "TIMESTAMP_LTZ(3)"),
    ],
)
def test_a_time_is_one_where_the_format_will_read_it(name, text, expected):
    """The rule is the format's own, by the standard that the table will have."""
    assert str(infer_type([text], standard(name)).type) == expected


def test_presence_is_counted_apart_from_null():
    """Flink gives NULL for both, and a person may want to know."""
    fields, _ = infer_fields([{"a": 1, "b": 1}, {"a": None}, {"a": 2}], standard())

    assert [(each.name, each.presence) for each in fields] == [
        ("a", "null in 1 of 3"),
        ("b", "absent in 2 of 3"),
    ]


def test_of_names_that_differ_in_case_the_more_frequent_one_stays():
    """Spark does not tell them apart; the other one is named."""
    fields, notes = infer_fields([{"Id": 1}, {"id": 2}, {"id": 3}], standard())

    assert [each.name for each in fields] == ["id"]
    assert "Id is left out" in notes[0]
