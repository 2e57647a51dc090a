"""Name the queries of checked files, choose their checkpoints, and say which INSERT a checkpoint is of."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.catalog.errors import ConfigError, UnknownObjectError, UnsupportedError
from penstock.connector.urls import is_remote
from penstock.sql.check.script_check import CheckedScript, CheckedStatement
from penstock.sql.checkpoint.choice import KnownCheckpoint
from penstock.sql.checkpoint.identity import (
    CheckpointIdentity,
    checkpoint_location,
    checkpoint_root,
    identity_path,
    next_entry,
    old_folder_name,
    statement_text,
)
from penstock.sql.checkpoint.reader import LocalFiles
from penstock.sql.checkpoint.search import SET_TABLE, CheckpointSearch, OpenFiles
from penstock.sql.plan.analysed import AnalysedInsert
from penstock.sql.plan.query_location import LocatedStatement, Unit, base_name, locate_statements
from penstock.sql.script.files import ScriptFile


def name_scripts_here(
    scripts: Sequence[CheckedScript], project: Path, *, from_scratch: bool = False
) -> tuple[CheckedScript, ...]:
    """Name queries as `name_scripts` does, without an engine: only where checkpoints are in folders of this machine."""
    inserts = [insert for script in scripts for one in script.statements for insert in one.inserts]
    if any(is_remote(insert.base) for insert in inserts):
        return tuple(scripts)
    return name_scripts(
        scripts, project, lambda location: LocalFiles(location=location), from_scratch=from_scratch
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
        replace(insert, location=location)
        for insert, location in zip(one.inserts, placed.locations, strict=True)
    )
    if one.members:
        return replace(one, members=tuple(inserts), placed=placed)
    return replace(one, analysed=next(inserts), placed=placed)


WriteText = Callable[[str, str], object]
"""Writes a file that is not there yet, and the folders above it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """An INSERT, and the checkpoint that is to be its. `location` is the checkpoint's directory."""

    location: str
    identity: CheckpointIdentity
    is_new: bool

    @property
    def job(self) -> str:
        """The query's name among all pipelines."""
        return f"{self.identity.pipeline}/{self.identity.query}"

    def write(self, open_files: OpenFiles, write: WriteText) -> None:
        """Write it down. The caller holds the lease of `job`."""
        entry = identity_path(next_entry(open_files(self.location)))
        write(f"{self.location}/{entry}", self.identity.to_text())


def pipeline_checkpoints(
    script: CheckedScript, project: Path, open_files: OpenFiles
) -> list[tuple[str, KnownCheckpoint]]:
    """Return the checkpoints of the pipelines that a file's INSERTs belong to, with their pipelines.

    Raises StateMismatchError for a damaged one.
    """
    inserts = [insert for one in script.statements for insert in one.inserts]
    return [
        (pipeline, known)
        for pipeline, base in dict.fromkeys((one.pipeline, one.base) for one in inserts)
        for known in _search(base, project, open_files).of_pipeline(pipeline)
    ]


def assignment(
    script: CheckedScript,
    line: int,
    project: Path,
    open_files: OpenFiles,
    *,
    to: str | None,
) -> Assignment:
    """Assign to the INSERT at a line the checkpoint named `to`, or, where that is None, none.

    Raises UnknownObjectError, UnsupportedError, ConfigError.
    """
    insert = _insert_at(script, line)
    search = _search(insert.base, project, open_files)
    known = search.of_pipeline(insert.pipeline)
    table, base = str(insert.target.identifier), base_name(insert.target)
    text, file = statement_text(insert.statement), file_in_project(script.file, project)
    if to is None:
        name = _free(base, [_name(one, base) for one in known])
        location = checkpoint_location(insert.base, project, insert.pipeline, name)
    else:
        found = [
            one for one in known if to in {one.name, one.folder} and one.table in {table, None}
        ]
        if len(found) != 1:
            raise _not_found(to, [one for one in known if one.table == table], insert)
        name, location = _name(found[0], base), found[0].location
    identity = CheckpointIdentity(
        pipeline=insert.pipeline,
        query=name,
        table=table,
        statements=((name, text),),
        file=file,
        target=insert.run_for,
    )
    return Assignment(location=location, identity=identity, is_new=to is None)


def _search(base: str, project: Path, open_files: OpenFiles) -> CheckpointSearch:
    return CheckpointSearch(
        open_files=open_files, root=checkpoint_root(base, project), project=project
    )


def _insert_at(script: CheckedScript, line: int) -> AnalysedInsert:
    inserts = [(one, insert) for one in script.statements for insert in one.inserts]
    at = [(one, i) for one, i in inserts if i.statement.span.line == line and i.is_stream]
    if not at:
        lines = ", ".join(str(i.statement.span.line) for _, i in inserts if i.is_stream)
        raise UnknownObjectError(
            f"no INSERT that reads a table begins at line {line} of {script.file.name}",
            hint=f"they begin at: {lines}" if lines else "the file has none",
        )
    ((one, insert),) = at[:1]
    if insert.target.materialization is not None:
        raise UnsupportedError("what fills a materialized table goes by the table's name")
    if one.placed is not None and one.placed.set_location is not None:
        raise UnsupportedError(
            "the statement set is one query with one checkpoint: its INSERTs have none of their own",
            hint="start it over with --from-scratch, or under another SET 'pipeline.name' = '...'",
        )
    return insert


def _name(known: KnownCheckpoint, base: str) -> str:
    """Name the query of a checkpoint; of one of an earlier version by its folder."""
    if known.name is not None:
        return known.name
    return base if known.folder == old_folder_name(base) else known.folder


def _free(base: str, used: Sequence[str]) -> str:
    name, number = base, 1
    while name in used:
        number += 1
        name = f"{base}-{number}"
    return name


def _not_found(to: str, there: Sequence[KnownCheckpoint], insert: AnalysedInsert) -> ConfigError:
    names = ", ".join(one.name or one.folder for one in there if one.table != SET_TABLE)
    return ConfigError(
        f"the pipeline {insert.pipeline!r} has no checkpoint {to!r} of {insert.target.identifier}",
        hint=f"there are: {names}" if names else "it has none of that table: --new begins one",
    )
