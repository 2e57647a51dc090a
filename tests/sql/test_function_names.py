"""A function that is misspelt is an error with the right name; one that may be somebody's own is not."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import InputErrors, UnknownObjectError
from tests.sql.sql_objects import TABLES, new_namespace, parse_script


@pytest.mark.parametrize(
    ("call", "near"),
    [
        ("LPDA(extra, 3, 'x')", "LPAD"),
        ("regexp_extrct(extra, 'a')", "REGEXP_EXTRACT"),
        ("SUBSTRNG(extra, 1)", "SUBSTRING"),
        ("COALSCE(extra, 'a')", "COALESCE"),
    ],
)
def test_a_misspelt_function_is_named_right(call: str, near: str) -> None:
    """At its place."""
    with pytest.raises(InputErrors) as caught:
        parse_script(f"SELECT {call} FROM bids", "q.sql", new_namespace(TABLES))
    (error,) = caught.value.errors

    assert isinstance(error, UnknownObjectError)
    assert error.hint == f"did you mean {near}?"
    assert error.span is not None
    assert (error.span.column, error.span.length) == (8, call.index("("))


@pytest.mark.parametrize(
    "call",
    ["my_function(extra)", "md5_hex(extra)", "sha3(extra)", "asinh(price)", "mix(price)"],
)
def test_a_function_of_the_users_or_of_sparks_is_let_through(call: str) -> None:
    """Spark knows what is registered with it."""
    assert parse_script(f"SELECT {call} FROM bids", "q.sql", new_namespace(TABLES))
