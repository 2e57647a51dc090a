"""What goes between the stages of a batch: changes that are computed, and what the batch is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as s

from penstock.sql.maintain.held import Holder
from penstock.sql.maintain.watermarks import ALL_READ, Span, Watermarks

__all__ = ["Changes", "Moment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changes of a relation in a batch: its columns and ROW_KIND; without rows it need not be read.

    `late` are the rows that its stage dropped, as the watermark had passed them.
    """

    frame: DataFrame = field(repr=False)
    rows: int
    late: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The batch that stages run in: the same values when it is run again.

    `now_ms` is its time since the epoch. `schemas` are the columns of all relations without ROW_KIND. `watermarks` are
    those of its sources; None where all rows of tables with an end are in it. A time to live of 0 ms is none.
    """

    spark: SparkSession = field(repr=False)
    batch_id: int
    now_ms: int
    holder: Holder = field(repr=False)
    schemas: Mapping[str, s.StructType] = field(repr=False)
    watermarks: Watermarks | None = None
    time_to_live_ms: int = 0

    def span(self, sources: Iterable[int]) -> Span:
        """Give the event time that the batch passes, by the watermarks of some sources."""
        return ALL_READ if self.watermarks is None else self.watermarks.span(sources)
