"""The files of a checkpoint in a folder of this machine, read without an engine (`CheckpointFiles`)."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.errors import ConfigError
from penstock.connector.urls import split_url
from penstock.sql.plan.saved import damaged

__all__ = ["CHANGED", "LocalFiles", "write_new"]

CHANGED = "is not what its .crc file says: one of the two was changed"
_CRC_VERSION = b"crc\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFiles:
    """The files below `location`."""

    location: str

    def names(self, folder: str) -> Sequence[str]:
        """List what is in a folder; empty where there is none."""
        place = self.folder / folder
        return sorted(each.name for each in place.iterdir()) if place.is_dir() else []

    def text(self, path: str) -> str | None:
        """Read a file; None where there is none. Raises StateMismatchError."""
        file = self.folder / path
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise damaged(self.location, path, f"cannot be read: {error}") from error
        if not _is_whole(content, file.with_name(f".{file.name}.crc")):
            raise damaged(self.location, path, CHANGED)
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise damaged(self.location, path, f"cannot be read: {error}") from error

    def written_ms(self, path: str) -> int | None:
        """Tell when a file was written (epoch ms); None where there is none."""
        try:
            return (self.folder / path).stat().st_mtime_ns // 1_000_000
        except OSError:
            return None  # the pipeline goes on, and clears its log

    @property
    def folder(self) -> Path:
        """The folder; the location may be a `file:` URL of it."""
        url = split_url(self.location)
        return Path(self.location if url is None else f"/{url[1].lstrip('/')}")


def _is_whole(content: bytes, sums: Path) -> bool:
    """Compare a file with Hadoop's checksums of it (ChecksumFileSystem), where there are any."""
    try:
        known = sums.read_bytes()
    except OSError:
        return True  # as Hadoop has it
    size = int.from_bytes(known[4:8], "big")
    if known[:4] != _CRC_VERSION or size < 1:
        return True  # as above
    chunks = (content[at : at + size] for at in range(0, len(content), size))
    return known[8:] == b"".join(zlib.crc32(chunk).to_bytes(4, "big") for chunk in chunks)


def write_new(path: str, text: str) -> None:
    """Write a file that is not there yet, whole, and the folders above it. Raises ConfigError."""
    file = Path(path)
    beside = file.with_name(f".{file.name}.tmp")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.replace(file)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
