"""What an Over keeps in its arrangements, and which way of running it that means."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as s

from penstock.sql.maintain.arrangement import Arrangement, Keep, Layout
from penstock.sql.maintain.changes import Changes, Moment
from penstock.sql.maintain.kept import Totals
from penstock.sql.maintain.over_rows import needed_rows, over_rows, passing_of
from penstock.sql.maintain.over_totals import last_totals, over_totals, totals_layout
from penstock.sql.maintain.schemas import layout_of, total_types
from penstock.sql.maintain.stages import ARRIVAL, Input, Over

__all__ = ["needed_by_over", "over", "over_layouts"]

_TOTALS = "totals"
"""Name of the arrangement of totals beside that of rows, which has their relation's."""


def over_layouts(spark: SparkSession, stage: Over, schema: s.StructType) -> dict[str, Layout]:
    """Give what a stage keeps of rows with the columns `schema`, by the names of its arrangements."""
    rows = Input(name=stage.rows, key=stage.key, arrival=ARRIVAL)
    layouts = {stage.rows: layout_of(spark, schema, rows)}
    if isinstance(stage.kept, Totals):
        totals = total_types(spark, schema, stage.kept)
        layouts[_TOTALS] = totals_layout(schema, stage.key, totals)
        if not stage.waits_for:
            del layouts[stage.rows]
    return layouts


def over(
    stage: Over, coming: Changes, arrangements: Mapping[str, Arrangement], moment: Moment
) -> Changes:
    """Give the rows that a batch lets go with their aggregates, computed, and write what is kept.

    Raises StateMismatchError.
    """
    rows = arrangements.get(stage.rows)
    if isinstance(stage.kept, Totals):
        return over_totals(stage, stage.kept, coming, rows, arrangements[_TOTALS], moment)
    assert rows is not None, "rows are kept"
    return over_rows(stage, coming, rows, moment)


def needed_by_over(stage: Over, name: str, arrangement: Arrangement, moment: Moment) -> Keep:
    """Give what leaves out of an arrangement of a stage, by its `name`, what no batch from this one on needs."""

    def keep(stored: DataFrame) -> DataFrame:
        if name == _TOTALS:
            return last_totals(stored, arrangement.layout)
        if isinstance(stage.kept, Totals):
            return stored.where(~passing_of(stage, moment).passed)
        return needed_rows(stage, stored, moment)

    return keep
