"""Where a cell shows its views: a notebook draws HTML in place, a terminal writes lines of plain text.

HTML has a small chart as inline SVG and no script. All text from tables, names and errors is escaped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, Protocol, assert_never

from penstock.connector.changelog import RowKind
from penstock.sql.cli.output.text import (
    count_text,
    lag_text,
    left_out_texts,
    watermark_text,
)
from penstock.sql.clock import duration_text
from penstock.sql.jobs.progress import JobProgress
from penstock.sql.notebook.views import JobsView, LiveView, Note, TableView, View, cell_text
from penstock.sql.observation.pipeline import JobStatus

WIDTH, HEIGHT, PAD = 220, 44, 3


def sparkline(
    title: str, values: Sequence[float | None], text: Callable[[float], str], *, color: str
) -> str:
    """Draw values, the newest at the right; None leaves a gap. `text` writes a value in words."""
    known = [value for value in values if value is not None]
    top = max(known, default=0.0)
    newest = values[-1] if values else None
    label = "-" if newest is None else text(newest)
    summary = f"{title}: {label}, at most {text(top)}" if known else f"{title}: nothing yet"
    lines = "".join(_line(run, len(values), top, color) for run in _runs(values))
    return (
        f'<figure class="penstock-chart"><figcaption>{escape(title)} <b>{escape(label)}</b>'
        f"<small>max {escape(text(top)) if known else '-'}</small></figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{escape(summary)}"><line x1="0" x2="{WIDTH}" y1="{HEIGHT - PAD}" y2="{HEIGHT - PAD}" '
        f'stroke="currentColor" stroke-opacity=".3"/>{lines}</svg></figure>'
    )


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """Cut values into runs without a gap, each value with its place."""
    runs: list[list[tuple[int, float]]] = [[]]
    for index, value in enumerate(values):
        if value is not None:
            runs[-1].append((index, value))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _line(run: list[tuple[int, float]], count: int, top: float, color: str) -> str:
    step = WIDTH / max(count - 1, 1)
    height = HEIGHT - 2 * PAD
    points = [
        (index * step, HEIGHT - PAD - (value / top * height if top > 0 else 0.0))
        for index, value in run
    ]
    if len(points) == 1:
        x, y = points[0]
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{color}"/>'
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    base = HEIGHT - PAD
    area = f"{points[0][0]:.1f},{base} {path} {points[-1][0]:.1f},{base}"
    return (
        f'<polygon points="{area}" fill="{color}" fill-opacity=".15"/>'
        f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5" stroke-linejoin="round"/>'
    )


OP = "op"

_BLUE, _ORANGE = "#3b82c4", "#c7791a"  # readable on white and on black

_KINDS = {
    RowKind.INSERT.short: "new",
    RowKind.UPDATE_BEFORE.short: "old",
    RowKind.UPDATE_AFTER.short: "new",
    RowKind.DELETE.short: "gone",
}

_STYLE = """<style>
.penstock{font-size:13px;line-height:1.4;margin:.3em 0}
.penstock .box{overflow-x:auto}
.penstock .box table{border-collapse:collapse;margin:0;color:inherit}
.penstock .box table th,.penstock .box table td{padding:.2em .7em;text-align:left;vertical-align:top;
 white-space:pre-wrap;border:0;border-bottom:1px solid rgba(128,128,128,.3);background:none;
 max-width:40em;overflow-wrap:anywhere}
.penstock .box table th{border-bottom-width:2px;font-weight:600}
.penstock th small{display:block;font-weight:400;opacity:.65}
.penstock .box table .n{text-align:right;font-variant-numeric:tabular-nums}
.penstock .null{opacity:.5;font-style:italic}
.penstock .op{font-family:monospace}
.penstock .new .op{color:#2a9d57}.penstock .old .op{color:#c7791a}.penstock .gone .op{color:#d64545}
.penstock .gone td:not(.op){text-decoration:line-through;opacity:.7}
.penstock .note{opacity:.75;margin:.3em 0}
.penstock pre.error{color:#d64545;background:none;white-space:pre-wrap;margin:0;font-family:monospace}
.penstock-chart{display:inline-block;margin:.2em 1.5em .2em 0}
.penstock-chart figcaption{font-size:12px}
.penstock-chart figcaption small{opacity:.65;margin-left:.7em}
.penstock-chart svg{display:block}
</style>"""


def as_html(view: View) -> str:
    """Draw a view."""
    match view:
        case TableView():
            body = _table(view)
        case LiveView():
            body = _live(view)
        case JobsView():
            body = _jobs(view)
        case Note(text=text, is_error=True):
            body = f'<pre class="error">{escape(text)}</pre>'
        case Note(text=text):
            body = f'<div class="note">{escape(text)}</div>'
        case _:
            assert_never(view)
    return f'{_STYLE}<div class="penstock">{body}</div>'


def _table(view: TableView) -> str:
    heads = "".join(
        f"<th{_class(head.numeric)}>{escape(head.name)}"
        + (f"<small>{escape(head.type)}</small>" if head.type else "")
        + "</th>"
        for head in view.heads
    )
    changes = bool(view.heads) and view.heads[0].name == OP
    rows = "".join(_row(view, row, changes=changes) for row in view.rows)
    return (
        f'<div class="box"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
        f'<div class="note">{escape(count_note(view))}</div>'
    )


def count_note(view: TableView) -> str:
    """Describe how many rows are shown, and whether there are more."""
    count = f"{len(view.rows):,} row{'' if len(view.rows) == 1 else 's'}"
    if not view.more:
        return count
    if view.newest:
        return f"newest {count}; there were more"
    return f"first {count}; there are more" + (" (--limit shows more)" if view.limit else "")


def _row(view: TableView, row: tuple[Any, ...], *, changes: bool) -> str:
    cells = "".join(
        f'<td class="op">{escape(cell_text(value))}</td>'
        if changes and index == 0
        else _cell(value, numeric=head.numeric)
        for index, (head, value) in enumerate(zip(view.heads, row, strict=True))
    )
    kind = _KINDS.get(str(row[0])) if changes else None
    return f'<tr class="{kind}">{cells}</tr>' if kind else f"<tr>{cells}</tr>"


def _cell(value: Any, *, numeric: bool) -> str:
    if value is None:
        return f'<td{_class(numeric)}><span class="null">NULL</span></td>'
    return f"<td{_class(numeric)}>{escape(cell_text(value))}</td>"


def _class(numeric: bool) -> str:
    return ' class="n"' if numeric else ""


def _live(view: LiveView) -> str:
    rates = [sample.rows_per_second for sample in view.samples]
    lags = [None if s.lag_ms is None else float(s.lag_ms) for s in view.samples]
    charts = sparkline("rows/s", rates, lambda value: f"{value:,.0f}", color=_BLUE)
    charts += sparkline(
        "watermark lag", lags, lambda value: duration_text(int(value)), color=_ORANGE
    )
    said = f'<div class="note">{escape(view.sentence)}</div>' if view.sentence else ""
    return f'<div class="note">{escape(live_line(view))}</div>{said}{charts}{_table(view.table)}'


def live_line(view: LiveView) -> str:
    """Describe the state of a followed query in one line."""
    running = "starting" if view.starting else "following"
    state = view.ended or f"{running}; interrupt the cell to end"
    batches = f"{count_text(view.batches)} batch{'' if view.batches == 1 else 'es'}"
    texts = left_out_texts(view.rows_dropped, view.bad_records, view.records_lost)
    left_out = "".join(f"{text} · " for text in texts)
    return (
        f"{state} · {count_text(view.rows_seen)} rows · {count_text(view.rows_in)} read in {batches} · {left_out}"
        f"watermark {watermark_text(view.watermark_ms)} · {duration_text(int(view.seconds * 1000))}"
    )


JOB_HEADS = (
    "job",
    "status",
    "rows/s",
    "read",
    "written",
    "watermark",
    "lag",
    "behind",
    "late",
    "bad",
)


def _jobs(view: JobsView) -> str:
    heads = "".join(
        f"<th{_class(index > 1)}>{escape(head)}</th>" for index, head in enumerate(JOB_HEADS)
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{_class(index > 1)}>{escape(text)}</td>"
            for index, text in enumerate(job_texts(job.progress, view.now_ms))
        )
        + "</tr>"
        for job in view.jobs
    )
    said = "".join(f'<div class="note">{escape(text)}</div>' for text in sentences(view))
    errors = "".join(f'<pre class="error">{escape(text)}</pre>' for text in view.errors)
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="box">{table}</div>{said}{errors}'


def sentences(view: JobsView) -> list[str]:
    """Say of each running job what it does, or why nothing comes out of it."""
    running = [job for job in view.jobs if not job.progress.status.final]
    return [f"{job.progress.sink}: {job.sentence(view.now_ms)}" for job in running]


def job_texts(job: JobProgress, now_ms: int) -> tuple[str, ...]:
    """Write what is shown of a job, in the order of its heads."""
    running = job.status is JobStatus.RUNNING
    status = job.activity if running and (job.refreshes or not job.batches) else job.status.value
    return (
        job.name,
        f"waiting for {job.outage}" if running and job.outage is not None else status,
        count_text(job.rows_per_second) if running else "-",
        count_text(None if job.refreshes else job.rows_in),
        count_text(None if job.refreshes else job.rows_out),
        watermark_text(job.watermark_ms),
        lag_text(job.watermark_ms, now_ms),
        count_text(job.lag_records),
        count_text(job.rows_dropped),
        count_text(job.bad_records),
    )


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
            said = f"\n{view.sentence}" if view.sentence else ""
            return f"{as_text(view.table)}\n{live_line(view)}{said}"
        case JobsView():
            right = [index > 1 for index in range(len(JOB_HEADS))]
            rows = [list(job_texts(job.progress, view.now_ms)) for job in view.jobs]
            return "\n".join([_aligned(JOB_HEADS, rows, right), *sentences(view), *view.errors])
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
                " ".join(text for text in job_texts(job.progress, view.now_ms)[:5])
                for job in view.jobs
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


class _NotebookOutput:
    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def update(self, view: View, *, last: bool = False) -> None:  # noqa: ARG002
        self._handle.update(DisplayedView(view))


class _TerminalOutput:
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
    return _NotebookOutput(handle)


def _terminal(view: View) -> OutputArea:
    output = _TerminalOutput()
    if status_line(view):
        output.update(view)
    else:
        output.update(view, last=True)
    return output
