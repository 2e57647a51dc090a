"""What each type takes of JSON: Flink's converters, value by value, on both paths."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from penstock.catalog.errors import BadRecordError
from tests.connector.formats.decoding import decode, make_decoder, where

ISO = {"json.timestamp-format.standard": "ISO-8601"}
OFFSET = {"json.timestamp-format.standard": "ISO-8601-WITH-OFFSET"}
IGNORE = {"json.ignore-parse-errors": "true"}
UTC = dt.UTC

TAKEN: list[tuple[str, str, Any]] = [
    ("BOOLEAN", "true", True),
    ("BOOLEAN", '"TRUE "', True),
    ("BOOLEAN", '"trueA"', False),
    ("BOOLEAN", "1", False),
    ("BOOLEAN", '{"x":1}', False),
    ("TINYINT", "-128", -128),
    ("TINYINT", '" +7 "', 7),
    ("SMALLINT", '"-32768"', -32768),
    ("INT", "2147483647", 2147483647),
    ("INT", "112.9", 112),
    ("INT", "-1.9e1", -19),
    ("INT", '"123"', 123),
    ("BIGINT", "9223372036854775807", 9223372036854775807),
    ("BIGINT", "9007199254740993.0", 9007199254740992),
    ("BIGINT", "9223372036854775807.0", 9223372036854775807),
    ("BIGINT", '"007"', 7),
    ("DOUBLE", "1", 1.0),
    ("DOUBLE", "9007199254740993", 9007199254740992.0),
    ("DOUBLE", "1e400", math.inf),
    ("DOUBLE", '"-Infinity"', -math.inf),
    ("DOUBLE", '" 1.5d "', 1.5),
    ("DOUBLE", '"0x1.8p1"', 3.0),
    ("FLOAT", "16777217", 16777216.0),
    ("FLOAT", "1e39", math.inf),
    ("FLOAT", "1.00000017881393432617187499", 1.0000001192092896),
    ("DECIMAL(10, 2)", "1.005", Decimal("1.01")),
    ("DECIMAL(10, 2)", "-1.005", Decimal("-1.01")),
    ("DECIMAL(10, 2)", '" 1e2 "', Decimal("100.00")),
    ("DECIMAL(10, 2)", "99999999.995", None),
    ("DECIMAL(3, 3)", "1", None),
    ("DECIMAL(38, 18)", "799.929496989092949698", Decimal("799.929496989092949698")),
    ("DECIMAL(38, 0)", "123456789012345678901234567890123456789", None),
    ("DECIMAL(10, 2)", "1e-999999999", Decimal("0.00")),
    ("STRING", '"text"', "text"),
    ("STRING", "true", "true"),
    ("STRING", "123.50", "123.50"),
    ("STRING", "-0", "-0"),
    ("STRING", "1E5", "1E5"),
    ("STRING", '[1, 2.50, {"k" : null}]', '[1,2.5,{"k":null}]'),
    ("STRING", '{"a":1e10,"b":"\\u0001\\/","a":2}', '{"a":2,"b":"\\u0001/"}'),
    ("STRING", '"\tcontrol"', "\tcontrol"),
    ("STRING", '"\\ud800x"', "?x"),
    ("STRING", '"\\u0000"', "\0"),
    ("CHAR(1)", '"longer"', "longer"),
    ("BYTES", '"aGVsbG8="', b"hello"),
    ("BYTES", '""', b""),
    ("BYTES", '"aGVs\\nbG8="', b"hello"),
    ("BYTES", '"aGk=aGk="', b"hihi"),
    ("DATE", '"2024-02-29"', dt.date(2024, 2, 29)),
    ("TIME(3)", '"12:30:00.1239"', dt.time(12, 30, 0, 123000)),
    ("TIME(0)", '"24:00:00"', dt.time(0)),
    ("TIMESTAMP(3)", '"2024-01-01 01:02:03"', dt.datetime(2024, 1, 1, 1, 2, 3)),
    ("TIMESTAMP(3)", '"2024-01-01 01:02:03."', dt.datetime(2024, 1, 1, 1, 2, 3)),
    ("TIMESTAMP(3)", '"2024-01-01 01:02:03.123456789"', dt.datetime(2024, 1, 1, 1, 2, 3, 123456)),
    ("TIMESTAMP(3)", '"2023-02-30 00:00:00"', dt.datetime(2023, 2, 28)),
    ("TIMESTAMP(3)", '"2023-12-31 24:00:00"', dt.datetime(2024, 1, 1)),
    ("TIMESTAMP_LTZ(3)", '"2024-01-01 00:00:00.5Z"', dt.datetime(2024, 1, 1, 0, 0, 0, 500000, UTC)),
    ("ARRAY<INT>", '[1,null,"2"]', [1, None, 2]),
    ("MAP<STRING, INT>", '{"a":1,"b":null,"a":"3"}', [("a", 3), ("b", None)]),
    ("MULTISET<STRING>", '{"a":2}', [("a", 2)]),
    ("ROW<x INT, y STRING>", '{"y":1.0,"z":9}', {"x": None, "y": "1.0"}),
    ("MAP<STRING, MAP<STRING, DOUBLE>>", '{"o":{"i":1}}', [("o", [("i", 1.0)])]),
    ("MAP<STRING, DECIMAL(20, 2)>", '{"o":123456789012345678.91}', [("o", Decimal("123456789012345678.91"))]),
    ("ARRAY<ROW<m MAP<STRING, INT>>>", '[{"m":{"k":1}}]', [{"m": [("k", 1)]}]),
]  # fmt: skip

REFUSED = [
    *(("TINYINT", text) for text in ("128", "1.0", '"1.0"', "true", "[]", '""')),
    *(("INT", text) for text in ("2147483648", "2147483647.5", '"abc"', "{}", '"1_0"', '"0x1F"')),
    *(("BIGINT", text) for text in ("9223372036854775808", "1e19", '"1e3"', "false")),
    *(("DOUBLE", text) for text in ('"112.013.123"', '"nan"', '"1e"', "true", "[1]")),
    *(("DECIMAL(10, 3)", text) for text in ('"abc"', '"NaN"', "true", "{}", '"1d"')),
    *(("BYTES", text) for text in ('"a"', '"aGk"', '"a GVs"', '"!!!!"', "1", "{}")),
    *(("DATE", text) for text in ('"20191112"', '"2023-02-29"', '"2023-1-1"', "20230101")),
    *(("TIME(0)", text) for text in ('"18:00:243"', '"18:00"', '"24:00:01"', '"1:00:00"')),
    *(("TIME(0)", text) for text in ('"18:00:00.1234567890"', '"18:00:00.123456x1"')),
    *(("TIMESTAMP(3)", text) for text in ('"2019-11-12T18:00:12"', '"2019-11-12 18:00:12Z"')),
    *(("TIMESTAMP(3)", text) for text in ('"2019-11-12"', '"2019-11-12 18:00"', '"0000-00-00 00:00:00"')),
    *(("TIMESTAMP(3)", text) for text in ("1573581612000", '"2019-11-12 18:00:60"')),
    ("TIMESTAMP(3)", '"2024-01-01 00:00:00.1234567890"'),
    *(("TIMESTAMP(3)", text) for text in ('"2024-01-01 00:00:00.123456x8"', '"2024-01-01 00:00:00.123456 12"')),
    *(("TIMESTAMP_LTZ(3)", text) for text in ('"2019-11-12 18:00:12"', '"2019-11-12 18:00:12+0800"')),
    ("ARRAY<INT>", '{"0":1}'),
    ("ARRAY<INT>", '[123,"abc"]'),
    ("MAP<STRING, INT>", "[]"),
    ("MAP<STRING, INT>", '{"key1":"123","key2":"abc"}'),
    ("ROW<x INT>", "[1]"),
]  # fmt: skip


def beside(text: str) -> list[str]:
    """The value among others of the same column, so that it is not alone in its batch."""
    return ['{"id":1}', f'{{"id":2,"v":{text}}}', '{"id":3,"v":null}']


@pytest.mark.parametrize(("logical", "text", "expected"), TAKEN)
def test_a_type_takes_what_flink_takes(logical, text, expected):
    """A value becomes what Flink's converter makes of it; its neighbours stay."""
    result = decode({"id": "INT", "v": logical}, beside(text))

    assert [row["v"] for row in result.rows] == [None, expected, None]
    assert [row["id"] for row in result.rows] == [1, 2, 3]


@pytest.mark.parametrize(("logical", "text"), REFUSED)
def test_a_type_refuses_what_flink_refuses(logical, text):
    """A value that Flink's converter throws at makes the record bad, and no other."""
    with pytest.raises(BadRecordError, match="offset 101: field 'v"):
        decode({"id": "INT", "v": logical}, beside(text))


@pytest.mark.parametrize(("logical", "text"), REFUSED)
def test_ignored_errors_make_the_smallest_thing_null(logical, text):
    """With ignore-parse-errors the record stays; an element or map value is NULL alone, else the field."""
    result = decode({"id": "INT", "v": logical}, beside(text), IGNORE)

    expected: Any = None
    if text == '[123,"abc"]':
        expected = [123, None]
    if text.startswith('{"key1"'):
        expected = [("key1", 123), ("key2", None)]
    assert [row["v"] for row in result.rows] == [None, expected, None]
    assert (result.kept, result.skipped) == ([0, 1, 2], 0)


def test_nan_as_text_is_a_double():
    """Only in quotes, and only so spelled."""
    (row,) = decode({"v": "DOUBLE"}, ['{"v":"NaN"}']).rows

    assert math.isnan(row["v"])


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("logical", ["DOUBLE", "FLOAT", "STRING", "DECIMAL(9, 2)", "ARRAY<DOUBLE>"])
def test_nan_without_quotes_is_no_json(logical, constant):
    """The parser of the fast path takes it, Flink does not: the whole record is malformed."""
    value = f"[{constant}]" if logical.startswith("ARRAY") else constant
    result = decode({"v": logical}, ["{}", f'{{"v":{value}}}', "{}"], IGNORE)

    assert (result.kept, result.skipped) == ([0, 2], 1)


@pytest.mark.parametrize(
    ("options", "logical", "text", "expected"),
    [
        (ISO, "TIMESTAMP(3)", "2024-01-01T01:02:03.5", dt.datetime(2024, 1, 1, 1, 2, 3, 500000)),
        (ISO, "TIMESTAMP(3)", "2024-01-01T01:02", dt.datetime(2024, 1, 1, 1, 2)),
        (ISO, "TIMESTAMP(3)", "2023-02-30T00:00:00", None),
        (ISO, "TIMESTAMP(3)", "2024-01-01 01:02:03", None),
        (ISO, "TIMESTAMP(3)", "2024-01-01T01:02:03Z", None),
        (ISO, "TIMESTAMP_LTZ(3)", "2024-01-01T01:02:03Z", dt.datetime(2024, 1, 1, 1, 2, 3, 0, UTC)),
        (ISO, "TIMESTAMP_LTZ(3)", "2024-01-01T01:02:03+01:00", None),
        (OFFSET, "TIMESTAMP_LTZ(3)", "2024-01-01T01:02:03+01:00", dt.datetime(2024, 1, 1, 0, 2, 3, 0, UTC)),
        (OFFSET, "TIMESTAMP_LTZ(3)", "2024-01-01T01:02:03.1234567Z", dt.datetime(2024, 1, 1, 1, 2, 3, 123456, UTC)),
        (OFFSET, "TIMESTAMP_LTZ(3)", "2024-01-01T01:02:03+18:00", dt.datetime(2023, 12, 31, 7, 2, 3, 0, UTC)),
        (OFFSET, "TIMESTAMP_LTZ(3)", "2024-01-01T01:02:03+18:01", None),
        (OFFSET, "TIMESTAMP_LTZ(3)", "2024-01-01T01:02:03+0100", None),
        (OFFSET, "TIMESTAMP(3)", "2024-01-01T01:02:03+01:00", dt.datetime(2024, 1, 1, 0, 2, 3)),
        (OFFSET, "TIMESTAMP(3)", "2024-01-01T01:02:03", None),
    ],
)  # fmt: skip
def test_timestamps_are_read_by_the_standard_that_is_set(options, logical, text, expected):
    """Flink's formats of each standard, nothing more: what is not of it is a malformed field."""
    values = [f'{{"v":"{text}"}}', '{"v":null}']

    assert decode({"v": logical}, values, options | IGNORE).rows[0]["v"] == expected


def test_years_past_9999_are_read():
    """ISO years of more than four digits carry a sign."""
    values = [b'{"v":"+12024-01-01 00:00:00"}', b'{"v":"-0001-01-01 00:00:00"}']
    decoded = make_decoder({"v": "TIMESTAMP(3)"}).decode(values, where)

    expected = np.array(["12024-01-01", "-0001-01-01"], "datetime64[us]")
    assert decoded.batch.column(0).cast("int64").to_pylist() == expected.astype(np.int64).tolist()
