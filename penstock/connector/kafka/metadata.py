"""Kafka's metadata columns: their names and types.

As in Flink's KafkaDynamicSource.ReadableMetadata.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.catalog.types import (
    ArrayType,
    BigIntType,
    IntType,
    LogicalType,
    MapType,
    RowField,
    RowType,
    TimestampLtzType,
    VarBinaryType,
    VarCharType,
)

__all__ = ["METADATA_TYPES"]

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
