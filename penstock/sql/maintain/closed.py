"""Runs a Closed: rows of windows wait until the watermark has passed those, and are then aggregated at once."""

from __future__ import annotations

from pyspark.sql import DataFrame

from penstock.sql.maintain.arrangement import Arrangement, Keep
from penstock.sql.maintain.changes import Changes, Moment
from penstock.sql.maintain.stages import Closed
from penstock.sql.maintain.tables import over_tables
from penstock.sql.maintain.waiting import Passing, due_rows, given, nothing, passing

__all__ = ["close_windows", "open_windows"]


def close_windows(stage: Closed, coming: Changes, open_: Arrangement, moment: Moment) -> Changes:
    """Give the aggregates of the windows that the batch closes, computed, and write rows of those that are `open_`.

    Raises StateMismatchError.
    """
    schema = moment.schemas[stage.rows]
    due = due_rows(coming, _passing(stage, moment), open_, schema, moment)
    if not due.rows.rows:
        return nothing(stage.name, moment, due.late)
    result = over_tables(moment.spark, stage.query, {stage.rows: due.rows.frame})
    return given(stage.name, result, moment, due.late)


def open_windows(stage: Closed, moment: Moment) -> Keep:
    """Give what leaves out rows of windows that are closed."""

    def keep(stored: DataFrame) -> DataFrame:
        return stored.where(~_passing(stage, moment).passed)

    return keep


def _passing(stage: Closed, moment: Moment) -> Passing:
    kind = moment.schemas[stage.rows][stage.time].dataType
    return passing(stage.time, kind, moment.span(stage.waits_for))
