"""What goes between the stages of a batch: changes that are computed, and what the batch is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as s

from penstock.sql.maintain.held import Holder

__all__ = ["Changes", "Moment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changes of a relation in a batch: its columns and ROW_KIND; without rows it need not be read."""

    frame: DataFrame = field(repr=False)
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The batch that stages run in: the same values when it is run again.

    `now_ms` is its time since the epoch. `schemas` are the columns of all relations without ROW_KIND.
    """

    spark: SparkSession = field(repr=False)
    batch_id: int
    now_ms: int
    holder: Holder = field(repr=False)
    schemas: Mapping[str, s.StructType] = field(repr=False)
