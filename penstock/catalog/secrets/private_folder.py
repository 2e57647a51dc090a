"""Makes folders that hold records, logs, keys and state: for this user alone, `.penstock` itself included."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from penstock.catalog.errors import ConfigError

OWN_FOLDER = ".penstock"


def make_private_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, each for its owner alone. Raises OSError.

    `mkdir(parents=True, mode=0o700)` sets the last one only. An existing folder keeps its permissions, but for a
    `.penstock` of this user, which an older Penstock made for everybody to read.
    """
    way = [folder, *folder.parents]
    for each in reversed([path for path in way if not path.exists()]):
        each.mkdir(mode=0o700, exist_ok=True)
    for each in way:
        if each.name == OWN_FOLDER:
            _close_to_others(each)


def make_data_folder(folder: Path) -> None:
    """Make a private folder below a project's data folder. Raises ConfigError."""
    try:
        make_private_folder(folder)
    except OSError as error:
        raise ConfigError(
            f"the folder {folder} cannot be created: {error.strerror}",
            hint="set data of [paths] in penstock.toml to a folder that you may write to",
        ) from error


def _close_to_others(folder: Path) -> None:
    """Remove the rights of others from a folder of this user; those of a group that writes in it are intended."""
    with suppress(OSError):
        found = folder.lstat()
        if (
            not stat.S_ISDIR(found.st_mode)
            or not hasattr(os, "geteuid")
            or found.st_uid != os.geteuid()
        ):
            return
        others = stat.S_IRWXO if found.st_mode & stat.S_IWGRP else stat.S_IRWXG | stat.S_IRWXO
        if found.st_mode & others:
            folder.chmod(stat.S_IMODE(found.st_mode) & ~others)
