"""A file as a split, its positions and compression, and the metadata columns that Flink gives files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

import pyarrow as pa

from penstock.catalog.model.table import MetadataColumn
from penstock.catalog.model.types import (
    MAX_LENGTH,
    BigIntType,
    LogicalType,
    TimestampLtzType,
    VarCharType,
)
from penstock.connector.arrow import cast_metadata
from penstock.connector.capabilities import MetadataKey
from penstock.connector.filesystem.table.location import not_readable
from penstock.connector.source.split import Split

COMPRESSED_STOP = 1 << 62
"""Past every decompressed byte."""

_CODECS = {".gz": "gzip", ".gzip": "gzip", ".bz2": "bz2", ".zst": "zstd"}

# Flink's StandardDeCompressors has them, or people use them; their bytes would be taken for text
_UNREADABLE = (".deflate", ".xz", ".lz4", ".snappy", ".zip")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSplit(Split):
    """The lines of one file that begin in [`start`, `stop`). The id is the path inside the table's folder.

    `path` is the whole path, `size` and `modified_ms` are what the file had when it was listed: what is appended
    later is never read (as in Flink), a last line without a newline ends there.
    """

    path: str
    size: int
    modified_ms: int

    @property
    def codec(self) -> str | None:
        """The name of the compression, None for a plain file."""
        return codec_of(self.path)


def codec_of(path: str) -> str | None:
    """Return a file's compression by its name; None is a plain file. Raises UnsupportedError."""
    ending = PurePosixPath(path).suffix.lower()
    if ending in _UNREADABLE:
        raise not_readable(path, ending, ", ".join(_CODECS))
    return _CODECS.get(ending)


def positions_in(path: str, size: int) -> int:
    """Return the first position past a file of `size` bytes, for planning."""
    return size if codec_of(path) is None else 1


_STRING = VarCharType(length=MAX_LENGTH, nullable=False)

METADATA = (
    MetadataKey(key="file.path", type=_STRING, doc="Path of the file."),
    MetadataKey(key="file.name", type=_STRING, doc="Name of the file, without its folders."),
    MetadataKey(
        key="file.size", type=BigIntType(nullable=False), doc="Bytes of the file, as it is stored."
    ),
    MetadataKey(
        key="file.modification-time",
        type=TimestampLtzType(precision=3, nullable=False),
        doc="Time of the last change of the file.",
    ),
)
"""The metadata that Flink gives files."""

METADATA_TYPES: Mapping[str, LogicalType] = {one.key: one.type for one in METADATA}


def metadata_value(column: MetadataColumn, split: FileSplit, time_zone: str) -> pa.Scalar:
    """Return the value of a metadata column for the rows of a file, as the type that the table declares.

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
