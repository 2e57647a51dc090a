"""`penstock peek`: the first rows of a table, without Spark."""

from __future__ import annotations

from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
from penstock.sql.cli.output.split_text import looked_at_lines
from penstock.sql.cli.output.text import count_text, duration_text
from penstock.sql.cli.signals import running
from penstock.sql.clock import SystemClock
from penstock.sql.script.project import find_project

if TYPE_CHECKING:
    from penstock.connector.local.job import LocalJob
    from penstock.connector.local.split_status import LocalJobStatus
    from penstock.sql.cli.table_scan import SplitScan

__all__ = ["peek"]

TAKE_S = 0.05
LOOK_INTERVAL_MS = 300
"""How often the ends of the splits are looked up, to know when everything present was read."""


class _End(Enum):
    """Why reading stopped: enough rows, no more rows there, or none for too long."""

    ENOUGH = auto()
    NO_MORE = auto()
    TIMEOUT = auto()


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
        from penstock.connector.local.job_master import JobSettings
        from penstock.sql.cli.table_scan import left_out_note, open_scan

        project = find_project(Path.cwd(), target=target)
        scan = open_scan(open_catalog(catalog, project), table, project, start=start, follow=False)
        say(*left_out_note(scan))
        settings = JobSettings(
            columns=scan.delivered,
            time_zone=scan.time_zone,
            restarts=0,
            extents_interval_ms=LOOK_INTERVAL_MS,
        )
        writer = RowWriter(scan.columns, output)
        with running(LocalJob(scan.source, settings)) as job:
            end = _write_rows(job, scan, writer, limit, round(timeout * 1000))
            status = job.status
        say(*_closing_lines(end, writer.written, status, round(timeout * 1000)))


def _write_rows(
    job: LocalJob, scan: SplitScan, writer: RowWriter, limit: int, timeout_ms: int
) -> _End:
    """Write rows until there are enough of them, no more, or none for too long."""
    clock = SystemClock()
    last_ms = clock.now_ms()
    while writer.written < limit:
        status, ended = job.status, job.ended
        emission = job.take(TAKE_S)
        now_ms = clock.now_ms()
        if emission is not None:
            last_ms = now_ms
            writer.write(scan.rows(emission.batch.slice(0, limit - writer.written)))
        elif ended or status.caught_up:
            # both were seen before the last look for rows, which found none
            return _End.NO_MORE
        elif status.asking and not status.splits:
            last_ms = now_ms  # a broker that does not answer is an error in the end
        elif now_ms - last_ms > timeout_ms:
            return _End.TIMEOUT
    return _End.ENOUGH


def _closing_lines(end: _End, rows: int, status: LocalJobStatus, timeout_ms: int) -> list[str]:
    """Report on stderr why there are no more rows."""
    counted = f"{count_text(rows)} row{'' if rows == 1 else 's'}"
    lines: list[str] = []
    match end:
        case _End.ENOUGH:
            lines.append(f"{counted}; --limit shows more")
        case _End.NO_MORE if rows:
            lines.append(f"{counted}, all that there are")
        case _End.NO_MORE:
            lines += ["no rows: there is nothing to read", *looked_at_lines(status)]
        case _End.TIMEOUT if not status.splits:
            lines.append("no rows: the table has no splits to read (partitions, files)")
        case _End.TIMEOUT:
            waited = duration_text(timeout_ms)
            lines += [f"{counted}, and no other within {waited}", *looked_at_lines(status)]
    at_end = status.splits and all(s.start == s.end and s.end for s in status.splits)
    if not rows and at_end:
        lines.append("help: the table starts at its end; --from earliest reads what is there")
    if status.skipped:
        lines.append(f"{count_text(status.skipped)} bad records skipped")
    return lines
