"""Running jobs on stderr: one live line a query on a terminal, a log line every few seconds elsewhere.

The closing summary has a line for each statement.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from penstock.sql.cli.output.report import say
from penstock.sql.cli.output.text import (
    cell_text,
    count_text,
    instant_text,
    lag_text,
    late_text,
    left_out_texts,
    lost_text,
    timeless_text,
    watermark_text,
)
from penstock.sql.clock import Clock, SystemClock, duration_text
from penstock.sql.observation.pipeline import JobStatus
from penstock.sql.observation.sentence import SentenceRule
from penstock.sql.runner.summary import SinkResult, StatementResult, StatementStatus

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from penstock.connector.spark.source.retry import Outage
    from penstock.sql.jobs.job import Job
    from penstock.sql.jobs.observation import ObservedJob
    from penstock.sql.jobs.progress import JobProgress


LOG_INTERVAL_MS = 5_000
UNCHANGED_INTERVAL_MS = 60_000
"""A query of which nothing changed is logged again after so long: a silent log could be a dead process."""

REFRESH_PER_SECOND = 4
STALE_MS = 3_000  # without a commit for longer than this, the line says for how long


class ProgressMode(StrEnum):
    """How progress is shown: redrawn in place, a line now and then, for people or as JSON, or not at all."""

    LIVE = "live"
    LOG = "log"
    JSON = "json"
    NONE = "none"


class JobBoard:
    """The jobs on display; written by the script runner, read by the drawing thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._jobs: list[Job] = []

    def add(self, job: Job) -> None:
        """Show a job from now on."""
        with self._lock:
            self._jobs.append(job)

    def jobs(self) -> list[Job]:
        """Return every job that was started, in the order of their starts."""
        with self._lock:
            return list(self._jobs)

    def running(self) -> list[ObservedJob]:
        """Where every job is that has not ended."""
        observed = (job.observed for job in self.jobs())
        return [each for each in observed if not each.progress.status.final]


@contextmanager
def showing(
    board: JobBoard,
    mode: ProgressMode | None,
    clock: Clock | None = None,
    *,
    interval_ms: int = LOG_INTERVAL_MS,
) -> Iterator[None]:
    """Show the board while the block runs. No mode given: live on a terminal, log lines elsewhere.

    `interval_ms` is the time between two log lines of a query.
    """
    clock = clock or SystemClock()
    match mode or (ProgressMode.LIVE if sys.stderr.isatty() else ProgressMode.LOG):
        case ProgressMode.LIVE:
            with _live(board, clock):
                yield
        case ProgressMode.LOG:
            with _logging(board, clock, interval_ms, ProgressLog(say)):
                yield
        case ProgressMode.JSON:
            log = ProgressLog(say, line=json_line, ends=frozenset(JobStatus))
            try:
                with _logging(board, clock, interval_ms, log):
                    yield
            finally:  # how each ended
                _log(board, clock, log)
        case ProgressMode.NONE:
            yield


def progress_table(jobs: list[ObservedJob], now_ms: int) -> Table:
    """Draw one line a query."""
    from rich.table import Table
    from rich.text import Text  # names and messages may hold brackets, which are not markup

    table = Table(box=None, pad_edge=False, header_style="dim", expand=False)
    table.add_column("query", no_wrap=True, overflow="ellipsis", min_width=8)
    for header in (
        "batch",
        "rows/s in",
        "rows out",
        "watermark",
        "lag",
        "behind",
        "dropped",
        "bad",
        "last commit",
    ):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("", style="dim", no_wrap=True, overflow="ellipsis")
    for observed in jobs:
        job = observed.progress
        dropped = count_text(job.rows_dropped)
        table.add_row(
            Text(cell_text(job.sink)),
            count_text(job.batch_id),
            count_text(job.rows_per_second),
            count_text(None if job.refreshes else job.rows_out),
            watermark_text(job.watermark_ms),
            lag_text(job.watermark_ms, now_ms),
            count_text(job.lag_records),
            Text(dropped, style="red" if job.rows_dropped else ""),
            Text(count_text(job.bad_records), style="red" if job.bad_records else ""),
            _commit_text(job, now_ms),
            Text(cell_text(_activity_text(observed, now_ms))),
        )
    return table


def log_line(observed: ObservedJob, now_ms: int) -> str:
    """Return the same as one line for a log, with the sentence at its end where it tells more than the figures."""
    job = observed.progress
    if _is_silent(job) or job.refreshes or not job.batches:
        return f"{job.sink}: {_activity_text(observed, now_ms) or 'starting'}"
    parts = [
        f"batch {job.batch_id}",
        f"{count_text(job.rows_per_second)} rows/s in",
        f"{count_text(job.rows_in)} in",
        f"{count_text(job.rows_out)} out",
        f"watermark {watermark_text(job.watermark_ms)}",
    ]
    if (lag := lag_text(job.watermark_ms, now_ms)) != "-":
        parts.append(f"lag {lag}")
    parts += [
        f"{count_text(job.lag_records)} behind",
        f"{count_text(job.rows_dropped)} dropped",
        f"last commit {_commit_text(job, now_ms)}",
    ]
    parts += [late_text(split.split_id, split.rows, split.found_ms) for split in job.late_splits]
    if job.bad_records:
        parts.append(f"{count_text(job.bad_records)} bad records")
    if job.records_lost:
        parts.append(lost_text(job.records_lost))
    line = f"{job.sink}: {', '.join(parts)}"
    said = _trouble(observed, now_ms)
    return line if said is None else f"{line}; {said}"


def timed_line(observed: ObservedJob, now_ms: int) -> str:
    """Return the line with the time of day in front."""
    return f"{instant_text(now_ms)} {log_line(observed, now_ms)}"


def json_line(observed: ObservedJob, now_ms: int) -> str:
    """Return the document that the JSON API has of it, in one line, with the time."""
    from penstock.sql.processes.reports import marked
    from penstock.sql.ui.documents.fields import time_text
    from penstock.sql.ui.documents.live import job_document

    return marked({"time": time_text(now_ms), **job_document(observed, now_ms)})


def _trouble(observed: ObservedJob, now_ms: int) -> str | None:
    """Return the sentence where it says more than that all goes on."""
    said = observed.sentence(now_ms)
    return None if said.rule is SentenceRule.READING else str(said)


def _commit_text(job: JobProgress, now_ms: int) -> str:
    if job.last_commit_ms is None:
        return "-"
    return f"{duration_text(max(now_ms - job.last_commit_ms, 0) // 1000 * 1000)} ago".replace(
        "0 ms ago", "now"
    )


def _is_silent(job: JobProgress) -> bool:
    """Return whether the figures are out of date."""
    return job.status is JobStatus.RESTARTING or job.outage is not None


def _outage_text(outage: Outage, now_ms: int) -> str:
    since_ms = max(now_ms - outage.since_ms, 0) // 1000 * 1000
    since = f" since {duration_text(since_ms)}" if since_ms else ""
    reason = f" ({outage.reason})" if outage.reason else ""
    return f"waiting for {outage.what}{since}{reason}"


def _activity_text(observed: ObservedJob, now_ms: int) -> str:
    """Describe what is out of the ordinary: a start, a restart, a batch that takes long; of refreshes, the next."""
    job = observed.progress
    if job.status is JobStatus.RESTARTING or job.refreshes or "stopping" in job.activity:
        return job.activity
    if job.outage is not None:
        return _outage_text(job.outage, now_ms)
    if (said := _trouble(observed, now_ms)) is not None:
        return said
    running_ms = None if observed.batches is None else observed.batches.running_since_ms
    since_ms = now_ms - (running_ms or job.last_commit_ms or job.started_ms)
    if job.activity == "Processing new data" and since_ms > STALE_MS:
        # a run that resumes from a checkpoint has not told its first batch's number yet
        batch = "first batch" if job.batch_id is None else f"batch {job.batch_id + 1}"
        return f"{batch} running for {duration_text(since_ms // 1000 * 1000)}"
    if job.batch_id is None:
        return "starting"
    if not job.batches:  # it found nothing to read when it was started
        return str(observed.sentence(now_ms))
    return "waiting for data" if job.lag_records == 0 and running_ms is None else ""


@contextmanager
def _live(board: JobBoard, clock: Clock) -> Iterator[None]:
    from rich.live import Live

    with Live(
        console=_console(),
        get_renderable=lambda: _drawing(board, clock),
        refresh_per_second=REFRESH_PER_SECOND,
        transient=True,
        redirect_stdout=False,
    ):
        yield


def _drawing(board: JobBoard, clock: Clock) -> Table | str:
    jobs = board.running()
    return progress_table(jobs, clock.now_ms()) if jobs else ""


@contextmanager
def _logging(board: JobBoard, clock: Clock, interval_ms: int, log: ProgressLog) -> Iterator[None]:
    end = Event()
    thread = Thread(
        target=_log_until,
        args=(board, clock, end, log, interval_ms),
        name="penstock progress",
        daemon=True,
    )
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _log_until(
    board: JobBoard, clock: Clock, end: Event, log: ProgressLog, interval_ms: int
) -> None:
    while not clock.wait(end, interval_ms):
        _log(board, clock, log)


def _log(board: JobBoard, clock: Clock, log: ProgressLog) -> None:
    log.write([job.observed for job in board.jobs()], clock.now_ms(), clock.monotonic_ms())


class ProgressLog:
    """Writes a line with the time of day for each query that changed, and for the others once a minute.

    One that has ended in a status of `ends` has a line more; else the summary at the end of the run tells it.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        *,
        line: Callable[[ObservedJob, int], str] = timed_line,
        ends: frozenset[JobStatus] = frozenset({JobStatus.FAILED}),
    ) -> None:
        self._write = write
        self._ends = ends
        self._line = line
        self._last: dict[str, tuple[str, int]] = {}
        """By query: the content of its last line, but for what passing time changes, and its time (monotonic)."""

    def write(self, jobs: list[ObservedJob], now_ms: int, monotonic_ms: int) -> None:
        """Log the jobs at this time; how long lines are apart goes by a clock that nobody sets."""
        for job in jobs:
            name, status = job.progress.name, job.progress.status
            if status.final and status not in self._ends:
                continue
            state = _state(job, now_ms)
            before, written_ms = self._last.get(name, ("", 0))
            is_due = not status.final and monotonic_ms - written_ms >= UNCHANGED_INTERVAL_MS
            if state != before or is_due:
                self._last[name] = (state, monotonic_ms)
                self._write(self._line(job, now_ms))


def _state(job: ObservedJob, now_ms: int) -> str:
    """Return what a line of a job says, except for what passing time changes in it."""
    progress = job.progress
    # relative to a fixed time a line changes only when the query does; a batch that runs long is found by the clock
    fixed_ms = progress.last_commit_ms or progress.started_ms
    fixed = replace(job, progress=replace(progress, rows_per_second=0.0))
    return f"{progress.status} {log_line(fixed, fixed_ms)} {job.sentence(now_ms).rule}"


def _console() -> Console:
    from rich.console import Console

    return Console(stderr=True)


def summary_lines(results: Sequence[StatementResult]) -> list[str]:
    """Sum up a run; the names in one column, so that the counts can be compared."""
    titles = [f"{result.kind} {result.subject or ''}".strip() for result in results]
    width = max(map(len, titles), default=0)
    lines: list[str] = []
    for result, title in zip(results, titles, strict=True):
        facts = ", ".join(_facts(result))
        lines.append(f"{result.status:<8}  {title:<{width}}  {facts}".rstrip())
        lines += [_sink_line(sink) for sink in result.sinks]
        if result.error is not None:
            lines.append(f"          error: {result.error}")
        if result.hint is not None:
            lines.append(f"          help: {result.hint}")
    return lines


def _sink_line(sink: SinkResult) -> str:
    batches = "" if sink.batches is None else f" in {_counted(sink.batches, 'batch', 'batches')}"
    return f"          {sink.sink}: {_counted(sink.rows_out, 'row', 'rows')}{batches}"


def _facts(result: StatementResult) -> list[str]:
    if result.batches is None:
        return _row_facts(result)
    if result.rows_in is None:  # a table that was written anew from time to time
        refreshes = _counted(result.batches, "refresh", "refreshes")
        return [refreshes, duration_text(round(result.seconds * 1000))]
    facts = [
        f"{count_text(result.rows_in)} rows in",
        f"{count_text(result.rows_out)} out",
        f"{count_text(result.rows_dropped)} dropped as late",
    ]
    if result.bad_records:
        facts.append(f"{count_text(result.bad_records)} bad records left out")
    if result.records_lost:
        facts.append(lost_text(result.records_lost))
    if result.watermark_ms is not None:
        facts.append(f"watermark {watermark_text(result.watermark_ms)}")
    if result.timeless and result.watermark_ms is None:
        held = timeless_text([split.split_id for split in result.timeless], None, silent=False)
        facts.append(f"no watermark: {held}")
    facts += [late_text(s.split_id, s.rows, s.found_ms) for s in result.late_splits]
    batches = _counted(result.batches, "batch", "batches")
    return [*facts, batches, duration_text(round(result.seconds * 1000))]


def _row_facts(result: StatementResult) -> list[str]:
    if result.status is StatementStatus.SKIPPED:
        return []
    facts: list[str] = []
    if result.rows is not None:
        count = len(result.rows.rows)
        more = "the first " if result.rows.truncated else ""
        facts.append(f"{more}{count_text(count)} row{'' if count == 1 else 's'}")
    facts += left_out_texts(
        result.rows_dropped or 0, result.bad_records or 0, result.records_lost or 0
    )
    if result.seconds >= 0.1:
        facts.append(duration_text(round(result.seconds * 1000)))
    return facts


def _counted(count: int, one: str, many: str) -> str:
    return f"{count_text(count)} {one if count == 1 else many}"
