"""Runs an Over that keeps rows: those that the batch's watermark lets go are computed over all that are needed.

Rows are written once, when they come: by their time they wait, are given, still count for others, and are left out.
"""

from __future__ import annotations

from functools import reduce
from math import ceil

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from penstock.catalog.identifier import quoted
from penstock.connector.changelog import ROW_KIND
from penstock.sql.maintain.arrangement import COUNT, TIME, Arrangement, columns_of
from penstock.sql.maintain.arrival import first_number, numbered
from penstock.sql.maintain.changes import Changes, Moment
from penstock.sql.maintain.kept import BATCH_TIME, LastRows, Within
from penstock.sql.maintain.stages import ARRIVAL, Over
from penstock.sql.maintain.tables import over_tables
from penstock.sql.maintain.touched import keys_of, of_keys
from penstock.sql.maintain.waiting import (
    Passing,
    given,
    instant,
    nothing,
    passing,
    write_rows,
)

__all__ = ["arrived", "needed_rows", "over_rows", "passing_of"]

_FORGOTTEN, _PASSED, _BACK, _NEWEST = "__forgotten", "__passed", "__back", "__newest"


def passing_of(stage: Over, moment: Moment) -> Passing:
    """Test rows of a stage: by the watermarks; or by their arrival, as those of a batch are given with it."""
    if stage.time is not None and stage.waits_for:
        kind = moment.schemas[stage.rows][stage.time].dataType
        return passing(stage.time, kind, moment.span(stage.waits_for))
    before = F.col(ARRIVAL) < F.lit(first_number(moment.batch_id))
    return Passing(passed=before, due=~before, waits=F.lit(False), moves=True)


def over_rows(stage: Over, coming: Changes, kept: Arrangement, moment: Moment) -> Changes:
    """Give the rows that are due with their aggregates, computed, and write those that came.

    Raises StateMismatchError.
    """
    tests = passing_of(stage, moment)
    fresh, late = _arrive(stage, coming, tests, kept, moment)
    stored = kept.read(moment.batch_id) if tests.moves else None
    both = [rows for rows in (stored, fresh) if rows is not None]
    if not tests.moves or not both:
        return nothing(stage.name, moment, late)
    rows = _in_reach(stage, reduce(DataFrame.unionAll, both), moment)
    rows, figures = moment.holder.hold(rows, F.count_if(tests.due).alias("due"))
    if not figures["due"]:
        return nothing(stage.name, moment, late)
    if stage.key:
        keys = keys_of([(rows.where(tests.due), stage.key)])
        rows = of_keys(rows, stage.key, keys, at_most=figures["due"])
    rows = _living(stage, rows, tests, moment)
    # what the window does not order (rows of one time) stays as it is sorted here
    clustered = rows.repartition(*columns_of(stage.key)) if stage.key else rows.coalesce(1)
    table = clustered.sortWithinPartitions(*columns_of(stage.key), *arrived(stage))
    table = table.withColumn(BATCH_TIME, F.timestamp_millis(F.col(TIME)))
    result = over_tables(moment.spark, stage.query, {stage.rows: table}).where(tests.due)
    return given(stage.name, result, moment, late)


def needed_rows(stage: Over, stored: DataFrame, moment: Moment) -> DataFrame:
    """Leave out those of the rows that are kept that no batch from this one on needs."""
    tests = passing_of(stage, moment)
    there = _living(stage, _in_reach(stage, stored, moment), tests, moment)
    if isinstance(stage.kept, Within) and stage.time is not None and not stage.waits_for:
        there = _before_newest(there, stage.time, stage.kept.micros)
    if not isinstance(stage.kept, LastRows):
        return there.select(*columns_of(stored.columns))
    newest = [F.desc(_PASSED), *(column.desc() for column in arrived(stage))]
    back = Window.partitionBy(*columns_of(stage.key)).orderBy(*newest)
    there = there.withColumn(_PASSED, tests.passed).withColumn(_BACK, F.row_number().over(back))
    needed = ~F.col(_PASSED) | (F.col(_BACK) <= stage.kept.count)
    return there.where(needed).select(*columns_of(stored.columns))


def arrived(stage: Over) -> list[Column]:
    """Give the order of the rows of a key."""
    time = [] if stage.time is None else [F.col(quoted(stage.time))]
    return [*time, F.col(ARRIVAL)]


def _arrive(
    stage: Over, coming: Changes, tests: Passing, kept: Arrangement, moment: Moment
) -> tuple[DataFrame | None, int]:
    """Write the rows that came in time; gives them, as they are stored, and how many came late."""
    if not coming.rows:
        kept.write_nothing(moment.batch_id)
        return None, 0
    rows, late = numbered(coming.frame.drop(ROW_KIND), ARRIVAL, moment.batch_id), 0
    if stage.waits_for:
        late = rows.where(tests.passed).count()
        rows = rows.where(~tests.passed)
    write_rows(rows, coming.rows - late, kept, moment)
    if late == coming.rows:
        return None, late
    numbers = {COUNT: F.lit(1).cast("bigint"), TIME: F.lit(moment.now_ms).cast("bigint")}
    return rows.withColumns(numbers).select(*columns_of(kept.layout.schema.names)), late


def _in_reach(stage: Over, rows: DataFrame, moment: Moment) -> DataFrame:
    """Leave out rows that are older than the interval of a RANGE reaches, from the rows that may still be given."""
    if not isinstance(stage.kept, Within):
        return rows
    reach_ms = ceil(stage.kept.micros / 1000)
    if stage.time is None:
        return rows.where(F.col(TIME) >= moment.now_ms - reach_ms)
    before_ms = moment.span(stage.waits_for).before_ms if stage.waits_for else None
    if before_ms is None:
        return rows
    kind = moment.schemas[stage.rows][stage.time].dataType
    return rows.where(F.col(quoted(stage.time)) > instant(before_ms - reach_ms, kind))


def _before_newest(rows: DataFrame, time: str, micros: int) -> DataFrame:
    """Leave out rows older than the interval before the newest one, which those to come are not before."""
    newest = rows.agg(F.max(quoted(time)).alias(_NEWEST))
    reach = F.expr(f"make_dt_interval(0, 0, 0, {micros // 1_000_000}.{micros % 1_000_000:06})")
    return rows.crossJoin(F.broadcast(newest)).where(F.col(quoted(time)) >= F.col(_NEWEST) - reach)


def _living(stage: Over, rows: DataFrame, tests: Passing, moment: Moment) -> DataFrame:
    """Leave out rows of keys that none came to for the time to live, in all their time (never rows that wait)."""
    # Flink's RowTimeRangeBoundedPrecedingFunction has none: its interval bounds it
    if not moment.time_to_live_ms or isinstance(stage.kept, Within):
        return rows
    by_time = Window.partitionBy(*columns_of(stage.key)).orderBy(TIME, ARRIVAL)
    next_ms = F.coalesce(F.lead(TIME).over(by_time), F.lit(moment.now_ms))
    gap = rows.withColumn(_FORGOTTEN, next_ms - F.col(TIME) >= moment.time_to_live_ms)
    later = by_time.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    found = gap.withColumn(_FORGOTTEN, F.max(_FORGOTTEN).over(later))
    return found.where(~(F.col(_FORGOTTEN) & tests.passed)).drop(_FORGOTTEN)
