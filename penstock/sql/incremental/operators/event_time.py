"""Runs what waits for the watermark: WindowAggregate and TemporalJoin.

Rows of windows wait until the watermark has passed the window, and are then aggregated at once. Rows of a temporal
join that the watermark has passed get the version that their key had at their time. Its state: rows that still wait,
and versions. Both are append-only: rows that the watermark has passed are dropped on reading and on compaction of
folders, and so are versions that no later row can need.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from penstock.catalog.model.identifier import quoted
from penstock.sql.incremental.stages import TemporalJoin, WindowAggregate
from penstock.sql.incremental.state.batch import BatchChanges, BatchContext, over_tables
from penstock.sql.incremental.state.changed_keys import keys_of, rows_of_keys
from penstock.sql.incremental.state.event_time_buffer import (
    WatermarkTests,
    arriving,
    find_ready_changes,
    find_ready_rows,
    inserted,
    instant,
    needed_from,
    nothing,
    valid,
    watermark_tests,
    with_validity,
)
from penstock.sql.incremental.state.schemas import empty
from penstock.sql.incremental.state.state_table import StateFilter, StateTable

# --- windows ---


def aggregate_ready_windows(
    stage: WindowAggregate, coming: BatchChanges, open_: StateTable, moment: BatchContext
) -> BatchChanges:
    """Return the aggregates of the windows that the batch closes, computed, and write rows of those that are `open_`.

    Raises StateMismatchError.
    """
    schema = moment.schemas[stage.rows]
    find = find_ready_changes if stage.changes else find_ready_rows
    due = find(coming, _passing(stage, moment), open_, schema, moment)
    if not due.rows.rows:
        return nothing(stage.name, moment, due.late)
    result = over_tables(moment.spark, stage.query, {stage.rows: due.rows.frame})
    return inserted(stage.name, result, moment, due.late)


def drop_closed_windows(stage: WindowAggregate, moment: BatchContext) -> StateFilter:
    """Return the filter that drops rows of closed windows."""

    def keep(stored: DataFrame) -> DataFrame:
        return stored.where(~_passing(stage, moment).passed)

    return keep


def _passing(stage: WindowAggregate, moment: BatchContext) -> WatermarkTests:
    kind = moment.schemas[stage.rows][stage.time].dataType
    return watermark_tests(stage.time, kind, moment.span(stage.waits_for))


# --- temporal joins ---


def join_versions(
    stage: TemporalJoin,
    changes: Mapping[str, BatchChanges],
    states: Mapping[str, StateTable],
    moment: BatchContext,
) -> BatchChanges:
    """Return the joined rows that the batch's watermark releases, computed, and write the state.

    `changes` and `states` by the names of the stage's inputs. Raises StateMismatchError.
    """
    _write_versions(stage, changes[stage.versions], states[stage.versions], moment)
    schema = moment.schemas[stage.rows]
    tests = watermark_tests(stage.time, schema[stage.time].dataType, moment.span(stage.waits_for))
    due = find_ready_rows(changes[stage.rows], tests, states[stage.rows], schema, moment)
    if not due.rows.rows:
        return nothing(stage.name, moment, due.late)
    joined = _joined(stage, due.rows, states[stage.versions], moment)
    return inserted(stage.name, joined, moment, due.late)


def still_needed(
    stage: TemporalJoin, name: str, state: StateTable, moment: BatchContext
) -> StateFilter:
    """Return the filter of the state table of the input `name` that drops rows that no batch from
    this one on can need.
    """
    before_ms = moment.span(stage.waits_for).before_ms
    schema, layout = moment.schemas[name], state.layout
    time = stage.time if name == stage.rows else stage.version_time

    def keep(stored: DataFrame) -> DataFrame:
        if before_ms is None:
            return stored
        bound = instant(before_ms, schema[time].dataType)
        if name == stage.rows:
            return stored.where(F.col(quoted(time)) > bound)
        # keys that expired are gone already
        versions = with_validity(stored, stage, layout, now_ms=moment.now_ms, time_to_live_ms=0)
        return needed_from(versions, stage, layout, bound)

    return keep


def _write_versions(
    stage: TemporalJoin, coming: BatchChanges, versions: StateTable, moment: BatchContext
) -> None:
    if not coming.rows:
        versions.write_nothing(moment.batch_id)
        return
    new = arriving(coming.frame, stage, moment.batch_id, moment.now_ms)
    versions.write(moment.batch_id, new, rows=coming.rows)


def _joined(
    stage: TemporalJoin, due: BatchChanges, versions: StateTable, moment: BatchContext
) -> DataFrame:
    """Join rows with the versions of their keys, those of this batch among them."""
    # what is before the next batch is there with this one
    stored = versions.read(moment.batch_id + 1)
    layout = versions.layout
    if stored is None:
        stored = empty(moment.spark, layout.schema)
    keys = keys_of([(due.frame, stage.row_key)])
    stored = rows_of_keys(stored, stage.version_key, keys, at_most=due.rows)
    found = with_validity(
        stored,
        stage,
        layout,
        now_ms=moment.now_ms,
        time_to_live_ms=versions.time_to_live_ms,
    )
    tables = {stage.rows: due.frame, stage.versions: valid(found)}
    return over_tables(moment.spark, stage.query, tables)
