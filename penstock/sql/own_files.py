"""Tells whether a project's files are this user's own: what another account wrote decides nothing here.

`penstock.toml` names Java options and catalogs, `.env` variables, templates read the environment. They are found by
walking up from the working directory, and folders like `/tmp` are everybody's. As git does it since CVE-2022-24765.
"""

from __future__ import annotations

import os
from pathlib import Path

from penstock.catalog.errors import ConfigError

__all__ = ["SAFE_FOLDERS_VARIABLE", "check_link", "check_own"]

SAFE_FOLDERS_VARIABLE = "PENSTOCK_SAFE_FOLDERS"
"""Folders, separated as in PATH, whose files are taken whoever owns them; `*` for all."""


def check_own(file: Path, *, folder: bool = True) -> None:
    """Check that a file that is there, and with `folder` what it lies in, belong to this user or to root.

    Raises ConfigError. A link belongs to who made it, and leads to a file that is looked at as well.
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
    """Give this user, root, and behind sudo the user who asked for it."""
    user = os.geteuid()
    by_sudo = os.environ.get("SUDO_UID", "")
    return {0, user} | ({int(by_sudo)} if user == 0 and by_sudo.isdigit() else set())


def _is_safe(file: Path) -> bool:
    named = [each for each in os.environ.get(SAFE_FOLDERS_VARIABLE, "").split(os.pathsep) if each]
    return "*" in named or any(
        file.resolve().is_relative_to(Path(each).resolve()) for each in named
    )
