"""The metadata columns of files: names and types of Flink's FileSystemTableSource.ReadableFileInfo."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

import pyarrow as pa

from penstock.catalog.schema import MetadataColumn
from penstock.catalog.types import (
    MAX_LENGTH,
    BigIntType,
    LogicalType,
    TimestampLtzType,
    VarCharType,
)
from penstock.connector.filesystem.split import FileSplit
from penstock.connector.metadata_casts import cast_metadata

__all__ = ["METADATA_TYPES", "metadata_value"]

_STRING = VarCharType(length=MAX_LENGTH, nullable=False)
METADATA_TYPES: Mapping[str, LogicalType] = {
    "file.path": _STRING,
    "file.name": _STRING,
    "file.size": BigIntType(nullable=False),
    "file.modification-time": TimestampLtzType(precision=3, nullable=False),
}


def metadata_value(column: MetadataColumn, split: FileSplit, time_zone: str) -> pa.Scalar:
    """Give the value of a metadata column for the rows of a file, as the type that the table declares.

    `time_zone` is the session's.
    """
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
    array = pa.array([value.as_py()], value.type)
    return cast_metadata(array, METADATA_TYPES[column.metadata_key], column.type, time_zone)[0]
