"""Where a cell shows things: a notebook draws in place, a terminal writes lines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

from penstock.sql.notebook.html import as_html
from penstock.sql.notebook.plain import as_text, status_line
from penstock.sql.notebook.views import View

__all__ = ["Place", "Screen", "Shown", "screen_of"]


class Shown:
    """A view as IPython displays it: HTML, with plain text beside it."""

    def __init__(self, view: View) -> None:
        self.view = view

    def __repr__(self) -> str:
        return as_text(self.view)

    def _repr_html_(self) -> str:
        return as_html(self.view)


class Place(Protocol):
    """A place on the screen whose view may change. Any thread may use it."""

    def update(self, view: View, *, last: bool = False) -> None:
        """Show a view in place of the one before; `last` says that none follows."""


Screen = Callable[[View], Place]
"""Shows a view, and gives the place where it stands."""


def screen_of(shell: Any) -> Screen:
    """Give the screen of an IPython shell."""
    return _notebook if getattr(shell, "kernel", None) is not None else _terminal


class _NotebookPlace:
    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def update(self, view: View, *, last: bool = False) -> None:  # noqa: ARG002
        self._handle.update(Shown(view))


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


def _notebook(view: View) -> Place:
    from IPython.display import display

    handle = display(Shown(view), display_id=True)  # type: ignore[no-untyped-call]
    return _NotebookPlace(handle)


def _terminal(view: View) -> Place:
    place = _TerminalPlace()
    if status_line(view):
        place.update(view)
    else:
        place.update(view, last=True)
    return place
