"""The rows of the keys that a batch changes, before and after the batch, and the difference of two results.

A higher multiplicity after the batch is an insertion, a lower one a deletion.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as s

from penstock.catalog.model.identifier import quoted
from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.incremental.stages import COUNT, TIME
from penstock.sql.incremental.state.state_table import SMALL_ROWS, StateLayout, columns_of

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


BEFORE, AFTER = "__before", "__after"
"""The multiplicity of a row before and after a batch; prefixes of columns, one for each value of the state table."""

_STORED, _CHANGE = "__stored", "__change"
_CHANGED, _ALIVE = "__changed", "__alive"


def keys_of(changes: Sequence[tuple[DataFrame, Sequence[str]]]) -> DataFrame:
    """Return the distinct keys of some frames, each with the names of its key columns, which agree by position."""
    names = [_key(n) for n in range(len(changes[0][1]))]
    keys = [frame.select(*columns_of(key)).toDF(*names) for frame, key in changes]
    return reduce(DataFrame.unionAll, keys).distinct()


def rows_of_keys(
    rows: DataFrame, key: Sequence[str], keys: DataFrame, *, at_most: int
) -> DataFrame:
    """Return the rows whose key is among `keys`, of which there are at most `at_most`; NULL is an ordinary key."""
    same = [F.col(quoted(name)).eqNullSafe(F.col(_key(n))) for n, name in enumerate(key)]
    few = F.broadcast(keys) if at_most <= SMALL_ROWS else keys
    return rows.join(few, reduce(and_, same), "left_semi")


def changed_rows(
    stored: DataFrame | None,
    changes: DataFrame | None,
    layout: StateLayout,
    *,
    now_ms: int,
    time_to_live_ms: int,
) -> DataFrame:
    """Add up the stored counts of the changed keys, and the batch's changes: `dims` and `values`, stored ones with
    TIME.

    For each row: its stored count, BEFORE (the same unless it is older than the time to live; 0 is none), AFTER. The
    deletion of an absent row is ignored, as Flink ignores retractions of expired rows. Rows of a key lie in one
    partition.
    """
    sides = []
    if stored is not None:
        sides.append(_side(stored, layout, stored=True))
    if changes is not None:
        sides.append(_side(changes, layout, stored=False))
    both = reduce(DataFrame.unionAll, sides)
    clustered = both.repartition(*columns_of(layout.key)) if layout.key else both
    numbered = list(enumerate(layout.values))
    rows = clustered.groupBy(*columns_of(layout.names)).agg(
        *(
            layout.add(field, F.col(f"{side}_{n}")).alias(f"{side}_{n}")
            for side in (_STORED, _CHANGE)
            for n, field in numbered
        ),
        F.max(TIME).alias(TIME),
        F.max(_CHANGED).alias(_CHANGED),
    )
    alive = count_of(layout, _STORED) > 0
    if time_to_live_ms:
        alive = alive & (layout.last_change() > now_ms - time_to_live_ms)
    rows = rows.withColumn(_ALIVE, alive).withColumns(
        {
            f"{BEFORE}_{n}": _if(F.col(_ALIVE), F.col(f"{_STORED}_{n}"), field.dataType)
            for n, field in numbered
        }
    )
    left = count_of(layout, BEFORE) + count_of(layout, _CHANGE) > 0
    rows = rows.withColumns(
        {
            f"{AFTER}_{n}": _if(
                left, F.col(f"{BEFORE}_{n}") + F.col(f"{_CHANGE}_{n}"), field.dataType
            )
            for n, field in numbered
        }
    )
    sums = [f"{side}_{n}" for side in (_STORED, BEFORE, AFTER) for n, _ in numbered]
    return rows.select(*columns_of(layout.names), *sums, _CHANGED)


def count_of(layout: StateLayout, moment: str) -> Column:
    """Return the multiplicity of a row BEFORE or AFTER the batch."""
    return F.col(f"{moment}_{layout.sums.index(COUNT)}")


def stored_count(layout: StateLayout) -> Column:
    """Return the stored multiplicity of a row, expired or not."""
    return count_of(layout, _STORED)


def as_of(changed: DataFrame, layout: StateLayout, moment: str) -> DataFrame:
    """Return the rows that exist BEFORE or AFTER the batch: `dims` and `values`."""
    values = [F.col(f"{moment}_{n}").alias(name) for n, name in enumerate(layout.sums)]
    there = changed.where(count_of(layout, moment) > 0)
    return there.select(*columns_of(layout.names), *values)


def to_write(
    changed: DataFrame, layout: StateLayout, *, now_ms: int, refresh: bool, renewed: bool = False
) -> DataFrame:
    """Return the rows for the state table to write, so that it holds the rows after the batch.

    `refresh`: also rows whose insertions and deletions cancel out, as their key's time is new; `renewed`: also those
    that nothing comes for.
    """
    changes = [F.col(f"{AFTER}_{n}") - F.col(f"{_STORED}_{n}") for n in range(len(layout.values))]
    differs = reduce(or_, (change != 0 for change in changes))
    if refresh:
        came = F.col(_CHANGED) | F.lit(renewed)
        differs = differs | (came & (count_of(layout, AFTER) > 0))
    values = [
        change.cast(field.dataType).alias(field.name)
        for change, field in zip(changes, layout.values, strict=True)
    ]
    time = F.lit(now_ms).cast("bigint").alias(TIME)
    return changed.where(differs).select(*columns_of(layout.names), *values, time)


def _side(rows: DataFrame, layout: StateLayout, *, stored: bool) -> DataFrame:
    sums = columns_of(layout.sums)
    none = [F.lit(0).cast(field.dataType) for field in layout.values]
    sides = (sums, none) if stored else (none, sums)
    return rows.select(
        *columns_of(layout.names),
        *(
            value.alias(f"{side}_{n}")
            for side, values in zip((_STORED, _CHANGE), sides, strict=True)
            for n, value in enumerate(values)
        ),
        (F.col(TIME) if stored else F.lit(None).cast("bigint")).alias(TIME),
        F.lit(not stored).alias(_CHANGED),
    )


def _if(condition: Column, value: Column, kind: s.DataType) -> Column:
    return F.when(condition, value.cast(kind)).otherwise(F.lit(0).cast(kind))


def _key(position: int) -> str:
    return f"__k{position}"
