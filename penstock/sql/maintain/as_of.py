"""Runs a Temporal: rows that the watermark has passed get the version that their key had at their time.

Kept are rows that still wait, and versions. Both are only added to: rows that the watermark has passed are left out
when they are read and when folders are put together, and so are versions that no later row can need.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from penstock.catalog.identifier import quoted
from penstock.sql.maintain.arrangement import Arrangement, Keep
from penstock.sql.maintain.changes import Changes, Moment
from penstock.sql.maintain.schemas import empty
from penstock.sql.maintain.stages import Temporal
from penstock.sql.maintain.tables import over_tables
from penstock.sql.maintain.touched import keys_of, of_keys
from penstock.sql.maintain.versioned import arriving, needed_from, valid, with_validity
from penstock.sql.maintain.waiting import due_rows, given, instant, nothing, passing

__all__ = ["join_versions", "still_needed"]


def join_versions(
    stage: Temporal,
    changes: Mapping[str, Changes],
    arrangements: Mapping[str, Arrangement],
    moment: Moment,
) -> Changes:
    """Give the joined rows that the batch's watermark lets go, computed, and write what is kept.

    `changes` and `arrangements` by the names of the stage's inputs. Raises StateMismatchError.
    """
    _write_versions(stage, changes[stage.versions], arrangements[stage.versions], moment)
    schema = moment.schemas[stage.rows]
    kept = passing(stage.time, schema[stage.time].dataType, moment.span(stage.waits_for))
    due = due_rows(changes[stage.rows], kept, arrangements[stage.rows], schema, moment)
    if not due.rows.rows:
        return nothing(stage.name, moment, due.late)
    joined = _joined(stage, due.rows, arrangements[stage.versions], moment)
    return given(stage.name, joined, moment, due.late)


def still_needed(stage: Temporal, name: str, arrangement: Arrangement, moment: Moment) -> Keep:
    """Give what leaves rows out of an arrangement of the input `name` that no batch from this one on can need."""
    before_ms = moment.span(stage.waits_for).before_ms
    schema, layout = moment.schemas[name], arrangement.layout
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
    stage: Temporal, coming: Changes, versions: Arrangement, moment: Moment
) -> None:
    if not coming.rows:
        versions.write_nothing(moment.batch_id)
        return
    kept = arriving(coming.frame, stage, moment.batch_id, moment.now_ms)
    versions.write(moment.batch_id, kept, rows=coming.rows)


def _joined(stage: Temporal, due: Changes, versions: Arrangement, moment: Moment) -> DataFrame:
    """Join rows with the versions of their keys, those of this batch among them."""
    # what is before the next batch is there with this one
    stored = versions.read(moment.batch_id + 1)
    layout = versions.layout
    if stored is None:
        stored = empty(moment.spark, layout.schema)
    keys = keys_of([(due.frame, stage.row_key)])
    stored = of_keys(stored, stage.version_key, keys, at_most=due.rows)
    found = with_validity(
        stored,
        stage,
        layout,
        now_ms=moment.now_ms,
        time_to_live_ms=versions.time_to_live_ms,
    )
    tables = {stage.rows: due.frame, stage.versions: valid(found)}
    return over_tables(moment.spark, stage.query, tables)
