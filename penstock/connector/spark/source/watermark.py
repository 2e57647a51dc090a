"""The exact watermark in Spark: the only user of Spark's private mark for event-time columns.

Spark takes the watermark of a query from the largest value of a column. Here that column is `__watermark`,
which holds the table's watermark in every row, and stateful operators are pointed to the rowtime by the same
column metadata that `withWatermark` leaves behind. `TIMESTAMP_NTZ`, which `withWatermark` refuses, works too.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name that all of Spark's documentation uses

from penstock.connector.spark.source.columns import WATERMARK, WATERMARK_BEFORE

# org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark.delayKey
DELAY_KEY = "spark.watermarkDelayMs"


def carry_watermark(frame: DataFrame) -> DataFrame:
    """Pass the watermark that the rows carry to Spark, then drop the rows that carry nothing else.

    The condition names `__watermark` so that Spark cannot push it below the watermark node, where it would remove
    heartbeat rows before they are seen; as a disjunction it is neither split nor made simpler. A condition of the
    query's own (WHERE, or NOT NULL of a join's keys) must not get there either: Spark does not push one through a
    filter that is not deterministic (CombineFilters, PushPredicateThroughNonJoin), and the number of the partition is
    the cheapest thing that counts as such.
    """
    watched = frame.withWatermark(WATERMARK, "0 seconds")
    carries_row = F.col(WATERMARK_BEFORE).isNotNull() | F.col(WATERMARK).isNull()
    barrier = F.spark_partition_id() >= 0
    return watched.filter(carries_row & barrier).drop(WATERMARK)


def mark(column: Column, name: str) -> Column:
    """Name `column` as an event-time column: operators close and drop by it, at the watermark itself."""
    return column.alias(name, metadata={DELAY_KEY: 0})


def unmark(column: Column, name: str) -> Column:
    """Name `column` as an ordinary column; an operator takes at most one event-time column."""
    return column.alias(name, metadata={"penstock.rowtime": False})
