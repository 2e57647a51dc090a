"""Which types records carry, told without Arrow, is what Arrow's types are made of."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.arrow import arrow_type
from penstock.connector.checks import check_record_type

CARRIED = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "CHAR(3)", "STRING",
    "BINARY(3)", "BYTES", "DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "MULTISET<STRING>",
    "ROW<a ARRAY<INT>, b MAP<STRING, DOUBLE>>",
)  # fmt: skip
NOT_CARRIED = (
    "INTERVAL DAY",
    "INTERVAL YEAR TO MONTH",
    "ROW<a INT, b ARRAY<INTERVAL DAY>>",
    "MAP<STRING, INTERVAL DAY>",
)


@pytest.mark.parametrize("text", CARRIED)
def test_what_is_carried_has_an_arrow_type(text: str) -> None:
    """A definition that passed its check can be read."""
    check_record_type(parse_type(text))

    assert arrow_type(parse_type(text)) is not None


@pytest.mark.parametrize("text", NOT_CARRIED)
def test_intervals_are_refused_wherever_they_stand(text: str) -> None:
    """By the check of a definition, and by what reads one that was not checked."""
    for refuse in (check_record_type, arrow_type):
        with pytest.raises(UnsupportedError, match="cannot be read from records"):
            refuse(parse_type(text))
