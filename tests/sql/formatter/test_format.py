"""The layout of SQL: what it looks like, that it is stable, and that nothing of the text is lost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.catalog.errors import SqlSyntaxError
from penstock.sql.dialect.flink.dialect import Flink
from penstock.sql.formatter import format_sql
from penstock.sql.formatter.tokens import TokenKind, tokenize

ROOT = Path(__file__).resolve().parents[3]
FILES = [
    *sorted((ROOT / "examples").rglob("*.sql")),
    *sorted((ROOT / "tests" / "sql" / "cases").rglob("*.sql")),
]


def sql_of(path: Path) -> str:
    """A file's SQL: of a golden case, what stands above the expected outcome."""
    return path.read_text(encoding="utf-8").partition("\n-- ----- expected")[0] + "\n"


def readable(text: str) -> bool:
    """Whether every string and comment has an end."""
    try:
        tokenize(text, "t.sql")
    except SqlSyntaxError:
        return False
    return True


TEXTS = {
    path.relative_to(ROOT).as_posix(): text for path in FILES if readable(text := sql_of(path))
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_layout_is_stable_and_keeps_the_meaning(name: str) -> None:
    """Parsed again, each statement has the tree it had; laid out again, the text stays."""
    text = TEXTS[name]

    laid_out = format_sql(text)

    assert format_sql(laid_out) == laid_out
    try:
        before = Flink().parse(text)
    except Exception:  # noqa: BLE001  a case about errors; its pieces are compared by the formatter
        return
    assert [repr(tree) for tree in Flink().parse(laid_out)] == [repr(tree) for tree in before]


BLANKS = st.sampled_from([" ", "\n", "  ", "\n\n", " \n    ", "\t"])


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(data=st.data(), name=st.sampled_from(sorted(TEXTS)))
def test_any_blanks_come_to_a_stable_layout(data: st.DataObject, name: str) -> None:
    """However the author has broken the lines, comments stay and a second time changes nothing."""
    pieces = tokenize(TEXTS[name], name)
    start = data.draw(st.integers(0, max(0, len(pieces) - 60)))
    text = ""
    for piece in pieces[start : start + 60]:
        after_line = text and text.rsplit("\n", 1)[-1].lstrip().startswith(("--", "//"))
        blank = "" if piece.glued else data.draw(BLANKS)
        text += ("\n" if after_line or "--" in text.rsplit("\n", 1)[-1] else blank) + piece.text
    laid_out = format_sql(text)

    assert format_sql(laid_out) == laid_out
    comments = [piece.text for piece in tokenize(text, name) if piece.kind is TokenKind.LINE]
    assert [p.text for p in tokenize(laid_out, name) if p.kind is TokenKind.LINE] == comments


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select  a,b from t where x=1 ;", "SELECT a, b FROM t WHERE x = 1;"),
        ("select a\nfrom t where x=1", "SELECT a\nFROM t\nWHERE x = 1"),
        ("select a,\n b from t", "SELECT\n  a,\n  b\nFROM t"),
        ("select 1; -- one\n\n\n\n-- two\nselect 2;", "SELECT 1; -- one\n\n-- two\nSELECT 2;"),
        (
            "create table t (a int, -- key\nname string) with ('k'='v')",
            "CREATE TABLE t (\n  a    INT, -- key\n  name STRING\n) WITH ('k' = 'v')",
        ),
        ("select a from t\n-- why\nwhere b", "SELECT a\nFROM t\n-- why\nWHERE b"),
        ("SELECT end FROM t", "SELECT end FROM t"),
        ("select `from`, x.date from t", "SELECT `from`, x.date FROM t"),
        ("select {{ a }}_b from {{ t }}", "select {{ a }}_b from {{ t }}"),
        ("SELECT 1;{{ a }}  b", "SELECT 1;\n{{ a }} b"),
        ("SELECT {{ a }}from,{{ b }}\nFROM c", "SELECT {{ a }}from, {{ b }}\nFROM c"),
        ("{% if x %}\nSELECT   1;\n{% endif %}", "{% if x %}\nSELECT 1;\n{% endif %}"),
        ("SELECT 1{% if x %} ,  2{% endif %};", "SELECT 1{% if x %} ,  2{% endif %};"),
        ("SELECT '{{ var('a') }}'||  'b\n  c'", "SELECT '{{ var('a') }}' || 'b\n  c'"),
        ("SELECT X'1F',u&'\\00e9', - 1,a-1", "SELECT X'1F', u&'\\00e9', - 1, a-1"),
        (
            "execute statement set begin insert into a select 1; insert into b select 2; end;",
            "EXECUTE STATEMENT SET BEGIN\n  INSERT INTO a SELECT 1;\n  INSERT INTO b SELECT 2;\nEND;",
        ),
    ],
)
def test_a_text_is_laid_out(text: str, expected: str) -> None:
    """Clauses begin lines once a query takes several; the words of names stay as they are."""
    assert format_sql(text) == expected + "\n"


def test_a_long_query_is_broken_at_its_clauses_and_lists() -> None:
    """At most 100 characters on a line, as far as there is a place to break it."""
    names = ", ".join(f"column_number_{i}" for i in range(8))
    text = f"SELECT {names} FROM (SELECT {names} FROM t) WHERE {' AND '.join(f'condition_{i} > 0' for i in range(7))};"

    laid_out = format_sql(text)

    assert max(map(len, laid_out.splitlines())) <= 100
    assert re.search(r"^  \(|^FROM \($", laid_out, re.MULTILINE)
    assert laid_out.count("\n  AND ") == 6


def test_a_string_without_an_end_is_told_where_it_begins() -> None:
    """The file stays as it is."""
    with pytest.raises(SqlSyntaxError) as caught:
        format_sql("SELECT 1;\nSELECT 'x", "a.sql")

    assert caught.value.span is not None
    assert (caught.value.span.line, caught.value.span.column) == (2, 8)


def test_set_without_quotes_stays_as_it_is() -> None:
    """Its value ends at the first blank, and its words are no keywords."""
    text = "SET table.exec.mini-batch.enabled = true;\nset x.table=-Da=b/c;\nRESET table.set;\n"

    assert format_sql(text) == text
