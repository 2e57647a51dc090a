"""What the dialect reads and Penstock does not run is refused at its place; the rows of the page try each."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.sql.convert.statement import parse_tree
from penstock.sql.script.splitter import split


def place(sql: str) -> str:
    """The part of a statement that it is refused for."""
    (text,) = split(sql, "test.sql")
    with pytest.raises(UnsupportedError) as caught:
        parse_tree(text)
    span = caught.value.span
    assert span is not None
    return sql[span.column - 1 : span.column - 1 + span.length]


def test_a_type_is_refused_where_it_stands() -> None:
    """Inside another type, and as the element of a postfix ARRAY, too."""
    assert place("CREATE TABLE t (a ROW<b RAW('x', 'y')>) WITH ('a' = 'b')") == "RAW('x', 'y')"
    assert place("CREATE TABLE t (a VARIANT ARRAY) WITH ('a' = 'b')") == "VARIANT"


def test_a_value_may_have_a_type_that_a_column_may_not() -> None:
    """PARSE_JSON gives a VARIANT; a query may go on with it."""
    (text,) = split("SELECT CAST(a AS VARIANT) FROM t", "test.sql")

    assert parse_tree(text)


def test_a_table_function_is_refused_at_its_name() -> None:
    """Wherever FROM has one that no user can have registered: of tables, or with the name of a function of Flink's."""
    assert place("SELECT * FROM a JOIN TABLE(UPPER(1)) AS t ON TRUE") == "UPPER(1"
    assert place("SELECT * FROM TABLE(COALESCE(1, 2)) AS t") == "COALESCE(1, 2"
    assert place("SELECT * FROM a, LATERAL TABLE(f(TABLE b)) AS t") == "f(TABLE b"
