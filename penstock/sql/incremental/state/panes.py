"""Group the rows of a batch by pane and keys, in Spark: the groups of a PaneAggregate.

Each group stands for its rows in all windows of the pane, so that fewer rows go to the tasks that keep windows. Where
the groups of a pane are made anew, by other batches or tasks, they add up to the same result.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import TimestampNTZType
from sqlglot import exp

from penstock.catalog.model.identifier import quoted
from penstock.sql.dialect import to_spark_query
from penstock.sql.incremental.stages import PANE, PANE_ROWS, PaneAggregate, PartialCall
from penstock.sql.incremental.state.state_table import columns_of
from penstock.sql.plan.rules.aggregate import without_filter

_BOUNDS = "__bounds"


def grouped_by_pane(stage: PaneAggregate, rows: DataFrame) -> DataFrame:
    """Return the groups of some rows, in the columns of the stage. Rows without a time are groups without a pane."""
    panes, time = stage.panes, F.col(quoted(stage.time))
    ntz = isinstance(rows.schema[stage.time].dataType, TimestampNTZType)
    epoch = F.expr(
        "TIMESTAMP_NTZ'1970-01-01 00:00:00'" if ntz else "TIMESTAMP'1970-01-01 00:00:00Z'"
    )
    # Spark's window() takes rows without a time away unseen, which are late
    bounds = F.window(
        F.coalesce(time, epoch), _interval(panes.pane_ms), None, _interval(panes.offset_ms)
    )
    pane = F.when(time.isNotNull(), F.col(f"{_BOUNDS}.start")).alias(PANE)
    parts = [_part(part, merges=stage.merges).alias(part.name) for part in stage.parts]
    number = F.sum(PANE_ROWS) if stage.merges else F.count(F.lit(1))
    grouped = rows.withColumn(_BOUNDS, bounds).groupBy(*columns_of(stage.keys), pane)
    # in the order of the stage's columns
    return grouped.agg(*parts, number.alias(PANE_ROWS))


def _part(part: PartialCall, *, merges: bool) -> Column:
    """Return a part as Spark's aggregate, over rows or over the parts of groups."""
    if not merges:
        return F.expr(to_spark_query(part.call.copy()))
    call, _ = without_filter(part.call)
    match call:
        case exp.Min():
            return F.min(part.name)
        case exp.Max():
            return F.max(part.name)
        case _:
            return F.sum(part.name)


def _interval(milliseconds: int) -> str:
    return f"{milliseconds} milliseconds"
