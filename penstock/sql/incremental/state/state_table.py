"""Keyed state on files: rows as signed counts, or sums by key, in Parquet folders per batch with a consolidated base.

A folder is valid once its list of files exists, which is written last. Spark starts a batch only when the one before
is committed, so the state before batch N is the newest base below N and every batch from there to N - 1. A batch that
is run again writes its own folder again and reads only those before: after a crash at any point the next run computes
the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as s

from penstock.catalog.errors import StateMismatchError
from penstock.catalog.model.identifier import quoted
from penstock.connector.spark.hadoop_files import (
    delete,
    list_files,
    list_names,
    read_text,
    replace_text,
)
from penstock.sql.checkpoint.fingerprint import START_OVER_HINTS
from penstock.sql.incremental.stages import COUNT, TIME
from penstock.sql.incremental.state.folder_sizes import BASE, BATCH, FILES, folder_ids

MOST_BATCHES = 16
"""Number of batches with rows since the base from which on they are compacted; twice as many beside a large base."""

_MOST_EMPTY = 256
"""The same for all batches; those without rows cost the listing of a folder at a start."""

_LARGE_BYTES = 16 * 1024 * 1024
"""A base that takes longer to write than a few more folders to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderListing:
    """The state before a batch: paths of the folders that have rows, in bytes what the base and the batches hold."""

    base: int | None
    paths: tuple[str, ...]
    base_bytes: int
    batch_bytes: int
    batches: int
    empty: int

    @property
    def to_consolidate(self) -> bool:
        """Whether reading one folder instead of these is worth writing it."""
        if self.batches >= 2 * MOST_BATCHES or self.batches + self.empty >= _MOST_EMPTY:
            return True
        if self.batches >= MOST_BATCHES:
            return self.base_bytes < max(_LARGE_BYTES, 4 * self.batch_bytes)
        # of small ones the number counts: a folder costs about the same however few rows it holds
        return self.batches >= MOST_BATCHES // 2 and self.batch_bytes > self.base_bytes


class StateFolders:
    """The folders of one state table; the listing is cached between batches. For the driver's thread."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._path = path
        self._whole: dict[str, int] = {}
        self._names: set[str] = set()

    def batch(self, batch_id: int) -> str:
        """Return the path of a batch's folder."""
        return f"{self._path}/{BATCH}{batch_id}"

    def base(self, batch_id: int) -> str:
        """Return the path of the base that holds every batch up to `batch_id`, inclusive."""
        return f"{self._path}/{BASE}{batch_id}"

    def begin(self, path: str) -> None:
        """Remove the content of a folder that is about to be written."""
        name = path.rpartition("/")[2]
        self._whole.pop(name, None)
        if name in self._names:
            delete(self._spark, path)

    def finish(self, path: str, *, empty: bool = False) -> None:
        """Mark a folder as complete."""
        files = {} if empty else _data(list_files(self._spark, path))
        replace_text(self._spark, f"{path}/{FILES}", json.dumps(files))
        name = path.rpartition("/")[2]
        self._whole[name] = sum(files.values())
        self._names.add(name)

    @property
    def size_bytes(self) -> int:
        """Bytes of the newest base and of the batches since, as of what was written or looked at last."""
        base = max(folder_ids(self._whole, BASE), default=-1)
        since = [number for number in folder_ids(self._whole, BATCH) if number > base]
        return self._whole.get(f"{BASE}{base}", 0) + sum(
            self._whole[f"{BATCH}{number}"] for number in since
        )

    def before(self, batch_id: int) -> FolderListing:
        """Return the state before a batch. Raises StateMismatchError, naming a folder that is missing or damaged."""
        if batch_id > 0 and f"{BATCH}{batch_id - 1}" not in self._whole:
            self._look()
        base = max((n for n in folder_ids(self._whole, BASE) if n < batch_id), default=None)
        since = range(0 if base is None else base + 1, batch_id)
        for number in since:
            if f"{BATCH}{number}" not in self._whole:
                raise _damaged(self.batch(number), "is missing, or was not written whole")
        sizes = {self.batch(number): self._whole[f"{BATCH}{number}"] for number in since}
        base_bytes = 0 if base is None else self._whole[f"{BASE}{base}"]
        paths = [path for path, size in sizes.items() if size]
        if base is not None and base_bytes:
            paths.insert(0, self.base(base))
        filled = sum(1 for size in sizes.values() if size)
        return FolderListing(
            base=base,
            paths=tuple(paths),
            base_bytes=base_bytes,
            batch_bytes=sum(sizes.values()),
            batches=filled,
            empty=len(sizes) - filled,
        )

    def clean(self, base: int) -> None:
        """Remove the folders that `base` holds the rows of; called when a batch after it is committed."""
        old = [f"{BATCH}{n}" for n in folder_ids(self._names, BATCH) if n <= base]
        old += [f"{BASE}{n}" for n in folder_ids(self._names, BASE) if n < base]
        for name in old:
            delete(self._spark, f"{self._path}/{name}")
            self._names.discard(name)
            self._whole.pop(name, None)

    def _look(self) -> None:
        """List the folders, as after a restart; those whose files are not the written ones are damaged."""
        self._names = set(list_names(self._spark, self._path))
        found: dict[str, dict[str, int]] = {name: {} for name in self._names}
        for file, size in list_files(self._spark, self._path).items():
            name, _, inner = file.partition("/")
            found.setdefault(name, {})[inner] = size
        self._whole = {}
        for name, files in found.items():
            if FILES in files and name.startswith((BATCH, BASE)):
                self._whole[name] = self._check(f"{self._path}/{name}", _data(files))

    def _check(self, path: str, found: dict[str, int]) -> int:
        """Return the bytes of a folder."""
        text = read_text(self._spark, f"{path}/{FILES}")
        try:
            files = json.loads(text or "")
        except ValueError:
            raise _damaged(f"{path}/{FILES}", "was cut or is not what was written") from None
        for name, size in files.items():
            if found.get(name) != size:
                why = "is missing" if name not in found else f"has {found[name]} bytes of {size}"
                raise _damaged(f"{path}/{name}", why)
        return sum(files.values())


def _data(files: dict[str, int]) -> dict[str, int]:
    """Skip the files that Spark and file systems keep beside the data."""
    return {name: size for name, size in files.items() if not name.startswith(("_", "."))}


def _damaged(path: str, why: str) -> StateMismatchError:
    return StateMismatchError(
        f"the state of the query is damaged: {path} {why}",
        hint="restore it from a copy of the checkpoint; or " + "; or ".join(START_OVER_HINTS),
    )


StateFilter = Callable[[DataFrame], DataFrame]
"""Drops rows of a state table, or merges some; it gets all columns, added up, and returns them."""

SMALL_ROWS = 100_000
"""Rows up to which one file, or one task, suffices."""

SMALL_BYTES = 16 * 1024 * 1024
"""Parquet up to which a base is one file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLayout:
    """The columns of a state table.

    `dims` identify rows. `values` are added up, the last one is COUNT. `key` is a part of `dims`; a row's time of
    expiry is that of its key, the newest change of any of its rows, unless `by_row`.
    """

    dims: tuple[s.StructField, ...]
    values: tuple[s.StructField, ...]
    key: tuple[str, ...]
    by_row: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that identify rows."""
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
        """The schema of the files, whose columns go by position: names of columns may be invalid in Parquet."""
        fields = self.schema.fields
        return s.StructType([s.StructField(f"c{n}", f.dataType) for n, f in enumerate(fields)])

    def add(self, field: s.StructField, value: Column) -> Column:
        """Add up a column of `values` without a change of its type (Spark widens sums of DECIMAL)."""
        return F.coalesce(F.sum(value), F.lit(0)).cast(field.dataType)

    def last_change(self) -> Column:
        """Return the time that decides on expiry, for rows whose TIME is that of their own last change."""
        if self.by_row or set(self.key) == set(self.names):
            return F.col(TIME)
        return F.max(TIME).over(Window.partitionBy(*columns_of(self.key)))


class StateTable:
    """One state table in the session `spark`; a time to live of 0 ms is none. For the driver's thread."""

    def __init__(
        self, spark: SparkSession, path: str, layout: StateLayout, *, time_to_live_ms: int
    ) -> None:
        self.layout = layout
        self.time_to_live_ms = time_to_live_ms
        self._spark = spark
        self._folders = StateFolders(spark, path)

    @property
    def size_bytes(self) -> int:
        """Bytes of the files of the last batch that was written, and of those before it that count; 0: no row."""
        return self._folders.size_bytes

    def read(self, batch_id: int) -> DataFrame | None:
        """Return the rows written before a batch, not added up; None where there are none.

        Raises StateMismatchError where a folder is missing or damaged.
        """
        return self._frame(self._folders.before(batch_id).paths)

    def write(self, batch_id: int, changes: DataFrame, *, rows: int) -> None:
        """Write a batch's changes: all columns but TIME as they are to be added, TIME.

        `rows` is an estimate of their number.
        """
        path = self._folders.batch(batch_id)
        self._folders.begin(path)
        self._save(changes.coalesce(1) if rows <= SMALL_ROWS else changes, path)
        self._folders.finish(path)

    def write_nothing(self, batch_id: int) -> None:
        """Record that a batch changed nothing, without running Spark."""
        path = self._folders.batch(batch_id)
        self._folders.begin(path)
        self._folders.finish(path, empty=True)

    def tidy(self, batch_id: int, now_ms: int, keep: StateFilter | None = None) -> None:
        """Before a batch: compact the earlier folders where they are many; remove the compacted ones.

        Rows older than the time to live at `now_ms` are dropped with it, and those that `keep` drops.
        """
        there = self._folders.before(batch_id)
        if there.base is not None and there.base < batch_id - 1:
            self._folders.clean(there.base)
        if there.to_consolidate:
            self._consolidate(batch_id - 1, there, now_ms, keep)

    def _consolidate(
        self, last: int, there: FolderListing, now_ms: int, keep: StateFilter | None
    ) -> None:
        path = self._folders.base(last)
        self._folders.begin(path)
        rows = self._frame(there.paths)
        if rows is not None:
            small = there.base_bytes + there.batch_bytes < SMALL_BYTES
            summed = self._summed(rows, now_ms, keep)
            self._save(summed.coalesce(1) if small else summed, path)
        self._folders.finish(path, empty=rows is None)

    def _summed(self, rows: DataFrame, now_ms: int, keep: StateFilter | None) -> DataFrame:
        """Add up; each row with the time that decides on its expiry, so that deleted rows need not be kept."""
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
    """Return columns by their names as they are, dots included."""
    return [F.col(quoted(name)) for name in names]
