"""Runs an incremental query by keyed operators: reading, stages and the sink's writing are one job of Spark.

The frame of a batch is lazy: the changes of a stage's inputs go to the tasks of their buckets, which run its operator
and write the files of its state; what they return is the input of later stages, and in the end of the sink. Tasks
report their files to the driver, which makes them valid by a manifest once the sink has the batch. A batch that is
replayed begins with the manifest of the batch before, whatever files an earlier attempt has left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from uuid import uuid4

import pyarrow as pa
from pyspark.accumulators import Accumulator, AccumulatorParam, AddingAccumulatorParam
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as s
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.connector.failpoints import reach
from penstock.connector.spark.internals import observed_metric, planned
from penstock.connector.spark.session import configured
from penstock.connector.spark.sink.micro_batch import discard_batch
from penstock.connector.spark.storage_access import storage_access
from penstock.sql.checkpoint.watermarks import Watermarks
from penstock.sql.incremental.keyed.choose import AddedColumn, choose_operators
from penstock.sql.incremental.keyed.files.manifest import (
    OperatorStateSize,
    StateManifest,
    damaged_state,
    state_sizes,
)
from penstock.sql.incremental.keyed.files.manifest_folder import Manifests
from penstock.sql.incremental.keyed.files.state_files import StateFiles
from penstock.sql.incremental.keyed.operator import (
    KeyedBatch,
    RunBySpark,
    ended_rows,
)
from penstock.sql.incremental.keyed.runtime.compaction import StateCompaction
from penstock.sql.incremental.keyed.runtime.job import KeyedJob, with_columns
from penstock.sql.incremental.keyed.runtime.one_task import is_small, plan_one_task
from penstock.sql.incremental.keyed.runtime.plan import (
    BucketInput,
    KeyedPlan,
    OneTask,
    bucket_inputs,
)
from penstock.sql.incremental.keyed.runtime.task import (
    Reports,
    TaskReport,
    late_rows,
    returned_rows,
)
from penstock.sql.incremental.stages import IncrementalQuery
from penstock.sql.incremental.state.schemas import empty, plain_columns, schemas_of
from penstock.sql.settings import BUCKETS, KEYED_BUCKETS, ONE_TASK, ONE_TASK_RECORDS

log = logging.getLogger(__name__)

_COUNTED = "penstock_changes"

_BUCKETS_PER_CORE = 2
"""More than one: tasks of a large and of a small bucket share the cores evenly."""

_SETTINGS = {
    # adaptive execution runs each shuffle as a job of its own, and coalesces buckets
    "spark.sql.adaptive.enabled": "false",
    # an operator works on all changes of a bucket at once: large Arrow batches cost least
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # a column of pieces that come by bucket must not pass the two gigabytes that Arrow's BINARY may have
    "spark.sql.execution.arrow.maxBytesPerBatch": "256m",
}


def _asked_buckets(spark: SparkSession) -> int:
    """Return the number of buckets that is set; 0: none is."""
    # empty where a session carries nothing
    return int(spark.conf.get(BUCKETS, "") or "0")


def _as_they_are(changes: DataFrame) -> DataFrame:
    return changes


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
        return plain_columns(with_columns(empty(spark, schemas[name]), columns))

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


class KeyedRun:
    """An incremental query whose state is in `folder` (any Hadoop path). `bounded`: it has one batch, and keeps none.

    One for each start of the query. For the thread that runs Spark's batches.
    """

    def __init__(
        self, maintained: IncrementalQuery, plan: KeyedPlan, folder: str, *, bounded: bool = False
    ) -> None:
        self._maintained = maintained
        self._plan = plan
        self._one_task = plan_one_task(maintained, plan)
        self._folder = folder.rstrip("/")
        self._bounded = bounded
        self._reports: Accumulator[Reports] | None = None
        self._newest: StateManifest | None = None
        self._ended: Mapping[tuple[str, str], int] = {}
        self._buckets: int | None = None
        self._most_records: int | None = None
        self._compaction: StateCompaction | None = None
        self._files: StateFiles | None = None
        self.late: Mapping[tuple[str, str], int] = {}
        """The late rows of the last batch, which its operators dropped, by stage and input."""
        self.rows = 0
        """The number of changes of the last batch."""

    @property
    def late_rows(self) -> int:
        """The number of late rows of the last batch."""
        return sum(self.late.values())

    @property
    def bucket_inputs(self) -> Sequence[BucketInput] | None:
        """What tasks take of the query's inputs, in the order of its numbers; None where that cannot come by bucket."""
        return bucket_inputs(self._maintained, self._plan)

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """The columns of all relations without ROW_KIND."""
        found = self._plan.schemas.items()
        return {name: to_arrow_schema(columns, timezone="UTC") for name, columns in found}

    def buckets(self, spark: SparkSession) -> int:
        """Return the number of buckets: that of the state, where there is one, else the one that is set.

        Raises StateMismatchError.
        """
        if self._buckets is None:
            manifests = Manifests(spark, self._folder)
            batches = [] if self._bounded else manifests.batches()
            newest = manifests.read(batches[-1]) if batches else None
            if newest is not None:
                return self._settled(spark, newest)
            cores = spark.sparkContext.defaultParallelism
            self._buckets = _asked_buckets(spark) or _BUCKETS_PER_CORE * cores
        return self._buckets

    def _settled(self, spark: SparkSession, state: StateManifest) -> int:
        """Take the number of buckets that a state has; once a start the log says where another one is set."""
        if self._buckets is None:
            self._buckets = state.buckets
            if _asked_buckets(spark) not in (0, state.buckets):
                log.warning(
                    "the state in %s has %d buckets since its first start, and keeps them; SET '%s' = '%d' is for new "
                    "checkpoints",
                    self._folder,
                    state.buckets,
                    KEYED_BUCKETS.key,
                    _asked_buckets(spark),
                )
        return self._buckets

    @property
    def state(self) -> Sequence[OperatorStateSize]:
        """What its operators keep as of the last batch of this start; empty before it has one."""
        return () if self._newest is None else state_sizes(self._newest)

    @contextmanager
    def batch(
        self,
        frame: DataFrame,
        batch_id: int,
        now_ms: int,
        watermarks: Watermarks | None = None,
        *,
        once: bool = False,
        records: int | None = None,
        shaped: Callable[[DataFrame], DataFrame] = _as_they_are,
    ) -> Iterator[DataFrame]:
        """Return the changes of a batch, ROW_KIND last, which the first action over them computes.

        They come as `shaped` makes them, row by row: a projection of Spark's is planned with the rest.

        They are kept for a second one; not where it comes `once`: to keep wide rows takes Java as long as all else.

        `now_ms` is the time of the batch, the same on a replay, as are the `watermarks`, which release rows; None where
        the batch has all rows of bounded tables. `frame` is read once; within a partition the rows of a
        key come in order. It has the columns of the streaming query, or those of BucketedRows over `buckets`. One task
        computes a batch of few `records` (None: their number is not known).

        When the block ends the state of the batch becomes valid; until then the one before is.

        Raises StateMismatchError where a file of the state is missing or damaged.
        """
        spark = frame.sparkSession
        manifests, files = Manifests(spark, self._folder), self._state_files(spark)
        before = self._before(spark, manifests, batch_id)
        assert self._settled(spark, before) == before.buckets, "rows may come by bucket"
        compaction = self._compaction or StateCompaction(files, manifests, self._plan.layouts)
        self._compaction = compaction
        job = KeyedJob(
            maintained=self._maintained,
            plan=self._plan,
            batch=KeyedBatch(batch_id=batch_id, now_ms=now_ms, watermarks=watermarks),
            before=before,
            ended=self._ended if before is self._newest else {},
            files=files,
            reports=self._no_reports(spark),
            writes=not self._bounded,
            one_task=self._one_task_of(spark, records, before),
        )
        with configured(spark, _SETTINGS):
            counted = job.build(frame)
            if job.counting is None:
                counted = counted.observe(_COUNTED, F.count(F.lit(1)).alias("rows"))
            # what a sink reads twice must not change
            sent = shaped(counted)
            result = planned(sent) if once else job.hold(sent)
        try:
            yield result
            reports = self._complete(result, job, batch_id)
            reach("state-sent")
            self.late = late_rows(reports)
            last = job.counting
            self.rows = (
                observed_metric(sent, _COUNTED) if last is None else returned_rows(reports, last)
            )
            if self._bounded:
                return
            ended = ended_rows(self._plan.operators, job.batch)
            written = {bucket: file for one in reports for bucket, file in one.files.items()}
            self._newest = compaction.taken(before.with_batch(batch_id, written), now_ms, ended)
            self._ended = ended
            manifests.write(self._newest)
            compaction.consider(self._newest, now_ms, ended)
        finally:
            job.release()

    def _state_files(self, spark: SparkSession) -> StateFiles:
        """Return the files of the state, as tasks open them; Hadoop's configuration is asked once a start."""
        if self._files is None:
            access = storage_access(spark, self._folder)
            self._files = StateFiles(location=self._folder, access=access)
        return self._files

    def _no_reports(self, spark: SparkSession) -> Accumulator[Reports]:
        """Return what tasks add their reports to, emptied."""
        if self._reports is None:
            nothing: Reports = ()
            # tuples have + and no __iadd__, which mypy asks for
            joined: AccumulatorParam[Reports] = AddingAccumulatorParam(nothing)  # type: ignore[type-var]
            self._reports = spark.sparkContext.accumulator(nothing, joined)
        self._reports.value = ()
        return self._reports

    def _one_task_of(
        self, spark: SparkSession, records: int | None, before: StateManifest
    ) -> OneTask | None:
        """Return what one task runs of a batch; None: tasks by bucket do."""
        if self._most_records is None:
            # empty where a session carries nothing
            most = spark.conf.get(ONE_TASK, "") or str(ONE_TASK_RECORDS.default)
            self._most_records = int(most)
        return self._one_task if is_small(records, self._most_records, before) else None

    def _before(self, spark: SparkSession, manifests: Manifests, batch_id: int) -> StateManifest:
        """Return the state before a batch."""
        if batch_id == 0:
            return StateManifest(
                state_id=uuid4().hex,
                buckets=self.buckets(spark),
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

    def _complete(self, result: DataFrame, job: KeyedJob, batch_id: int) -> Sequence[TaskReport]:
        """Return what all tasks report; those that a sink has not run are run now.

        It has not where it has the batch already, or reads a part of the rows.
        """
        if not job.is_complete(self._reports_of(batch_id)):
            discard_batch(result)
        found = self._reports_of(batch_id)
        assert job.is_complete(found), "each task of a job has reported"
        return found

    def _reports_of(self, batch_id: int) -> list[TaskReport]:
        """Return the reports of a batch: a task of an earlier one may end late."""
        assert self._reports is not None, "made for the batch"
        return [report for report in self._reports.value if report.batch_id == batch_id]
