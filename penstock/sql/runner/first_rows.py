"""The first rows of a table, for `penstock peek` and the status page: in seconds, without Spark and without a trace.

No offset is committed, and no consumer group is joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.identifier import parse_identifier
from penstock.catalog.model.table import Table
from penstock.connector.arrow import python_values
from penstock.connector.local.job import LocalJob
from penstock.connector.local.job_master import JobSettings
from penstock.connector.registry import connector_of
from penstock.sql.clock import SystemClock
from penstock.sql.runner.table_scan import open_scan, use_run

if TYPE_CHECKING:
    from penstock.catalog.definitions.resolver import Namespace
    from penstock.sql.runner.table_scan import SplitScan
    from penstock.sql.script.project import Project

TAKE_S = 0.05

LOOK_INTERVAL_MS = 300
"""How often the ends of the splits are looked up, to know when everything present was read."""

Row = tuple[Any, ...]


class RowsEnd(Enum):
    """Why reading stopped: enough rows, no more rows there, or none for too long."""

    ENOUGH = auto()
    NO_MORE = auto()
    TIMEOUT = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRows:
    """Rows as Python values, in the order of `columns`. `left_out` are columns that only Spark computes.

    `skipped` counts bad and empty records.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    end: RowsEnd
    left_out: tuple[str, ...] = ()
    skipped: int = 0


def peek_settings(scan: SplitScan) -> JobSettings:
    """Return the settings of a job that reads the first rows: a reader that fails is not started again."""
    return JobSettings(
        columns=scan.delivered,
        time_zone=scan.time_zone,
        restarts=0,
        extents_interval_ms=LOOK_INTERVAL_MS,
    )


def take_rows(
    job: LocalJob,
    scan: SplitScan,
    write: Callable[[Iterator[Row]], None],
    *,
    limit: int,
    timeout_ms: int,
    limit_ms: int | None = None,
) -> RowsEnd:
    """Write rows until there are enough of them, no more, or none for `timeout_ms`; for `limit_ms` at most."""
    clock = SystemClock()
    began_ms = last_ms = clock.monotonic_ms()
    written = 0
    while written < limit:
        status, ended = job.status, job.ended
        emission = job.take(TAKE_S)
        now_ms = clock.monotonic_ms()
        if emission is not None:
            last_ms = now_ms
            rows = emission.batch.slice(0, limit - written)
            written += rows.num_rows
            write(scan.rows(rows))
        elif ended or (status.caught_up and not scan.source.bounded):
            # seen before the last look for rows, which found none. The splits that are shown may all be finished while
            # the next file has not been assigned: a source that has an end says itself that it is there
            return RowsEnd.NO_MORE
        elif status.asking and not status.splits:
            last_ms = now_ms  # a broker that does not answer is an error in the end
        elif now_ms - last_ms > timeout_ms:
            return RowsEnd.TIMEOUT
        if limit_ms is not None and now_ms - began_ms > limit_ms:
            return RowsEnd.TIMEOUT
    return RowsEnd.ENOUGH


def first_rows(
    names: Namespace, text: str, project: Project, *, limit: int, limit_ms: int
) -> FirstRows:
    """Read the first rows of a table, from its beginning.

    Raises UnknownObjectError; UnsupportedError for what only Spark reads; the error of its source.
    """
    found = names.lookup(names.resolve(parse_identifier(text)))
    if not isinstance(found, Table):
        raise UnsupportedError(f"{text} is a view, not a table", hint=use_run(text))
    connector = connector_of(found, project=Path(project.root))
    stored = connector.first_rows(found, limit)
    if stored is not None:
        columns = tuple(stored.column_names)
        values = [python_values(stored.column(name)) for name in columns]
        return FirstRows(
            columns=columns,
            rows=tuple(zip(*values, strict=True)),
            end=RowsEnd.ENOUGH if stored.num_rows >= limit else RowsEnd.NO_MORE,
            left_out=tuple(name for name in found.schema.names if name not in columns),
        )
    start = None if connector.scan_modes is None else "earliest"
    scan = open_scan(names, text, project, start=start, follow=False)
    rows: list[Row] = []
    with LocalJob(scan.source, peek_settings(scan)) as job:
        end = take_rows(job, scan, rows.extend, limit=limit, timeout_ms=limit_ms, limit_ms=limit_ms)
        skipped = job.status.skipped
    return FirstRows(
        columns=scan.columns, rows=tuple(rows), end=end, left_out=scan.left_out, skipped=skipped
    )
