"""Run OVER aggregates: rows that the watermark has passed are computed over the rows or the accumulators in the
state.

Rows are written once, when they arrive; their time decides whether they wait, are emitted, still count for
others, or are dropped. Each batch writes the accumulators of the keys whose rows it emitted; the latest of a
key count.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from math import ceil

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as s

from penstock.catalog.model.identifier import quoted
from penstock.connector.changelog import ROW_KIND
from penstock.sql.dialect import to_spark_query
from penstock.sql.incremental.stages import (
    BATCH_TIME,
    COUNT,
    INGESTION_ORDER,
    TIME,
    Accumulator,
    AccumulatorFunction,
    AccumulatorState,
    OverAggregate,
    RangeState,
    RowsState,
    StageInput,
    first_ingestion_number,
)
from penstock.sql.incremental.state.batch import (
    BatchChanges,
    BatchContext,
    over_tables,
    with_ingestion_order,
)
from penstock.sql.incremental.state.changed_keys import keys_of, rows_of_keys
from penstock.sql.incremental.state.event_time_buffer import (
    BATCH,
    ReadyRows,
    WatermarkTests,
    find_ready_rows,
    inserted,
    instant,
    nothing,
    watermark_tests,
    write_rows,
)
from penstock.sql.incremental.state.schemas import layout_of, total_of, total_types
from penstock.sql.incremental.state.state_table import (
    StateFilter,
    StateLayout,
    StateTable,
    columns_of,
)

_FORGOTTEN, _PASSED, _BACK, _NEWEST = "__forgotten", "__passed", "__back", "__newest"


def stage_watermark_tests(stage: OverAggregate, moment: BatchContext) -> WatermarkTests:
    """Test rows of a stage: by the watermarks; or by their arrival, as those of a batch are emitted with it."""
    if stage.time is not None and stage.waits_for:
        kind = moment.schemas[stage.rows][stage.time].dataType
        return watermark_tests(stage.time, kind, moment.span(stage.waits_for))
    before = F.col(INGESTION_ORDER) < F.lit(first_ingestion_number(moment.batch_id))
    return WatermarkTests(passed=before, due=~before, waits=F.lit(False), moves=True)


def over_rows(
    stage: OverAggregate, coming: BatchChanges, state: StateTable, moment: BatchContext
) -> BatchChanges:
    """Return the rows that are due with their aggregates, computed, and write the new rows.

    Raises StateMismatchError.
    """
    tests = stage_watermark_tests(stage, moment)
    fresh, late = _arrive(stage, coming, tests, state, moment)
    stored = state.read(moment.batch_id) if tests.moves else None
    both = [rows for rows in (stored, fresh) if rows is not None]
    if not tests.moves or not both:
        return nothing(stage.name, moment, late)
    rows = _in_reach(stage, reduce(DataFrame.unionAll, both), moment)
    rows, figures = moment.holder.hold(rows, F.count_if(tests.due).alias("due"))
    if not figures["due"]:
        return nothing(stage.name, moment, late)
    if stage.key:
        keys = keys_of([(rows.where(tests.due), stage.key)])
        rows = rows_of_keys(rows, stage.key, keys, at_most=figures["due"])
    rows = _living(stage, rows, tests, moment)
    # what the window does not order (rows of one time) stays as it is sorted here
    clustered = rows.repartition(*columns_of(stage.key)) if stage.key else rows.coalesce(1)
    table = clustered.sortWithinPartitions(*columns_of(stage.key), *arrived(stage))
    table = table.withColumn(BATCH_TIME, F.timestamp_millis(F.col(TIME)))
    result = over_tables(moment.spark, stage.query, {stage.rows: table}).where(tests.due)
    return inserted(stage.name, result, moment, late)


def needed_rows(stage: OverAggregate, stored: DataFrame, moment: BatchContext) -> DataFrame:
    """Drop stored rows that no batch from this one on needs."""
    tests = stage_watermark_tests(stage, moment)
    there = _living(stage, _in_reach(stage, stored, moment), tests, moment)
    if isinstance(stage.frame_state, RangeState) and stage.time is not None and not stage.waits_for:
        there = _before_newest(there, stage.time, stage.frame_state.micros)
    if not isinstance(stage.frame_state, RowsState):
        return there.select(*columns_of(stored.columns))
    newest = [F.desc(_PASSED), *(column.desc() for column in arrived(stage))]
    back = Window.partitionBy(*columns_of(stage.key)).orderBy(*newest)
    there = there.withColumn(_PASSED, tests.passed).withColumn(_BACK, F.row_number().over(back))
    needed = ~F.col(_PASSED) | (F.col(_BACK) <= stage.frame_state.count)
    return there.where(needed).select(*columns_of(stored.columns))


def arrived(stage: OverAggregate) -> list[Column]:
    """Return the order of the rows of a key."""
    time = [] if stage.time is None else [F.col(quoted(stage.time))]
    return [*time, F.col(INGESTION_ORDER)]


def _arrive(
    stage: OverAggregate,
    coming: BatchChanges,
    tests: WatermarkTests,
    state: StateTable,
    moment: BatchContext,
) -> tuple[DataFrame | None, int]:
    """Write the rows that are in time; returns them, as they are stored, and the number of late ones."""
    if not coming.rows:
        state.write_nothing(moment.batch_id)
        return None, 0
    rows, late = (
        with_ingestion_order(coming.frame.drop(ROW_KIND), INGESTION_ORDER, moment.batch_id),
        0,
    )
    if stage.waits_for:
        late = rows.where(tests.passed).count()
        rows = rows.where(~tests.passed)
    write_rows(rows, coming.rows - late, state, moment)
    if late == coming.rows:
        return None, late
    numbers = {COUNT: F.lit(1).cast("bigint"), TIME: F.lit(moment.now_ms).cast("bigint")}
    return rows.withColumns(numbers).select(*columns_of(state.layout.schema.names)), late


def _in_reach(stage: OverAggregate, rows: DataFrame, moment: BatchContext) -> DataFrame:
    """Drop rows older than the interval of a RANGE, counted from the rows that may still be emitted."""
    if not isinstance(stage.frame_state, RangeState):
        return rows
    reach_ms = ceil(stage.frame_state.micros / 1000)
    if stage.time is None:
        return rows.where(F.col(TIME) >= moment.now_ms - reach_ms)
    before_ms = moment.span(stage.waits_for).before_ms if stage.waits_for else None
    if before_ms is None:
        return rows
    kind = moment.schemas[stage.rows][stage.time].dataType
    return rows.where(F.col(quoted(stage.time)) > instant(before_ms - reach_ms, kind))


def _before_newest(rows: DataFrame, time: str, micros: int) -> DataFrame:
    """Drop rows older than the interval before the newest one, which no later row precedes."""
    newest = rows.agg(F.max(quoted(time)).alias(_NEWEST))
    reach = F.expr(f"make_dt_interval(0, 0, 0, {micros // 1_000_000}.{micros % 1_000_000:06})")
    return rows.crossJoin(F.broadcast(newest)).where(F.col(quoted(time)) >= F.col(_NEWEST) - reach)


def _living(
    stage: OverAggregate, rows: DataFrame, tests: WatermarkTests, moment: BatchContext
) -> DataFrame:
    """Drop rows of keys without a new row for the time to live (never rows that wait)."""
    # Flink's RowTimeRangeBoundedPrecedingFunction has none: its interval bounds it
    if not moment.time_to_live_ms or isinstance(stage.frame_state, RangeState):
        return rows
    by_time = Window.partitionBy(*columns_of(stage.key)).orderBy(TIME, INGESTION_ORDER)
    next_ms = F.coalesce(F.lead(TIME).over(by_time), F.lit(moment.now_ms))
    gap = rows.withColumn(_FORGOTTEN, next_ms - F.col(TIME) >= moment.time_to_live_ms)
    later = by_time.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    found = gap.withColumn(_FORGOTTEN, F.max(_FORGOTTEN).over(later))
    return found.where(~(F.col(_FORGOTTEN) & tests.passed)).drop(_FORGOTTEN)


def accumulator_layout(
    schema: s.StructType, key: tuple[str, ...], totals: list[s.StructField]
) -> StateLayout:
    """Return the layout of the accumulators of rows with the columns `schema`."""
    dims = (*(schema[name] for name in key), *totals, s.StructField(BATCH, s.LongType()))
    return StateLayout(dims=dims, values=(s.StructField(COUNT, s.LongType()),), key=key)


def over_accumulators(
    stage: OverAggregate,
    totals: AccumulatorState,
    coming: BatchChanges,
    waiting: StateTable | None,
    state: StateTable,
    moment: BatchContext,
) -> BatchChanges:
    """Return the rows that are due with their aggregates, computed, and write the accumulators; `waiting` are rows by
    time.

    Raises StateMismatchError.
    """
    due = _due(stage, coming, waiting, moment)
    if not due.rows.rows:
        state.write_nothing(moment.batch_id)
        return nothing(stage.name, moment, due.late)
    types = {field.name: field.dataType for field in state.layout.dims}
    values = [_value(one).cast(types[one.name]).alias(one.name) for one in totals.running]
    rows = due.rows.frame.select("*", *values)
    before = _before(stage, rows, due.rows.rows, state, moment)
    if before is not None:
        rows = rows.unionByName(before, allowMissingColumns=True)
    clustered = rows.repartition(*columns_of(stage.key)) if stage.key else rows.coalesce(1)
    # what came before has neither time nor number, and sorts first
    rows, _ = moment.holder.hold(
        clustered.sortWithinPartitions(*columns_of(stage.key), *arrived(stage))
    )
    new = rows.groupBy(*columns_of(stage.key)).agg(
        *(_at_end(one, stage).cast(types[one.name]).alias(one.name) for one in totals.running)
    )
    numbers = {BATCH: moment.batch_id, COUNT: 1, TIME: moment.now_ms}
    new = new.withColumns({name: F.lit(n).cast("bigint") for name, n in numbers.items()})
    state.write(moment.batch_id, new, rows=due.rows.rows)
    running = {one.name: _so_far(one, stage).cast(types[one.name]) for one in totals.running}
    table = rows.withColumns(running).where(F.col(INGESTION_ORDER).isNotNull())
    result = over_tables(moment.spark, stage.query, {stage.rows: table})
    return inserted(stage.name, result, moment, due.late)


def latest_accumulators(stored: DataFrame, layout: StateLayout) -> DataFrame:
    """Drop accumulators that newer ones of their key replace."""
    others = [name for name in layout.schema.names if name not in layout.key]
    newest = F.max_by(F.struct(*columns_of(others)), F.col(BATCH)).alias("__newest")
    last = stored.groupBy(*columns_of(layout.key)).agg(newest)
    inner = [F.col("__newest").getField(name).alias(name) for name in others]
    return last.select(*columns_of(layout.key), *inner).select(*columns_of(layout.schema.names))


def _due(
    stage: OverAggregate, coming: BatchChanges, waiting: StateTable | None, moment: BatchContext
) -> ReadyRows:
    rows = coming
    if coming.rows:
        frame = with_ingestion_order(coming.frame.drop(ROW_KIND), INGESTION_ORDER, moment.batch_id)
        rows = BatchChanges(frame=frame, rows=coming.rows)
    if waiting is None:
        return ReadyRows(rows=rows, late=0)
    schema = s.StructType(list(waiting.layout.dims))
    return find_ready_rows(rows, stage_watermark_tests(stage, moment), waiting, schema, moment)


def _before(
    stage: OverAggregate, rows: DataFrame, count: int, state: StateTable, moment: BatchContext
) -> DataFrame | None:
    """Return the accumulators of the keys of `rows`, at most `count`, before the batch."""
    stored = state.read(moment.batch_id)
    if stored is None:
        return None
    if stage.key:
        stored = rows_of_keys(stored, stage.key, keys_of([(rows, stage.key)]), at_most=count)
    last = latest_accumulators(stored, state.layout)
    if state.time_to_live_ms:
        last = last.where(F.col(TIME) > moment.now_ms - state.time_to_live_ms)
    return last.where(F.col(BATCH).isNotNull()).drop(BATCH, COUNT, TIME)


def _value(one: Accumulator) -> Column:
    return F.expr(to_spark_query(one.value))


def _so_far(one: Accumulator, stage: OverAggregate) -> Column:
    """Write a total up to each row, of all of its time unless it is by row."""
    order = arrived(stage) if one.by_row else arrived(stage)[:1]
    window = Window.partitionBy(*columns_of(stage.key)).orderBy(*order)
    bounds = (Window.unboundedPreceding, Window.currentRow)
    window = window.rowsBetween(*bounds) if one.by_row else window.rangeBetween(*bounds)
    return total_of(one.total, F.col(one.name)).over(window)


def _at_end(one: Accumulator, stage: OverAggregate) -> Column:
    """Write a total of all rows of a key; first and last by their order, as a GROUP BY has none."""
    value = F.col(one.name)
    order = F.when(value.isNotNull(), F.struct(*arrived(stage)))
    if one.total is AccumulatorFunction.FIRST:
        return F.min_by(value, order)
    if one.total is AccumulatorFunction.LAST:
        return F.max_by(value, order)
    return total_of(one.total, value)


_TOTALS = "totals"
"""Name of the state table of accumulators, beside that of rows, which has their relation's name."""


def over_layouts(
    spark: SparkSession, stage: OverAggregate, schema: s.StructType
) -> dict[str, StateLayout]:
    """Return the layouts of a stage over rows with the columns `schema`, by the names of its state tables."""
    rows = StageInput(name=stage.rows, key=stage.key, arrival=INGESTION_ORDER)
    layouts = {stage.rows: layout_of(spark, schema, rows)}
    if isinstance(stage.frame_state, AccumulatorState):
        totals = total_types(spark, schema, stage.frame_state)
        layouts[_TOTALS] = accumulator_layout(schema, stage.key, totals)
        if not stage.waits_for:
            del layouts[stage.rows]
    return layouts


def over(
    stage: OverAggregate,
    coming: BatchChanges,
    states: Mapping[str, StateTable],
    moment: BatchContext,
) -> BatchChanges:
    """Return the rows that a batch releases with their aggregates, computed, and write the state.

    Raises StateMismatchError.
    """
    rows = states.get(stage.rows)
    if isinstance(stage.frame_state, AccumulatorState):
        return over_accumulators(stage, stage.frame_state, coming, rows, states[_TOTALS], moment)
    assert rows is not None, "rows are kept"
    return over_rows(stage, coming, rows, moment)


def needed_by_over(
    stage: OverAggregate, name: str, state: StateTable, moment: BatchContext
) -> StateFilter:
    """Return the filter of a stage's state table, by its `name`, that drops what no batch from this one on needs."""

    def keep(stored: DataFrame) -> DataFrame:
        if name == _TOTALS:
            return latest_accumulators(stored, state.layout)
        if isinstance(stage.frame_state, AccumulatorState):
            return stored.where(~stage_watermark_tests(stage, moment).passed)
        return needed_rows(stage, stored, moment)

    return keep
