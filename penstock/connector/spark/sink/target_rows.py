"""Rows for a sink: every column that the target declares, in order, with NOT NULL held; the last change of each key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType

from penstock.catalog.errors import DefinitionError
from penstock.catalog.model.identifier import quote, quoted, spark_literal
from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.connector.spark.types import spark_type

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.catalog.model.table import PhysicalColumn, Schema


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


def target_rows(frame: DataFrame, schema: Schema) -> DataFrame:
    """Return the physical columns of `schema`, NULL for those that the INSERT leaves out, and ROW_KIND if it is there.

    A NULL in a NOT NULL column ends the query, except in a delete, of which only the key counts.
    """
    return frame.selectExpr(*target_expressions(schema.physical, frame.columns))


def target_expressions(columns: Collection[PhysicalColumn], given: Collection[str]) -> list[str]:
    """Return the Spark expressions of `target_rows` for a frame with the columns `given`."""
    changes = ROW_KIND in given
    expressions = [_expression(column, given, changes=changes) for column in columns]
    return [*expressions, quoted(ROW_KIND)] if changes else expressions


def check_complete(schema: Schema, given: Collection[str], *, owner: str) -> None:
    """Check that an INSERT fills the NOT NULL columns. Raises DefinitionError."""
    for column in schema.physical:
        if not column.type.nullable and column.name not in given:
            raise DefinitionError(
                f"the INSERT leaves out column {quote(column.name)} of {owner}, which is NOT NULL",
                hint="fill it, or declare it without NOT NULL",
            )


def _expression(column: PhysicalColumn, given: Collection[str], *, changes: bool) -> str:
    name = quoted(column.name)
    if column.name not in given:
        return f"CAST(NULL AS {spark_type(column.type).simpleString()}) AS {name}"
    if column.type.nullable:
        return name
    missing = f"{name} IS NULL"
    if changes:
        missing += f" AND {quoted(ROW_KIND)} <> {RowKind.DELETE.value}"
    text = f"column {column.name} is NOT NULL, and the query gives NULL"
    return f"CASE WHEN {missing} THEN raise_error({spark_literal(text)}) ELSE {name} END AS {name}"
