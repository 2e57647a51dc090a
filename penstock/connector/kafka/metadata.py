"""Kafka's metadata columns: their names and types, and the types that they convert to.

As in Flink's KafkaDynamicSource.ReadableMetadata.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.catalog.errors import DefinitionError, did_you_mean
from penstock.catalog.schema import MetadataColumn
from penstock.catalog.types import (
    ArrayType,
    BigIntType,
    IntType,
    LogicalType,
    MapType,
    RowField,
    RowType,
    TimestampLtzType,
    TimestampType,
    VarBinaryType,
    VarCharType,
)

__all__ = ["METADATA_TYPES", "check_metadata_column"]

LONGEST = 2_147_483_647  # STRING and BYTES
_STRING = VarCharType(length=LONGEST, nullable=False)
_BYTES = VarBinaryType(length=LONGEST)

METADATA_TYPES: Mapping[str, LogicalType] = {
    "topic": _STRING,
    "partition": IntType(nullable=False),
    "headers": MapType(key=_STRING, value=_BYTES, nullable=False),
    "header-list": ArrayType(
        element=RowType(
            fields=(
                RowField(name="key", type=VarCharType(length=LONGEST)),
                RowField(name="value", type=_BYTES),
            )
        ),
        nullable=False,
    ),
    "leader-epoch": IntType(),
    "offset": BigIntType(nullable=False),
    "timestamp": TimestampLtzType(precision=3, nullable=False),
    "timestamp-type": VarCharType(length=LONGEST, nullable=False),
}


def check_metadata_column(column: MetadataColumn, owner: str) -> None:
    """Check that the connector has this metadata and can give it as the declared type. Raises DefinitionError."""
    key = column.metadata_key
    if key not in METADATA_TYPES:
        raise DefinitionError(
            f"{owner}: column '{column.name}' asks for metadata '{key}', which 'kafka' does not have",
            hint=did_you_mean(key, METADATA_TYPES) or f"it has: {', '.join(METADATA_TYPES)}",
        )
    offered = METADATA_TYPES[key]
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
