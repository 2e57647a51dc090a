"""A misspelt keyword is recognised, a name is left in peace."""

from __future__ import annotations

import pytest

from penstock.sql.dialect import Flink
from penstock.sql.misspelling import CLAUSES, nearest_keyword


@pytest.mark.parametrize(
    ("word", "keyword"),
    [
        ("FORM", "FROM"),
        ("whre", "WHERE"),
        ("GROPU", "GROUP"),
        ("HAVNG", "HAVING"),
        ("JION", "JOIN"),
        ("LIMTI", "LIMIT"),
    ],
)
def test_one_or_two_slips_are_forgiven(word: str, keyword: str) -> None:
    """Swapping two letters is one slip."""
    (token,) = Flink().tokenize(word)

    assert nearest_keyword(token, CLAUSES) == keyword


@pytest.mark.parametrize("word", ["orders", "t1", "w", "`FORM`", "FROM", "amount", "'FORM'"])
def test_names_strings_and_keywords_are_not_misspelt(word: str) -> None:
    """Only plain words near a keyword are."""
    (token,) = Flink().tokenize(word)

    assert nearest_keyword(token, CLAUSES) is None
