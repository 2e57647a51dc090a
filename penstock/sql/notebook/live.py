"""Follows a query that never ends: its newest rows and its speed, until it is interrupted or has shown enough."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, Queue
from tempfile import TemporaryDirectory
from threading import Event
from typing import TYPE_CHECKING, Any

from penstock.connector.contract import OutputMode
from penstock.connector.spark.types import flink_type_text
from penstock.sql.errors.spark import translate
from penstock.sql.jobs.batch_counters import BatchCounters, JobBatches
from penstock.sql.jobs.live_query import LiveQuery, UpsertChangelog, result_key
from penstock.sql.jobs.progress import Totals, batch_events, rows_per_second
from penstock.sql.notebook.views import Head, LiveView, ProgressSample, TableView
from penstock.sql.observation.pipeline import JobStatus, PipelineObservation, state_rows
from penstock.sql.observation.sentence import sentence_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.sql.clock import Clock
    from penstock.sql.notebook.options import CellOptions
    from penstock.sql.notebook.screen import Screen


OP = "op"
POLL_MS = 100
REDRAW_MS = 500
SAMPLES = 120
"""Moments in the charts: of two a second, the last minute."""

_NUMBERS = {"byte", "short", "integer", "long", "float", "double", "decimal"}
Row = tuple[Any, ...]


def heads_of(frame: DataFrame) -> tuple[Head, ...]:
    """Return the heads of a frame's columns."""
    return tuple(
        Head(
            name=column.name,
            type=flink_type_text(column.dataType),
            numeric=column.dataType.typeName() in _NUMBERS,
        )
        for column in frame.schema.fields
    )


@dataclass(slots=True, kw_only=True)
class _State:
    """What has been seen of the query so far."""

    live: LiveQuery
    heads: tuple[Head, ...]
    rows: deque[Row]
    rows_seen: int = 0
    seen_batch: int | None = None
    totals: Totals = field(default_factory=Totals)
    counters: BatchCounters = field(default_factory=BatchCounters)
    samples: deque[ProgressSample] = field(default_factory=lambda: deque(maxlen=SAMPLES))

    def take(self, rows: list[Row]) -> None:
        self.rows.extend(rows)
        self.rows_seen += len(rows)

    def sample(self, now_ms: int) -> None:
        watermark = self.watermark_ms
        lag = None if watermark is None else max(now_ms - watermark, 0)
        rate = rows_per_second(self.totals, now_ms)
        self.samples.append(ProgressSample(rows_per_second=rate, lag_ms=lag))

    @property
    def watermark_ms(self) -> int | None:
        return self.totals.last.watermark_ms if self.totals.last is not None else None

    def sentence(self, now_ms: int) -> str:
        """Return what the query does, or why no row comes; of one whose rows come, nothing."""
        last = self.totals.last
        if last is None or self.rows_seen:
            return ""
        batches = JobBatches(sources=self.live.sources, last=last)
        seen = PipelineObservation(
            status=JobStatus.RUNNING,
            batch_id=last.batch_id,
            last_commit_ms=last.committed_at_ms,
            # a batch has the rows that were read: none of them came here
            batches=tuple(replace(batch, rows_out=0) for batch in self.totals.recent),
            sources=tuple(zip(batches.source_names(), last.sources, strict=False)),
            ends_known=True,
            rows_read=self.counters.rows_in,
            state=state_rows(batches.operators, self.totals.recent),
        )
        return str(sentence_of(seen, now_ms))

    def view(
        self, seconds: float, ended: str | None, *, starting: bool = False, sentence: str = ""
    ) -> LiveView:
        rows = list(self.rows)
        more = self.rows_seen > len(rows)
        return LiveView(
            table=TableView(heads=self.heads, rows=rows, more=more, newest=True),
            rows_seen=self.rows_seen,
            rows_in=self.totals.rows_in,
            rows_dropped=self.totals.rows_dropped,
            bad_records=self.totals.bad_records,
            records_lost=self.totals.records_lost,
            batches=self.totals.batches,
            seconds=seconds,
            watermark_ms=self.watermark_ms,
            samples=tuple(self.samples),
            ended=ended,
            starting=starting,
            sentence=sentence,
        )


def follow(live: LiveQuery, options: CellOptions, screen: Screen, clock: Clock) -> None:
    """Run the query and draw it on the calling thread; nothing of it is kept but what is on the screen.

    Ends by an interrupt, `--seconds`, `--rows`, or where `--available-now` has read all. Raises QueryFailedError.
    """
    updates = live.query.output is OutputMode.UPDATE
    changes = UpsertChangelog(key=result_key(live.query.query)) if updates else None
    heads = heads_of(live.shown)
    if changes is not None:
        heads = (Head(name=OP), *heads)
    state = _State(live=live, heads=heads, rows=deque(maxlen=options.limit))
    batches: Queue[list[Row]] = Queue(maxsize=4)

    def take(found: list[Row]) -> None:
        if changes is not None:
            found = [change for row in found for change in changes.of(row)]
        if found:
            batches.put(found)

    with TemporaryDirectory(prefix="penstock-") as folder:
        query = live.start(Path(folder), take, available_now=options.available_now)
        began_ms = clock.now_ms()
        output = screen(state.view(0.0, None, starting=True))
        try:
            ended = _watch(query, state, batches, output, options, clock)
        except KeyboardInterrupt:
            ended = "interrupted"
        finally:
            _stop(query, batches, state)
        _read_progress(query, state)
        now_ms = clock.now_ms()
        last = state.view((now_ms - began_ms) / 1000, ended, sentence=state.sentence(now_ms))
        output.update(last, last=True)
        failure = query.exception()
        if failure is not None and ended == "ended":
            raise translate(failure) from failure


def _watch(
    query: Any,
    state: _State,
    batches: Queue[list[Row]],
    output: Any,
    options: CellOptions,
    clock: Clock,
) -> str:
    """Draw until there is a reason to end, and return it. `--seconds` count from the start of the first batch."""
    never, began_ms, drawn_ms = Event(), clock.now_ms(), 0
    reading_since_ms: int | None = None
    while True:
        active = query.isActive
        _drain(batches, state)
        now_ms = clock.now_ms()
        if not active and batches.empty():
            return "ended"
        if options.rows is not None and state.rows_seen >= options.rows:
            return f"ended by --rows {options.rows}"
        if reading_since_ms is None and not _is_starting(query, state):
            reading_since_ms = now_ms
        reading_ms = 0 if reading_since_ms is None else now_ms - reading_since_ms
        if options.seconds is not None and reading_ms >= options.seconds * 1000:
            return f"ended by --seconds {options.seconds:g}"
        if now_ms - drawn_ms >= REDRAW_MS:
            drawn_ms = now_ms
            _read_progress(query, state)
            state.sample(now_ms)
            seconds = (now_ms - began_ms) / 1000
            starting = reading_since_ms is None
            said = "" if starting else state.sentence(now_ms)
            output.update(state.view(seconds, None, starting=starting, sentence=said))
        clock.wait(never, POLL_MS)


def _drain(batches: Queue[list[Row]], state: _State) -> None:
    while True:
        try:
            state.take(batches.get_nowait())
        except Empty:
            return


def _is_starting(query: Any, state: _State) -> bool:
    """Return whether the query has not begun its first batch; only Spark's own text shows it."""
    no_batch = not state.rows_seen and not state.totals.batches
    return no_batch and str(query.status["message"]).startswith("Initializing")


def _read_progress(query: Any, state: _State) -> None:
    for event in batch_events(query, after=state.seen_batch):
        metrics = state.live.read_metrics(event)
        state.seen_batch = metrics.batch_id
        state.totals = state.totals.add(metrics)
        state.counters = state.counters.add(metrics)


def _stop(query: Any, batches: Queue[list[Row]], state: _State) -> None:
    """End the query; a batch that waits for its place would not."""
    _drain(batches, state)
    query.stop()
    _drain(batches, state)
