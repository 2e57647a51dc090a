"""The pipelines of a project on the screen: one table on a terminal, a line for each that has changed elsewhere."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

from penstock.catalog.masking import masked
from penstock.sql.cli.output.report import print_lines, say
from penstock.sql.cli.output.row_text import RowFormat
from penstock.sql.cli.output.text import cell_text, count_text, instant_text
from penstock.sql.clock import Clock, SystemClock
from penstock.sql.processes.overview import SUMMARY, pipeline_documents
from penstock.sql.ui.documents.trend import TRENDS

if TYPE_CHECKING:
    from rich.table import Table

    from penstock.sql.processes.supervisor import ProcessView
    from penstock.sql.ui.documents.fields import Document


REFRESH_PER_SECOND = 4

LOG_INTERVAL_MS = 5_000
UNCHANGED_INTERVAL_MS = 60_000
"""A pipeline of which nothing changed has a line again after so long: a silent log could be a dead process."""

FIGURES_MS = 1_000
"""A log has one line of changed figures in this time at most, on average: of 30 pipelines one each in 30 s."""

JSON_INTERVAL_MS = 1_000

_COLORS = {"failed": "red", "restarting": "yellow", "starting": "yellow", "running": "green"}

Processes = Callable[[], Sequence["ProcessView"]]


@contextmanager
def showing_overview(
    processes: Processes, output: RowFormat, clock: Clock | None = None
) -> Iterator[None]:
    """Show the pipelines while the block runs: on stderr for people, on stdout as a JSON object a line."""
    clock = clock or SystemClock()
    if output is RowFormat.JSON:
        log = OverviewLog(print_lines, _json_line, unchanged_ms=None)
        with _repeating(processes, log, clock, JSON_INTERVAL_MS):
            yield
    elif sys.stderr.isatty():
        with _live(processes, clock):
            yield
    else:
        log = OverviewLog(
            lambda lines: say(*lines),
            _timed_line,
            unchanged_ms=UNCHANGED_INTERVAL_MS,
            figures_ms=FIGURES_MS,
        )
        with _repeating(processes, log, clock, LOG_INTERVAL_MS):
            yield


_LOOKED_AT_FIRST = ("failed", "restarting", "starting", "running", "waiting")
"""The states of those that are shown first where there is no room for all; others have ended."""


def overview_table(pipelines: Sequence[Document], height: int | None = None) -> Table:
    """Draw one line a pipeline. What is more than `height` lines with their head is counted, by state, in the last one.

    Where each has one line, sentences are cut at the edge of the screen.
    """
    from rich.table import Table
    from rich.text import Text  # names and messages may hold brackets, which are not markup

    shown, left = _fitting(pipelines, height)
    is_tight = height is not None and 2 * len(pipelines) + 1 > height
    table = Table(box=None, pad_edge=False, header_style="dim", expand=is_tight)
    table.add_column("pipeline", no_wrap=True, overflow="ellipsis", min_width=8)
    table.add_column("state", no_wrap=True)
    for header in ("rows/s", "behind", "restarts"):
        table.add_column(header, justify="right", no_wrap=True)
    if is_tight:
        # the others have the width that they need
        table.add_column("", style="dim", overflow="ellipsis", no_wrap=True, ratio=1)
    else:
        table.add_column("", style="dim", overflow="fold")
    for each in shown:
        status = str(each["status"])
        table.add_row(
            Text(cell_text(str(each["name"]))),
            Text(cell_text(status), style=_COLORS.get(status, "")),
            _figure(each, "rows_per_second"),
            _figure(each, "lag_records"),
            _restarts(each),
            Text(cell_text(_sentence(each))),
        )
    if left:
        table.add_row(Text(f"{len(left)} more", style="dim"), "", "", "", "", Text(_counts(left)))
    return table


def _fitting(
    pipelines: Sequence[Document], height: int | None
) -> tuple[Sequence[Document], Sequence[Document]]:
    """Return the pipelines that have a line, in their order, and those that do not."""
    if height is None or len(pipelines) < height:
        return pipelines, ()
    # a line is the head's and one counts the others
    room = max(height - 2, 1)
    ranks = {status: rank for rank, status in enumerate(_LOOKED_AT_FIRST)}
    by_rank = sorted(
        range(len(pipelines)), key=lambda at: ranks.get(str(pipelines[at]["status"]), len(ranks))
    )
    chosen = {*by_rank[:room]}
    return (
        [each for at, each in enumerate(pipelines) if at in chosen],
        [each for at, each in enumerate(pipelines) if at not in chosen],
    )


def _counts(pipelines: Sequence[Document]) -> str:
    counts = Counter(str(each["status"]) for each in pipelines)
    return ", ".join(f"{count} {status}" for status, count in counts.most_common())


def _sentence(pipeline: Document) -> str:
    """Return the sentence without the status that it may begin with."""
    sentence, status = str(pipeline.get("sentence", "")), str(pipeline["status"])
    return sentence.removeprefix(status).lstrip(": ")


def overview_line(pipeline: Document) -> str:
    """Return the same as one line for a log."""
    facts = [str(pipeline["status"])]
    if "rows_per_second" in pipeline:
        facts.append(f"{_figure(pipeline, 'rows_per_second')} rows/s")
    if "lag_records" in pipeline:
        facts.append(f"{_figure(pipeline, 'lag_records')} behind")
    if restarts := pipeline.get("restarts"):
        facts.append(f"{_restarts(pipeline)} restart{'' if restarts == 1 else 's'}")
    return f"{pipeline['name']}: {', '.join(facts)}: {_sentence(pipeline)}".rstrip(": ")


def json_lines(processes: Sequence[ProcessView]) -> list[str]:
    """Return the pipelines as they are at the end, a JSON object each."""
    now_ms = SystemClock().now_ms()
    return [_json_line(each, now_ms) for each in pipeline_documents(processes, now_ms)]


def _figure(pipeline: Document, field: str) -> str:
    value = pipeline.get(field)
    return "-" if value is None else count_text(value)


def _restarts(pipeline: Document) -> str:
    """Write the restarts, and how many of those that are allowed they are now."""
    restarts = _figure(pipeline, "restarts")
    if counted := pipeline.get("restarts_counted"):
        return f"{restarts} ({counted} of {pipeline['restart_limit']})"
    return restarts


def _json_line(pipeline: Document, _now_ms: int) -> str:
    # the trends change each half minute, though nothing happens
    fields = (key for key in SUMMARY if key not in TRENDS and key in pipeline)
    return json.dumps(masked({key: pipeline[key] for key in fields}))


def _timed_line(pipeline: Document, now_ms: int) -> str:
    return f"{instant_text(now_ms)} {overview_line(pipeline)}"


class OverviewLog:
    """Writes a line for each pipeline that changed; for the others once in `unchanged_ms`, or never.

    One whose state is the same, and its restarts, has no line again before `figures_ms` for each pipeline have passed.
    """

    def __init__(
        self,
        write: Callable[[Sequence[str]], None],
        line: Callable[[Document, int], str],
        *,
        unchanged_ms: int | None,
        figures_ms: int = 0,
    ) -> None:
        self._write = write
        self._line = line
        self._unchanged_ms = unchanged_ms
        self._figures_ms = figures_ms
        self._last: dict[str, tuple[object, str, int]] = {}
        """By pipeline: its state, what its last line had without the time, and when it was written (monotonic)."""

    def write(self, pipelines: Sequence[Document], now_ms: int, monotonic_ms: int) -> None:
        """Log the pipelines at this time; how long lines are apart goes by a clock that nobody sets."""
        lines: list[str] = []
        pause_ms = self._figures_ms * len(pipelines)
        for each in pipelines:
            name, content = str(each["name"]), self._line(each, 0)
            state = (each["status"], each.get("restarts"))
            old_state, old_content, written_ms = self._last.get(name, (None, "", 0))
            age_ms = monotonic_ms - written_ms
            is_due = self._unchanged_ms is not None and age_ms >= self._unchanged_ms
            if state != old_state or (content != old_content and age_ms >= pause_ms) or is_due:
                self._last[name] = (state, content, monotonic_ms)
                lines.append(self._line(each, now_ms))
        if lines:
            self._write(lines)


@contextmanager
def _repeating(
    processes: Processes, log: OverviewLog, clock: Clock, interval_ms: int
) -> Iterator[None]:
    end = Event()

    def write_until_end() -> None:
        while not clock.wait(end, interval_ms):
            now_ms = clock.now_ms()
            log.write(pipeline_documents(processes(), now_ms), now_ms, clock.monotonic_ms())

    thread = Thread(target=write_until_end, name="penstock overview", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


@contextmanager
def _live(processes: Processes, clock: Clock) -> Iterator[None]:
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    with Live(
        console=console,
        get_renderable=lambda: overview_table(
            pipeline_documents(processes(), clock.now_ms()), console.height
        ),
        refresh_per_second=REFRESH_PER_SECOND,
        transient=True,
        redirect_stdout=True,
    ):
        yield
