"""An INSERT of an incremental query: its run, by keyed operators or by stages that compute changed keys anew.

Also the count of a sink's rows, each batch once.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import assert_never

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from penstock.catalog.errors import StateMismatchError, UnsupportedError
from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.connector.contract import MicroBatch, Sink, SinkSettings
from penstock.connector.expression import BucketedRows
from penstock.connector.failpoints import reach
from penstock.connector.spark.hadoop_files import list_names
from penstock.connector.spark.sink.micro_batch import micro_batch_query
from penstock.sql.checkpoint.directory import PlannedBatch, PlannedBatches
from penstock.sql.checkpoint.fingerprint import START_OVER_HINTS
from penstock.sql.checkpoint.plan_record import Mechanism
from penstock.sql.incremental.describe import FOLDER
from penstock.sql.incremental.keyed.files.manifest import FOLDER as KEYED
from penstock.sql.incremental.keyed.operator import RunBySpark
from penstock.sql.incremental.keyed.runtime.run import KeyedRun, keyed_plan
from penstock.sql.incremental.operators.query import IncrementalRun
from penstock.sql.incremental.stages import (
    EventTimeStage,
    IncrementalQuery,
    PaneAggregate,
    RecomputeOperator,
    Stage,
    scans_below,
    sources_of,
)
from penstock.sql.incremental.state.schemas import empty_changes
from penstock.sql.observation.batch_metrics import BatchMetrics, OperatorMetrics
from penstock.sql.observation.pipeline import ResultMode
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.physical.buckets import bucketed_rows
from penstock.sql.settings import TIME_ZONE

log = logging.getLogger(__name__)

OF_SEVERAL = ""
"""The key of late rows that may be of several sources."""

MAX_BATCHES = 1_000
"""Batches that are kept apart: only the last can be replayed, and no reader is so far behind."""


class SinkCounts:
    """Rows by batch and sink, late ones by batch and source. Written by the thread that runs batches, read from any."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._batches: dict[int, Mapping[str, int]] = {}
        self._before: dict[str, int] = {}

    def add(self, batch_id: int, rows: Mapping[str, int]) -> None:
        """Add the counts of a batch, replacing those of an earlier run of it."""
        with self._lock:
            self._batches[batch_id] = dict(rows)
            while len(self._batches) > MAX_BATCHES:
                oldest = self._batches.pop(min(self._batches))
                self._before = _sum(self._before, oldest)

    def of(self, batch_id: int) -> Mapping[str, int]:
        """Return the counts of a batch; empty for one that was not counted."""
        with self._lock:
            return self._batches.get(batch_id, {})

    def total(self) -> Mapping[str, int]:
        """Return the sums over all batches."""
        with self._lock:
            total = self._before
            for rows in self._batches.values():
                total = _sum(total, rows)
            return total


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def with_late_rows(metrics: BatchMetrics, late: Mapping[str, int]) -> BatchMetrics:
    """Add the late rows that stages left out, by the number of their source."""
    sources = tuple(
        replace(source, rows_late=source.rows_late + late.get(str(number), 0))
        for number, source in enumerate(metrics.sources)
    )
    dropped = metrics.rows_dropped + sum(late.values())
    return replace(metrics, rows_dropped=dropped, sources=sources)


def state_metrics(
    maintained: IncrementalQuery, run: IncrementalRun | KeyedRun
) -> tuple[OperatorMetrics, ...]:
    """Return what stages keep of their inputs as metrics of a batch, beside those of Spark's own operators.

    Where stages compute changed keys anew, the rows of their files are not counted: only that there are none.
    """
    waiting = {(stage.name, name) for stage in maintained.stages for name in _waiting(stage)}
    counted: list[tuple[str, str, int | None, int, int | None]]
    match run:
        case KeyedRun():
            counted = [(s.stage, s.input, s.rows, s.bytes, s.most_files) for s in run.state]
        case IncrementalRun():
            sizes = run.state_bytes.items()
            counted = [(*of, None if found else 0, found, None) for of, found in sizes]
        case _:
            assert_never(run)
    return tuple(
        OperatorMetrics(
            name=f"{stage} {name}",
            rows=rows,
            size_bytes=found,
            commit_ms=0,
            updated=None,
            waits=(stage, name) in waiting,
            most_files=files,
        )
        for stage, name, rows, found, files in counted
    )


def _waiting(stage: Stage) -> Iterator[str]:
    """Iterate over the inputs of a stage whose rows come out once the watermark has passed them."""
    if isinstance(stage, EventTimeStage):
        if stage.waits_for:
            yield stage.rows
    elif isinstance(stage, RecomputeOperator) and stage.is_padded:
        left, right = (one.name for one in stage.inputs)
        padded = {"LEFT": (left,), "RIGHT": (right,)}
        yield from padded.get(stage.query.args["joins"][0].side, (left, right))


@dataclass(slots=True, kw_only=True)
class StagesRun:
    """What the run of stages tells of itself: its mode since its start, what operators keep as of the last batch.

    Written by the thread that runs batches, read from any.
    """

    mode: ResultMode | None = None
    operators: tuple[OperatorMetrics, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalInsert:
    """An INSERT of an incremental query; its state is in `checkpoint`, with a time to live (0: none).

    `shaped` names and types rows as the target's, `target_key` is its PRIMARY KEY. `counts` are the rows sent, `late`
    those dropped, by the number of their source. `reported` is what the run tells of itself. `read_buckets` makes the
    frame in which reading tasks give the inputs by bucket; None: Spark computes these. `counts_records`: positions of
    all sources are records.
    """

    analysed: AnalysedQuery
    maintained: IncrementalQuery
    checkpoint: str
    state_ttl_ms: int
    shaped: Callable[[DataFrame], DataFrame]
    target: Sink
    target_key: tuple[str, ...]
    sink: str
    counts: SinkCounts = field(compare=False, repr=False)
    late: SinkCounts = field(compare=False, repr=False)
    reported: StagesRun = field(default_factory=StagesRun, compare=False, repr=False)
    read_buckets: Callable[[BucketedRows], DataFrame] | None = field(default=None, compare=False)
    counts_records: bool = False

    def columns_of(self, frame: DataFrame) -> DataFrame:
        """Return an empty frame with the columns that the sink gets. `frame` is that of the inputs."""
        return self._in_order_of_keys(self._shaped(empty_changes(self.maintained, frame)))

    def start(
        self,
        frame: DataFrame,
        settings: SinkSettings,
        on_choice: Callable[[Mechanism], None] = lambda _: None,
    ) -> StreamingQuery:
        """Start the streaming query. `on_choice` is told what runs its stages.

        Raises StateMismatchError where the target is not the checkpoint's.
        """
        if self.target.capabilities.resumable:
            self.target.check_resumes(frame.sparkSession, self.checkpoint, "")
        run = self._run(frame)
        on_choice(Mechanism.KEYED if isinstance(run, KeyedRun) else Mechanism.STAGE_OF_SPARK)
        keyed = isinstance(run, KeyedRun)
        self.reported.mode = ResultMode.KEYED if keyed else ResultMode.RECOMPUTED

        planned = PlannedBatches(len(self.analysed.followed))

        def write(rows: DataFrame, batch: MicroBatch) -> None:
            found = planned.read(batch.spark, batch.checkpoint, batch.batch_id)
            with self._changes(run, rows, batch, found) as changes:
                reach("maintained")
                self.target.write_batch(self._in_order_of_keys(changes), batch)
            self.counts.add(batch.batch_id, {self.sink: run.rows})
            self.late.add(batch.batch_id, self._by_source(run.late))
            self.reported.operators = state_metrics(self.maintained, run)

        return micro_batch_query(self._by_bucket(run, frame), settings, write)

    def _by_bucket(self, run: IncrementalRun | KeyedRun, frame: DataFrame) -> DataFrame:
        """Return the frame by bucket where reading tasks can give it so; it holds the same rows."""
        if self.read_buckets is None or not isinstance(run, KeyedRun):
            return frame
        inputs = run.bucket_inputs
        if inputs is None:
            return frame
        spark = frame.sparkSession
        buckets, zone = run.buckets(spark), spark.conf.get(TIME_ZONE) or "UTC"
        found = bucketed_rows(self.analysed, inputs, run.schemas, buckets, zone)
        return frame if found is None else self.read_buckets(found)

    def _run(self, frame: DataFrame) -> IncrementalRun | KeyedRun:
        """Return the run by keyed operators, or what computes changed keys anew where a stage has none.

        Also where the checkpoint is of that one. Raises StateMismatchError where it needs an operator that this plan
        does not have; UnsupportedError where Spark cannot run the stages.
        """
        spark = frame.sparkSession
        recomputed, keyed = f"{self.checkpoint}/{FOLDER}", f"{self.checkpoint}/{KEYED}"
        plan = keyed_plan(spark, self.maintained, frame.schema, self.state_ttl_ms)
        if isinstance(plan, RunBySpark):
            if list_names(spark, keyed):
                raise StateMismatchError(
                    f"the checkpoint {self.checkpoint} holds the state of keyed operators, and this query does not "
                    f"run by them because of {plan.reason}",
                    hint="; or ".join(START_OVER_HINTS),
                )
            refuse_outer_joins(self.maintained, plan)
            refuse_panes(self.maintained, plan)
            instead = "" if plan.hint is None else f"; instead: {plan.hint}"
            log.info(
                "%s: several jobs a batch, as Spark computes %s%s", self.sink, plan.reason, instead
            )
            return IncrementalRun(self.maintained, recomputed, self.state_ttl_ms)
        if list_names(spark, recomputed):
            log.info("%s: several jobs a batch, as the checkpoint began so", self.sink)
            return IncrementalRun(self.maintained, recomputed, self.state_ttl_ms)
        log.info("%s: keyed operators, one job a batch", self.sink)
        return KeyedRun(self.maintained, plan, keyed)

    @contextmanager
    def _changes(
        self,
        run: IncrementalRun | KeyedRun,
        rows: DataFrame,
        batch: MicroBatch,
        planned: PlannedBatch,
    ) -> Iterator[DataFrame]:
        """Return the changes of a batch, named and typed as the target's."""
        waits = any(map(sources_of, self.maintained.stages))
        watermarks = planned.watermarks if waits else None
        match run:
            case IncrementalRun():
                with run.batch(rows, batch.batch_id, watermarks) as changes:
                    yield self._shaped(changes)
            case KeyedRun():
                once = self.target.capabilities.evaluates_once
                with run.batch(
                    rows,
                    batch.batch_id,
                    planned.time_ms,
                    watermarks,
                    once=once,
                    records=planned.records if self.counts_records else None,
                    shaped=self._shaped,
                ) as changes:
                    yield changes
            case _:
                assert_never(run)

    def _by_source(self, late: Mapping[tuple[str, str], int]) -> Mapping[str, int]:
        """Return late rows by stage and input as those by source: that of the input, else OF_SEVERAL."""
        followed = [n for n, leaf in enumerate(self.analysed.leaves) if not leaf.looked_up]
        found: dict[str, int] = {}
        for (_, relation), rows in late.items():
            if rows:
                scans = [n for n in followed if n in scans_below(self.maintained, relation)]
                key = str(followed.index(scans[0])) if len(scans) == 1 else OF_SEVERAL
                found[key] = found.get(key, 0) + rows
        return found

    def _shaped(self, changes: DataFrame) -> DataFrame:
        """Return changes in the columns of the target, with their kinds where they have other ones than inserts."""
        return self.shaped(changes if self.analysed.flow.kinds else changes.drop(ROW_KIND))

    def _in_order_of_keys(self, rows: DataFrame) -> DataFrame:
        """Return changes that have no key of their own by that of the target, whose changes would come in no order."""
        flow = self.analysed.flow
        unordered = flow.kinds and flow.key is None and self.target_key
        return by_key(rows, self.target_key) if unordered else rows


def refuse_outer_joins(maintained: IncrementalQuery, plan: RunBySpark) -> None:
    """Refuse outer joins within a time where a start finds that no keyed operators run the query.

    Planning gives them to Spark where it knows that before the start. Raises UnsupportedError.
    """
    if any(isinstance(one, RecomputeOperator) and one.is_padded for one in maintained.stages):
        raise UnsupportedError(
            f"an outer join within a time cannot run here, as Spark would have to compute {plan.reason}",
            hint=plan.hint or "join the tables in a query of its own, into a table",
        )


def refuse_panes(maintained: IncrementalQuery, plan: RunBySpark) -> None:
    """Refuse windows that are aggregated by panes where a start finds that no keyed operators run the query.

    Planning gives them to Spark where it knows that before the start. Raises UnsupportedError.
    """
    if any(isinstance(stage, PaneAggregate) for stage in maintained.stages):
        raise UnsupportedError(
            f"windows below a join cannot be aggregated here, as Spark would have to compute {plan.reason}",
            hint=plan.hint or "aggregate the windows in a query of its own, into a table",
        )


def run_bounded(maintained: IncrementalQuery, frame: DataFrame, workdir: Path) -> DataFrame:
    """Run the stages once, from nothing, over all rows of a bounded query; `frame` is that of its inputs.

    The result is kept in `workdir`, with ROW_KIND as last column. Raises UnsupportedError where Spark cannot run them.
    """
    folder = tempfile.mkdtemp(dir=workdir)
    result = f"file:{folder}/result"
    with _bounded_batch(maintained, frame, f"file:{folder}") as changes:
        changes.write.parquet(result)
        schema = changes.schema
    return frame.sparkSession.read.schema(schema).parquet(result)


def _bounded_batch(
    maintained: IncrementalQuery, frame: DataFrame, folder: str
) -> AbstractContextManager[DataFrame]:
    plan = keyed_plan(frame.sparkSession, maintained, frame.schema, 0)
    if isinstance(plan, RunBySpark):
        refuse_panes(maintained, plan)
        return IncrementalRun(maintained, f"{folder}/{FOLDER}").batch(frame, 0)
    # without a time to live nothing depends on the time
    run = KeyedRun(maintained, plan, f"{folder}/{KEYED}", bounded=True)
    return run.batch(frame, 0, now_ms=0, once=True)


def by_key(frame: DataFrame, key: Sequence[str]) -> DataFrame:
    """Bring the changes of each key together, deletions before insertions.

    For changes that are the difference of two results, in which a key has one row at most.
    """
    comes = F.col(ROW_KIND).isin(int(RowKind.INSERT), int(RowKind.UPDATE_AFTER))
    columns = [F.col(f"`{name}`") for name in key]
    return frame.repartition(*columns).sortWithinPartitions(*columns, comes)
