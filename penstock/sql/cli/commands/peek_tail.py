"""`penstock peek` and `penstock tail`: the first rows of a table, and its rows as they come, without Spark.

`tail` also shows how the splits of the table advance.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.catalog.definitions.resolver import Namespace
from penstock.sql.cli.commands.catalog import open_catalog
from penstock.sql.cli.options import (
    CatalogOption,
    FromOption,
    RowFormatOption,
    TableArgument,
    TargetOption,
    VerboseOption,
)
from penstock.sql.cli.output.report import reporting, say
from penstock.sql.cli.output.row_text import RowFormat, RowWriter
from penstock.sql.cli.output.text import (
    count_text,
    looked_at_lines,
    split_line,
    split_table,
)
from penstock.sql.cli.signals import running
from penstock.sql.clock import SystemClock, duration_text
from penstock.sql.script.project import find_project

if TYPE_CHECKING:
    from penstock.connector.local.job import LocalJob
    from penstock.connector.local.job_master import JobSettings
    from penstock.connector.local.split_status import LocalJobStatus
    from penstock.sql.runner.first_rows import RowsEnd
    from penstock.sql.runner.table_scan import SplitScan


def peek(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    table: TableArgument,
    limit: Annotated[
        int,
        typer.Option(
            "--limit",
            "-n",
            min=1,
            envvar="PENSTOCK_LIMIT",
            help="How many rows to show. Example: `--limit 3`",
        ),
    ] = 10,
    start: FromOption = None,
    output: RowFormatOption = RowFormat.TABLE,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=1,
            envvar="PENSTOCK_TIMEOUT",
            help="How long to wait for the next rows. Example: `--timeout 30`",
        ),
    ] = 10.0,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Show the first rows of a table, in seconds and without Spark. Example: `penstock peek orders --limit 3`

    Starts at the table's startup mode. Commits no offsets, and joins no consumer group.
    """
    with reporting(context, verbose=verbose):
        from penstock.connector.local.job import LocalJob
        from penstock.sql.runner.first_rows import peek_settings, take_rows
        from penstock.sql.runner.table_scan import left_out_note, open_scan

        project = find_project(Path.cwd(), target=target)
        scan = open_scan(
            Namespace(open_catalog(catalog, project)), table, project, start=start, follow=False
        )
        say(*left_out_note(scan))
        writer = RowWriter(scan.columns, output)
        with running(LocalJob(scan.source, peek_settings(scan))) as job:
            end = take_rows(job, scan, writer.write, limit=limit, timeout_ms=round(timeout * 1000))
            status = job.status
        say(*_closing_lines(end, writer.written, status, round(timeout * 1000)))


def _closing_lines(end: RowsEnd, rows: int, status: LocalJobStatus, timeout_ms: int) -> list[str]:
    """Report on stderr why there are no more rows."""
    from penstock.sql.runner.first_rows import RowsEnd

    counted = f"{count_text(rows)} row{'' if rows == 1 else 's'}"
    lines: list[str] = []
    match end:
        case RowsEnd.ENOUGH:
            lines.append(f"{counted}; --limit shows more")
        case RowsEnd.NO_MORE if rows:
            lines.append(f"{counted}, all that there are")
        case RowsEnd.NO_MORE:
            lines += ["no rows: there is nothing to read", *looked_at_lines(status)]
        case RowsEnd.TIMEOUT if not status.splits:
            lines.append("no rows: the table has no splits to read (partitions, files)")
        case RowsEnd.TIMEOUT:
            waited = duration_text(timeout_ms)
            lines += [f"{counted}, and no other within {waited}", *looked_at_lines(status)]
    at_end = status.splits and all(s.start == s.end and s.end for s in status.splits)
    if not rows and at_end:
        lines.append("help: the table starts at its end; --from earliest reads what is there")
    if status.skipped:
        lines.append(f"{count_text(status.skipped)} bad or empty records skipped")
    return lines


TAKE_S = 0.1
LOG_INTERVAL_MS = 5_000
REFRESH_PER_SECOND = 4
LOOK_INTERVAL_MS = 1_000
CHECKPOINT_INTERVAL_MS = 1_000
"""A failed reader resumes from there, so that rows of about a second may come twice."""


def tail(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    table: TableArgument,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            min=1,
            envvar="PENSTOCK_LIMIT",
            help="End after so many rows; default never. Example: `--limit 100`",
            show_default=False,
        ),
    ] = None,
    start: FromOption = None,
    watermarks: Annotated[
        bool,
        typer.Option(
            "--watermarks",
            envvar="PENSTOCK_WATERMARKS",
            help="Show on stderr how each split advances: position, lag, watermark, idle, paused and why. Rows then "
            "come as the table's watermark alignment lets them. Example: `--watermarks`",
        ),
    ] = False,
    output: RowFormatOption = RowFormat.TABLE,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Show rows of a table as they arrive, until Ctrl-C. Example: `penstock tail orders --watermarks`

    Starts at the latest records; `--from earliest` begins with the oldest. Commits no offsets, and joins no
    consumer group.
    """
    with reporting(context, verbose=verbose), _stop_signals() as stop:
        from penstock.connector.local.job import LocalJob
        from penstock.sql.runner.table_scan import left_out_note, open_scan

        project = find_project(Path.cwd(), target=target)
        scan = open_scan(
            Namespace(open_catalog(catalog, project)), table, project, start=start, follow=True
        )
        say(*left_out_note(scan))
        settings = _settings(scan, watermarks)
        writer = RowWriter(scan.columns, output)
        with (
            running(LocalJob(scan.source, settings)) as job,
            _view(job, scan, watermarks) as refresh,
        ):
            _follow(job, scan, writer, limit, stop, refresh)
            skipped = job.status.skipped
        say(f"{count_text(writer.written)} row{'' if writer.written == 1 else 's'}")
        if skipped:
            say(f"{count_text(skipped)} bad or empty records skipped")


def _settings(scan: SplitScan, watermarks: bool) -> JobSettings:
    from penstock.connector.local.job_master import JobSettings

    rowtime = scan.rowtime if watermarks else None
    if watermarks and rowtime is None:
        say(f"note: table {scan.name} has no WATERMARK, so there are positions only")
    return JobSettings(
        columns=scan.delivered,
        rowtime=rowtime,
        time_zone=scan.time_zone,
        checkpoint_interval_ms=CHECKPOINT_INTERVAL_MS,
        extents_interval_ms=LOOK_INTERVAL_MS if watermarks else None,
        name=scan.name,
    )


def _follow(
    job: LocalJob,
    scan: SplitScan,
    writer: RowWriter,
    limit: int | None,
    stop: Event,
    refresh: Callable[[], None],
) -> None:
    """Write rows until stopped, until the limit, or to the end of a bounded table."""
    announced = False
    while not stop.is_set() and (limit is None or writer.written < limit):
        ended = job.ended
        if not announced and (splits := job.status.splits):
            announced = True
            count = f"{count_text(len(splits))} split{'' if len(splits) == 1 else 's'}"
            say(f"reading {scan.name}, {count}; Ctrl-C ends it")
        emission = job.take(TAKE_S)
        if emission is not None:
            left = emission.batch.num_rows if limit is None else limit - writer.written
            writer.write(scan.rows(emission.batch.slice(0, left)))
        elif ended:
            return
        refresh()


@contextmanager
def _view(job: LocalJob, scan: SplitScan, watermarks: bool) -> Iterator[Callable[[], None]]:
    """Show the splits on stderr: drawn in place on a terminal, else a line every few seconds.

    Yields what is to be called now and then.
    """
    alignment = scan.source.watermark.alignment
    group = None if alignment is None else alignment.group
    if not watermarks:
        yield lambda: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live

        with Live(
            console=Console(stderr=True),
            get_renderable=lambda: split_table(job.status, group),
            refresh_per_second=REFRESH_PER_SECOND,
            # rows on the same terminal are written above the table, rows into a pipe go there
            redirect_stdout=sys.stdout.isatty(),
        ):
            yield lambda: None
    else:
        yield _Log(job, scan.name, group).write_when_due


class _Log:
    """Writes a line about the splits every few seconds."""

    def __init__(self, job: LocalJob, name: str, group: str | None) -> None:
        self._job = job
        self._name = name
        self._group = group
        self._clock = SystemClock()
        self._due_ms = self._clock.monotonic_ms()

    def write_when_due(self) -> None:
        """Write the line, if the last one is old enough and there is something to tell."""
        now_ms = self._clock.monotonic_ms()
        status = self._job.status
        if now_ms >= self._due_ms and status.splits:
            self._due_ms = now_ms + LOG_INTERVAL_MS
            say(f"{self._name}: {split_line(status, self._group)}")


@contextmanager
def _stop_signals() -> Iterator[Event]:
    """Turn the first Ctrl-C or SIGTERM into a request to stop; a second one interrupts."""
    stop = Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
