"""The frame that a sink gets: its rows' kinds in the form that the sink takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.sql.plan.analysed_query import AnalysedQuery

__all__ = ["by_key", "sent_changes", "sent_rows", "shown_rows"]


def sent_changes(query: AnalysedQuery, accepts: ChangelogMode) -> ChangelogMode:
    """Say what the rows that a sink gets are: changes with the row before become upserts where it takes these only."""
    if query.changes is ChangelogMode.ALL and accepts is ChangelogMode.UPSERT:
        return ChangelogMode.UPSERT
    return query.changes


def sent_rows(frame: DataFrame, query: AnalysedQuery, accepts: ChangelogMode) -> DataFrame:
    """Give the rows as `sent_changes` says. A row as it was before an update becomes the delete of its key.

    Where the key of the rows is known it is the sink's, in which an update never moves a row: the row after the
    update replaces it, and the one before is left out.
    """
    if sent_changes(query, accepts) is query.changes:
        return frame
    kind = F.col(ROW_KIND)
    before = kind == F.lit(int(RowKind.UPDATE_BEFORE))
    if query.flow.key is not None:
        return frame.filter(~before)
    deleted = F.lit(int(RowKind.DELETE)).cast("tinyint")
    return frame.withColumn(ROW_KIND, F.when(before, deleted).otherwise(kind))


def by_key(frame: DataFrame, key: Sequence[str]) -> DataFrame:
    """Bring the changes of each key together, what goes before what comes.

    For changes that are the difference of two results, in which a key has one row at most.
    """
    comes = F.col(ROW_KIND).isin(int(RowKind.INSERT), int(RowKind.UPDATE_AFTER))
    columns = [F.col(f"`{name}`") for name in key]
    return frame.repartition(*columns).sortWithinPartitions(*columns, comes)


def shown_rows(frame: DataFrame, query: AnalysedQuery, *, streaming: bool) -> DataFrame:
    """Give the rows of a SELECT as a person reads them: changes with their kind in front, in the column `op`.

    An updating operator that ran to its end has one row a key: those that are gone are left out.
    """
    if not query.flow.kinds:
        return frame
    kind = F.col(ROW_KIND)
    if query.flow.mechanism is not None and not streaming:
        return frame.filter(kind != F.lit(int(RowKind.DELETE))).drop(ROW_KIND)
    shorts = F.array(*(F.lit(k.short) for k in RowKind))
    return frame.select(shorts[kind].alias("op"), *(F.col(f"`{n}`") for n in frame.columns[:-1]))
