"""Names: quoting, reading, and which cannot stand beside each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalog.errors import DefinitionError
from penstock.catalog.model.identifier import Identifier, name_clash, parse_identifier, quote
from tests.catalog.strategies import identifiers, names


@given(identifiers())
def test_a_name_is_read_as_it_was_written(identifier: Identifier) -> None:
    """Dots, blanks and backticks inside a part survive."""
    assert parse_identifier(str(identifier)) == (
        identifier.catalog,
        identifier.database,
        identifier.name,
    )


@pytest.mark.parametrize(
    ("name", "written"),
    [("orders", "orders"), ("my orders", "`my orders`"), ("a`b", "`a``b`"), ("1st", "`1st`")],
)
def test_a_name_is_quoted_where_it_has_to_be(name: str, written: str) -> None:
    """Plain names stay readable."""
    assert quote(name) == written


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", ("a",)),
        ("a.b", ("a", "b")),
        ("a.`b.c`.d", ("a", "b.c", "d")),
        ("my-table", ("my-table",)),
    ],
)
def test_a_name_has_one_to_three_parts(text: str, parts: tuple[str, ...]) -> None:
    """As typed on a command line, quoted or not."""
    assert parse_identifier(text) == parts


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "a.b.c.d", "`a", "a b", "``"])
def test_what_is_no_name_is_refused(text: str) -> None:
    """With a hint that shows the shape."""
    with pytest.raises(DefinitionError, match="is not a name"):
        parse_identifier(text)


def test_an_empty_part_is_refused() -> None:
    """No object can be reached by it."""
    with pytest.raises(DefinitionError):
        Identifier(catalog="c", database="", name="t")


@given(st.lists(names, unique_by=str.lower))
def test_names_that_spark_tells_apart_do_not_clash(listed: list[str]) -> None:
    """Any letters, any script."""
    assert name_clash(listed) is None


def test_names_clash_when_equal_or_equal_but_for_case() -> None:
    """Each of the two has its own words."""
    assert name_clash(["id", "b", "id"]) == "id is declared twice"
    assert "differ in case only" in (name_clash(["id", "ID"]) or "")
