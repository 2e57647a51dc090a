"""A text is cut into statements by its tokens, and places are those of the file a person edits."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import SqlSyntaxError
from penstock.sql.script.splitter import split, split_all
from penstock.sql.syntax.positions import LineOrigin, Source


def texts(sql: str) -> list[str]:
    """The statements of a text."""
    return [statement.text for statement in split(sql, "f.sql")]


def test_a_semicolon_in_a_string_a_name_or_a_comment_does_not_split() -> None:
    """Tokens split, characters do not."""
    sql = "SELECT ';' ; SELECT `a;b` -- ; x\n /* ; */ ; ; SELECT 'it''s;'"

    assert texts(sql) == ["SELECT ';'", "SELECT `a;b`", "SELECT 'it''s;'"]


def test_a_statement_knows_its_number_and_its_offset() -> None:
    """Numbers count from 1, empty statements do not count."""
    first, second = split("-- a\nSELECT 1;;\n  SELECT 2", "f.sql")

    assert (first.index, first.offset, second.index) == (1, 5, 2)
    assert (second.span.line, second.span.column, second.span.line_text) == (3, 3, "  SELECT 2")


def test_the_inserts_of_a_statement_set_stay_together() -> None:
    """Old and new spelling; an END of CASE inside does not end it."""
    new = "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT CASE WHEN x THEN 1 END; INSERT INTO b SELECT 2; END"
    old = "BEGIN STATEMENT SET; INSERT INTO a SELECT 1; END"

    explained = f"EXPLAIN CHANGELOG_MODE STATE{new.removeprefix('EXECUTE STATE')}"
    unfinished = "BEGIN STATEMENT SET; INSERT INTO a SELECT 1 END"

    assert texts(f"{new}; SELECT 1; {old}; SELECT 2") == [new, "SELECT 1", old, "SELECT 2"]
    assert texts(f"{explained}; SELECT 1; {unfinished}; SELECT 2") == [
        explained,
        "SELECT 1",
        unfinished,
        "SELECT 2",
    ]


@pytest.mark.parametrize(
    ("sql", "message", "column"),
    [
        ("SELECT 'abc", "this string has no end", 8),
        ("SELECT `abc", "this quoted name has no end", 8),
        ("SELECT /* abc", "this comment has no end", 8),
        ("SELECT 'a''", "this string has no end", 8),
        ("SELECT X'1G'", "this is no hexadecimal text", 8),
    ],
)
def test_what_has_no_end_is_found_at_its_start(sql: str, message: str, column: int) -> None:
    """Not at the end of the file."""
    with pytest.raises(SqlSyntaxError, match=message) as caught:
        split(sql, "f.sql")

    assert caught.value.span is not None
    assert caught.value.span.column == column


def test_statements_in_front_of_the_broken_one_are_given() -> None:
    """So that their errors can be shown, too."""
    statements, error = split_all(Source(file="f.sql", text="SELECT 1; SELECT 2, 'x"))

    assert [statement.text for statement in statements] == ["SELECT 1"]
    assert error is not None


def test_a_line_map_leads_back_to_the_template() -> None:
    """File, line and its text are the template's; the column is a place in the rendered line."""
    origins = (
        LineOrigin(file="a.sql", line=4, text="SELECT 1,"),
        LineOrigin(file="inc.sql", line=9, text="{{ n }}", called_from=("a.sql:5",)),
    )
    source = Source(file="a.sql", text="SELECT 1,\n2", line_map=origins)

    span = source.span(10, 10)

    assert (span.file, span.line, span.column, span.line_text) == ("inc.sql", 9, 1, "2")
    assert (span.template_text, span.called_from) == ("{{ n }}", ("a.sql:5",))
    assert source.span(0, 5).template_text is None, "the line is its own template"


def test_a_place_over_several_lines_ends_with_its_first() -> None:
    """A caret stands under one line."""
    source = Source(file="a.sql", text="SELECT a,\n  b FROM t")

    assert source.span(7, 14).length == 2


def test_secret_values_are_hidden_in_lines_and_keep_their_length() -> None:
    """Also where key and value stand on different lines."""
    text = "WITH ('a.password' = 'hunter2', 'b' = 'c',\n'sasl.jaas.config' =\n 'x''y z')"
    source = Source(file="a.sql", text=text)

    assert source.span(0, 3).line_text == "WITH ('a.password' = '*******', 'b' = 'c',"
    assert source.span(text.index("'x"), len(text)).line_text == " '******')"
