"""Values as people write them and as Arrow gives them back are the same."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.catalog.errors import DefinitionError
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.arrow import arrow_type
from penstock.connector.testing.values import from_text, plain_text, read_value

VALUES = [
    ("BOOLEAN", True, True),
    ("TINYINT", -128, -128),
    ("BIGINT", 2**62, 2**62),
    ("DOUBLE", 1, 1.0),
    ("FLOAT", 0.1, 0.10000000149011612),
    ("DECIMAL(10, 2)", 12.5, Decimal("12.50")),
    ("DECIMAL(10, 2)", "0.10", Decimal("0.10")),
    ("STRING", "no", "no"),
    ("BYTES", "né", "né".encode()),
    ("DATE", "2024-02-29", date(2024, 2, 29)),
    ("TIME(3)", "12:30:00", time(12, 30)),
    ("TIMESTAMP(3)", "2024-01-01 00:00:00.5", datetime(2024, 1, 1, 0, 0, 0, 500_000)),
    ("TIMESTAMP_LTZ(3)", "2024-01-01 02:00:00+02:00", datetime(2024, 1, 1, tzinfo=UTC)),
    ("TIMESTAMP_LTZ(3)", "2024-01-01 00:00:00", datetime(2024, 1, 1, tzinfo=UTC)),
    ("ARRAY<INT>", [1, None], [1, None]),
    ("MAP<STRING, INT>", {"a": 1}, {"a": 1}),
    ("ROW<a INT, b DATE>", {"b": "2024-01-01"}, {"a": None, "b": date(2024, 1, 1)}),
    ("ROW<a INT, b INT>", [1, 2], {"a": 1, "b": 2}),
]


@pytest.mark.parametrize(("kind", "written", "value"), VALUES)
def test_a_written_value_is_what_arrow_gives_back(kind: str, written: Any, value: Any) -> None:
    """Read, put into a column of the type, and read again."""
    logical = parse_type(kind)
    read = read_value(written, logical)
    given_back = pa.array([read], arrow_type(logical)).to_pylist()[0]

    assert read == value
    assert read_value(given_back, logical) == value


@pytest.mark.parametrize(("kind", "written", "value"), VALUES)
def test_a_shown_value_is_read_again(kind: str, written: Any, value: Any) -> None:
    """What --update writes means what was found."""
    logical = parse_type(kind)

    assert read_value(plain_text(value), logical) == value


@pytest.mark.parametrize(
    ("kind", "written", "words"),
    [
        ("INT", "1", "'1' is no value of type INT"),
        ("INT", True, "no value"),
        ("TINYINT", 128, "does not fit 8 bits"),
        ("STRING", 5, "put it in quotes"),
        ("BOOLEAN", 1, "no value"),
        ("DECIMAL(4, 1)", "1.23", "more than 1 decimal"),
        ("DECIMAL(4, 1)", "x", "no value"),
        ("DATE", "2024-02-30", "no value"),
        ("TIMESTAMP(3)", "2024-01-01 00:00:00Z", "no value"),
        ("ARRAY<INT>", {"a": 1}, "no value"),
        ("ROW<a INT>", {"b": 1}, "no field 'b'"),
    ],
)
def test_a_value_of_another_type_is_refused(kind: str, written: Any, words: str) -> None:
    """The message has the value and the type."""
    with pytest.raises(DefinitionError, match=words):
        read_value(written, parse_type(kind))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("INT", "7", 7),
        ("DOUBLE", "1.5", 1.5),
        ("BOOLEAN", "TRUE", True),
        ("STRING", "", None),
        ("DECIMAL(4, 1)", "2.5", Decimal("2.5")),
        ("ARRAY<INT>", "[1, 2]", [1, 2]),
        ("TIMESTAMP(3)", "2024-01-01 00:00:00", datetime(2024, 1, 1)),
    ],
)
def test_a_cell_of_csv_is_read_by_its_type(kind: str, text: str, value: Any) -> None:
    """Empty is NULL, nested types are JSON."""
    assert from_text(text, parse_type(kind)) == value


def test_a_cell_of_csv_that_is_no_value_is_refused() -> None:
    """Whatever the reader of numbers or of JSON thinks of it."""
    for kind, text in (("INT", "x"), ("DOUBLE", "y"), ("ARRAY<INT>", "[1"), ("BOOLEAN", "yes")):
        with pytest.raises(DefinitionError, match="is no value of type"):
            from_text(text, parse_type(kind))
