"""SQL files and the folders of a project.

How files are read and written, where templates may read, whose files are trusted. `penstock.toml` names Java
options and catalogs, `.env` sets variables. Both are found from the working directory upwards, and folders like
`/tmp` are writable by everybody, so files of other accounts are refused (as git since CVE-2022-24765).
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from penstock.catalog.errors import ConfigError
from penstock.catalog.options.reference_rules import ReferenceRules

__all__ = [
    "SAFE_FOLDERS_VARIABLE",
    "ScriptFile",
    "TemplateFolders",
    "check_link",
    "check_own",
    "lies_open_in",
    "read_script",
    "write_script",
]

SAFE_FOLDERS_VARIABLE = "PENSTOCK_SAFE_FOLDERS"
"""Folders, separated as in PATH, whose files are accepted from any owner; `*` for all."""


def check_own(file: Path, *, folder: bool = True) -> None:
    """Check that an existing file, and with `folder` its folder, belong to this user or to root.

    Raises ConfigError. A link belongs to its maker, and its target is checked as well.
    """
    if not hasattr(os, "geteuid") or _is_safe(file):
        return
    looked_at = (file, file.parent) if folder else (file,)
    for path in looked_at:
        owners = {path.lstat().st_uid, path.stat().st_uid}
        if foreign := owners - _trusted():
            raise ConfigError(
                f"{file} is not used: {'it' if path == file else path} belongs to another user (uid {min(foreign)})",
                hint=f"if you trust it, set {SAFE_FOLDERS_VARIABLE}={file.parent.resolve()}",
            )


def check_link(file: Path, root: Path) -> None:
    """Check that a file of the project at `root` is no link that leads out of it. Raises ConfigError.

    Links can be committed, and what is wrong with a file is shown with its lines: `~/.netrc` would be in a report.
    """
    target, project = file.resolve(), root.resolve()
    is_here = file.parent.resolve().is_relative_to(project)
    if is_here and not target.is_relative_to(project) and not _is_safe(file):
        raise ConfigError(
            f"{file} is not used: it is a link that leads out of its project",
            hint=f"if you trust it, set {SAFE_FOLDERS_VARIABLE}={target.parent}",
        )


def _trusted() -> set[int]:
    """Return this user, root, and behind sudo the user who asked for it."""
    user = os.geteuid()
    by_sudo = os.environ.get("SUDO_UID", "")
    return {0, user} | ({int(by_sudo)} if user == 0 and by_sudo.isdigit() else set())


def _is_safe(file: Path) -> bool:
    named = [each for each in os.environ.get(SAFE_FOLDERS_VARIABLE, "").split(os.pathsep) if each]
    return "*" in named or any(
        file.resolve().is_relative_to(Path(each).resolve()) for each in named
    )


MACRO_FOLDER = "macros"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateFolders:
    """Where templates look beside their own folder. `macros` None is `macros` in the root; `secrets` None is none.

    `rules` are the project's, which limit what `secret()` reads, beside those in force.
    """

    root: Path
    macros: Path | None = None
    secrets: Path | None = None
    rules: ReferenceRules = field(default_factory=ReferenceRules)

    @property
    def macro_folder(self) -> Path:
        """The folder whose files define macros for all templates."""
        return self.macros or self.root / MACRO_FOLDER


def lies_open_in(path: Path, root: Path) -> bool:
    """Return whether a path, links followed, lies in a folder and below no hidden one in it."""
    path, root = path.resolve(), root.resolve()
    if not path.is_relative_to(root):
        return False
    return not any(part.startswith(".") for part in path.relative_to(root).parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFile:
    """A file's name, as the user gave it, and its text. `path` is None for a text that is in no file."""

    name: str
    text: str
    path: Path | None = None

    @property
    def pipeline(self) -> str:
        """The pipeline's name without a SET: the file's, without folders and ending."""
        return Path(self.name).stem


def read_script(path: Path) -> ScriptFile:
    """Read a SQL file. Raises ConfigError."""
    try:
        return ScriptFile(name=str(path), text=path.read_text(encoding="utf-8-sig"), path=path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{path} cannot be read: {reason}") from error


def write_script(file: ScriptFile, text: str) -> None:
    """Replace the text of a file that was read, atomically. Raises ConfigError."""
    assert file.path is not None, "a text in no file cannot be written back"
    target = file.path.resolve()  # a link stays one
    beside = target.with_name(f".{target.name}.tmp")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.chmod(target.stat().st_mode)
        beside.replace(target)
    except OSError as error:
        with suppress(OSError):  # a read-only file system refuses it even where there is no file
            beside.unlink(missing_ok=True)
        raise ConfigError(f"{file.path} cannot be written: {error.strerror}") from error
