"""A SQL file as it was read. Rendering, splitting and checking are `script_check.py`'s part."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.errors import ConfigError

__all__ = ["ScriptFile", "read_script"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFile:
    """A file's name, as the user gave it, and its text."""

    name: str
    text: str

    @property
    def pipeline(self) -> str:
        """The pipeline's name where no SET gives one: the file's, without folders and ending."""
        return Path(self.name).stem


def read_script(path: Path) -> ScriptFile:
    """Read a SQL file. Raises ConfigError."""
    try:
        return ScriptFile(name=str(path), text=path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{path} cannot be read: {reason}") from error
