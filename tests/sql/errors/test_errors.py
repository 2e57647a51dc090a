"""How an error looks."""

from __future__ import annotations

from penstock.catalog.errors import InputErrors, RunError, Span, SqlSyntaxError
from penstock.sql.errors.render import WIDTH, render


def error(line: str, column: int, length: int, hint: str | None = None) -> SqlSyntaxError:
    """An error in line 12 of a file."""
    span = Span(file="jobs/a.sql", line=12, column=column, length=length, line_text=line)
    return SqlSyntaxError("unexpected 'x'", hint=hint, span=span)


def test_the_caret_stands_under_the_token() -> None:
    """Message, place, gutter, line, caret, help."""
    text = render(error("SELECT x FROM t", 8, 1, hint="did you mean y?"))

    assert text.split("\n") == [
        "error[PEN-1001]: unexpected 'x'",
        "  --> jobs/a.sql:12:8",
        "   |",
        "12 | SELECT x FROM t",
        "   |        ^",
        "   = help: did you mean y?",
    ]


def test_wide_characters_and_tabs_do_not_move_the_caret() -> None:
    """A tab is shown as one column; a wide character takes two."""
    lines = render(error("\t'日本' || x", 10, 1)).split("\n")

    assert lines[3] == "12 |  '日本' || x"
    assert lines[4] == "   |" + " " * 12 + "^"


def test_a_place_behind_the_line_is_shown_behind_it() -> None:
    """Where a statement ends too early."""
    assert render(error("SELECT", 7, 1)).split("\n")[4] == "   |       ^"


def test_a_long_line_is_cut_around_the_place() -> None:
    """The token stays in sight, its column is the true one."""
    lines = render(error("a" * 500 + " x " + "b" * 500, 502, 1)).split("\n")
    shown, caret = lines[3].removeprefix("12 | "), lines[4].removeprefix("   | ")

    assert lines[1].endswith(":502")
    assert len(shown) == WIDTH
    assert shown[caret.index("^")] == "x"


def test_an_error_without_a_place_is_two_lines() -> None:
    """Message and help."""
    assert render(RunError("broken", hint="fix it")) == "error[PEN-8000]: broken\nhelp: fix it"


def test_all_errors_of_a_file_are_shown_and_counted() -> None:
    """With an empty line between."""
    text = render(InputErrors([error("a x", 3, 1), error("b x", 3, 1)]))

    assert text.count("error[PEN-1001]: unexpected 'x'") == 2
    assert text.endswith("\n\n2 errors; nothing was started")


def test_colours_are_asked_for() -> None:
    """Plain text by default."""
    one = error("SELECT x", 8, 1)

    assert "\x1b[" not in render(one)
    assert "\x1b[1;31merror" in render(one, color=True)


def test_a_line_that_a_template_made_is_shown_beside_what_stands_in_the_file() -> None:
    """The file's line says where to edit, the rendered one what is wrong; and who asked for it."""
    span = Span(
        file="macros/m.sql",
        line=3,
        column=8,
        length=1,
        line_text="SELECT x FROM t",
        template_text="SELECT {{ a }} FROM t",
        called_from=("jobs/a.sql:12",),
    )

    text = render(SqlSyntaxError("there is no x", span=span, hint="did you mean y?"))

    assert text.split("\n") == [
        "error[PEN-1001]: there is no x",
        " --> macros/m.sql:3",
        "  |",
        "3 | SELECT {{ a }} FROM t",
        "  = rendered as",
        "  | SELECT x FROM t",
        "  |        ^",
        "  = put in from jobs/a.sql:12",
        "  = help: did you mean y?",
    ]
