"""Rows of an INSERT as the target declares them: every column, in order, with NOT NULL held.

Flink's SinkNotNullEnforcer with its default, ERROR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.catalog.errors import DefinitionError
from penstock.catalog.model.identifier import quote, quoted, spark_literal
from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.connector.spark.types import spark_type

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame

    from penstock.catalog.model.table import PhysicalColumn, Schema

__all__ = ["check_complete", "target_expressions", "target_rows"]


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
