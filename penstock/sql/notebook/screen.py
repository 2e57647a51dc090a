"""Where a cell shows its views: a notebook draws HTML in place, a terminal writes lines of plain text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol, assert_never

from penstock.sql.notebook.html import JOB_HEADS, as_html, count_note, job_texts, live_line
from penstock.sql.notebook.views import JobsView, LiveView, Note, TableView, View, cell_text

__all__ = ["DisplayedView", "OutputArea", "Screen", "as_text", "screen_of", "status_line"]

WIDEST = 60
"""Characters of a value in a column; the rest is cut."""


def as_text(view: View) -> str:
    """Write a view."""
    match view:
        case TableView():
            names = [head.name for head in view.heads]
            right = [head.numeric for head in view.heads]
            rows = [[cell_text(value) for value in row] for row in view.rows]
            return f"{_aligned(names, rows, right)}\n({count_note(view)})"
        case LiveView():
            return f"{as_text(view.table)}\n{live_line(view)}"
        case JobsView():
            right = [index > 1 for index in range(len(JOB_HEADS))]
            rows = [list(job_texts(job, view.now_ms)) for job in view.jobs]
            return "\n".join([_aligned(JOB_HEADS, rows, right), *view.errors])
        case Note(text=text):
            return text
    assert_never(view)


def status_line(view: View) -> str:
    """Write a view that changes in one line."""
    match view:
        case LiveView():
            return live_line(view)
        case JobsView():
            return "; ".join(
                " ".join(text for text in job_texts(job, view.now_ms)[:5]) for job in view.jobs
            )
        case TableView() | Note():
            return ""
    assert_never(view)


def _aligned(names: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    lines = [list(names), *([_cut(text) for text in row] for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(names))]
    return "\n".join(
        "  ".join(
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def _cut(text: str) -> str:
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


class DisplayedView:
    """A view as IPython displays it: HTML, with plain text beside it."""

    def __init__(self, view: View) -> None:
        self.view = view

    def __repr__(self) -> str:
        return as_text(self.view)

    def _repr_html_(self) -> str:
        return as_html(self.view)


class OutputArea(Protocol):
    """A place on the screen whose view may change. Any thread may use it."""

    def update(self, view: View, *, last: bool = False) -> None:
        """Show a view in place of the one before; `last` says that none follows."""


Screen = Callable[[View], OutputArea]
"""Shows a view, and returns its place."""


def screen_of(shell: Any) -> Screen:
    """Return the screen of an IPython shell."""
    return _notebook if getattr(shell, "kernel", None) is not None else _terminal


class _NotebookPlace:
    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def update(self, view: View, *, last: bool = False) -> None:  # noqa: ARG002
        self._handle.update(DisplayedView(view))


class _TerminalPlace:
    """Rewrites one line while things change, and writes the last view whole."""

    def __init__(self) -> None:
        self._written = 0

    def update(self, view: View, *, last: bool = False) -> None:
        line = status_line(view)
        clear = f"\r{' ' * self._written}\r" if self._written else ""
        self._written = 0 if last else len(line)
        sys.stdout.write(clear + (f"{as_text(view)}\n" if last else line))
        sys.stdout.flush()


def _notebook(view: View) -> OutputArea:
    from IPython.display import display

    handle = display(DisplayedView(view), display_id=True)  # type: ignore[no-untyped-call]
    return _NotebookPlace(handle)


def _terminal(view: View) -> OutputArea:
    place = _TerminalPlace()
    if status_line(view):
        place.update(view)
    else:
        place.update(view, last=True)
    return place
