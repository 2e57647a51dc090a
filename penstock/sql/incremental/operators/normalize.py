"""Runs ChangelogNormalize: the last change of each key of a batch replaces the key's row."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from penstock.sql.incremental.stages import ChangelogNormalize
from penstock.sql.incremental.state.batch import BatchChanges, BatchContext
from penstock.sql.incremental.state.changed_keys import (
    BEFORE,
    changed_rows,
    count_of,
    keys_of,
    rows_of_keys,
    stored_count,
)
from penstock.sql.incremental.state.difference import SIGN, added, difference
from penstock.sql.incremental.state.schemas import empty
from penstock.sql.incremental.state.state_table import COUNT, TIME, StateTable, columns_of

__all__ = ["normalize"]

_ORDER, _RANK = "__order", "__rank"


def normalize(
    stage: ChangelogNormalize, changes: BatchChanges, arrangement: StateTable, moment: BatchContext
) -> BatchChanges:
    """Return the changes with the row before, computed, and write the last rows. Raises StateMismatchError.

    The last change counts by the order of the partitions of the frame and of the rows within.
    """
    if not changes.rows:
        arrangement.write_nothing(moment.batch_id)
        nothing = empty(moment.spark, moment.schemas[stage.name], changes=True)
        return BatchChanges(frame=nothing, rows=0)
    names = moment.schemas[stage.name].names
    sides = _new(changes.frame, stage)
    stored = arrangement.read(moment.batch_id)
    if stored is not None:
        keys = keys_of([(changes.frame, stage.key)])
        stored = rows_of_keys(stored, stage.key, keys, at_most=changes.rows)
        sides = sides.unionAll(_old(stored, arrangement, moment.now_ms))
    rows, figures = moment.holder.hold(sides)
    net = rows.groupBy(*columns_of(names)).agg(F.sum(COUNT).alias(COUNT), F.max(SIGN).alias(SIGN))
    # with a time to live also keys that got the same row again
    newer = F.col(SIGN) > 0 if arrangement.time_to_live_ms else F.lit(False)
    written = net.where((F.col(COUNT) != 0) | newer).select(
        *columns_of(names), COUNT, F.lit(moment.now_ms).cast("bigint").alias(TIME)
    )
    arrangement.write(moment.batch_id, written, rows=figures["rows"])
    told = rows.where(F.col(SIGN) != 0)
    result = difference(
        told,
        names,
        stage.key,
        inserts_only=stored is None,
        unchanged=arrangement.time_to_live_ms > 0,
    )
    frame, figures = moment.holder.hold(result)
    return BatchChanges(frame=frame, rows=figures["rows"])


def _new(changes: DataFrame, stage: ChangelogNormalize) -> DataFrame:
    """Return the rows after the batch: all columns, SIGN 1, COUNT 1."""
    # the order has to be taken before the shuffle
    ordered = changes.withColumn(_ORDER, F.monotonically_increasing_id())
    newest = Window.partitionBy(*columns_of(stage.key)).orderBy(F.desc(_ORDER))
    last = ordered.withColumn(_RANK, F.row_number().over(newest)).where(F.col(_RANK) == 1)
    columns = columns_of(changes.columns[:-1])
    return last.where(added()).select(
        *columns, F.lit(1).alias(SIGN), F.lit(1).cast("bigint").alias(COUNT)
    )


def _old(stored: DataFrame, arrangement: StateTable, now_ms: int) -> DataFrame:
    """Return the stored rows of the changed keys: all columns, SIGN -1 (0: expired), COUNT as it is
    to be subtracted.
    """
    layout = arrangement.layout
    there = changed_rows(
        stored, None, layout, now_ms=now_ms, time_to_live_ms=arrangement.time_to_live_ms
    )
    alive = F.when(count_of(layout, BEFORE) > 0, -1).otherwise(0)
    return there.select(
        *columns_of(layout.names), alive.alias(SIGN), (-stored_count(layout)).alias(COUNT)
    )
