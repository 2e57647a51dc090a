"""Views as plain text, for a terminal and for front ends that show no HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from penstock.sql.notebook.cells import cell_text
from penstock.sql.notebook.html import JOB_HEADS, count_note, job_texts, live_line
from penstock.sql.notebook.views import JobsView, LiveView, Note, TableView, View

__all__ = ["as_text", "status_line"]

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
