"""Runs a WindowAggregate: rows of windows wait until the watermark has passed the window, and are
then aggregated at once.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from penstock.sql.incremental.stages import WindowAggregate
from penstock.sql.incremental.state.batch import BatchChanges, BatchContext, over_tables
from penstock.sql.incremental.state.event_time_buffer import (
    WatermarkTests,
    find_ready_rows,
    given,
    nothing,
    watermark_tests,
)
from penstock.sql.incremental.state.state_table import StateFilter, StateTable

__all__ = ["aggregate_ready_windows", "drop_closed_windows"]


def aggregate_ready_windows(
    stage: WindowAggregate, coming: BatchChanges, open_: StateTable, moment: BatchContext
) -> BatchChanges:
    """Return the aggregates of the windows that the batch closes, computed, and write rows of those that are `open_`.

    Raises StateMismatchError.
    """
    schema = moment.schemas[stage.rows]
    due = find_ready_rows(coming, _passing(stage, moment), open_, schema, moment)
    if not due.rows.rows:
        return nothing(stage.name, moment, due.late)
    result = over_tables(moment.spark, stage.query, {stage.rows: due.rows.frame})
    return given(stage.name, result, moment, due.late)


def drop_closed_windows(stage: WindowAggregate, moment: BatchContext) -> StateFilter:
    """Return the filter that drops rows of closed windows."""

    def keep(stored: DataFrame) -> DataFrame:
        return stored.where(~_passing(stage, moment).passed)

    return keep


def _passing(stage: WindowAggregate, moment: BatchContext) -> WatermarkTests:
    kind = moment.schemas[stage.rows][stage.time].dataType
    return watermark_tests(stage.time, kind, moment.span(stage.waits_for))
