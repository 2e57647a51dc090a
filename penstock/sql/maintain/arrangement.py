"""An arrangement: rows of a stage's input as signed counts, or sums by key, in parquet under the checkpoint.

What it holds before batch N is the sum of what the batches before N wrote. A batch that is run again writes its own
folder again and reads only those before, so that at every point of a crash the next run computes the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as s

from penstock.catalog.identifier import quoted
from penstock.sql.maintain.state_folders import Folders, StateFolders

__all__ = ["COUNT", "SMALL_ROWS", "TIME", "Arrangement", "Keep", "Layout", "columns_of"]

COUNT = "__n"
"""BIGINT column: how many rows there are alike, or with a key; as it is written how many came (went: negative)."""
TIME = "__time"
"""BIGINT column: when that was written, in ms since the epoch (the batch's time)."""

Keep = Callable[[DataFrame], DataFrame]
"""Leaves rows out of those of an arrangement, or puts some together; it gets all columns, added up, and gives them."""

SMALL_ROWS = 100_000
"""Rows up to which one file, or one task, does."""
SMALL_BYTES = 16 * 1024 * 1024
"""Parquet up to which a base is one file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The columns of an arrangement.

    `dims` tell rows apart. `values` are added up, the last one is COUNT. `key` is a part of `dims`; a row's time of
    expiry is that of its key, the newest change of any of its rows, unless `by_row`.
    """

    dims: tuple[s.StructField, ...]
    values: tuple[s.StructField, ...]
    key: tuple[str, ...]
    by_row: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that tell rows apart."""
        return tuple(field.name for field in self.dims)

    @property
    def sums(self) -> tuple[str, ...]:
        """The columns that are added up."""
        return tuple(field.name for field in self.values)

    @property
    def schema(self) -> s.StructType:
        """All columns, as they are read; all may be NULL."""
        fields = [*self.dims, *self.values, s.StructField(TIME, s.LongType())]
        return s.StructType([s.StructField(f.name, f.dataType) for f in fields])

    @property
    def stored(self) -> s.StructType:
        """The schema of the files, whose columns go by position: names of columns may be none for parquet."""
        fields = self.schema.fields
        return s.StructType([s.StructField(f"c{n}", f.dataType) for n, f in enumerate(fields)])

    def add(self, field: s.StructField, value: Column) -> Column:
        """Add up a column of `values` without a change of its type (Spark widens sums of DECIMAL)."""
        return F.coalesce(F.sum(value), F.lit(0)).cast(field.dataType)

    def last_change(self) -> Column:
        """Give the time that decides on expiry, for rows whose TIME is that of their own last change."""
        if self.by_row or set(self.key) == set(self.names):
            return F.col(TIME)
        return F.max(TIME).over(Window.partitionBy(*columns_of(self.key)))


class Arrangement:
    """One arrangement in the session `spark`; a time to live of 0 ms is none. For the driver's thread."""

    def __init__(
        self, spark: SparkSession, path: str, layout: Layout, *, time_to_live_ms: int
    ) -> None:
        self.layout = layout
        self.time_to_live_ms = time_to_live_ms
        self._spark = spark
        self._folders = StateFolders(spark, path)

    def read(self, batch_id: int) -> DataFrame | None:
        """Give what was written before a batch, not added up; None where that is nothing.

        Raises StateMismatchError where a folder is missing or damaged.
        """
        return self._frame(self._folders.before(batch_id).paths)

    def write(self, batch_id: int, changes: DataFrame, *, rows: int) -> None:
        """Write a batch's changes: all columns but TIME as they are to be added, TIME.

        `rows` is about how many there are.
        """
        path = self._folders.batch(batch_id)
        self._folders.begin(path)
        self._save(changes.coalesce(1) if rows <= SMALL_ROWS else changes, path)
        self._folders.finish(path)

    def write_nothing(self, batch_id: int) -> None:
        """Say that a batch changed nothing, without running Spark."""
        path = self._folders.batch(batch_id)
        self._folders.begin(path)
        self._folders.finish(path, empty=True)

    def tidy(self, batch_id: int, now_ms: int, keep: Keep | None = None) -> None:
        """Before a batch: put the folders before it together where they are many; remove those that were before.

        What is older than the time to live at `now_ms` goes with it, and what `keep` leaves out.
        """
        there = self._folders.before(batch_id)
        if there.base is not None and there.base < batch_id - 1:
            self._folders.clean(there.base)
        if there.to_consolidate:
            self._consolidate(batch_id - 1, there, now_ms, keep)

    def _consolidate(self, last: int, there: Folders, now_ms: int, keep: Keep | None) -> None:
        path = self._folders.base(last)
        self._folders.begin(path)
        rows = self._frame(there.paths)
        if rows is not None:
            small = there.base_bytes + there.batch_bytes < SMALL_BYTES
            summed = self._summed(rows, now_ms, keep)
            self._save(summed.coalesce(1) if small else summed, path)
        self._folders.finish(path, empty=rows is None)

    def _summed(self, rows: DataFrame, now_ms: int, keep: Keep | None) -> DataFrame:
        """Add up; each row with the time that decides on its expiry, so that rows that are gone need not be kept."""
        layout = self.layout
        clustered = rows.repartition(*columns_of(layout.key)) if layout.key else rows
        summed = clustered.groupBy(*columns_of(layout.names)).agg(
            *(layout.add(field, F.col(field.name)).alias(field.name) for field in layout.values),
            F.max(TIME).alias(TIME),
        )
        if self.time_to_live_ms:
            summed = summed.withColumn(TIME, layout.last_change())
            summed = summed.where(F.col(TIME) > now_ms - self.time_to_live_ms)
        there = summed.where(F.col(COUNT) != 0)
        if keep is not None:
            there = keep(there)
        # rows of a key side by side: whoever looks for few keys can pass over most pages
        return there.sortWithinPartitions(*columns_of(layout.key)) if layout.key else there

    def _frame(self, paths: Sequence[str]) -> DataFrame | None:
        if not paths:
            return None
        rows = self._spark.read.schema(self.layout.stored).parquet(*paths)
        return rows.toDF(*self.layout.schema.names)

    def _save(self, rows: DataFrame, path: str) -> None:
        in_order = rows.select(*columns_of(self.layout.schema.names))
        in_order.toDF(*self.layout.stored.names).write.mode("overwrite").parquet(path)


def columns_of(names: Sequence[str]) -> list[Column]:
    """Give columns by their names as they are, dots included."""
    return [F.col(quoted(name)) for name in names]
