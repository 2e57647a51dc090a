"""Logical types and their Flink spelling."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalog.errors import DefinitionError
from penstock.catalog.model.type_parser import parse_type
from penstock.catalog.model.types import (
    DecimalType,
    LogicalType,
    RowField,
    RowType,
    VarCharType,
    parts_of,
)
from tests.catalog.strategies import logical_types


@given(logical_types)
def test_a_type_is_read_as_it_was_written(logical: LogicalType) -> None:
    """Whatever a catalog keeps can be read again."""
    assert parse_type(str(logical)) == logical


@given(logical_types)
def test_blanks_between_tokens_do_not_matter(logical: LogicalType) -> None:
    """Types are spread over lines in long definitions."""
    spread = str(logical)
    if "`" not in spread and "'" not in spread:
        spread = spread.replace("<", " <\n ").replace(",", " ,\t").replace("(", "\n( ")

    assert parse_type(f"  {spread}\n") == logical


@given(st.text(alphabet="ROW<>(),`'NTARY MAP123 \n"))
def test_any_text_is_a_type_or_a_definition_error(text: str) -> None:
    """No other exception leaves the parser."""
    with contextlib.suppress(DefinitionError):
        parse_type(text)


@pytest.mark.parametrize(
    ("text", "spelling"),
    [
        ("string", "STRING"),
        ("VARCHAR(2147483647)", "STRING"),
        ("VARCHAR", "VARCHAR(1)"),
        ("char", "CHAR(1)"),
        ("BYTES", "BYTES"),
        ("VARBINARY(2147483647)", "BYTES"),
        ("INTEGER", "INT"),
        ("DOUBLE PRECISION", "DOUBLE"),
        ("DEC", "DECIMAL(10, 0)"),
        ("NUMERIC(5)", "DECIMAL(5, 0)"),
        ("decimal(38,18) not null", "DECIMAL(38, 18) NOT NULL"),
        ("TIME", "TIME(0)"),
        ("TIMESTAMP", "TIMESTAMP(6)"),
        ("TIMESTAMP(3) WITHOUT TIME ZONE", "TIMESTAMP(3)"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP_LTZ(3)"),
        ("TIMESTAMP_LTZ", "TIMESTAMP_LTZ(6)"),
        ("INTERVAL YEAR(4) TO MONTH", "INTERVAL YEAR TO MONTH"),
        ("INTERVAL MONTH", "INTERVAL YEAR TO MONTH"),
        ("INTERVAL DAY(3) TO SECOND(6)", "INTERVAL DAY TO SECOND"),
        ("INTERVAL HOUR TO MINUTE", "INTERVAL DAY TO SECOND"),
        ("INT ARRAY", "ARRAY<INT>"),
        ("INT NOT NULL ARRAY NOT NULL MULTISET", "MULTISET<ARRAY<INT NOT NULL> NOT NULL>"),
        ("INT NULL", "INT"),
        ("ROW(a INT, `b c` STRING 'it''s')", "ROW<`a` INT, `b c` STRING 'it''s'>"),
        ("ROW<row ROW<`int` INT>>", "ROW<`row` ROW<`int` INT>>"),
        ("MAP<STRING NOT NULL, ARRAY<BIGINT>>", "MAP<STRING NOT NULL, ARRAY<BIGINT>>"),
    ],
)
def test_flinks_synonyms_are_read(text: str, spelling: str) -> None:
    """Each has one spelling that is written."""
    assert str(parse_type(text)) == spelling


@pytest.mark.parametrize(
    "text",
    [
        "",
        "INTT",
        "INT INT",
        "DECIMAL(39, 0)",
        "DECIMAL(5, 6)",
        "DECIMAL(0)",
        "VARCHAR(0)",
        "VARCHAR(99999999999999999999)",
        "TIMESTAMP(10)",
        "TIME(-1)",
        "ARRAY<",
        "ARRAY<INT",
        "ARRAY<>",
        "MAP<INT>",
        "ROW<>",
        "ROW<a>",
        "ROW<, INT>",
        "ROW<1 INT>",
        "ROW<a INT, a STRING>",
        "ROW<a INT, A STRING>",
        "`INT`",
        "INTERVAL MONTH TO YEAR",
        "INTERVAL YEAR TO SECOND",
        "INTERVAL FORTNIGHT",
        "TIMESTAMP(3) WITH TIME ZONE",
        "STRING; DROP",
    ],
)
def test_what_is_no_type_is_refused(text: str) -> None:
    """In words, whatever is wrong with it."""
    with pytest.raises(DefinitionError):
        parse_type(text)


@pytest.mark.parametrize("text", ["ARRAY<" * 5000, "INT" + " ARRAY" * 5000])
def test_depth_has_a_limit(text: str) -> None:
    """A definition cannot exhaust the stack."""
    with pytest.raises(DefinitionError):
        parse_type(text)


def test_an_error_names_what_was_not_expected() -> None:
    """The text is shown with the token that breaks it."""
    with pytest.raises(
        DefinitionError, match=r"'ROW<a INT b>' is not a type: 'b' was not expected"
    ):
        parse_type("ROW<a INT b>")


def test_types_are_values() -> None:
    """Equal types are one key, and what differs in nullability differs."""
    assert len({DecimalType(precision=5, scale=2), DecimalType(precision=5, scale=2)}) == 1
    assert VarCharType(length=5) != VarCharType(length=5, nullable=False)
    assert RowType(fields=(RowField(name="a", type=DecimalType()),)) == parse_type("ROW<a DECIMAL>")


def test_the_parts_of_a_type_are_it_and_all_inside_it() -> None:
    """From the outside to the inside, and each time anew."""
    logical = parse_type("ROW<a ARRAY<INT>, b MAP<STRING, DATE>>")

    for _ in range(2):
        assert [str(part) for part in parts_of(logical)][1:] == [
            "ARRAY<INT>",
            "INT",
            "MAP<STRING, DATE>",
            "STRING",
            "DATE",
        ]
