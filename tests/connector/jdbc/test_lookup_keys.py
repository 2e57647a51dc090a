"""In which types keys are compared, and which columns the database compares as they are."""

from __future__ import annotations

import pytest

from penstock.catalog.model.type_parser import parse_type
from penstock.connector.jdbc.address import Backend
from penstock.connector.jdbc.lookup import DatabaseColumn, compared_type, is_plain

POSTGRESQL, SQLITE = Backend.POSTGRESQL, Backend.SQLITE


@pytest.mark.parametrize(
    ("declared", "given", "compared"),
    [
        ("INT NOT NULL", "BIGINT", "BIGINT"),
        ("BIGINT NOT NULL", "SMALLINT", "BIGINT"),
        ("VARCHAR(10)", "CHAR(3)", "STRING"),
        ("DECIMAL(10, 2)", "DECIMAL(9, 4)", "DECIMAL(12, 4)"),
        ("DECIMAL(38, 0)", "DECIMAL(9, 4)", None),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(3)"),
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", None),
        ("BOOLEAN", "BOOLEAN", "BOOLEAN"),
        ("DATE", "DATE", "DATE"),
        ("DOUBLE", "DOUBLE", None),
        ("BIGINT", "STRING", None),
        ("BYTES", "BYTES", None),
    ],
)
def test_values_are_compared_in_the_type_that_spark_would_take(
    declared: str, given: str, compared: str | None
) -> None:
    """Where values have one form only in the database."""
    found = compared_type(parse_type(declared), parse_type(given), POSTGRESQL)

    assert found == (None if compared is None else parse_type(compared))


def test_sqlite_is_asked_by_what_it_has_one_form_of() -> None:
    """A time may stand there as a text of several spellings."""
    one = parse_type("INT"), parse_type("INT")

    assert compared_type(*one, SQLITE) == parse_type("INT")
    for name in ("TIMESTAMP(3)", "BOOLEAN", "DECIMAL(10, 2)"):
        assert compared_type(parse_type(name), parse_type(name), SQLITE) is None


@pytest.mark.parametrize(
    ("declared", "there", "plain"),
    [
        ("BIGINT", DatabaseColumn(oid=23), True),
        ("BIGINT", DatabaseColumn(oid=25), False),
        ("STRING", DatabaseColumn(oid=1043), True),
        ("STRING", DatabaseColumn(oid=2950), False),  # uuid
        ("STRING", DatabaseColumn(oid=1042), False),  # char(n)
        ("DATE", DatabaseColumn(oid=1114), False),
        ("DECIMAL(10, 2)", DatabaseColumn(oid=1700, scale=2), True),
        ("DECIMAL(10, 2)", DatabaseColumn(oid=1700, scale=3), False),
        ("DECIMAL(10, 2)", DatabaseColumn(oid=1700), False),
    ],
)
def test_a_column_is_compared_as_it_is_where_it_has_the_declared_type(
    declared: str, there: DatabaseColumn, *, plain: bool
) -> None:
    """Its index is of use then; else what it is read as is compared."""
    assert is_plain(parse_type(declared), there, POSTGRESQL) is plain


def test_sqlite_compares_texts_as_they_are_where_it_keeps_them_as_texts() -> None:
    """Its rules of affinity: INT goes before CHAR."""
    text = parse_type("STRING")

    assert is_plain(text, DatabaseColumn(words="varchar(10)"), SQLITE)
    assert not is_plain(text, DatabaseColumn(words="CHARINT"), SQLITE)
    assert not is_plain(text, DatabaseColumn(), SQLITE)
    assert is_plain(parse_type("BIGINT"), DatabaseColumn(), SQLITE)
