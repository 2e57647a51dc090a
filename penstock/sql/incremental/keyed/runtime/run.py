"""Runs an incremental query by keyed operators: reading, stages and the sink's writing are one job of Spark.

The frame of a batch is lazy: the changes of a stage's inputs go to the tasks of their buckets, which run its operator
and write the files of its state; what they return is the input of later stages, and in the end of the sink. Tasks
report their files to the driver, which makes them valid by a manifest once the sink has the batch. A batch that is
replayed begins with the manifest of the batch before, whatever files an earlier attempt has left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import uuid4

import pyarrow as pa
from pyspark.accumulators import Accumulator, AccumulatorParam, AddingAccumulatorParam
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as s
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.catalog.model.identifier import quoted
from penstock.connector.changelog import ROW_KIND
from penstock.connector.failpoints import reach
from penstock.connector.spark.internals import observed_metric, unpersist_local_checkpoint
from penstock.connector.spark.session import configured
from penstock.connector.spark.sink.micro_batch import discard_batch
from penstock.sql.checkpoint.watermarks import Watermarks
from penstock.sql.dialect import to_spark_query
from penstock.sql.incremental.keyed.choose import (
    AddedColumn,
    AddedColumns,
    choose_operators,
    outer_inputs,
)
from penstock.sql.incremental.keyed.files.manifest import (
    BucketId,
    OperatorStateSize,
    StateFile,
    StateManifest,
    damaged_state,
    state_sizes,
)
from penstock.sql.incremental.keyed.files.manifest_folder import Manifests
from penstock.sql.incremental.keyed.files.state_files import StateFiles
from penstock.sql.incremental.keyed.operator import (
    KeyedBatch,
    KeyedLayout,
    KeyedOperator,
    RunBySpark,
    WatermarkOperator,
    ended_rows,
)
from penstock.sql.incremental.keyed.runtime.compaction import StateCompaction
from penstock.sql.incremental.keyed.runtime.task import (
    BUCKET,
    ORDER,
    Reports,
    StageTask,
    TaskInput,
    TaskReport,
    TaskStage,
    each_bucket,
    late_rows,
    rows_column,
)
from penstock.sql.incremental.stages import (
    INPUT_INDEX,
    IncrementalQuery,
    PaneAggregate,
    Stage,
    Stateless,
    input_column,
    inputs_of,
    without_kinds,
)
from penstock.sql.incremental.state.batch import over_tables
from penstock.sql.incremental.state.panes import grouped_by_pane
from penstock.sql.incremental.state.schemas import empty, last_relation, plain_columns, schemas_of
from penstock.sql.incremental.state.state_table import columns_of

_COUNTED = "penstock_changes"

_BUCKETS_PER_CORE = 2
"""More than one: tasks of a large and of a small bucket share the cores evenly."""

_SETTINGS = {
    # adaptive execution runs each shuffle as a job of its own, and coalesces buckets
    "spark.sql.adaptive.enabled": "false",
    # an operator works on all changes of a bucket at once: large Arrow batches cost least
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedPlan:
    """The operators of a query's stages by name, and the columns of all its relations without ROW_KIND.

    `steps` are the stages in their order: those that run in one task together, at the place of the last of them.
    `computed` are, by stage, the columns that Spark adds to the changes of its inputs, and `read` the columns of such
    an input by stage and input.
    """

    steps: tuple[tuple[Stage, ...], ...]
    operators: Mapping[str, KeyedOperator]
    schemas: Mapping[str, s.StructType] = field(repr=False)
    computed: Mapping[str, AddedColumns]
    read: Mapping[tuple[str, str], pa.Schema]

    @property
    def layouts(self) -> Mapping[tuple[str, str], KeyedLayout]:
        """The layouts of all states, by stage and input."""
        return {
            (stage, name): layout
            for stage, operator in self.operators.items()
            for name, layout in operator.layouts.items()
        }


def keyed_plan(
    spark: SparkSession, maintained: IncrementalQuery, schema: s.StructType, time_to_live_ms: int
) -> KeyedPlan | RunBySpark:
    """Give each stage its operator, or the reason why the query does not run by keyed operators.

    `schema` is that of the streaming query. Raises UnsupportedError for columns whose type cannot be stored, Spark's
    AnalysisException for SQL that it refuses.
    """
    schemas = schemas_of(spark, maintained, schema)
    arrow = {name: to_arrow_schema(found, timezone="UTC") for name, found in schemas.items()}

    def with_added(name: str, columns: Sequence[AddedColumn]) -> pa.Schema:
        return plain_columns(_with_columns(empty(spark, schemas[name]), columns))

    chosen = choose_operators(maintained, arrow, time_to_live_ms, with_added)
    if chosen.by_spark:
        return next(iter(chosen.by_spark.values()))
    if not chosen.operators:
        return RunBySpark(reason="a query without state")
    return KeyedPlan(
        steps=chosen.steps,
        operators=chosen.operators,
        schemas=schemas,
        computed=chosen.computed,
        read=chosen.read,
    )


def _with_columns(rows: DataFrame, columns: Sequence[AddedColumn]) -> DataFrame:
    """Add columns behind those of a relation, in front of ROW_KIND."""
    names = [name for name in rows.columns if name != ROW_KIND]
    kind = [ROW_KIND] if len(names) < len(rows.columns) else []
    added = [F.expr(to_spark_query(one.value)).alias(one.name) for one in columns]
    return rows.select(*columns_of(names), *added, *columns_of(kind))


class KeyedRun:
    """An incremental query whose state is in `folder` (any Hadoop path). `bounded`: it has one batch, and keeps none.

    One for each start of the query. For the thread that runs Spark's batches.
    """

    def __init__(
        self, maintained: IncrementalQuery, plan: KeyedPlan, folder: str, *, bounded: bool = False
    ) -> None:
        self._maintained = maintained
        self._plan = plan
        self._folder = folder.rstrip("/")
        self._bounded = bounded
        self._reports: Accumulator[Reports] | None = None
        self._newest: StateManifest | None = None
        self._ended: Mapping[tuple[str, str], int] = {}
        self._compaction: StateCompaction | None = None
        self.late: Mapping[tuple[str, str], int] = {}
        """The late rows of the last batch, which its operators dropped, by stage and input."""
        self.rows = 0
        """The number of changes of the last batch."""

    @property
    def late_rows(self) -> int:
        """The number of late rows of the last batch."""
        return sum(self.late.values())

    @property
    def state(self) -> Sequence[OperatorStateSize]:
        """What its operators keep as of the last batch of this start; empty before it has one."""
        return () if self._newest is None else state_sizes(self._newest)

    @contextmanager
    def batch(
        self, frame: DataFrame, batch_id: int, now_ms: int, watermarks: Watermarks | None = None
    ) -> Iterator[DataFrame]:
        """Return the changes of a batch, ROW_KIND last, which the first action over them computes.

        `now_ms` is the time of the batch, the same on a replay, as are the `watermarks`, which release rows; None where
        the batch has all rows of bounded tables. `frame` is read once; within a partition the rows of a
        key come in order. When the block ends the state of the batch becomes valid; until then the one before is.

        Raises StateMismatchError where a file of the state is missing or damaged.
        """
        spark = frame.sparkSession
        manifests, files = Manifests(spark, self._folder), StateFiles(location=self._folder)
        before = self._before(spark, manifests, batch_id)
        if self._reports is None:
            nothing: Reports = ()
            # tuples have + and no __iadd__, which mypy asks for
            joined: AccumulatorParam[Reports] = AddingAccumulatorParam(nothing)  # type: ignore[type-var]
            self._reports = spark.sparkContext.accumulator(nothing, joined)
        compaction = self._compaction or StateCompaction(files, manifests, self._plan.layouts)
        self._compaction = compaction
        self._reports.value = ()
        job = _Job(
            maintained=self._maintained,
            plan=self._plan,
            batch=KeyedBatch(batch_id=batch_id, now_ms=now_ms, watermarks=watermarks),
            before=before,
            ended=self._ended if before is self._newest else {},
            files=files,
            reports=self._reports,
            writes=not self._bounded,
        )
        with configured(spark, _SETTINGS):
            counted = job.build(frame).observe(_COUNTED, F.count(F.lit(1)).alias("rows"))
            # a sink may read it twice, and what it has read must not change
            result = job.hold(counted)
        try:
            yield result
            written = self._complete(result, job, batch_id)
            reach("state-sent")
            self.rows = observed_metric(counted, _COUNTED)
            if self._bounded:
                return
            ended = ended_rows(self._plan.operators, job.batch)
            self._newest = compaction.taken(before.with_batch(batch_id, written), now_ms, ended)
            self._ended = ended
            manifests.write(self._newest)
            compaction.consider(self._newest, now_ms, ended)
        finally:
            job.release()

    def _before(self, spark: SparkSession, manifests: Manifests, batch_id: int) -> StateManifest:
        """Return the state before a batch."""
        if batch_id == 0:
            return StateManifest(
                state_id=uuid4().hex,
                buckets=_BUCKETS_PER_CORE * spark.sparkContext.defaultParallelism,
                batch_id=-1,
            )
        if self._newest is not None and self._newest.batch_id == batch_id - 1:
            return self._newest
        found = manifests.read(batch_id - 1)
        if found is None:
            raise damaged_state(
                f"{self._folder}, the manifest of batch {batch_id - 1},", "is missing"
            )
        return found

    def _complete(self, result: DataFrame, job: _Job, batch_id: int) -> dict[BucketId, StateFile]:
        """Return the files of all tasks; those that a sink has not run are run now.

        It has not where it has the batch already, or reads a part of the rows.
        """
        if not job.is_complete(self._reports_of(batch_id)):
            discard_batch(result)
        found = self._reports_of(batch_id)
        assert job.is_complete(found), "each task of a job has reported"
        self.late = late_rows(found)
        return {bucket: file for report in found for bucket, file in report.files.items()}

    def _reports_of(self, batch_id: int) -> list[TaskReport]:
        """Return the reports of a batch: a task of an earlier one may end late."""
        assert self._reports is not None, "made for the batch"
        return [report for report in self._reports.value if report.batch_id == batch_id]


# --- the job of a batch ---


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """Builds the frame of a batch: nothing is computed."""

    maintained: IncrementalQuery
    plan: KeyedPlan
    batch: KeyedBatch
    before: StateManifest
    ended: Mapping[tuple[str, str], int]
    files: StateFiles
    reports: Accumulator[Reports]
    writes: bool
    held: list[DataFrame] = field(default_factory=list)

    def build(self, frame: DataFrame) -> DataFrame:
        """Return the changes of the query's result, ROW_KIND last."""
        readers = self._readers()
        if sum(map(self._readings, self.plan.steps)) > 1:
            frame = self.hold(frame)
        found = {feed.name: self._feed(frame, n) for n, feed in enumerate(self.maintained.feeds)}
        for stages in self.plan.steps:
            last = stages[-1]
            if isinstance(last, Stateless):
                changes = self._stateless(last, found)
            else:
                changes = self._keyed(stages, self._received(stages, frame, found))
            found[last.name] = self.hold(changes) if readers[last.name] > 1 else changes
        result = found[last_relation(self.maintained)]
        return result.select(*columns_of((*self.maintained.columns, ROW_KIND)))

    def is_complete(self, reports: Sequence[TaskReport]) -> bool:
        """Return whether every task has reported."""
        tasks = {(report.stage, report.partition) for report in reports}
        done = Counter(stage for stage, _ in tasks)
        return all(
            done[name] == self._tasks(operator) for name, operator in self.plan.operators.items()
        )

    def release(self) -> None:
        """Release what is held."""
        for frame in self.held:
            unpersist_local_checkpoint(frame)
        self.held.clear()

    def _readers(self) -> Counter[str]:
        """Count the stages that read each relation."""
        return Counter(name for stage in self.maintained.stages for name in inputs_of(stage))

    def hold(self, frame: DataFrame) -> DataFrame:
        """Keep the rows of a frame when they are computed first, within the same job."""
        held = frame.localCheckpoint(eager=False)
        self.held.append(held)
        return held

    def _readings(self, stages: Sequence[Stage]) -> int:
        """Return how often stages read the rows of the batch: once for inputs that a task takes as they are."""
        names = [name for _, name in outer_inputs(stages) if name in self._feeds]
        return 1 if names and self._takes_inputs(stages) else len(names)

    @property
    def _feeds(self) -> Mapping[str, int]:
        """The inputs of the query by name, with their index."""
        return {feed.name: index for index, feed in enumerate(self.maintained.feeds)}

    def _takes_inputs(self, stages: Sequence[Stage]) -> bool:
        """Return whether a task reads nothing but inputs of the query, as they are."""
        if any(isinstance(one, Stateless) or self.plan.computed.get(one.name) for one in stages):
            return False
        return self._feeds.keys() >= {name for _, name in outer_inputs(stages)}

    def _feed(self, rows: DataFrame, index: int) -> DataFrame:
        """Return the rows of an input, with ROW_KIND where it has changes."""
        if len(self.maintained.feeds) > 1:
            rows = rows.where(F.col(INPUT_INDEX) == F.lit(index))
        return rows.select(f"{input_column(index)}.*")

    def _changes(self, name: str, found: Mapping[str, DataFrame]) -> DataFrame:
        """Return a relation as a Calc reads it, ROW_KIND last."""
        none = name in without_kinds(self.maintained)
        kind = F.lit(0).cast("tinyint")
        return found[name].withColumn(ROW_KIND, kind) if none else found[name]

    def _stateless(self, stage: Stateless, found: Mapping[str, DataFrame]) -> DataFrame:
        if isinstance(stage, PaneAggregate):
            return grouped_by_pane(stage, found[stage.input])
        tables = {name: self._changes(name, found) for name in stage.inputs}
        first = next(iter(found.values()))
        result = over_tables(first.sparkSession, stage.query, tables)
        kind = F.col(ROW_KIND).cast("tinyint").alias(ROW_KIND)
        return result.select(*columns_of(self.plan.schemas[stage.name].names), kind)

    def _received(
        self, stages: Sequence[Stage], frame: DataFrame, found: Mapping[str, DataFrame]
    ) -> DataFrame:
        """Return the rows of tasks: the changes of their inputs with the buckets of their keys."""
        outer = outer_inputs(stages)
        if self._takes_inputs(stages):
            return self._tagged_at_once(frame, outer)
        read = {
            name: _with_columns(found[name], self.plan.computed[stage.name].get(name, ()))
            for stage, name in outer
        }
        rows, *others = (self._tagged(n, outer, read) for n in range(len(outer)))
        for more in others:
            rows = rows.unionAll(more)
        return rows

    def _keyed(self, stages: Sequence[Stage], rows: DataFrame) -> DataFrame:
        """Return the changes of the last of the stages that run in one task."""
        tasks = self._tasks(self.plan.operators[stages[0].name])
        columns = {name: n for n, (_, name) in enumerate(outer_inputs(stages))}
        task = StageTask(
            stages=tuple(self._in_task(stage, columns) for stage in stages),
            batch=self.batch,
            files=self.files,
            state_id=self.before.state_id,
            reports=self.reports,
            writes=self.writes,
        )
        if any(self._releases(stage) for stage in stages):
            rows = rows.unionAll(each_bucket(rows, tasks))
        rows = rows.repartitionById(tasks, F.col(BUCKET))
        return rows.mapInArrow(task, self._result(stages[-1]))

    def _releases(self, stage: Stage) -> bool:
        """Return whether the watermark may release rows of a stage, in whichever bucket they are."""
        operator = self.plan.operators[stage.name]
        if not isinstance(operator, WatermarkOperator) or not operator.waits_for:
            return False
        span = self.batch.span(operator.waits_for)
        stored = any(bucket.stage == stage.name for bucket in self.before.files)
        return stored and span.now_ms != span.before_ms

    def _in_task(self, stage: Stage, columns: Mapping[str, int]) -> TaskStage:
        return TaskStage(
            name=stage.name,
            operator=self.plan.operators[stage.name],
            inputs=tuple(
                TaskInput(
                    name=name,
                    schema=self._read(stage, name),
                    inserts=name in without_kinds(self.maintained),
                    column=columns.get(name),
                )
                for name in inputs_of(stage)
            ),
            result=to_arrow_schema(self._result(stage), timezone="UTC"),
            states={
                bucket: files
                for bucket, files in self.before.files.items()
                if bucket.stage == stage.name
            },
            ended={name: until for (own, name), until in self.ended.items() if own == stage.name},
        )

    def _result(self, stage: Stage) -> s.StructType:
        kind = s.StructField(ROW_KIND, s.ByteType())
        return s.StructType([*self.plan.schemas[stage.name].fields, kind])

    def _tagged_at_once(self, frame: DataFrame, outer: Sequence[tuple[Stage, str]]) -> DataFrame:
        """Return the rows of several inputs of the query, as they are, as the rows of tasks."""
        feeds = self._feeds
        numbers = [feeds[name] for _, name in outer]
        number = F.col(INPUT_INDEX)
        if len(numbers) < len(feeds):
            frame = frame.where(number.isin(numbers))
        bucket, order = F.lit(0), F.lit(0).cast("bigint")
        for stage, name in outer:
            operator = self.plan.operators[stage.name]
            own = self._bucket(operator.layouts[name], f"{input_column(feeds[name])}.")
            bucket = F.when(number == F.lit(feeds[name]), own).otherwise(bucket)
            if operator.ordered:
                order = F.monotonically_increasing_id()
        rows = (F.col(input_column(of)).alias(rows_column(n)) for n, of in enumerate(numbers))
        return frame.select(bucket.alias(BUCKET), order.alias(ORDER), *rows)

    def _tagged(
        self, index: int, outer: Sequence[tuple[Stage, str]], found: Mapping[str, DataFrame]
    ) -> DataFrame:
        """Return the changes of an input as the rows of tasks."""
        stage, name = outer[index]
        operator = self.plan.operators[stage.name]
        rows = found[name]
        order = (
            F.monotonically_increasing_id() if name in operator.ordered else F.lit(0).cast("bigint")
        )
        structs = [
            F.struct(*columns_of(rows.columns))
            if n == index
            else F.lit(None).cast(s.StructType(found[other].schema.fields))
            for n, (_, other) in enumerate(outer)
        ]
        return rows.select(
            self._bucket(operator.layouts[name]).alias(BUCKET),
            order.alias(ORDER),
            *(struct.alias(rows_column(n)) for n, struct in enumerate(structs)),
        )

    def _bucket(self, layout: KeyedLayout, prefix: str = "") -> Column:
        """Return the bucket of a row's key, whose columns are below `prefix`."""
        if not layout.key:
            return F.lit(0)
        columns = (F.col(f"{prefix}{quoted(name)}") for name in layout.key)
        values = [
            column.cast("bigint") if pa.types.is_integer(kind) else column
            for column, kind in zip(columns, layout.key_types, strict=True)
        ]
        return F.pmod(F.hash(*values), F.lit(self.before.buckets)).cast("int")

    def _read(self, stage: Stage, name: str) -> pa.Schema:
        """Return the columns of an input as the tasks of a stage get them, without ROW_KIND."""
        own = self.plan.read.get((stage.name, name))
        return to_arrow_schema(self.plan.schemas[name], timezone="UTC") if own is None else own

    def _tasks(self, operator: KeyedOperator) -> int:
        """Return the number of buckets: one, where everything depends on everything."""
        keys = [layout.key for layout in operator.layouts.values()]
        return self.before.buckets if all(keys) else 1
