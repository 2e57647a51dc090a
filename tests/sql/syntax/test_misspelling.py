"""A misspelt keyword is recognised, a name is left in peace."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import InputError
from penstock.sql.convert.statement import parse_tree
from penstock.sql.dialect import Flink
from penstock.sql.script.splitter import split
from penstock.sql.syntax.misspelling import CLAUSES, nearest_keyword


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


@pytest.mark.parametrize(
    ("sql", "word", "keyword"),
    [
        ("SELECT a FROM t ORDER YB a", "YB", "BY"),
        ("SELECT a FROM t WHERE a > 1 ODER BY a", "ODER", "ORDER"),
        ("SELECT a FROM t GRUP BY a", "GRUP", "GROUP"),
        ("SELECT CAST(a SA INT) FROM t", "SA", "AS"),
        ("SELECT a FROM t LEFT JION u ON x", "JION", "JOIN"),
        ("SELECT a FROM t LEFTT JOIN u ON x", "LEFTT", "LEFT"),
        ("SELECT a FROM t INNR JOIN u ON x", "INNR", "INNER"),
        ("SELECT SUM(a) OVR (PARTITION BY b) FROM t", "OVR", "OVER"),
        ("SELECT a FROM TABLE(TUMBL(TABLE t, DESCRIPTOR(a), INTERVAL '1' DAY))", "TUMBL", "TUMBLE"),
        ("CREATE TABLE t (a INT, WATERMRK FOR b AS b)", "WATERMRK", "WATERMARK"),
        ("CREATE TABLE t (a INT, PRIMARY KYE (a) NOT ENFORCED)", "KYE", "KEY"),
    ],
)
def test_the_caret_stands_under_the_misspelt_word(sql: str, word: str, keyword: str) -> None:
    """Wherever the parser stumbled, and also where a slip would have parsed as something else."""
    (text,) = split(sql, "a.sql")

    with pytest.raises(InputError) as caught:
        parse_tree(text)

    span = caught.value.span
    assert span is not None
    assert span.line_text[span.column - 1 :].startswith(word)
    assert (caught.value.hint or "").startswith(f"did you mean {keyword}?")


def test_an_alias_that_is_given_with_as_is_no_slip() -> None:
    """However near to a keyword it is."""
    (text,) = split("SELECT a FROM t AS LEFTT JOIN u ON x", "a.sql")

    assert parse_tree(text) is not None


def test_a_misspelt_type_is_not_taken_for_a_keyword_too() -> None:
    """One suggestion: the nearer one."""
    (text,) = split("CREATE TABLE t (a INTT)", "q.sql")

    with pytest.raises(InputError) as caught:
        parse_tree(text)

    assert caught.value.hint == "did you mean INT?"
