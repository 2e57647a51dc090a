"""What a column takes is of its kind: else the INSERT is refused at the value, before anything starts."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import DefinitionError, InputErrors
from tests.sql.sql_objects import TABLES, new_namespace, parse_script

TYPED = (
    TABLES
    + """;
CREATE TABLE typed (n BIGINT, s STRING, t TIMESTAMP(3), b BOOLEAN, xs ARRAY<INT>, m DECIMAL(10, 2))
WITH ('connector' = 'delta')"""
)


@pytest.mark.parametrize(
    ("sql", "place", "message"),
    [
        ("INSERT INTO typed (n) SELECT extra FROM bids", "extra", "'n'"),
        ("INSERT INTO typed (s) SELECT price + 1 AS p FROM bids", "price + 1 AS p", "is STRING, and gets BIGINT"),
        ("INSERT INTO typed (s, t) SELECT extra, price FROM bids", "price", "is TIMESTAMP(3), and gets BIGINT"),
        ("INSERT INTO typed (b) SELECT d FROM bids", "d", "is BOOLEAN, and gets DOUBLE"),
        ("INSERT INTO typed (xs) SELECT m FROM bids", "m", "is ARRAY<INT>, and gets MAP<INT, STRING>"),
        ("INSERT INTO typed (n) SELECT * FROM (SELECT extra FROM bids) AS q", "* FROM (SELECT extra FROM bids) AS q", "'n'"),
        ("INSERT INTO typed (n, s) VALUES (1, 'a'), ('b', 'c')", "'b'", "is BIGINT, and gets"),
    ],
)  # fmt: skip
def test_a_value_of_another_kind_is_refused_at_its_place(
    sql: str, place: str, message: str
) -> None:
    """With the cast to write."""
    with pytest.raises(InputErrors) as caught:
        parse_script(sql, "q.sql", new_namespace(TYPED))
    (error,) = caught.value.errors

    assert isinstance(error, DefinitionError)
    assert message in error.message
    assert error.hint is not None
    assert "CAST(... AS" in error.hint
    assert error.span is not None
    assert error.span.line_text[error.span.column - 1 :][: error.span.length] == place


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO typed (n, s, t, b) SELECT d, extra, ts, ok FROM bids",
        "INSERT INTO typed (t, m) SELECT l, price FROM bids",
        "INSERT INTO typed (n, s) SELECT NULL, CAST(NULL AS STRING)",
        "INSERT INTO typed (n) SELECT my_function(extra) FROM bids",
        "INSERT INTO typed (n) SELECT COUNT(*) FROM bids",
        "INSERT INTO typed (s) SELECT extra FROM bids UNION ALL SELECT 'a'",
        "INSERT INTO typed (n, m) VALUES (1, 2.5), (NULL, 3)",
        "INSERT INTO typed (n, s) SELECT id, k FROM sink",
    ],
)
def test_values_of_a_kind_are_cast_and_unknown_ones_left_to_spark(sql: str) -> None:
    """A number into a number, an instant into a time, a function of the user's into anything."""
    assert parse_script(sql, "q.sql", new_namespace(TYPED))
