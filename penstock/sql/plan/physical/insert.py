"""An INSERT as a Spark query that can be started, and restarted: one of Spark's own, or the stages of one.

Also the frame that a sink gets, with row kinds in the sink's form.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType
from sqlglot import exp

from penstock.catalog.errors import InputError
from penstock.catalog.model.identifier import quoted, short_name
from penstock.catalog.model.table import MetadataColumn, PhysicalColumn
from penstock.connector.capabilities import TableEditor
from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind
from penstock.connector.commits import CommitLog, OffsetCommits
from penstock.connector.contract import LostLease, OutputMode, Sink, SinkSettings, Trigger
from penstock.connector.dead_letters.publisher import DeadLetterPublisher, dead_letter_publisher
from penstock.connector.file_output import RecordOutput, TaskOutput, WrittenByEngine
from penstock.connector.spark.internals import select_sql, without_call_sites
from penstock.connector.spark.session import FEW_ROWS, configured, streaming_conf
from penstock.connector.spark.source.retry import Outage, current_commits, current_outage
from penstock.connector.spark.types import spark_schema
from penstock.sql.checkpoint.directory import (
    check_checkpoint,
    record_failures,
    record_plan,
    record_query,
)
from penstock.sql.checkpoint.failure_record import FailureRecord
from penstock.sql.checkpoint.fingerprint import QueryFingerprint
from penstock.sql.checkpoint.identity import LocatedQuery
from penstock.sql.checkpoint.plan_record import Mechanism, PlanRecord, SinkRecord, StartedPlan
from penstock.sql.dialect.spark.casts import at_precision
from penstock.sql.errors.spark import as_input_error
from penstock.sql.observation.batch_metrics import BatchMetrics, OperatorMetrics, read_batch_metrics
from penstock.sql.observation.pipeline import PipelineTraits, ResultMode
from penstock.sql.plan.analysed import AnalysedQuery, TableScan
from penstock.sql.plan.explain.record import operator_records
from penstock.sql.plan.physical.frames import FrameBuilder
from penstock.sql.plan.physical.incremental import (
    IncrementalInsert,
    SinkCounts,
    StagesRun,
    with_late_rows,
)
from penstock.sql.plan.rules.inline import is_plain_projection
from penstock.sql.plan.table_writer import choose_table_writer

# --- rows of a sink ---


def sink_changelog_mode(query: AnalysedQuery, accepts: ChangelogMode) -> ChangelogMode:
    """Return the changelog mode of a sink's rows: changes with the row before become upserts where
    it accepts only those.
    """
    if query.changes is ChangelogMode.ALL and accepts is ChangelogMode.UPSERT:
        return ChangelogMode.UPSERT
    return query.changes


def to_sink_rows(frame: DataFrame, query: AnalysedQuery, accepts: ChangelogMode) -> DataFrame:
    """Return the rows as `sink_changelog_mode` says. A row as it was before an update becomes the delete of its key.

    Where the key of the rows is known it is the sink's, in which an update never moves a row: the row after the
    update replaces it, and the one before is left out.
    """
    if sink_changelog_mode(query, accepts) is query.changes:
        return frame
    kind = F.col(ROW_KIND)
    before = kind == F.lit(int(RowKind.UPDATE_BEFORE))
    if query.flow.key is not None:
        return frame.filter(~before)
    deleted = F.lit(int(RowKind.DELETE)).cast("tinyint")
    return frame.withColumn(ROW_KIND, F.when(before, deleted).otherwise(kind))


def to_display_rows(frame: DataFrame, query: AnalysedQuery, *, streaming: bool) -> DataFrame:
    """Return the rows of a SELECT for display: changes with their kind in front, in the column `op`.

    An updating operator that ran to its end has one row a key: deleted ones are left out.
    """
    if not query.flow.kinds:
        return frame
    kind = F.col(ROW_KIND)
    if query.flow.mechanism is not None and not streaming:
        return frame.filter(kind != F.lit(int(RowKind.DELETE))).drop(ROW_KIND)
    shorts = F.array(*(F.lit(k.short) for k in RowKind))
    return frame.select(shorts[kind].alias("op"), *(F.col(f"`{n}`") for n in frame.columns[:-1]))


# --- INSERT ---

ROWS_OUT = "penstock_rows_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltFrame:
    """A frame of a query that was not started yet: of its rows, or of the files that tasks write by `output`.

    `result` has the rows for the sink, named and typed as the target's; None for files.
    """

    frame: DataFrame
    output: TaskOutput | None = None
    result: DataFrame | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedInsert(LocatedQuery):
    """An INSERT as a Spark query that can be started, and restarted after a failure.

    `location` is its name and checkpoint. `unused` are frames that were built for a check and not started yet:
    building one starts Python processes. `cut` are the columns that may be given times of more digits of a second
    than their types have. `text` is the query without views. `state_ttl_ms` is the time to live of an incremental
    query's state; 0 is none. `started` has the plan of the last start.
    """

    spark: SparkSession
    sink: str
    sources: tuple[str, ...]
    bounded: bool
    target: Sink
    builder: FrameBuilder
    analysed: AnalysedQuery
    columns: tuple[tuple[str, str], ...]
    cut: frozenset[str]
    filled: tuple[PhysicalColumn | MetadataColumn, ...]
    shape: QueryFingerprint
    text: str
    kind: str = "INSERT"
    editor: TableEditor | None = None
    partition: tuple[tuple[str, str], ...] = ()
    whole: bool = False
    target_key: tuple[str, ...] = ()
    state_ttl_ms: int = 0
    counts: SinkCounts = field(default_factory=SinkCounts, compare=False, repr=False)
    commits: CommitLog = field(default_factory=CommitLog, compare=False, repr=False)
    late: SinkCounts = field(default_factory=SinkCounts, compare=False, repr=False)
    reported: StagesRun = field(default_factory=StagesRun, compare=False, repr=False)
    unused: list[BuiltFrame] = field(default_factory=list, compare=False, repr=False)
    started: StartedPlan = field(default_factory=StartedPlan, compare=False, repr=False)

    @property
    def is_stream(self) -> bool:
        """Whether the query reads tables and adds rows; VALUES and OVERWRITE are one batch without a checkpoint."""
        return bool(self.sources) and self.editor is None

    @property
    def leaves(self) -> tuple[TableScan, ...]:
        """The tables that the query reads, in the order that its checkpoint knows them by."""
        return self.analysed.followed

    @property
    def project(self) -> Path:
        """The folder that relative paths of tables are relative to."""
        return self.builder.project

    @property
    def rows_by_sink(self) -> None:
        """It writes into one table."""
        return None

    @property
    def plan(self) -> PlanRecord | None:
        """The plan that it was started with last."""
        return self.started.plan

    @property
    def traits(self) -> PipelineTraits:
        """Its output mode, or that of its stages once they run; what its sink promises."""
        spark = ResultMode(self.analysed.output.value)
        mode = spark if self.analysed.maintained is None else self.reported.mode
        return PipelineTraits(mode=mode, guarantee=self.target.capabilities.guarantee.value)

    @property
    def statement_digest(self) -> str:
        """That of an INSERT .. VALUES; empty where rows replace those of their key, or all of the table."""
        by_key = (
            self.target_key and self.target.capabilities.accepts is not ChangelogMode.INSERT_ONLY
        )
        if self.is_stream or self.editor is not None or by_key:
            return ""
        text = "\n".join((self.sink, str(self.columns), self.text))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def changes(self) -> ChangelogMode:
        """What the rows for the sink are; unless INSERT_ONLY they have ROW_KIND as last column."""
        return sink_changelog_mode(self.analysed, self.target.capabilities.accepts)

    @property
    def bad_records(self) -> DeadLetterPublisher | None:
        """Where the bad records of the tables read are collected; None where each of those fails the query."""
        return dead_letter_publisher(
            [leaf.table for leaf in self.leaves],
            checkpoint=self.checkpoint,
            pipeline=self.pipeline,
            project=self.project,
        )

    @property
    def sends_on_each_row(self) -> bool:
        """Whether rows out are as many as rows in: counting them would be an operator of its own in each task."""
        return self.analysed.maintained is None and is_plain_projection(self.analysed.query)

    @property
    def _sends_on_what_is_delivered(self) -> bool:
        """Whether rows out are as many as those that reading tasks give to Spark."""
        if self.sends_on_each_row:
            return True
        fragments = (leaf.fragment for leaf in self.analysed.leaves)
        if not any(found is not None and found.filters_alone for found in fragments):
            return False
        return is_plain_projection(self.analysed.query, filtered=True)

    @property
    def incremental(self) -> IncrementalInsert | None:
        """The incremental query that computes the results; None where Spark does that, or rows are only added."""
        if self.analysed.maintained is None:
            return None
        return IncrementalInsert(
            analysed=self.analysed,
            maintained=self.analysed.maintained,
            checkpoint=self.checkpoint,
            state_ttl_ms=self.state_ttl_ms,
            shaped=self.shaped,
            target=self.target,
            target_key=self.target_key,
            sink=self.sink,
            counts=self.counts,
            late=self.late,
            reported=self.reported,
            read_buckets=partial(self.builder.build_buckets, self.analysed),
            counts_records=self.builder.counts_records(self.analysed),
        )

    def check(self) -> None:
        """Analyse the query by Spark, which could refuse nothing of one that tasks write. Raises InputError."""
        built = self._built(self._task_output(), checking=True)
        if all(leaf.by_splits for leaf in self.analysed.leaves):
            if self.is_stream:
                self._streaming_conf(built.frame)
            self.unused.append(built)

    def check_checkpoint(self) -> None:
        """Check that the checkpoint, where there is one, is whole and of this query. Raises StateMismatchError."""
        if self.is_stream:
            check_checkpoint(self.spark, self.location, self.shape)

    def check_target(self) -> None:
        """Check that the sink's target fits the checkpoint; changes nothing. Raises StateMismatchError."""
        if self.target.capabilities.resumable:
            self.target.check_resumes(self.spark, self.checkpoint, "", notes=False)

    def prepare(self) -> None:
        """Create or check the sink's target. Raises InputError."""
        self.target.prepare(self.spark, self._schema())
        if self.bad_records is not None:
            self.bad_records.prepare(self.spark)

    def write(self, lost_lease: LostLease | None = None) -> None:
        """Write the rows of INSERT .. VALUES or INSERT OVERWRITE, atomically."""
        rows = self._built(None).result
        assert rows is not None, "it is a frame of rows"
        if self.editor is not None:
            editor = self.editor if lost_lease is None else self.editor.under_lease(lost_lease)
            editor.overwrite(rows, dict(self.partition), whole=self.whole)
        else:
            target = self.target if lost_lease is None else self.target.under_lease(lost_lease)
            target.write(rows)

    def start(self, trigger: Trigger, lost_lease: LostLease | None = None) -> StreamingQuery:
        """Start the streaming query from its checkpoint."""
        record_query(self.spark, self.location, self.shape)
        bad_records = self.bad_records
        if bad_records is not None:
            bad_records.open(self.spark)
        settings = SinkSettings(
            checkpoint=self.checkpoint,
            query_name=self.pipeline,
            trigger=trigger,
            plan=self.text,
            output=self.analysed.output,
            changes=self.changes,
            after_batch=None if bad_records is None else bad_records.after_batch,
            lost_lease=lost_lease,
            commits=self.commits,
        )
        built = self._next_frame()
        frame = built.frame
        self._record(self.plan_record(tasks_write=built.output is not None))
        conf = {**self.builder.conf, **self._streaming_conf(frame)}
        if built.output is not None:
            writer = self.target.task_writer
            assert writer is not None, "it was asked"
            # its sink runs no query of Spark, which would have the same settings
            if bad_records is None and isinstance(built.output, RecordOutput):
                conf |= FEW_ROWS
            with configured(self.spark, conf), without_call_sites():
                return writer.start(frame, settings, built.output)
        with configured(self.spark, conf), without_call_sites():
            if self.incremental is not None:
                return self.incremental.start(frame, settings, self._record_mechanism)
            assert built.result is not None, "it is a frame of rows"
            frame = built.result
            if not self._sends_on_what_is_delivered:
                frame = frame.observe(ROWS_OUT, F.count(F.lit(1)).alias("rows"))
            return self.target.start(frame, settings)

    def plan_record(self, *, tasks_write: bool) -> PlanRecord:
        """Describe the plan for people. `tasks_write`: the tasks that read also write."""
        sink = SinkRecord(
            name=short_name(self.sink),
            writer=str(Mechanism.READING_TASKS if tasks_write else Mechanism.SPARK),
            guarantee=str(self.target.capabilities.guarantee),
        )
        operators = operator_records(
            self.analysed, state_ttl_ms=self.state_ttl_ms, tasks_write=tasks_write
        )
        return PlanRecord(operators=operators, sinks=(sink,))

    def _record(self, plan: PlanRecord) -> None:
        self.started.plan = plan
        record_plan(self.spark, self.checkpoint, plan)

    def _record_mechanism(self, mechanism: Mechanism) -> None:
        if self.started.plan is not None:
            self._record(self.started.plan.run_by(mechanism))

    def _next_frame(self) -> BuiltFrame:
        """Return the frame of the next start: the one that was checked, where the target is still written that way."""
        output = self._task_output()
        while self.unused:
            built = self.unused.pop()
            if built.output == output:
                return built
        return self._built(output)

    def _task_output(self) -> TaskOutput | None:
        """Return what tasks need to write the rows as the target is now; None: Spark, or the sink, writes them."""
        if not self.is_stream:
            return None
        filled, target = self.filled, self.target
        output = choose_table_writer(self.analysed, filled, target, self.spark, self.checkpoint)
        return None if isinstance(output, WrittenByEngine) else output

    def outage(self) -> Outage | None:
        """Return what its sources wait for."""
        return current_outage(self.builder.workdir, self.checkpoint)

    def offset_commits(self) -> Mapping[int, OffsetCommits]:
        """Return how commits to consumer groups ended, by the number of the source."""
        return current_commits(self.builder.workdir, self.checkpoint, len(self.leaves))

    def record_failures(self, failures: Iterable[FailureRecord]) -> None:
        """Keep failures in the checkpoint, for people."""
        record_failures(self.spark, self.checkpoint, failures)

    def read_metrics(self, progress: Mapping[str, Any]) -> BatchMetrics:
        """Read what a batch did from its progress event."""
        if self.analysed.maintained is not None:
            metrics = read_batch_metrics(progress, rows_out_metric=None)
            return replace(
                with_late_rows(metrics, self.late.of(metrics.batch_id)),
                rows_out=sum(self.counts.of(metrics.batch_id).values()),
                operators=(*metrics.operators, *self.reported.operators),
            )
        metric = None if self._sends_on_what_is_delivered else ROWS_OUT
        metrics = read_batch_metrics(progress, rows_out_metric=metric)
        return replace(metrics, operators=tuple(map(self._with_waits, metrics.operators)))

    def _with_waits(self, operator: OperatorMetrics) -> OperatorMetrics:
        """Say of an operator of Spark whether its rows wait for the watermark, which its name alone does not tell."""
        if self.analysed.output is OutputMode.UPDATE:
            return replace(operator, waits=False)
        outer = any(join.side for join in self.analysed.query.find_all(exp.Join))
        if operator.name == "symmetricHashJoin" and outer:
            return replace(operator, waits=True)
        return operator

    def shaped(self, frame: DataFrame) -> DataFrame:
        """Name and type the columns of the query's rows as the target's. Raises InputError."""
        names = [name for name in frame.columns if name != ROW_KIND]
        if len(names) != len(self.columns):
            raise InputError(
                f"INSERT INTO {self.sink} gives {len(names)} columns "
                f"({', '.join(names)}), the table takes {len(self.columns)} "
                f"({', '.join(name for name, _ in self.columns)})",
                hint="name the columns: INSERT INTO t (a, b) SELECT ...",
            )
        kinds = [ROW_KIND] if len(names) < len(frame.columns) else []
        if len(set(frame.columns)) < len(frame.columns):
            frame = frame.toDF(*(name for name, _ in self.columns), *kinds)
            names = [name for name, _ in self.columns]
        typed = select_sql(
            frame,
            [
                *(
                    f"{self._cast(own, kind, column)} AS {quoted(column.name)}"
                    for own, (_, kind), column in zip(names, self.columns, self.filled, strict=True)
                ),
                *kinds,
            ],
        )
        return (
            to_sink_rows(typed, self.analysed, self.target.capabilities.accepts) if kinds else typed
        )

    def _cast(self, own: str, kind: str, column: PhysicalColumn | MetadataColumn) -> str:
        """Return the SQL of what a column of the query gives to one of the target."""
        cast = f"CAST({quoted(own)} AS {kind})"
        return at_precision(cast, column.type) if column.name in self.cut else cast

    def frame(self) -> DataFrame:
        """Return a frame of the query that shows its functions, and is not to be started. Raises InputError."""
        return (self.unused[-1] if self.unused else self._built(None, checking=True)).frame

    def _built(self, output: TaskOutput | None, *, checking: bool = False) -> BuiltFrame:
        """Build a frame of the files that tasks write by `output`; without one, of the rows. Raises InputError.

        Again for each start: a failed query's streaming relations are not used again.
        """
        try:
            with without_call_sites():
                if output is not None:
                    files = self.builder.build_files(self.analysed, output)
                    return BuiltFrame(frame=files, output=output)
                rows = self.builder.build(
                    self.analysed,
                    streaming=self.is_stream,
                    engine_streaming=self.is_stream and not checking,
                )
                return BuiltFrame(frame=rows, result=self._result_of(rows))
        except AnalysisException as error:
            raise as_input_error(error) from error

    def _schema(self) -> StructType:
        """Return the columns of the rows that the sink gets. Raises InputError."""
        built = self.unused[-1] if self.unused else None
        output = self._task_output() if built is None else built.output
        if output is not None:
            return spark_schema(PhysicalColumn(name=c.name, type=c.type) for c in output.filled)
        built = built or self._built(None, checking=True)
        assert built.result is not None, "it is a frame of rows"
        return built.result.drop(ROW_KIND).schema

    def _streaming_conf(self, frame: DataFrame) -> dict[str, str]:
        """Return the Spark settings that a stream of the query needs. Raises InputError where Spark
        cannot stream it.
        """
        try:
            return streaming_conf(frame, self.analysed.output)
        except AnalysisException as error:
            raise as_input_error(error) from error

    def _result_of(self, frame: DataFrame) -> DataFrame:
        """Return a frame with the rows for the sink, named and typed as the target's. Raises InputError."""
        return (
            self.shaped(frame) if self.incremental is None else self.incremental.columns_of(frame)
        )
