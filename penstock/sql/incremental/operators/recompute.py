"""Runs a RecomputeOperator: the results of the changed keys before and after the batch, and their difference.

About four Spark jobs a batch: the changed rows of each input, the write of its state table, the difference. Also runs
ChangelogNormalize: the last change of each key of a batch replaces the key's row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as s

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.incremental.stages import (
    COUNT,
    TIME,
    ChangelogNormalize,
    InputState,
    RecomputeOperator,
    StageInput,
    first_ingestion_number,
)
from penstock.sql.incremental.state.batch import (
    BatchChanges,
    BatchContext,
    over_tables,
    with_ingestion_order,
)
from penstock.sql.incremental.state.changed_keys import (
    AFTER,
    BEFORE,
    SIGN,
    added,
    as_of,
    changed_rows,
    count_of,
    difference,
    keys_of,
    rows_of_keys,
    signed,
    stored_count,
    to_write,
)
from penstock.sql.incremental.state.schemas import empty, measures_of
from penstock.sql.incremental.state.state_table import StateLayout, StateTable, columns_of
from penstock.sql.plan.rules.flow import OperatorKind

_NEWEST = "__newest"
"""Column of rows to write: greater than 0 for one that is in the result after the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChangedRows:
    """The rows of an input with changed keys, computed, and their total number, before and after the batch."""

    stage_input: StageInput
    layout: StateLayout
    frame: DataFrame = field(repr=False)
    rows: int
    before: int
    after: int


def recompute(
    stage: RecomputeOperator,
    changes: Mapping[str, BatchChanges],
    states: Mapping[str, StateTable],
    moment: BatchContext,
) -> BatchChanges:
    """Return the changes of the stage's result, computed, and write its state tables.

    `changes` and `states` by the names of its inputs. Raises StateMismatchError.
    """
    coming = {stage_input.name: changes[stage_input.name] for stage_input in stage.inputs}
    if not any(change.rows for change in coming.values()):
        for state in states.values():
            state.write_nothing(moment.batch_id)
        return _nothing(stage, moment)
    keys = _keys(stage, coming)
    in_order = _has_fractions(moment.schemas[stage.name])
    changed = [
        _changed_rows(
            stage_input,
            coming[stage_input.name],
            keys,
            states[stage_input.name],
            moment,
            in_order=in_order,
        )
        for stage_input in stage.inputs
    ]
    rows = _results(stage, changed, moment)
    for one in changed:
        _write(stage, one, rows, states[one.stage_input.name], moment)
    if rows is None:
        return _nothing(stage, moment)
    result = difference(
        rows,
        moment.schemas[stage.name].names,
        stage.key,
        inserts_only=not any(one.before for one in changed),
        unchanged=_keeps_unchanged(stage, states),
    )
    if stage.upserts:
        result = result.where(F.col(ROW_KIND) != F.lit(int(RowKind.UPDATE_BEFORE)))
    frame, figures = moment.holder.hold(result)
    return BatchChanges(frame=frame, rows=figures["rows"])


def _keeps_unchanged(stage: RecomputeOperator, states: Mapping[str, StateTable]) -> bool:
    """With a time to live, later stages also get unchanged rows, so that these do not expire (GroupAggFunction).

    None of a result of inserts, whose rows come once.
    """
    live = any(state.time_to_live_ms for state in states.values())
    return live and not (stage.joins or stage.inserts)


def _nothing(stage: RecomputeOperator, moment: BatchContext) -> BatchChanges:
    return BatchChanges(frame=empty(moment.spark, moment.schemas[stage.name], changes=True), rows=0)


# --- the rows that the batch touches ---


def _keys(
    stage: RecomputeOperator, coming: Mapping[str, BatchChanges]
) -> tuple[DataFrame, int] | None:
    """Return the changed keys and their maximum number; None where everything depends on everything."""
    if not stage.inputs[0].key:
        return None
    there = [
        (coming[stage_input.name].frame, stage_input.key)
        for stage_input in stage.inputs
        if coming[stage_input.name].rows
    ]
    return keys_of(there), sum(change.rows for change in coming.values())


def _changed_rows(
    stage_input: StageInput,
    coming: BatchChanges,
    keys: tuple[DataFrame, int] | None,
    state: StateTable,
    moment: BatchContext,
    *,
    in_order: bool,
) -> _ChangedRows:
    layout = state.layout
    stored = state.read(moment.batch_id)
    if stored is not None and keys is not None:
        stored = rows_of_keys(stored, stage_input.key, keys[0], at_most=keys[1])
    delta = _delta(stage_input, coming, stored, state, moment) if coming.rows else None
    if stored is None and delta is None:
        names = [*layout.names, *layout.sums]
        delta = empty(moment.spark, s.StructType([layout.schema[name] for name in names]))
    rows = changed_rows(
        stored,
        delta,
        layout,
        now_ms=moment.now_ms,
        time_to_live_ms=state.time_to_live_ms,
    )
    if stage_input.by_change:
        rows = _with_arrival(rows, layout, moment.batch_id)
    frame, figures = moment.holder.hold(
        _in_order(rows, layout) if in_order else rows,
        *(F.count_if(count_of(layout, side) > 0).alias(side) for side in (BEFORE, AFTER)),
    )
    return _ChangedRows(
        stage_input=stage_input,
        layout=layout,
        frame=frame,
        rows=figures["rows"],
        before=figures[BEFORE],
        after=figures[AFTER],
    )


def _delta(
    stage_input: StageInput,
    coming: BatchChanges,
    stored: DataFrame | None,
    state: StateTable,
    moment: BatchContext,
) -> DataFrame:
    """Return a batch's changes in the columns of the state table."""
    changes = coming.frame
    if stage_input.arrival is not None and stage_input.by_change:
        changes = changes.withColumn(
            stage_input.arrival, F.lit(0).cast("bigint")
        )  # `_with_arrival`
    elif stage_input.arrival is not None and stage_input.by_batch:
        number = F.lit(first_ingestion_number(moment.batch_id)).cast("bigint")
        changes = changes.withColumn(stage_input.arrival, number)
    elif stage_input.arrival is not None:
        changes = with_ingestion_order(changes, stage_input.arrival, moment.batch_id)
    rows = signed(changes)
    if not stage_input.measures:
        return rows.withColumnRenamed(SIGN, COUNT).withColumn(COUNT, F.col(COUNT).cast("bigint"))
    if state.time_to_live_ms:
        rows = _of_living(rows, stage_input, coming, stored, state, moment)
    return measures_of(rows, stage_input.key, stage_input.measures)


def _with_arrival(rows: DataFrame, layout: StateLayout, batch_id: int) -> DataFrame:
    """Set the order of arrival AFTER the batch: its number for rows that it adds, 0 for absent ones."""
    position = layout.sums.index(COUNT) - 1
    before, after = count_of(layout, BEFORE), count_of(layout, AFTER)
    number = (
        F.when(after <= 0, 0)
        .when(after > before, first_ingestion_number(batch_id))
        .otherwise(F.col(f"{BEFORE}_{position}"))
    )
    return rows.withColumn(f"{AFTER}_{position}", number.cast("bigint"))


def _of_living(
    rows: DataFrame,
    stage_input: StageInput,
    coming: BatchChanges,
    stored: DataFrame | None,
    state: StateTable,
    moment: BatchContext,
) -> DataFrame:
    """Drop deletions of expired keys: the rows that they would be subtracted from are gone."""
    columns = [name for name in rows.columns if name != SIGN]
    net = rows.groupBy(*columns_of(columns)).agg(F.sum(SIGN).alias(SIGN))
    came, went = net.where(F.col(SIGN) > 0), net.where(F.col(SIGN) < 0)
    if stored is None:
        went = went.limit(0)
    elif stage_input.key:
        there = changed_rows(
            stored,
            None,
            state.layout,
            now_ms=moment.now_ms,
            time_to_live_ms=state.time_to_live_ms,
        )
        living = as_of(there, state.layout, BEFORE)
        went = rows_of_keys(
            went, stage_input.key, keys_of([(living, stage_input.key)]), at_most=coming.rows
        )
    copies = F.explode(F.array_repeat(F.signum(SIGN).cast("int"), F.abs(SIGN).cast("int")))
    return came.unionAll(went).select(*columns_of(columns), copies.alias(SIGN))


def _in_order(rows: DataFrame, layout: StateLayout) -> DataFrame:
    """Sort the rows of a key, which lie in one partition.

    Sums of FLOAT and DOUBLE depend on the order of rows: the result before a batch has to equal, to the last bit, the
    result emitted after the previous batch.
    """
    clustered = rows if layout.key else rows.coalesce(1)
    return clustered.sortWithinPartitions(*columns_of(layout.names))


def _has_fractions(kind: s.DataType) -> bool:
    match kind:
        case s.StructType():
            return any(_has_fractions(inner.dataType) for inner in kind.fields)
        case s.ArrayType():
            return _has_fractions(kind.elementType)
        case _:
            return isinstance(kind, s.FractionalType) and not isinstance(kind, s.DecimalType)


# --- results ---


def _results(
    stage: RecomputeOperator, changed: Sequence[_ChangedRows], moment: BatchContext
) -> DataFrame | None:
    """Return the rows of the result before (SIGN -1) and after the batch (1); None where no input has a row at all."""
    sides = []
    for side, sign in ((BEFORE, -1), (AFTER, 1)):
        if any(one.before if side == BEFORE else one.after for one in changed):
            tables = {one.stage_input.name: _table(one, side) for one in changed}
            result = over_tables(moment.spark, stage.query, tables)
            sides.append(result.withColumn(SIGN, F.lit(sign)))
    if not sides:
        return None
    rows = sides[0] if len(sides) == 1 else sides[0].unionAll(sides[1])
    if any(one.stage_input.keeps is InputState.RESULT for one in changed):
        # the arrangement and the difference both read it
        rows, _ = moment.holder.hold(rows)
    return rows


def _table(one: _ChangedRows, side: str) -> DataFrame:
    """Return an input as its SQL sees it."""
    rows = as_of(one.frame, one.layout, side)
    if one.stage_input.measures:
        return rows
    names = (*one.layout.names, *one.layout.sums[:-1])
    copies = F.explode(F.array_repeat(F.lit(0), F.col(COUNT).cast("int"))).alias("__copy")
    return rows.select(*columns_of(names), copies).drop("__copy")


# --- state ---


def _write(
    stage: RecomputeOperator,
    one: _ChangedRows,
    rows: DataFrame | None,
    state: StateTable,
    moment: BatchContext,
) -> None:
    layout, live = one.layout, state.time_to_live_ms > 0
    match one.stage_input.keeps:
        case InputState.ROWS | InputState.ACCUMULATORS | InputState.EXPIRING:
            renewed = live and one.stage_input.renewed
            changes = to_write(
                one.frame, layout, now_ms=moment.now_ms, refresh=live, renewed=renewed
            )
        case InputState.RESULT:
            refresh = live and stage.mechanism.way is OperatorKind.AGGREGATE
            changes = _result_changes(one, rows, moment, refresh=refresh)
        case _:
            assert_never(one.stage_input.keeps)
    state.write(moment.batch_id, changes, rows=one.rows)


def _result_changes(
    one: _ChangedRows, rows: DataFrame | None, moment: BatchContext, *, refresh: bool
) -> DataFrame:
    """Return the changes from the stored rows to those of the result; `refresh`: also those that stay the same."""
    names = columns_of(one.layout.names)
    stored = one.frame.select(*names, (-stored_count(one.layout)).alias(COUNT))
    if rows is not None:
        after = rows.where(F.col(SIGN) > 0).select(*names, F.lit(1).cast("bigint").alias(COUNT))
        stored = stored.unionAll(after)
    newest = F.max(COUNT).alias(_NEWEST)
    net = stored.groupBy(*names).agg(F.sum(COUNT).alias(COUNT), newest)
    written = (F.col(COUNT) != 0) | (F.col(_NEWEST) > 0) if refresh else F.col(COUNT) != 0
    found = net.where(written).drop(_NEWEST)
    return found.withColumn(TIME, F.lit(moment.now_ms).cast("bigint"))


# --- ChangelogNormalize ---

_ORDER, _RANK = "__order", "__rank"


def normalize(
    stage: ChangelogNormalize, changes: BatchChanges, state: StateTable, moment: BatchContext
) -> BatchChanges:
    """Return the changes with the row before, computed, and write the last rows. Raises StateMismatchError.

    The last change counts by the order of the partitions of the frame and of the rows within.
    """
    if not changes.rows:
        state.write_nothing(moment.batch_id)
        nothing = empty(moment.spark, moment.schemas[stage.name], changes=True)
        return BatchChanges(frame=nothing, rows=0)
    names = moment.schemas[stage.name].names
    sides = _new(changes.frame, stage)
    stored = state.read(moment.batch_id)
    if stored is not None:
        keys = keys_of([(changes.frame, stage.key)])
        stored = rows_of_keys(stored, stage.key, keys, at_most=changes.rows)
        sides = sides.unionAll(_old(stored, state, moment.now_ms))
    rows, figures = moment.holder.hold(sides)
    net = rows.groupBy(*columns_of(names)).agg(F.sum(COUNT).alias(COUNT), F.max(SIGN).alias(SIGN))
    # with a time to live also keys that got the same row again
    newer = F.col(SIGN) > 0 if state.time_to_live_ms else F.lit(False)
    written = net.where((F.col(COUNT) != 0) | newer).select(
        *columns_of(names), COUNT, F.lit(moment.now_ms).cast("bigint").alias(TIME)
    )
    state.write(moment.batch_id, written, rows=figures["rows"])
    known = rows.where(F.col(SIGN) != 0)
    result = difference(
        known,
        names,
        stage.key,
        inserts_only=stored is None,
        unchanged=state.time_to_live_ms > 0,
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


def _old(stored: DataFrame, state: StateTable, now_ms: int) -> DataFrame:
    """Return the stored rows of the changed keys: all columns, SIGN -1 (0: expired), COUNT as it is
    to be subtracted.
    """
    layout = state.layout
    there = changed_rows(stored, None, layout, now_ms=now_ms, time_to_live_ms=state.time_to_live_ms)
    alive = F.when(count_of(layout, BEFORE) > 0, -1).otherwise(0)
    return there.select(
        *columns_of(layout.names), alive.alias(SIGN), (-stored_count(layout)).alias(COUNT)
    )
