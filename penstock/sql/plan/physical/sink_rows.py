"""The frame that a sink gets, with row kinds in the sink's form; and the count of its rows, each batch once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.sql.plan.analysed import AnalysedQuery

__all__ = ["SinkCounts", "by_key", "sink_changelog_mode", "to_display_rows", "to_sink_rows"]


def sink_changelog_mode(query: AnalysedQuery, accepts: ChangelogMode) -> ChangelogMode:
    """Return the changelog mode of a sink's rows: changes with the row before become upserts where
    it accepts only those.
    """
    if query.changes is ChangelogMode.ALL and accepts is ChangelogMode.UPSERT:
        return ChangelogMode.UPSERT
    return query.changes


def to_sink_rows(frame: DataFrame, query: AnalysedQuery, accepts: ChangelogMode) -> DataFrame:
    """Return the rows as `sink_changelog_mode` says. A row as it was before an update becomes the delete of its key.

    Where the key of the rows is known it is the sink's, in which an update never moves a row: the row after the
    update replaces it, and the one before is left out.
    """
    if sink_changelog_mode(query, accepts) is query.changes:
        return frame
    kind = F.col(ROW_KIND)
    before = kind == F.lit(int(RowKind.UPDATE_BEFORE))
    if query.flow.key is not None:
        return frame.filter(~before)
    deleted = F.lit(int(RowKind.DELETE)).cast("tinyint")
    return frame.withColumn(ROW_KIND, F.when(before, deleted).otherwise(kind))


def by_key(frame: DataFrame, key: Sequence[str]) -> DataFrame:
    """Bring the changes of each key together, deletions before insertions.

    For changes that are the difference of two results, in which a key has one row at most.
    """
    comes = F.col(ROW_KIND).isin(int(RowKind.INSERT), int(RowKind.UPDATE_AFTER))
    columns = [F.col(f"`{name}`") for name in key]
    return frame.repartition(*columns).sortWithinPartitions(*columns, comes)


def to_display_rows(frame: DataFrame, query: AnalysedQuery, *, streaming: bool) -> DataFrame:
    """Return the rows of a SELECT for display: changes with their kind in front, in the column `op`.

    An updating operator that ran to its end has one row a key: deleted ones are left out.
    """
    if not query.flow.kinds:
        return frame
    kind = F.col(ROW_KIND)
    if query.flow.mechanism is not None and not streaming:
        return frame.filter(kind != F.lit(int(RowKind.DELETE))).drop(ROW_KIND)
    shorts = F.array(*(F.lit(k.short) for k in RowKind))
    return frame.select(shorts[kind].alias("op"), *(F.col(f"`{n}`") for n in frame.columns[:-1]))


KEPT_BATCHES = 1_000
"""Batches that are kept apart: only the last can be replayed, and no reader is so far behind."""


class SinkCounts:
    """Rows by sink and batch. Written by the thread that runs batches, read from any."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._batches: dict[int, Mapping[str, int]] = {}
        self._before: dict[str, int] = {}

    def add(self, batch_id: int, rows: Mapping[str, int]) -> None:
        """Add the counts of a batch, replacing those of an earlier run of it."""
        with self._lock:
            self._batches[batch_id] = dict(rows)
            while len(self._batches) > KEPT_BATCHES:
                oldest = self._batches.pop(min(self._batches))
                self._before = _sum(self._before, oldest)

    def of(self, batch_id: int) -> Mapping[str, int]:
        """Return the counts of a batch; empty for one that was not counted."""
        with self._lock:
            return self._batches.get(batch_id, {})

    def total(self) -> Mapping[str, int]:
        """Return the sums over all batches."""
        with self._lock:
            total = self._before
            for rows in self._batches.values():
                total = _sum(total, rows)
            return total


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
