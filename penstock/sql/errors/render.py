"""Show errors: to a person as text with the source line, a caret and the hint; to programs as JSON or annotations."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import wraps
from io import StringIO
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, assert_never

from penstock.catalog.errors import InputError, InputErrors, PenstockError, Span
from penstock.catalog.masking import without_secrets

if TYPE_CHECKING:
    from rich.text import Text


WIDTH = 120
"""Longer lines are cut around the place of an error; in characters."""


ERROR = "bold red"


class Severity(StrEnum):
    """Whether what is reported stops a run. GitHub's words for it are the same."""

    ERROR = "error"
    WARNING = "warning"


STYLES = {Severity.ERROR: ERROR, Severity.WARNING: "bold yellow"}

POSITION_STYLE = "bold blue"

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
        _append_position(text, error.span, gutter)
    for position in error.span.called_from if error.span else ():
        text.append(f"\n{gutter} = ", style=POSITION_STYLE)
        text.append(f"put in from {position}")
    if error.hint:
        text.append(f"\n{gutter} " if gutter else "\n")
        text.append("= help" if gutter else "help", style=HELP)
        text.append(f": {plain_text(error.hint)}")
    return text


def _append_position(text: Text, span: Span, gutter: str) -> None:
    from rich.cells import cell_len

    line, start = _shown(span)
    before, marked = line[:start], line[start : start + span.length]
    text.append(f"\n{gutter}--> ", style=POSITION_STYLE)
    text.append(f"{plain_text(position_text(span))}\n")
    text.append(f"{gutter} |\n{span.line} | ", style=POSITION_STYLE)
    if span.template_text is not None:
        text.append(f"{_clipped(span.template_text)}\n")
        text.append(f"{gutter} = ", style=POSITION_STYLE)
        text.append("rendered as\n")
        text.append(f"{gutter} | ", style=POSITION_STYLE)
    text.append(f"{line}\n")
    text.append(f"{gutter} | ", style=POSITION_STYLE)
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


_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = _DATA | {":": "%3A", ",": "%2C"}


class ErrorFormat(StrEnum):
    """The shape of errors: `full` for a person, `concise` a line each, `json`, `github` for Actions."""

    FULL = "full"
    CONCISE = "concise"
    JSON = "json"
    GITHUB = "github"


def show_failures(failures: Sequence[PenstockError], shape: ErrorFormat) -> str | None:
    """Write the failures of a run, for a program: one text for all; None for a person, who reads the summary."""
    found = [each for failure in failures for each in each_of(failure)]
    if not found or shape is ErrorFormat.FULL:
        return None
    if shape is ErrorFormat.JSON:
        document = {"errors": [_values(each) for each in found]}
        return json.dumps(document, indent=2, ensure_ascii=False)
    return "\n".join(show_error(each, shape) for each in found)


def show_error(
    error: PenstockError,
    shape: ErrorFormat,
    *,
    color: bool = False,
    severity: Severity = Severity.ERROR,
) -> str:
    """Write an error or a warning, or each of several, without a newline at the end. Secrets are masked."""
    match shape:
        case ErrorFormat.FULL:
            return render(error, color=color, severity=severity).rstrip()
        case ErrorFormat.CONCISE:
            return "\n".join(_concise(each, severity) for each in each_of(error))
        case ErrorFormat.JSON:
            document = {f"{severity}s": error_document(error)}
            return json.dumps(document, indent=2, ensure_ascii=False)
        case ErrorFormat.GITHUB:
            return "\n".join(_github(each, severity) for each in each_of(error))
    assert_never(shape)


def error_document(error: PenstockError) -> list[dict[str, Any]]:
    """Return an error, or each of several, as plain values. Lines and columns count from 1, `end_column` is exclusive.

    A column is one of the rendered text, which is the file's own where there is no template.
    """
    return [_values(each) for each in each_of(error)]


def _values(error: PenstockError) -> dict[str, Any]:
    span = error.span
    return {
        "code": error.code,
        "message": without_secrets(error.message),
        "hint": without_secrets(error.hint) if error.hint else None,
        "file": span.file if span else None,
        "line": span.line if span else None,
        "column": span.column if span else None,
        "end_column": span.column + span.length if span else None,
        "called_from": list(span.called_from) if span else [],
    }


def _concise(error: PenstockError, severity: Severity = Severity.ERROR) -> str:
    word = "warning " if severity is Severity.WARNING else ""
    position = f"{position_text(error.span)}: " if error.span else ""
    hint = f" ({error.hint})" if error.hint else ""
    line = f"{position}{word}{error.code} {error.message}{hint}".replace("\n", " ")
    return plain_text(line)


def _github(error: PenstockError, severity: Severity = Severity.ERROR) -> str:
    """Write a workflow command of GitHub Actions."""
    span = error.span
    fields = {"title": error.code}
    if span is not None:
        fields = {"file": span.file, "line": str(span.line)} | fields
        if span.template_text is None:
            fields |= {"col": str(span.column), "endColumn": str(span.column + span.length)}
    shown = ",".join(f"{key}={_escaped(value, _PROPERTY)}" for key, value in fields.items())
    text = error.message if not error.hint else f"{error.message}\nhelp: {error.hint}"
    return f"::{severity} {shown}::{_escaped(plain_text(text), _DATA)}"


def _escaped(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(char, char) for char in text)
