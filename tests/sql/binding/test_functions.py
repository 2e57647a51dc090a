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


@pytest.mark.parametrize("call", ["my_function(extra)", "asinh(price)", "xxhash64(price)"])
def test_a_function_of_the_users_or_of_sparks_is_let_through(call: str) -> None:
    """One that CREATE FUNCTION has registered, and one of Spark's own."""
    assert parse_script(f"SELECT {call} FROM bids", "q.sql", new_namespace(TABLES))


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("SUMM(price)", "did you mean SUM?"),
        ("UPPERR(extra)", "did you mean UPPER?"),
        ("my_funktion(extra)", "did you mean MY_FUNCTION?"),
        ("celsius_to_fahrenheit(price)", "CREATE FUNCTION celsius_to_fahrenheit AS"),
    ],
)
def test_a_function_that_nobody_has_is_an_error(call: str, hint: str) -> None:
    """With the name that is nearest, or how to make one."""
    with pytest.raises(InputErrors) as caught:
        parse_script(f"SELECT {call} FROM bids", "q.sql", new_namespace(TABLES))
    (error,) = caught.value.errors

    assert error.message == f"there is no function {call[: call.index('(')].upper()}"
    assert error.hint is not None
    assert error.hint.startswith(hint)


def test_a_function_in_a_condition_is_looked_for_too() -> None:
    """In WHERE, in views, in subqueries."""
    with pytest.raises(InputErrors, match="there is no function NOSUCH"):
        parse_script(
            "CREATE VIEW v AS SELECT price FROM bids WHERE nosuch(price) > 1",
            "q.sql",
            new_namespace(TABLES),
        )


def test_a_function_of_the_running_engine_is_let_through() -> None:
    """A session of Python may have registered it with Spark itself."""
    namespace = new_namespace(TABLES)
    namespace.functions.has_engine = lambda name: name == "registered"

    assert parse_script("SELECT REGISTERED(extra) FROM bids", "q.sql", namespace)


@pytest.mark.parametrize(
    ("clause", "place", "message"),
    [
        ("WHERE price", "price", "WHERE takes a BOOLEAN, and this is BIGINT"),
        ("WHERE ok AND extra", "extra", "AND takes a BOOLEAN, and this is STRING"),
        ("WHERE NOT ts", "ts", "NOT takes a BOOLEAN, and this is TIMESTAMP(3)"),
        ("WHERE ok OR (price + 1)", "price + 1", "OR takes a BOOLEAN, and this is BIGINT"),
        ("JOIN auctions AS a ON a.id", "a.id", "ON takes a BOOLEAN, and this is BIGINT"),
        ("WHERE CASE WHEN price THEN ok END", "price", "WHEN takes a BOOLEAN, and this is BIGINT"),
    ],
)
def test_a_condition_that_is_no_boolean_is_an_error_at_its_place(
    clause: str, place: str, message: str
) -> None:
    """Spark would say so later, of the whole statement."""
    with pytest.raises(InputErrors) as caught:
        parse_script(f"SELECT bidder FROM bids {clause}", "q.sql", new_namespace(TABLES))
    (error,) = caught.value.errors
    span = error.span

    assert error.message == message
    assert span is not None
    assert span.line_text[span.column - 1 :].startswith(place)


@pytest.mark.parametrize(
    "clause",
    [
        "WHERE ok AND NOT (price > 1 OR extra LIKE 'a%')",
        "WHERE ok IS TRUE AND extra IS NOT NULL AND m[1] = 'x'",
        "WHERE my_function(extra) AND NULL",
        "WHERE CASE price WHEN 1 THEN TRUE ELSE FALSE END",
        "WHERE CAST(extra AS BOOLEAN) AND REGEXP(extra, 'a')",
    ],
)
def test_a_condition_that_is_a_boolean_is_let_through(clause: str) -> None:
    """Or may be one: the type of a user's function is not known."""
    assert parse_script(f"SELECT bidder FROM bids {clause}", "q.sql", new_namespace(TABLES))


@pytest.mark.parametrize("sql", ["SELECT foo", "SELECT DISTINCT foo", "SELECT foo + 1 AS x"])
def test_a_column_without_from_is_an_error(sql: str) -> None:
    """There is nothing that has it."""
    with pytest.raises(InputErrors) as caught:
        parse_script(sql, "q.sql", new_namespace(TABLES))
    (error,) = caught.value.errors

    assert error.message == "there is no column 'foo'"
    assert error.hint == "there is no FROM to take it from; a text is written 'foo'"
