"""Runs an incremental query: each micro-batch of its streaming query passes through the stages.

The state of a batch is written before its result is passed to the sink. Spark starts the next batch only when this one
is committed, and runs this one again, with the same rows and the same time, otherwise: the folders of the batch are
then written again, from the same state before, and the result is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import assert_never

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as s

from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind
from penstock.connector.spark.session import configured
from penstock.sql.checkpoint.watermarks import Watermarks
from penstock.sql.incremental.operators.event_time import (
    aggregate_ready_windows,
    drop_closed_windows,
    join_versions,
    still_needed,
)
from penstock.sql.incremental.operators.over import needed_by_over, over, over_layouts
from penstock.sql.incremental.operators.recompute import normalize, recompute
from penstock.sql.incremental.stages import (
    INPUT_INDEX,
    INPUT_TIME,
    Calc,
    ChangelogNormalize,
    IncrementalQuery,
    OverAggregate,
    PaneAggregate,
    RecomputeOperator,
    Stage,
    StageInput,
    TemporalJoin,
    WindowAggregate,
    input_column,
    inputs_of,
)
from penstock.sql.incremental.state.batch import (
    BatchChanges,
    BatchContext,
    materialized_frames,
    over_tables,
)
from penstock.sql.incremental.state.event_time_buffer import version_layout
from penstock.sql.incremental.state.schemas import empty, last_relation, layout_of, schemas_of
from penstock.sql.incremental.state.state_table import StateLayout, StateTable, columns_of

_SETTINGS = {
    # Spark turns it off for queries with state; these are batch jobs all the same
    "spark.sql.adaptive.enabled": "true",
    # a time is one number in the files, whatever calendar a default of Spark's may ask for
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
}


class IncrementalRun:
    """An incremental query whose state is in `folder` (any Hadoop path); a time to live of 0 ms is none.

    One for each start of the query. For the thread that runs Spark's batches.
    """

    def __init__(self, maintained: IncrementalQuery, folder: str, time_to_live_ms: int = 0) -> None:
        self._maintained = maintained
        self._folder = folder.rstrip("/")
        self._time_to_live_ms = time_to_live_ms
        self._schemas: Mapping[str, s.StructType] | None = None
        self._states: dict[str, dict[str, StateTable]] = {}
        self.late: Mapping[tuple[str, str], int] = {}
        """The late rows of the last batch, which its stages dropped, by stage and input."""
        self.rows = 0
        """The number of changes of the last batch."""

    @property
    def state_bytes(self) -> Mapping[tuple[str, str], int]:
        """Bytes of the files that stages keep of their inputs as of the last batch, by stage and input."""
        return {
            (stage, name): state.size_bytes
            for stage, states in self._states.items()
            for name, state in states.items()
        }

    @property
    def late_rows(self) -> int:
        """The number of late rows of the last batch."""
        return sum(self.late.values())

    @contextmanager
    def batch(
        self, frame: DataFrame, batch_id: int, watermarks: Watermarks | None = None
    ) -> Iterator[DataFrame]:
        """Return the changes of a batch, ROW_KIND last, computed and held for as long as the block runs.

        `frame` is read once. Within a partition the rows of a key come in order. State is written when the block is
        entered. Buffered rows are released by `watermarks`, None where the batch has all rows of bounded tables.

        Raises StateMismatchError where a folder of the state is missing or damaged.
        """
        spark = frame.sparkSession
        if self._schemas is None:
            self._open(spark, frame.schema)
        assert self._schemas is not None, "opened"
        with configured(spark, _SETTINGS), materialized_frames() as holder:
            counts = [
                F.count_if(F.col(INPUT_INDEX) == F.lit(n)).alias(f"feed{n}")
                for n in range(len(self._maintained.feeds))
            ]
            time = F.unix_millis(F.max(INPUT_TIME)).alias("time")
            rows, figures = holder.hold(frame, time, *counts)
            now_ms = figures["time"] or 0
            moment = BatchContext(
                spark=spark,
                batch_id=batch_id,
                now_ms=now_ms,
                holder=holder,
                schemas=self._schemas,
                watermarks=watermarks,
                time_to_live_ms=self._time_to_live_ms,
            )
            found = {
                feed.name: BatchChanges(frame=self._feed(rows, n), rows=figures[f"feed{n}"])
                for n, feed in enumerate(self._maintained.feeds)
            }
            if figures["rows"]:
                self._tidy(moment)
            for stage in self._maintained.stages:
                found[stage.name] = self._run(stage, found, moment)
            self.late = {
                (stage.name, inputs_of(stage)[0]): found[
                    stage.name
                ].late  # only their rows are late
                for stage in self._maintained.stages
            }
            result = found[last_relation(self._maintained)]
            self.rows = result.rows
            yield result.frame.select(*columns_of((*self._maintained.columns, ROW_KIND)))

    def _open(self, spark: SparkSession, schema: s.StructType) -> None:
        schemas = schemas_of(spark, self._maintained, schema)
        for stage in self._maintained.stages:
            self._states[stage.name] = {
                name: StateTable(
                    spark,
                    f"{self._folder}/{stage.name}-{name}",
                    layout,
                    time_to_live_ms=self._time_to_live_of(stage, name),
                )
                for name, layout in _layouts(spark, stage, schemas).items()
            }
        self._schemas = schemas

    def _time_to_live_of(self, stage: Stage, name: str) -> int:
        match stage:
            case (
                TemporalJoin(rows=rows) | OverAggregate(rows=rows) | WindowAggregate(rows=rows)
            ) if rows == name:
                return 0  # they wait for the watermark, and for nothing else
            case RecomputeOperator(inputs=inputs):
                (stage_input,) = (stage_input for stage_input in inputs if stage_input.name == name)
                if stage_input.time_to_live_ms is not None:
                    return stage_input.time_to_live_ms
        return self._time_to_live_ms

    def _feed(self, rows: DataFrame, index: int) -> DataFrame:
        """Return the changes of an input."""
        feed = self._maintained.feeds[index]
        own = rows.where(F.col(INPUT_INDEX) == F.lit(index)).select(f"{input_column(index)}.*")
        if feed.changes is ChangelogMode.INSERT_ONLY:
            return own.withColumn(ROW_KIND, F.lit(int(RowKind.INSERT)).cast("tinyint"))
        return own

    def _tidy(self, moment: BatchContext) -> None:
        for stage in self._maintained.stages:
            for name, state in self._states[stage.name].items():
                keep = None
                if isinstance(stage, TemporalJoin):
                    keep = still_needed(stage, name, state, moment)
                elif isinstance(stage, OverAggregate):
                    keep = needed_by_over(stage, name, state, moment)
                elif isinstance(stage, WindowAggregate):
                    keep = drop_closed_windows(stage, moment)
                state.tidy(moment.batch_id, moment.now_ms, keep)

    def _run(
        self, stage: Stage, found: Mapping[str, BatchChanges], moment: BatchContext
    ) -> BatchChanges:
        states = self._states[stage.name]
        match stage:
            case ChangelogNormalize():
                return normalize(stage, found[stage.input], states[stage.input], moment)
            case RecomputeOperator():
                return recompute(stage, found, states, moment)
            case TemporalJoin():
                return join_versions(stage, found, states, moment)
            case WindowAggregate():
                return aggregate_ready_windows(stage, found[stage.rows], states[stage.rows], moment)
            case OverAggregate():
                return over(stage, found[stage.rows], states, moment)
            case Calc():
                return _stateless(stage, found, moment)
            case PaneAggregate():
                raise AssertionError("keyed operators alone are planned for panes")
            case _:
                assert_never(stage)


def _stateless(
    stage: Calc, found: Mapping[str, BatchChanges], moment: BatchContext
) -> BatchChanges:
    schema = moment.schemas[stage.name]
    if not any(found[name].rows for name in stage.inputs):
        return BatchChanges(frame=empty(moment.spark, schema, changes=True), rows=0)
    tables = {name: found[name].frame for name in stage.inputs}
    result = over_tables(moment.spark, stage.query, tables)
    kind = F.col(ROW_KIND).cast("tinyint").alias(ROW_KIND)
    # computed once, as what it looks up may change between two scans
    frame, figures = moment.holder.hold(result.select(*columns_of(schema.names), kind))
    return BatchChanges(frame=frame, rows=figures["rows"])


def _layouts(
    spark: SparkSession, stage: Stage, schemas: Mapping[str, s.StructType]
) -> dict[str, StateLayout]:
    """Return the layouts of a stage's state, by the names of its inputs."""
    match stage:
        case ChangelogNormalize():
            last_rows = StageInput(name=stage.input, key=stage.key)
            return {stage.input: layout_of(spark, schemas[stage.input], last_rows)}
        case RecomputeOperator():
            return {
                stage_input.name: layout_of(
                    spark, schemas[stage_input.name], stage_input, by_row=stage.joins
                )
                for stage_input in stage.inputs
            }
        case TemporalJoin():
            waiting = StageInput(name=stage.rows, key=stage.row_key)
            return {
                stage.rows: layout_of(spark, schemas[stage.rows], waiting),
                stage.versions: version_layout(schemas[stage.versions], stage.version_key),
            }
        case WindowAggregate():
            waiting = StageInput(name=stage.rows, key=())
            return {stage.rows: layout_of(spark, schemas[stage.rows], waiting)}
        case OverAggregate():
            return over_layouts(spark, stage, schemas[stage.rows])
        case Calc() | PaneAggregate():
            return {}
        case _:
            assert_never(stage)
