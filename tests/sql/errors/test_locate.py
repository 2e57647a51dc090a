"""Where an error is shown whose message is all that is known."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import Span
from penstock.sql.errors.locate import position_of_message, position_of_option
from penstock.sql.script.splitter import split

TABLE = "CREATE TABLE t (a INT) WITH (\n  'mode' = 'ear',\n  'password'='hush', 'x' = 'mode')"


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ("table t: option 'mode' = 'ear' is not one of 'early'", (2, 12, 5)),
        ("table t: option 'password' = '******' is not a text", (3, 14, 6)),
        ("table t: unsupported option 'password'", (3, 3, 10)),
        ("table t: this is all", (1, 1, 29)),
    ],
)
def test_a_message_is_found_in_its_statement(message: str, place: tuple[int, int, int]) -> None:
    """The value of an option, else what is quoted, else the first line."""
    (text,) = split(TABLE, "a.sql")

    span = position_of_message(message, text)

    assert (span.line, span.column, span.length) == place


KEYS = {
    "connector": Span(
        file="a", line=1, column=1, length=11, line_text="'connector' = 'kafak', 'x'='y'"
    ),
    "x": Span(file="a", line=1, column=24, length=3, line_text="'connector' = 'kafak', 'x'='y'"),
}


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ("option 'x' = 'y' is no number", (28, 3)),
        ("unsupported option 'x'", (24, 3)),
        ("there is no connector 'kafak'", (15, 7)),
        ("there are no rows", None),
    ],
)
def test_an_option_is_found_by_its_key_or_its_value(
    message: str, place: tuple[int, int] | None
) -> None:
    """Whichever of them the message finds wrong."""
    span = position_of_option(message, KEYS)

    assert place == (None if span is None else (span.column, span.length))
