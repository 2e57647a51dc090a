"""A SQL file as it was read. Rendering, splitting and checking are `script_check.py`'s part."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.errors import ConfigError

__all__ = ["ScriptFile", "read_script", "write_script"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFile:
    """A file's name, as the user gave it, and its text. `path` is None for a text that is in no file."""

    name: str
    text: str
    path: Path | None = None

    @property
    def pipeline(self) -> str:
        """The pipeline's name where no SET gives one: the file's, without folders and ending."""
        return Path(self.name).stem


def read_script(path: Path) -> ScriptFile:
    """Read a SQL file. Raises ConfigError."""
    try:
        return ScriptFile(name=str(path), text=path.read_text(encoding="utf-8-sig"), path=path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{path} cannot be read: {reason}") from error


def write_script(file: ScriptFile, text: str) -> None:
    """Write another text into a file that was read; it is there whole or not at all. Raises ConfigError."""
    assert file.path is not None, "a text in no file cannot be written back"
    target = file.path.resolve()  # a link stays one
    beside = target.with_name(f".{target.name}.tmp")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.chmod(target.stat().st_mode)
        beside.replace(target)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ConfigError(f"{file.path} cannot be written: {error.strerror}") from error
