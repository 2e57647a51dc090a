"""A streaming SELECT that is followed: its rows batch by batch, as changes, until it is stopped.

It is a query into the screen, as an INSERT is one into a sink.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from queue import Full, Queue
from tempfile import TemporaryDirectory
from threading import Event
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from sqlglot import exp

from penstock.catalog.model.identifier import short_name
from penstock.connector.changelog import ChangelogMode, RowKind
from penstock.connector.contract import (
    AvailableNow,
    Continuous,
    Guarantee,
    MicroBatch,
    OutputMode,
    Sink,
    SinkCapabilities,
    SinkSettings,
)
from penstock.connector.spark.session import configured, streaming_conf
from penstock.connector.spark.sink.micro_batch import micro_batch_query
from penstock.sql.dialect.rewrites.unfold_grouping_sets import is_determined
from penstock.sql.errors.spark import as_input_error, translate
from penstock.sql.jobs.progress import Totals, batch_events
from penstock.sql.jobs.query_start import start_in_turn
from penstock.sql.observation.batch_metrics import BatchMetrics, read_batch_metrics
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.physical.incremental import (
    IncrementalInsert,
    SinkCounts,
    with_late_rows,
)
from penstock.sql.plan.physical.insert import to_display_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from penstock.sql.clock import Clock
    from penstock.sql.plan.physical.planner import Planner


ROWS_PER_BATCH = 1000
"""Rows of a batch that are shown, as more would only scroll by; and the size of a chunk."""

SCREEN = "screen"

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveQuery:
    """A query to start. `frame` has the rows that are shown; for an incremental query it is that of the inputs.

    `conf` are the Spark settings to start it with.
    """

    query: AnalysedQuery
    frame: DataFrame
    conf: Mapping[str, str]
    state_ttl_ms: int
    late: SinkCounts = field(default_factory=SinkCounts, compare=False, repr=False)
    """The late rows that stages left out, by batch."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The tables that it follows, in the order of a batch's sources."""
        return tuple(short_name(leaf.table.identifier) for leaf in self.query.followed)

    @property
    def shown(self) -> DataFrame:
        """A frame with the columns that are shown: the query's own, or an empty one where Spark streams its inputs."""
        incremental = self._incremental(_Screen(take=_drop), "")
        return self.frame if incremental is None else incremental.columns_of(self.frame)

    def start(
        self,
        folder: Path,
        take: Callable[[list[Row]], None],
        *,
        available_now: bool = False,
        whole: bool = False,
    ) -> StreamingQuery:
        """Start it; `take` gets the first rows of each batch, on its thread. `folder` is for its checkpoint.

        With `whole` it gets all of them, in chunks.

        Raises AnalysisException for what Spark cannot stream.
        """
        settings = SinkSettings(
            checkpoint=folder.as_uri(),
            query_name=f"{SCREEN}-{uuid4().hex[:8]}",
            trigger=AvailableNow() if available_now else Continuous(interval_ms=0),
            output=self.query.output,
            changes=self.query.changes,
        )
        screen = _Screen(take=take, whole=whole)
        incremental = self._incremental(screen, settings.checkpoint)
        conf = {**self.conf, **streaming_conf(self.frame, self.query.output)}

        def begin() -> StreamingQuery:
            with configured(self.frame.sparkSession, conf):
                return (incremental or screen).start(self.frame, settings)

        return start_in_turn(begin)

    def _incremental(self, screen: _Screen, checkpoint: str) -> IncrementalInsert | None:
        if self.query.maintained is None:
            return None
        return IncrementalInsert(
            analysed=self.query,
            maintained=self.query.maintained,
            checkpoint=checkpoint,
            state_ttl_ms=self.state_ttl_ms,
            shaped=partial(to_display_rows, query=self.query, streaming=True),
            target=screen,
            target_key=(),
            sink=SCREEN,
            counts=SinkCounts(),
            late=self.late,
        )

    def read_metrics(self, progress: Mapping[str, Any]) -> BatchMetrics:
        """Read what a batch did from its progress event; its rows out are those of `take`."""
        metrics = read_batch_metrics(progress, rows_out_metric=None)
        return with_late_rows(metrics, self.late.of(metrics.batch_id))


def live_query(query: AnalysedQuery, planner: Planner, spark: SparkSession) -> LiveQuery:
    """Build the follower of a streaming query, which was analysed for a sink that accepts all
    changes. Raises InputError.
    """
    builder, query = planner.builder(spark), planner.ready(query)
    try:
        frame = builder.build(query, streaming=True)
    except AnalysisException as error:
        raise as_input_error(error) from error
    if query.maintained is None:
        frame = to_display_rows(frame, query, streaming=True)
    return LiveQuery(query=query, frame=frame, conf=builder.conf, state_ttl_ms=planner.state_ttl_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Screen(Sink):
    """Passes on the first rows of a batch, or all."""

    take: Callable[[list[Row]], None]
    whole: bool = False

    @property
    def capabilities(self) -> SinkCapabilities:
        return SinkCapabilities(guarantee=Guarantee.NONE, accepts=ChangelogMode.ALL)

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        """Do nothing: there is no target."""

    def start(self, frame: DataFrame, settings: SinkSettings) -> StreamingQuery:
        return micro_batch_query(frame, settings, self.write_batch)

    def write_batch(self, frame: DataFrame, batch: MicroBatch) -> None:  # noqa: ARG002  nothing is remembered
        self.write(frame)

    def write(self, frame: DataFrame) -> None:
        if not self.whole:
            self.take([tuple(row) for row in frame.limit(ROWS_PER_BATCH).collect()])
            return
        rows = (tuple(row) for row in frame.toLocalIterator(prefetchPartitions=True))
        while some := list(islice(rows, ROWS_PER_BATCH)):
            self.take(some)


def _drop(rows: list[Row]) -> None:
    """Collect rows that nobody reads."""


OP = "op"
POLL_MS = 100
LOOKS_PER_READ = 10
"""Looks at the rows of a query per look at its progress: Spark keeps that of 100 batches, more than a second has."""
MOST_KEYS = 100_000
"""Number of rows that are kept to show what an update replaces; older ones are forgotten."""


def result_key(query: exp.Expr) -> tuple[int, ...] | None:
    """Return the positions of the columns that identify the rows of a GROUP BY; None where not all are selected."""
    if not isinstance(query, exp.Select):
        return None
    group = query.args.get("group")
    wanted = [k for k in group.expressions if not is_determined(k)] if group is not None else []
    items = query.expressions
    found = []
    for key in wanted:
        found_at = [
            i
            for i, item in enumerate(items)
            if item.unalias() == key or (key.name and item.alias == key.name)
        ]
        if not found_at:
            return None
        found.append(found_at[0])
    return tuple(found)


@dataclass(slots=True, kw_only=True)
class UpsertChangelog:
    """Turns rows that replace the earlier ones of their key into changes: +I, or -U and +U.

    `key` None: keys are not in the rows, and every row is shown as +U.
    """

    key: tuple[int, ...] | None
    _last: dict[Row, Row] = field(default_factory=dict)

    def of(self, row: Row) -> list[Row]:
        """Return the changes that a row makes, with their kind in front."""
        if self.key is None:
            return [(RowKind.UPDATE_AFTER.short, *row)]
        key = tuple(repr(row[i]) for i in self.key)
        before = self._last.pop(key, None)
        self._last[key] = row
        if len(self._last) > MOST_KEYS:
            self._last.pop(next(iter(self._last)))
        if before is None:
            return [(RowKind.INSERT.short, *row)]
        return [(RowKind.UPDATE_BEFORE.short, *before), (RowKind.UPDATE_AFTER.short, *row)]


class LiveSelect:
    """A running query and its rows. Its checkpoint is a temporary folder: nothing is kept.

    Every method is called on one thread. `available_now`: it ends with the present rows. `whole`: each batch is shown
    whole, else its first rows. `totals` are the sums over its batches, late rows and bad records among them.
    """

    def __init__(
        self, live: LiveQuery, *, available_now: bool = False, whole: bool = False
    ) -> None:
        """Start the query. Raises AnalysisException for what Spark cannot stream."""
        columns, analysed = tuple(live.shown.columns), live.query
        self.totals = Totals()
        self._live, self._looks = live, 0
        self._last_batch: int | None = None
        updates = analysed.output is OutputMode.UPDATE
        self._changes = UpsertChangelog(key=result_key(analysed.query)) if updates else None
        self._has_kinds = columns[:1] == (OP,) and bool(analysed.flow.kinds)
        self.columns = columns if self._has_kinds else (OP, *columns)
        self._batches: Queue[list[Row]] = Queue(maxsize=4)
        self._stopped = False
        self._folder = TemporaryDirectory(prefix="penstock-")
        try:
            self._query = live.start(
                Path(self._folder.name), self._take, available_now=available_now, whole=whole
            )
        except BaseException:
            self._folder.cleanup()
            raise

    def show(self, show: Callable[[Sequence[str], Sequence[Row]], None]) -> bool:
        """Show the new rows, `op` in front; returns False at the end. Raises QueryFailedError."""
        if self._stopped:
            return False
        active = self._query.isActive  # asked first: what is there afterwards is the last
        self._looks += 1
        if self._looks % LOOKS_PER_READ == 0:
            self._read_progress()
        while not self._batches.empty():
            show(self.columns, self._rows_of(self._batches.get_nowait()))
        if active:
            return True
        failure = self._query.exception()
        self.stop()
        if failure is not None:
            raise translate(failure) from failure
        return False

    def stop(self) -> None:
        """End the query, if it has not ended."""
        if self._stopped:
            return
        self._stopped = True
        self._drop_waiting()
        self._query.stop()
        self._folder.cleanup()
        self._read_progress()

    def _read_progress(self) -> None:
        for event in batch_events(self._query, after=self._last_batch):
            metrics = self._live.read_metrics(event)
            self._last_batch = metrics.batch_id
            self.totals = self.totals.add(metrics)

    def _take(self, rows: list[Row]) -> None:
        """Wait for a place in the queue, on the batch's own thread, as long as the SELECT is followed."""
        while rows and not self._stopped:
            try:
                self._batches.put(rows, timeout=POLL_MS / 1000)
            except Full:
                continue
            return

    def _rows_of(self, batch: list[Row]) -> list[Row]:
        if self._has_kinds:
            return batch
        if self._changes is None:
            return [(RowKind.INSERT.short, *row) for row in batch]
        return [change for row in batch for change in self._changes.of(row)]

    def _drop_waiting(self) -> None:
        while not self._batches.empty():
            self._batches.get_nowait()


def follow(
    live: LiveQuery,
    *,
    show: Callable[[Sequence[str], Sequence[Row]], None],
    stopped: Callable[[], bool],
    clock: Clock,
) -> Totals:
    """Run a streaming query and show its rows, `op` in front, on the calling thread, until `stopped` says so.

    Returns the sums over its batches. Raises QueryFailedError.
    """
    never = Event()
    following = LiveSelect(live)
    try:
        while not stopped() and following.show(show):
            clock.wait(never, POLL_MS)
    finally:
        following.stop()
    return following.totals
