"""The last change of each key: what is left of a micro-batch's changes before they go into a table with a key."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType

from penstock.catalog.model.identifier import quoted
from penstock.connector.changelog import ROW_KIND, RowKind

__all__ = ["IS_DELETE", "last_changes"]

IS_DELETE = "__delete"
"""Name of the BOOLEAN column that says that a key is gone."""

_ORDER = "__order"
_RANK = "__rank"


def last_changes(
    frame: DataFrame, keys: Sequence[str], columns: Sequence[tuple[str, DataType]]
) -> DataFrame:
    """Return one row for each key: `columns` with the types given, NULL where `frame` has none of that name, and
    `IS_DELETE`.

    The last row counts, by the order of the partitions of `frame` and of the rows within: that of each Kafka partition,
    also where several tasks read it, while rows of a key from two of them have no order. UPDATE_BEFORE as a key's last
    word is a delete (Flink writes it when an update changes the key, or a filter lets the row before through and not
    the one after). A row without a kind stays.
    """
    given = {name.lower() for name in frame.columns}
    change = frame.select(
        *(_column(name, kind, given=name.lower() in given) for name, kind in columns),
        _is_delete(given).alias(IS_DELETE),
        # grows within a partition; has to be taken before the shuffle below
        F.monotonically_increasing_id().alias(_ORDER),
    )
    newest_first = Window.partitionBy(*(quoted(key) for key in keys)).orderBy(F.desc(_ORDER))
    ranked = change.withColumn(_RANK, F.row_number().over(newest_first))
    return ranked.where(F.col(_RANK) == 1).drop(_RANK, _ORDER)


def _column(name: str, kind: DataType, *, given: bool) -> Column:
    return (F.col(quoted(name)) if given else F.lit(None).cast(kind)).alias(name)


def _is_delete(given: set[str]) -> Column:
    if ROW_KIND not in given:
        return F.lit(False)
    return F.col(ROW_KIND).isin(int(RowKind.DELETE), int(RowKind.UPDATE_BEFORE))
