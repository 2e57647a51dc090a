"""Whether the folders of tables that files write can be made: asked before anything starts. Writes nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from penstock.catalog.errors import InputErrors, OptionError
from penstock.catalog.table import Table
from penstock.connector.urls import is_remote, resolve_path, split_url
from penstock.sql.run.progress import short_name
from penstock.sql.run.script_check import CheckedScript

__all__ = ["check_folder", "check_target_folders"]

_IN_FOLDERS = ("delta", "filesystem")
_OF_THE_SYSTEM = ("/proc", "/sys")
"""Folders in which nobody can make one, whatever their rights say."""


def check_target_folders(scripts: Sequence[CheckedScript], project: Path) -> None:
    """Check the folder of every table that an INSERT writes. Raises InputErrors."""
    errors: list[OptionError] = []
    for script in scripts:
        for one in script.statements:
            for insert in (one.analysed, *one.members):
                try:
                    if insert is not None:
                        check_folder(insert.target, project)
                except OptionError as error:
                    error.span = error.span or one.statement.span
                    errors.append(error)
    if errors:
        raise InputErrors(errors)


def check_folder(table: Table, project: Path) -> None:
    """Check that a table's folder is there or can be made, where this process can tell. Raises OptionError."""
    path = table.option_map.get("path")
    if table.connector not in _IN_FOLDERS or not path:
        return
    location = resolve_path(path, project)
    if is_remote(location):
        return
    url = split_url(location)
    folder = Path(os.path.normpath(location if url is None else f"/{url[1].lstrip('/')}"))
    what = f"table {short_name(table.identifier)}: the folder {folder} cannot be"
    there = next((p for p in (folder, *folder.parents) if os.path.lexists(p)), folder)
    hint = f"give 'path' a folder that {_user()} may write to"
    if not there.is_dir():
        why = "is a file" if there.exists() else "is a link to nothing"
        raise OptionError(f"{what} made: {there} {why}", hint=hint)
    real = there.resolve()
    if any(real.is_relative_to(one) for one in _OF_THE_SYSTEM):
        raise OptionError(f"{what} made: {there} is the system's own", hint=hint)
    if not os.access(there, os.W_OK | os.X_OK):
        done = "written" if there == folder else "made"
        raise OptionError(f"{what} {done}: {_user()} may not write to {there}", hint=hint)


def _user() -> str:
    return "this user" if os.geteuid() else "root"
