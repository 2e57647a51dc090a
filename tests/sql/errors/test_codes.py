"""Errors for programs: a line each, JSON, annotations; and the table behind their codes."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.catalog.errors import (
    InputErrors,
    PenstockError,
    QueryFailedError,
    Span,
    SqlSyntaxError,
    TemplateError,
)
from penstock.sql.errors.codes import ERROR_CODES, FAMILIES, error_page
from penstock.sql.errors.render import ErrorFormat, show_error, show_failures

ROOT = Path(__file__).resolve().parents[3]

SYNTAX = SqlSyntaxError(
    "unexpected 'x'",
    hint="did you mean y?",
    span=Span(file="a,b.sql", line=3, column=8, length=4, line_text="SELECT xxxx"),
)
RENDERED = TemplateError(
    "no",
    span=Span(
        file="m.sql",
        line=1,
        column=5,
        length=2,
        line_text="made by",
        template_text="{{ m }}",
        called_from=("a.sql:2",),
    ),
)


def test_a_concise_error_is_one_line() -> None:
    """Place, code, message, hint; without the column where that is one of a template's output."""
    text = show_error(InputErrors([SYNTAX, RENDERED]), ErrorFormat.CONCISE)

    assert text.splitlines() == [
        "a,b.sql:3:8: PEN-1001 unexpected 'x' (did you mean y?)",
        "m.sql:1: PEN-1101 no",
    ]


def test_json_has_every_error_with_its_place() -> None:
    """Columns count from 1, the end is exclusive."""
    (error, rendered) = json.loads(show_error(InputErrors([SYNTAX, RENDERED]), ErrorFormat.JSON))[
        "errors"
    ]

    assert error == {
        "code": "PEN-1001",
        "message": "unexpected 'x'",
        "hint": "did you mean y?",
        "file": "a,b.sql",
        "line": 3,
        "column": 8,
        "end_column": 12,
        "called_from": [],
    }
    assert rendered["called_from"] == ["a.sql:2"]


def test_github_gets_annotations() -> None:
    """As workflow commands, with what they must not contain escaped."""
    text = show_error(InputErrors([SYNTAX, RENDERED]), ErrorFormat.GITHUB)

    assert text.splitlines() == [
        "::error file=a%2Cb.sql,line=3,title=PEN-1001,col=8,endColumn=12::unexpected 'x'%0Ahelp: did you mean y?",
        "::error file=m.sql,line=1,title=PEN-1101::no",
    ]


def own_codes(kind: type[PenstockError]) -> dict[type[PenstockError], str]:
    """The classes of the tree that have a code of their own."""
    found = {kind: kind.__dict__["code"]} if "code" in kind.__dict__ else {}
    for below in kind.__subclasses__():
        found |= own_codes(below)
    return found


def test_every_code_is_in_the_table_once() -> None:
    """And every class of the tree; kinds of other modules have a code of the tree. Its first digit is a family."""
    codes = own_codes(PenstockError)
    drawn = [code for kind, code in codes.items() if kind.__module__ == PenstockError.__module__]

    assert sorted(drawn) == sorted(one.code for one in ERROR_CODES)
    assert set(codes.values()) == set(drawn)
    assert len(set(drawn)) == len(drawn)
    assert {code[4] for code in drawn} == set(FAMILIES)


def test_the_page_of_codes_is_up_to_date() -> None:
    """`penstock errors --markdown > docs/errors.md` writes it."""
    assert (ROOT / "docs" / "errors.md").read_text(encoding="utf-8") == error_page()


def test_failures_of_a_run_are_told_in_the_shape_that_was_asked_for() -> None:
    """A line each, one document for all; a person has them in the summary."""
    failures = [SYNTAX, QueryFailedError("sink a: the disk is full")]
    lines = show_failures(failures, ErrorFormat.GITHUB) or ""
    document = json.loads(show_failures(failures, ErrorFormat.JSON) or "")

    assert [line.partition(" ")[0] for line in lines.splitlines()] == ["::error", "::error"]
    assert [each["line"] for each in document["errors"]] == [3, None]
    assert show_failures(failures, ErrorFormat.FULL) is None
    assert show_failures([], ErrorFormat.JSON) is None
