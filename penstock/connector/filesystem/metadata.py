"""The metadata columns of files: names and types of Flink's FileSystemTableSource.ReadableFileInfo."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

import pyarrow as pa

from penstock.catalog.errors import DefinitionError, did_you_mean
from penstock.catalog.schema import MetadataColumn
from penstock.catalog.types import (
    MAX_LENGTH,
    BigIntType,
    LogicalType,
    TimestampLtzType,
    TimestampType,
    VarCharType,
)
from penstock.connector.arrow import arrow_type
from penstock.connector.filesystem.split import FileSplit

__all__ = ["METADATA_TYPES", "check_metadata_column", "metadata_value"]

_STRING = VarCharType(length=MAX_LENGTH, nullable=False)
METADATA_TYPES: Mapping[str, LogicalType] = {
    "file.path": _STRING,
    "file.name": _STRING,
    "file.size": BigIntType(nullable=False),
    "file.modification-time": TimestampLtzType(precision=3, nullable=False),
}


def check_metadata_column(column: MetadataColumn, owner: str) -> None:
    """Check that the connector has this metadata and can give it as the declared type. Raises DefinitionError."""
    key = column.metadata_key
    offered = METADATA_TYPES.get(key)
    if offered is None:
        raise DefinitionError(
            f"{owner}: column '{column.name}' asks for metadata '{key}', which 'filesystem' does not have",
            hint=did_you_mean(key, METADATA_TYPES) or f"it has: {', '.join(METADATA_TYPES)}",
        )
    size_as_text = key == "file.size" and isinstance(column.type, VarCharType)
    if type(column.type) is type(offered) or size_as_text:
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


def metadata_value(column: MetadataColumn, split: FileSplit) -> pa.Scalar:
    """Give the value of a metadata column for the rows of a file, as the type that the table declares."""
    match column.metadata_key:
        case "file.path":
            value = pa.scalar(split.path, pa.string())
        case "file.name":
            value = pa.scalar(PurePosixPath(split.path).name, pa.string())
        case "file.size":
            value = pa.scalar(split.size, pa.int64())
        case key:
            assert key == "file.modification-time", f"metadata '{key}' was checked"
            value = pa.scalar(split.modified_ms, pa.timestamp("ms", tz="UTC"))
    return value.cast(arrow_type(column.type))
