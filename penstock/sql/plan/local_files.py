"""The files of a checkpoint in a folder of this machine, read without an engine (`CheckpointFiles`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.errors import ConfigError
from penstock.sql.plan.saved import damaged

__all__ = ["LocalFiles", "write_new"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFiles:
    """The files below `location`."""

    location: str

    def names(self, folder: str) -> Sequence[str]:
        """List what is in a folder; empty where there is none."""
        place = Path(self.location) / folder
        return sorted(each.name for each in place.iterdir()) if place.is_dir() else []

    def text(self, path: str) -> str | None:
        """Read a file; None where there is none. Raises StateMismatchError."""
        try:
            return (Path(self.location) / path).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise damaged(self.location, path, f"cannot be read: {error}") from error

    def written_ms(self, path: str) -> int | None:
        """Tell when a file was written (epoch ms); None where there is none."""
        try:
            return (Path(self.location) / path).stat().st_mtime_ns // 1_000_000
        except OSError:
            return None  # the pipeline goes on, and clears its log


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
