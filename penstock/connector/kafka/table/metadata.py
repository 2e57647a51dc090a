"""Kafka's metadata columns, and those of the format of the value: their names and types.

As in Flink's KafkaDynamicSource.ReadableMetadata.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.catalog.model.types import (
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

__all__ = ["METADATA_TYPES", "WRITABLE", "format_metadata_key", "metadata_of"]

VALUE_PREFIX = "value."
"""Before the format's names for its metadata (KafkaDynamicSource.VALUE_METADATA_PREFIX)."""

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

WRITABLE = ("topic", "headers", "header-list", "timestamp")
"""What a sink can write (KafkaDynamicSink.WritableMetadata)."""


def metadata_of(format_metadata: Mapping[str, LogicalType]) -> Mapping[str, LogicalType]:
    """Return the types of a table's metadata by their keys; `format_metadata` is the value format's."""
    return {**METADATA_TYPES, **{f"{VALUE_PREFIX}{key}": of for key, of in format_metadata.items()}}


def format_metadata_key(key: str) -> str | None:
    """Return the value format's name of metadata; None where it is Kafka's own."""
    return key.removeprefix(VALUE_PREFIX) if key.startswith(VALUE_PREFIX) else None
