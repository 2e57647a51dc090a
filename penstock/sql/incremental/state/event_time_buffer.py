"""Buffering by event time: which rows a batch releases, which are late, and which versions of keys are valid.

For stages whose rows wait for the watermark; versions are the state of a TemporalJoin.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as s

from penstock.catalog.model.identifier import quoted
from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.connector.source.state import instant_text
from penstock.sql.checkpoint.watermarks import EventTimeSpan
from penstock.sql.incremental.stages import COUNT, TIME, VALID_FROM, VALID_TO, TemporalJoin
from penstock.sql.incremental.state.batch import BatchChanges, BatchContext
from penstock.sql.incremental.state.changed_keys import added
from penstock.sql.incremental.state.schemas import empty
from penstock.sql.incremental.state.state_table import StateLayout, StateTable, columns_of


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkTests:
    """Tests of a row's time by the watermarks of a batch: it was `passed` before, is `due` with the batch, or `waits`.

    `passed` is also that of a row without a time, which belongs nowhere: such a row is late on arrival.
    """

    passed: Column = field(repr=False)
    due: Column = field(repr=False)
    waits: Column = field(repr=False)
    moves: bool
    """Whether the batch passes any time at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyRows:
    """The rows that the batch's watermark releases, computed, and the number of late rows."""

    rows: BatchChanges
    late: int


def instant(at_ms: int, kind: s.DataType) -> Column:
    """Write a watermark (epoch ms) in the type of a rowtime; a TIMESTAMP, which has no zone, counts as UTC."""
    text = instant_text(at_ms)
    if isinstance(kind, s.TimestampNTZType):
        return F.expr(f"TIMESTAMP_NTZ'{text.removesuffix('Z')}'")
    return F.expr(f"TIMESTAMP_LTZ'{text}'")


def watermark_tests(time: str, kind: s.DataType, span: EventTimeSpan) -> WatermarkTests:
    """Test the rowtime `time`, of the type `kind`, by the watermarks of `span`."""
    column, never = F.col(quoted(time)), F.lit(False)
    now = never if span.now_ms is None else column <= instant(span.now_ms, kind)
    before = never if span.before_ms is None else column <= instant(span.before_ms, kind)
    return WatermarkTests(
        passed=column.isNull() | before,
        due=column.isNotNull() & now & ~before,
        waits=column.isNotNull() & ~now & ~before,
        moves=span.now_ms != span.before_ms,
    )


def find_ready_rows(
    coming: BatchChanges,
    tests: WatermarkTests,
    waiting: StateTable,
    schema: s.StructType,
    moment: BatchContext,
) -> ReadyRows:
    """Find the rows that are due, of the batch and of earlier ones, and write those that wait.

    `schema` are the columns of both; longer-lived state is not here. Raises StateMismatchError.
    """
    parts, late = [], 0
    if coming.rows:
        rows = coming.frame.select(*columns_of(schema.names))
        figures = rows.agg(
            F.count_if(tests.passed).alias("late"), F.count_if(tests.waits).alias("waits")
        ).first()
        assert figures is not None, "an aggregation without keys gives a row"
        late = figures["late"]
        if late + figures["waits"] < coming.rows:
            parts.append(rows.where(tests.due))
        write_rows(rows.where(tests.waits), figures["waits"], waiting, moment)
    else:
        waiting.write_nothing(moment.batch_id)
    stored = waiting.read(moment.batch_id) if tests.moves else None
    if stored is not None:
        copies = F.explode(F.array_repeat(F.lit(0), F.col(COUNT).cast("int"))).alias("__copy")
        there = stored.where(tests.due).select(*columns_of(schema.names), copies)
        parts.append(there.drop("__copy"))
    if not parts:
        return ReadyRows(rows=BatchChanges(frame=empty(moment.spark, schema), rows=0), late=late)
    frame, figures = moment.holder.hold(reduce(DataFrame.unionAll, parts))
    return ReadyRows(rows=BatchChanges(frame=frame, rows=figures["rows"]), late=late)


def find_ready_changes(
    coming: BatchChanges,
    tests: WatermarkTests,
    waiting: StateTable,
    schema: s.StructType,
    moment: BatchContext,
) -> ReadyRows:
    """Find the rows that are left of those that are due, and write the changes that wait.

    Deletions take away rows of the batch, and of earlier ones. Raises StateMismatchError.
    """
    names = columns_of(schema.names)
    parts, late, waits = [], 0, 0
    if coming.rows:
        sign = F.when(added(), 1).otherwise(-1).cast("bigint").alias(COUNT)
        changes = coming.frame.select(*names, sign)
        found = changes.agg(
            F.count_if(tests.passed).alias("late"), F.count_if(tests.waits).alias("waits")
        ).first()
        assert found is not None, "an aggregation without keys gives a row"
        late, waits = found["late"], found["waits"]
        if late + waits < coming.rows:
            parts.append(changes.where(tests.due))
        if waits:
            now_ms = F.lit(moment.now_ms).cast("bigint")
            open_ = changes.where(tests.waits).withColumn(TIME, now_ms)
            waiting.write(moment.batch_id, open_, rows=waits)
    if not waits:
        waiting.write_nothing(moment.batch_id)
    stored = waiting.read(moment.batch_id) if tests.moves else None
    if stored is not None:
        parts.append(stored.where(tests.due).select(*names, COUNT))
    if not parts:
        return ReadyRows(rows=BatchChanges(frame=empty(moment.spark, schema), rows=0), late=late)
    net = reduce(DataFrame.unionAll, parts).groupBy(*names).agg(F.sum(COUNT).alias(COUNT))
    there = net.where(F.col(COUNT) > 0)
    copies = F.explode(F.array_repeat(F.lit(0), F.col(COUNT).cast("int"))).alias("__copy")
    frame, figures = moment.holder.hold(there.select(*names, copies).drop("__copy"))
    return ReadyRows(rows=BatchChanges(frame=frame, rows=figures["rows"]), late=late)


def write_rows(rows: DataFrame, count: int, state: StateTable, moment: BatchContext) -> None:
    """Write rows unchanged, each once; `count` is their number."""
    if not count:
        state.write_nothing(moment.batch_id)
        return
    numbers = {COUNT: F.lit(1).cast("bigint"), TIME: F.lit(moment.now_ms).cast("bigint")}
    state.write(moment.batch_id, rows.withColumns(numbers), rows=count)


def inserted(name: str, result: DataFrame, moment: BatchContext, late: int) -> BatchChanges:
    """Compute the output of the stage `name`: append-only rows, none of which is emitted again;
    `late` counts late rows.
    """
    columns = columns_of(moment.schemas[name].names)
    kind = F.lit(int(RowKind.INSERT)).cast("tinyint").alias(ROW_KIND)
    frame, figures = moment.holder.hold(result.select(*columns, kind))
    return BatchChanges(frame=frame, rows=figures["rows"], late=late)


def nothing(name: str, moment: BatchContext, late: int) -> BatchChanges:
    """Record that the stage `name` emits no row."""
    frame = empty(moment.spark, moment.schemas[name], changes=True)
    return BatchChanges(frame=frame, rows=0, late=late)


# --- versions ---

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
    valid = (added() & timed) | (F.col(ROW_KIND) == int(RowKind.DELETE))
    return ordered.where(valid).select(
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
