"""Names the queries of checked files and chooses their checkpoints, for all files of a run at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from penstock.connector.urls import is_remote
from penstock.sql.check.script_check import CheckedScript, CheckedStatement
from penstock.sql.checkpoint.reader import LocalFiles
from penstock.sql.checkpoint.search import OpenFiles
from penstock.sql.plan.query_location import LocatedStatement, Unit, locate_statements
from penstock.sql.script.files import ScriptFile

__all__ = ["file_in_project", "name_scripts", "name_scripts_here"]


def name_scripts_here(
    scripts: Sequence[CheckedScript], project: Path, *, from_scratch: bool = False
) -> tuple[CheckedScript, ...]:
    """Name queries as `name_scripts` does, without an engine: only where checkpoints are in folders of this machine."""
    inserts = [insert for script in scripts for one in script.statements for insert in one.inserts]
    if any(is_remote(insert.base) for insert in inserts):
        return tuple(scripts)
    return name_scripts(
        scripts, project, lambda place: LocalFiles(location=place), from_scratch=from_scratch
    )


def name_scripts(
    scripts: Sequence[CheckedScript],
    project: Path,
    open_files: OpenFiles,
    *,
    from_scratch: bool = False,
) -> tuple[CheckedScript, ...]:
    """Choose names and checkpoints; those that are chosen stay. Raises StateMismatchError.

    `from_scratch`: no checkpoint is gone on from, so any may be set aside.
    """
    waiting = [
        (script, one)
        for script in scripts
        for one in script.statements
        if one.inserts and one.placed is None
    ]
    units = [
        Unit(
            inserts=one.inserts,
            is_set=bool(one.members),
            file=file_in_project(script.file, project),
        )
        for script, one in waiting
    ]
    placed = iter(locate_statements(units, project, open_files, in_order=from_scratch))
    return tuple(
        replace(
            script,
            statements=tuple(
                _named(one, next(placed)) if one.inserts and one.placed is None else one
                for one in script.statements
            ),
        )
        for script in scripts
    )


def file_in_project(file: ScriptFile, project: Path) -> str | None:
    """Name a file as checkpoints do: by its path in the project, from whatever folder it is run."""
    if file.path is None:
        return None
    return Path(os.path.relpath(file.path.resolve(), project.resolve())).as_posix()


def _named(one: CheckedStatement, placed: LocatedStatement) -> CheckedStatement:
    inserts = (
        replace(insert, place=place)
        for insert, place in zip(one.inserts, placed.places, strict=True)
    )
    if one.members:
        return replace(one, members=tuple(inserts), placed=placed)
    return replace(one, analysed=next(inserts), placed=placed)
