"""Quotes, comments and hints as Flink reads them."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect import Flink


def kinds(sql: str) -> list[tuple[TokenType, str]]:
    """Token types and texts."""
    return [(token.token_type, token.text) for token in Flink().tokenize(sql)]


def test_a_backslash_in_a_string_is_a_backslash() -> None:
    """Only a doubled quote is special inside a string."""
    assert kinds(r"'a\n''b\'") == [(TokenType.STRING, r"a\n'b" + "\\")]


def test_names_are_quoted_with_backticks() -> None:
    """A doubled backtick stands for one."""
    assert kinds("`a``b c`") == [(TokenType.IDENTIFIER, "a`b c")]


def test_comments_are_passed_over() -> None:
    """Both kinds of line comment and the block comment, which does not nest."""
    sql = "a -- x 'y'\n// z\n/* b /* c */ d"

    assert [text for _, text in kinds(sql)] == ["a", "d"]


def test_a_hint_is_a_token_wherever_it_stands() -> None:
    """None is silently a comment."""
    assert [kind for kind, _ in kinds("t /*+ OPTIONS('a'='b') */ AS x")][1] is TokenType.HINT


def test_offsets_are_those_of_the_text() -> None:
    """A token's text can be cut out of the source by its offsets."""
    sql = "SELECT  `x` ,\n 'y' FROM\tt"

    cuts = [sql[token.start : token.end + 1] for token in Flink().tokenize(sql)]

    assert cuts == ["SELECT", "`x`", ",", "'y'", "FROM", "t"]


def test_words_that_are_keywords_elsewhere_are_names() -> None:
    """ENUM, PIVOT and the like mean nothing in Flink."""
    assert {kind for kind, _ in kinds("enum pivot unknown file semi")} == {TokenType.VAR}


def test_signs_that_flink_does_not_know_are_no_operators() -> None:
    """They are an error at their place, not another dialect's operator."""
    assert {kind for kind, _ in kinds("& ^ ~ @ # ! \\")} == {TokenType.UNKNOWN}


def test_a_dollar_is_a_letter() -> None:
    """As in Calcite's identifiers."""
    assert kinds("a$b") == [(TokenType.VAR, "a$b")]
