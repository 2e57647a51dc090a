"""How an error looks."""

from __future__ import annotations

import traceback

import pytest

from penstock.catalog.errors import (
    BadRecordError,
    InputErrors,
    PenstockError,
    RunError,
    Span,
    SqlSyntaxError,
    UnknownObjectError,
)
from penstock.sql.errors.render import WIDTH, errors_explained, render


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


# --- how errors look in the traceback of a Python program ---


SPAN = Span(file="<statement>", line=1, column=8, length=4, line_text="SELECT nope FROM orders")


def raised(error: PenstockError) -> str:
    """The traceback of a call that raises this error, through frames of the library."""

    def inner_frame() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        errors_explained(inner_frame)()
    return "".join(traceback.format_exception(caught.value))


def test_a_traceback_shows_place_and_hint_below_the_message() -> None:
    """The place with a caret under the token, as the command line shows it; no frame of the library's inside."""
    text = raised(
        UnknownObjectError("there is no column 'nope'", hint="did you mean 'note'?", span=SPAN)
    )
    lines = text.splitlines()
    message = next(n for n, line in enumerate(lines) if line.endswith("there is no column 'nope'"))

    assert lines[message + 1 :] == [
        " --> <statement>:1:8",
        "  |",
        "1 | SELECT nope FROM orders",
        "  |        ^^^^",
        "  = help: did you mean 'note'?",
    ]
    assert ", in inner_frame" not in text


def test_a_failed_run_keeps_its_frames() -> None:
    """It may be a fault of the library; the hint is there all the same."""
    text = raised(BadRecordError("topic orders, offset 12: not JSON", hint="skip them"))

    assert ", in inner_frame" in text
    assert text.endswith("help: skip them\n")


def test_each_of_several_errors_has_its_place() -> None:
    """They are of one file."""
    errors = [UnknownObjectError(f"there is no column '{name}'", span=SPAN) for name in "ab"]

    assert raised(InputErrors(errors)).count("--> <statement>:1:8") == 2


def test_an_error_that_passes_twice_has_one_note() -> None:
    """A method that programs call may call another."""
    error = UnknownObjectError("there is no table 'x'", hint="known are: o")
    raised(error)
    raised(error)

    assert error.__notes__ == ["help: known are: o"]
