"""Render an error for a person: message, position, the source line with a caret, and the hint.

For programs that call `connect`, `Session` and `Job`, the same lines stand below the message in Python's
traceback.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from io import StringIO
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from penstock.catalog.errors import InputError, InputErrors, PenstockError, Span
from penstock.catalog.masking import without_secrets

if TYPE_CHECKING:
    from rich.text import Text

__all__ = [
    "Severity",
    "each_of",
    "errors_explained",
    "plain_text",
    "position_text",
    "render",
    "render_text",
]

WIDTH = 120
"""Longer lines are cut around the place of an error; in characters."""


ERROR = "bold red"


class Severity(StrEnum):
    """Whether what is reported stops a run. GitHub's words for it are the same."""

    ERROR = "error"
    WARNING = "warning"


STYLES = {Severity.ERROR: ERROR, Severity.WARNING: "bold yellow"}

PLACE = "bold blue"

HELP = "bold cyan"


def each_of(error: PenstockError) -> tuple[PenstockError, ...]:
    """The errors of an error: those of InputErrors, else itself."""
    return error.errors if isinstance(error, InputErrors) else (error,)


def position_text(span: Span) -> str:
    """Write a place as `file:line:column`; without the column where that is one of a template's output."""
    column = "" if span.template_text is not None else f":{span.column}"
    return f"{span.file}:{span.line}{column}"


def render(
    error: PenstockError, *, color: bool = False, severity: Severity = Severity.ERROR
) -> str:
    """The text of an error (of each, for InputErrors), with ANSI colours if asked for."""
    text = render_text(error, severity)
    if not color:
        return text.plain
    from rich.console import Console

    console = Console(file=StringIO(), force_terminal=True, color_system="standard", soft_wrap=True)
    with console.capture() as captured:
        console.print(text, end="")
    return captured.get()


def render_text(error: PenstockError, severity: Severity = Severity.ERROR) -> Text:
    """As `render`, for a rich console."""
    from rich.text import Text

    errors = each_of(error)
    text = Text("\n\n").join(_render_one(one, severity) for one in errors)
    if len(errors) > 1:
        text.append(f"\n\n{len(errors)} errors; nothing was started", style=ERROR)
    return text


def _render_one(error: PenstockError, severity: Severity) -> Text:
    from rich.text import Text

    text = Text()
    text.append(f"{severity}[{error.code}]", style=STYLES[severity])
    text.append(f": {plain_text(error.message)}", style="bold")
    gutter = " " * len(str(error.span.line)) if error.span else ""
    if error.span:
        _append_place(text, error.span, gutter)
    for place in error.span.called_from if error.span else ():
        text.append(f"\n{gutter} = ", style=PLACE)
        text.append(f"put in from {place}")
    if error.hint:
        text.append(f"\n{gutter} " if gutter else "\n")
        text.append("= help" if gutter else "help", style=HELP)
        text.append(f": {plain_text(error.hint)}")
    return text


def _append_place(text: Text, span: Span, gutter: str) -> None:
    from rich.cells import cell_len

    line, start = _shown(span)
    before, marked = line[:start], line[start : start + span.length]
    text.append(f"\n{gutter}--> ", style=PLACE)
    text.append(f"{plain_text(position_text(span))}\n")
    text.append(f"{gutter} |\n{span.line} | ", style=PLACE)
    if span.template_text is not None:
        text.append(f"{_clipped(span.template_text)}\n")
        text.append(f"{gutter} = ", style=PLACE)
        text.append("rendered as\n")
        text.append(f"{gutter} | ", style=PLACE)
    text.append(f"{line}\n")
    text.append(f"{gutter} | ", style=PLACE)
    text.append(" " * max(cell_len(before), start - len(before)))
    text.append("^" * max(1, cell_len(marked)), style=ERROR)


def plain_text(text: str) -> str:
    """Return a text for a report: secrets masked, and nothing in it that a terminal or a build server would obey.

    Names and values in it are untrusted: escapes are spelled out, and no line begins as a command of GitHub's
    (`::add-path::`) or Azure's (`##vso[...]`) runners does.
    """
    safe = "".join(
        c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in without_secrets(text)
    )
    return re.sub(r"^(\s*)(::|##)", r"\1\\\2", safe, flags=re.MULTILINE)


def _clipped(line: str) -> str:
    line = "".join(c if c.isprintable() else " " for c in line)
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."


def _shown(span: Span) -> tuple[str, int]:
    """The line, or as much of a long one as fits around the place, and where the place is in it."""
    # a tab is shown as one column, so that the caret stands right
    line = "".join(c if c.isprintable() else " " if c == "\t" else "\ufffd" for c in span.line_text)
    start = span.column - 1
    if len(line) <= WIDTH:
        return line, start
    first = max(0, min(start - WIDTH // 3, len(line) - WIDTH))
    last = first + WIDTH
    dots = "..." if first else ""
    shown = (
        dots
        + line[first + len(dots) : last - 3]
        + ("..." if last < len(line) else line[last - 3 : last])
    )
    return shown, start - first


P = ParamSpec("P")

T = TypeVar("T")


def errors_explained(call: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function so that its errors carry a note (PEP 678's `__notes__`) with their place and hint.

    An InputError is about what was given, so its traceback ends at the call; others keep theirs.
    """

    @wraps(call)
    def explained(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except PenstockError as error:
            note = _note(error)
            if note and note not in getattr(error, "__notes__", ()):
                error.add_note(note)
            if isinstance(error, InputError):
                raise error.with_traceback(None) from error.__cause__
            raise

    return explained


def _note(error: PenstockError) -> str:
    """Write what the message leaves out: for one error the lines below it, for several all of them."""
    lines = render(error).splitlines()
    if len(each_of(error)) > 1:
        return "\n".join(lines)
    return "\n".join(lines[len(error.message.splitlines()) or 1 :])
