"""Versions of keys, the state of a TemporalJoin: their validity, and which ones no row can need any more."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as s

from penstock.catalog.model.identifier import quoted
from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.incremental.stages import VALID_FROM, VALID_TO, TemporalJoin
from penstock.sql.incremental.state.difference import added
from penstock.sql.incremental.state.state_table import COUNT, TIME, StateLayout, columns_of

__all__ = ["arriving", "needed_from", "valid", "version_layout", "with_validity"]

BATCH, ORDER = "__batch", "__order"
"""BIGINT columns: the batch in which a version arrived, and its place there. Of versions at one
time the last counts.
"""


def version_layout(schema: s.StructType, key: tuple[str, ...]) -> StateLayout:
    """Return the layout of a versioned relation with the columns `schema`."""
    arrival = (s.StructField(name, s.LongType()) for name in (BATCH, ORDER))
    kind = s.StructField(ROW_KIND, s.ByteType())
    count = s.StructField(COUNT, s.LongType())
    return StateLayout(dims=(*schema.fields, kind, *arrival), values=(count,), key=key)


def arriving(changes: DataFrame, stage: TemporalJoin, batch_id: int, now_ms: int) -> DataFrame:
    """Return a batch's changes as versions of the state table.

    The row before an update is none: the row after it is the version that ends the previous one. An inserted row
    without a time is none either.
    """
    # the order has to be taken before any shuffle
    ordered = changes.withColumn(ORDER, F.monotonically_increasing_id())
    timed = F.col(quoted(stage.version_time)).isNotNull()
    kept = (added() & timed) | (F.col(ROW_KIND) == int(RowKind.DELETE))
    return ordered.where(kept).select(
        *columns_of(changes.columns),
        F.lit(batch_id).cast("bigint").alias(BATCH),
        ORDER,
        F.lit(1).cast("bigint").alias(COUNT),
        F.lit(now_ms).cast("bigint").alias(TIME),
    )


def with_validity(
    stored: DataFrame,
    stage: TemporalJoin,
    layout: StateLayout,
    *,
    now_ms: int,
    time_to_live_ms: int,
) -> DataFrame:
    """Return versions, deletes too, with VALID_FROM (inclusive) and VALID_TO (exclusive; NULL: still valid).

    A delete without a time of its own (a tombstone has only its key) is one of the newest version that came before it,
    as Flink's ChangelogNormalize gives deletes. Keys that did not change within the time to live are left out.
    """
    key = columns_of(layout.key)
    rows = stored
    if time_to_live_ms:
        rows = rows.withColumn(TIME, layout.last_change())
        rows = rows.where(F.col(TIME) > now_ms - time_to_live_ms)
    time = F.col(quoted(stage.version_time))
    before = Window.partitionBy(*key).orderBy(BATCH, ORDER)
    earlier = before.rowsBetween(Window.unboundedPreceding, -1)
    rows = rows.withColumn(VALID_FROM, F.coalesce(time, F.max(time).over(earlier)))
    rows = rows.where(F.col(VALID_FROM).isNotNull())
    by_time = Window.partitionBy(*key).orderBy(VALID_FROM, BATCH, ORDER)
    rows = rows.withColumn(VALID_TO, F.lead(VALID_FROM).over(by_time))
    # the last one to come replaces those before it that say the same time
    return rows.where(F.col(VALID_TO).isNull() | (F.col(VALID_TO) > F.col(VALID_FROM)))


def valid(versions: DataFrame) -> DataFrame:
    """Leave out deletes, which only end the version before them."""
    return versions.where(added())


def needed_from(
    versions: DataFrame, stage: TemporalJoin, layout: StateLayout, after: Column
) -> DataFrame:
    """Return the versions that a row later than `after` can need, as they are kept: those that end later."""
    there = versions.where(F.col(VALID_TO).isNull() | (F.col(VALID_TO) > after))
    timed = there.withColumn(stage.version_time, F.col(VALID_FROM))
    return timed.select(*columns_of(layout.schema.names))
