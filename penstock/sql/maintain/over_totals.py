"""Runs an Over that keeps totals: a key's totals come in front of its rows that are due, and are then totals of both.

Each batch writes the totals of the keys that it gave rows of; the last ones of a key count.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as s

from penstock.connector.changelog import ROW_KIND
from penstock.sql.dialect import to_spark_query
from penstock.sql.maintain.arrangement import COUNT, TIME, Arrangement, Layout, columns_of
from penstock.sql.maintain.arrival import numbered
from penstock.sql.maintain.changes import Changes, Moment
from penstock.sql.maintain.kept import Running, Total, Totals
from penstock.sql.maintain.over_rows import arrived, passing_of
from penstock.sql.maintain.schemas import total_of
from penstock.sql.maintain.stages import ARRIVAL, Over
from penstock.sql.maintain.tables import over_tables
from penstock.sql.maintain.touched import keys_of, of_keys
from penstock.sql.maintain.versioned import BATCH
from penstock.sql.maintain.waiting import Due, due_rows, given, nothing

__all__ = ["last_totals", "over_totals", "totals_layout"]


def totals_layout(
    schema: s.StructType, key: tuple[str, ...], totals: list[s.StructField]
) -> Layout:
    """Give what is kept of the totals of rows with the columns `schema`."""
    dims = (*(schema[name] for name in key), *totals, s.StructField(BATCH, s.LongType()))
    return Layout(dims=dims, values=(s.StructField(COUNT, s.LongType()),), key=key)


def over_totals(
    stage: Over,
    totals: Totals,
    coming: Changes,
    waiting: Arrangement | None,
    kept: Arrangement,
    moment: Moment,
) -> Changes:
    """Give the rows that are due with their aggregates, computed, and write the totals; `waiting` are rows by time.

    Raises StateMismatchError.
    """
    due = _due(stage, coming, waiting, moment)
    if not due.rows.rows:
        kept.write_nothing(moment.batch_id)
        return nothing(stage.name, moment, due.late)
    types = {field.name: field.dataType for field in kept.layout.dims}
    values = [_value(one).cast(types[one.name]).alias(one.name) for one in totals.running]
    rows = due.rows.frame.select("*", *values)
    before = _before(stage, rows, due.rows.rows, kept, moment)
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
    kept.write(moment.batch_id, new, rows=due.rows.rows)
    running = {one.name: _so_far(one, stage).cast(types[one.name]) for one in totals.running}
    table = rows.withColumns(running).where(F.col(ARRIVAL).isNotNull())
    result = over_tables(moment.spark, stage.query, {stage.rows: table})
    return given(stage.name, result, moment, due.late)


def last_totals(stored: DataFrame, layout: Layout) -> DataFrame:
    """Leave out totals that newer ones of their key replace."""
    others = [name for name in layout.schema.names if name not in layout.key]
    newest = F.max_by(F.struct(*columns_of(others)), F.col(BATCH)).alias("__newest")
    last = stored.groupBy(*columns_of(layout.key)).agg(newest)
    inner = [F.col("__newest").getField(name).alias(name) for name in others]
    return last.select(*columns_of(layout.key), *inner).select(*columns_of(layout.schema.names))


def _due(stage: Over, coming: Changes, waiting: Arrangement | None, moment: Moment) -> Due:
    rows = coming
    if coming.rows:
        frame = numbered(coming.frame.drop(ROW_KIND), ARRIVAL, moment.batch_id)
        rows = Changes(frame=frame, rows=coming.rows)
    if waiting is None:
        return Due(rows=rows, late=0)
    schema = s.StructType(list(waiting.layout.dims))
    return due_rows(rows, passing_of(stage, moment), waiting, schema, moment)


def _before(
    stage: Over, rows: DataFrame, count: int, kept: Arrangement, moment: Moment
) -> DataFrame | None:
    """Give the totals of the keys of `rows`, at most `count`, before the batch."""
    stored = kept.read(moment.batch_id)
    if stored is None:
        return None
    if stage.key:
        stored = of_keys(stored, stage.key, keys_of([(rows, stage.key)]), at_most=count)
    last = last_totals(stored, kept.layout)
    if kept.time_to_live_ms:
        last = last.where(F.col(TIME) > moment.now_ms - kept.time_to_live_ms)
    return last.where(F.col(BATCH).isNotNull()).drop(BATCH, COUNT, TIME)


def _value(one: Running) -> Column:
    return F.expr(to_spark_query(one.value))


def _so_far(one: Running, stage: Over) -> Column:
    """Write a total up to each row, of all of its time unless it is by row."""
    order = arrived(stage) if one.by_row else arrived(stage)[:1]
    window = Window.partitionBy(*columns_of(stage.key)).orderBy(*order)
    bounds = (Window.unboundedPreceding, Window.currentRow)
    window = window.rowsBetween(*bounds) if one.by_row else window.rangeBetween(*bounds)
    return total_of(one.total, F.col(one.name)).over(window)


def _at_end(one: Running, stage: Over) -> Column:
    """Write a total of all rows of a key; first and last by their order, as a GROUP BY has none."""
    value = F.col(one.name)
    place = F.when(value.isNotNull(), F.struct(*arrived(stage)))
    if one.total is Total.FIRST:
        return F.min_by(value, place)
    if one.total is Total.LAST:
        return F.max_by(value, place)
    return total_of(one.total, value)
