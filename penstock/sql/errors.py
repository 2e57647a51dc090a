"""How an error is shown to a person: message, place, the line with a caret under the token, help."""

from __future__ import annotations

import re
from enum import StrEnum
from io import StringIO
from typing import TYPE_CHECKING

from penstock.catalog.errors import InputErrors, PenstockError, Span
from penstock.catalog.secret_mask import without_secrets

if TYPE_CHECKING:  # most commands show no error, and rich takes its time to load
    from rich.text import Text

__all__ = ["Severity", "each_of", "place_of", "plain_text", "render", "render_text"]

WIDTH = 120
"""Longer lines are cut around the place of an error; in characters."""


class Severity(StrEnum):
    """Whether what is told stops a run. GitHub's words for it are the same."""

    ERROR = "error"
    WARNING = "warning"


ERROR = "bold red"
STYLES = {Severity.ERROR: ERROR, Severity.WARNING: "bold yellow"}
PLACE = "bold blue"
HELP = "bold cyan"


def each_of(error: PenstockError) -> tuple[PenstockError, ...]:
    """The errors that an error stands for: those of InputErrors, else itself."""
    return error.errors if isinstance(error, InputErrors) else (error,)


def place_of(span: Span) -> str:
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
    text.append(f"{plain_text(place_of(span))}\n")
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
    """Give a text for a report: secrets masked, and nothing in it that a terminal or a build server would obey.

    Names and values in it are somebody else's: escapes are spelled out, and no line begins as a command of GitHub's
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
