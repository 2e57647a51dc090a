"""How errors look in the traceback of a Python program."""

from __future__ import annotations

import traceback

import pytest

from penstock.catalog.errors import (
    BadRecordError,
    InputErrors,
    PenstockError,
    Span,
    UnknownObjectError,
)
from penstock.sql.errors.render import errors_explained

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
