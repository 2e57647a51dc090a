"""A file as a split, its positions, and how its name tells that it is compressed.

Positions of a plain file are bytes: a range [start, stop) holds the lines whose first byte lies in it, as in
Hadoop's TextInputFormat, so several tasks can read one file. A compressed file can only be read from its beginning:
for planning it is one position wide, [0, 1). Its reader counts in decompressed bytes, so that a reader's
checkpoint may lie inside; such a range ends at COMPRESSED_STOP.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from penstock.connector.filesystem.failures import not_readable
from penstock.connector.source.split import Split

__all__ = ["COMPRESSED_STOP", "FileSplit", "codec_of", "positions_in"]

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
    """Tell a file's compression by its name; None is a plain file. Raises UnsupportedError."""
    ending = PurePosixPath(path).suffix.lower()
    if ending in _UNREADABLE:
        raise not_readable(path, ending, ", ".join(_CODECS))
    return _CODECS.get(ending)


def positions_in(path: str, size: int) -> int:
    """Give the first position past a file of `size` bytes, for planning."""
    return size if codec_of(path) is None else 1
