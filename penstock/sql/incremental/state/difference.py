"""The difference of two results, as changes: a higher multiplicity after the batch is an insertion,
a lower one a deletion.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.incremental.state.state_table import columns_of

__all__ = ["SIGN", "added", "difference", "signed"]

SIGN = "__sign"
"""INT column: 1 for a row that is inserted or exists after a batch, -1 for one that is deleted or existed before it."""

_FEWEST, _MOST, _ROWS, _COPY = "__fewest", "__most", "__rows", "__copy"


def signed(changes: DataFrame) -> DataFrame:
    """Return changes with SIGN instead of ROW_KIND."""
    return changes.withColumn(SIGN, F.when(added(), 1).otherwise(-1)).drop(ROW_KIND)


def added() -> Column:
    """Return whether a change adds a row, by ROW_KIND."""
    return F.col(ROW_KIND).isin(int(RowKind.INSERT), int(RowKind.UPDATE_AFTER))


def difference(
    rows: DataFrame,
    columns: Sequence[str],
    key: Sequence[str] | None,
    *,
    inserts_only: bool,
    unchanged: bool = False,
) -> DataFrame:
    """Return the changes that lead from the rows of SIGN -1 to those of SIGN 1: `columns`, ROW_KIND.

    Deletions come before the insertions that replace them: by `key` in one partition, all in one partition where the
    key is unknown. A key that has a row before and after emits -U and +U. `inserts_only`: there is no -1. `unchanged`:
    -U and +U also of an unchanged row, where the key is known.
    """
    if not (unchanged and key is not None):
        net = _clustered(rows, key).groupBy(*columns_of(columns)).agg(F.sum(SIGN).alias(SIGN))
        rows = net.where(F.col(SIGN) != 0)
    if inserts_only or key is None:
        kind = _kind(F.lit(False))
        rows = rows if inserts_only else rows.coalesce(1).sortWithinPartitions(SIGN)
    else:
        rows = _by_key(rows, columns, key)
        kind = _kind((F.col(_FEWEST) < 0) & (F.col(_MOST) > 0))
    copies = F.explode(F.array_repeat(F.lit(0), F.abs(SIGN).cast("int"))).alias(_COPY)
    return rows.select(*columns_of(columns), kind.alias(ROW_KIND), copies).drop(_COPY)


def _clustered(rows: DataFrame, key: Sequence[str] | None) -> DataFrame:
    """One shuffle, by key, serves the sums of whole rows too."""
    return rows.repartition(*columns_of(key)) if key else rows


def _by_key(net: DataFrame, columns: Sequence[str], key: Sequence[str]) -> DataFrame:
    """Return the rows of a key in order, deletions first, with the totals of the key."""
    whole = F.struct(F.col(SIGN), *columns_of(columns))
    grouped = net.groupBy(*(column.alias(f"__k{n}") for n, column in enumerate(columns_of(key))))
    gathered = grouped.agg(
        F.sort_array(F.collect_list(whole)).alias(_ROWS),
        F.min(SIGN).alias(_FEWEST),
        F.max(SIGN).alias(_MOST),
    )
    return gathered.select(_FEWEST, _MOST, F.inline(_ROWS))


def _kind(updated: Column) -> Column:
    came = F.when(updated, int(RowKind.UPDATE_AFTER)).otherwise(int(RowKind.INSERT))
    went = F.when(updated, int(RowKind.UPDATE_BEFORE)).otherwise(int(RowKind.DELETE))
    return F.when(F.col(SIGN) > 0, came).otherwise(went).cast("tinyint")
