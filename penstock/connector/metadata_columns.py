"""Metadata columns of any connector: whether it has what a column asks for, as the type that is declared."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.catalog.errors import DefinitionError, did_you_mean
from penstock.catalog.schema import MetadataColumn
from penstock.catalog.table import Table
from penstock.catalog.types import (
    ArrayType,
    BigIntType,
    IntType,
    LogicalType,
    MapType,
    RowType,
    TimestampType,
    VarCharType,
)

__all__ = ["check_metadata_column", "check_written_metadata"]


def check_metadata_column(
    column: MetadataColumn, metadata: Mapping[str, LogicalType], *, owner: str, connector: str
) -> None:
    """Check that the connector has this metadata and can give it as the declared type. Raises DefinitionError."""
    key = column.metadata_key
    if key not in metadata:
        raise DefinitionError(
            f"{owner}: column '{column.name}' asks for metadata '{key}', which '{connector}' does not have",
            hint=did_you_mean(key, metadata) or f"it has: {', '.join(metadata)}",
        )
    offered = metadata[key]
    if _converts(offered, column.type):
        return
    hint = f"declare {column.name} {offered}"
    if isinstance(column.type, TimestampType):
        # Flink converts in the session's time zone, which a table definition does not know
        hint += f", and convert it in a computed column: ts AS CAST({column.name} AS TIMESTAMP(3))"
    raise DefinitionError(
        f"{owner}: metadata column '{column.name}' has type {column.type}, "
        f"but metadata '{key}' is {offered} and does not convert to it",
        hint=hint,
    )


def _converts(offered: LogicalType, declared: LogicalType) -> bool:
    """Tell whether every value of `offered` is one of `declared`, whatever the session."""
    match offered, declared:
        case (IntType(), IntType() | BigIntType() | VarCharType()):
            return True
        case (BigIntType(), BigIntType() | VarCharType()):
            return True
        case (MapType(), MapType()):
            return _converts(offered.key, declared.key) and _converts(offered.value, declared.value)
        case (ArrayType(), ArrayType()):
            return _converts(offered.element, declared.element)
        case (RowType(), RowType()):
            pairs = zip(offered.fields, declared.fields, strict=False)
            same_size = len(offered.fields) == len(declared.fields)
            return same_size and all(_converts(o.type, d.type) for o, d in pairs)
    return type(offered) is type(declared)


def check_written_metadata(table: Table, connector: str) -> None:
    """Refuse metadata columns of a table whose connector has no metadata at all. Raises DefinitionError."""
    for column in table.schema.metadata:
        raise DefinitionError(
            f"table {table.identifier}: column '{column.name}' asks for metadata '{column.metadata_key}', but "
            f"'{connector}' has none",
            hint="make it a physical column, or leave it out",
        )
