"""Find the pipelines of a project: which of its SQL files run on and on, checked together, without Spark.

A file is one of pipelines where a statement of it is a streaming query, or keeps a table refreshed. Definitions that
stay in the catalog serve the other files, whatever the order of their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.catalog.definitions.leases import is_ahead, locked_by
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import ConfigError, InputError, InputErrors
from penstock.sql.check.checkpoint_assignment import name_scripts_here
from penstock.sql.check.script_check import CheckedScript, CheckedStatement, check_scripts
from penstock.sql.ddl.apply_ddl import apply_ddl
from penstock.sql.execution.context import SessionContext
from penstock.sql.execution.ddl import set_option
from penstock.sql.script.files import ScriptFile, check_link, read_script
from penstock.sql.script.project import Project, project_files
from penstock.sql.settings import RestartStrategy, restart_strategy
from penstock.sql.statements.definitions import CreateCatalog, CreateDatabase
from penstock.sql.statements.dml import DeleteRows, TruncateTable, UpdateRows
from penstock.sql.statements.statement import (
    CreateTable,
    CreateTableAs,
    CreateView,
    ResetOption,
    SetOption,
    Statement,
    starts_refresh,
)

SharedDefinition = CreateCatalog | CreateDatabase | CreateTable | CreateView
"""What other files may use, and what the catalog has after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFile:
    """A SQL file with pipelines. `name` is its path in the project.

    `pipelines` are their names, and `leases` what they hold while they run; none where checkpoints are not in folders
    of this machine: Spark is needed then.
    `restarts` is the strategy that holds at the file's end. `definitions` stay in the catalog. `after` are the files
    that create tables by queries, where it reads one of these.
    """

    name: str
    path: Path
    pipelines: tuple[str, ...]
    leases: tuple[str, ...]
    restarts: RestartStrategy
    after: tuple[str, ...] = ()
    definitions: tuple[SharedDefinition, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPipelines:
    """The files of a project: those with pipelines, those that only define, and those that are not run."""

    files: tuple[PipelineFile, ...]
    definitions: tuple[SharedDefinition, ...]
    left_out: tuple[str, ...]


def find_pipelines(
    project: Project,
    context: SessionContext,
    variables: Mapping[str, Any],
    *,
    strict: bool = False,
) -> ProjectPipelines:
    """Check the SQL files of a project, and find its pipelines; changes nothing.

    Raises InputErrors with all that is wrong; ConfigError where there is no pipeline, where two files write one table
    or have pipelines of one name, and for a file that a restart would run again with an effect.
    """
    scripts, late = _check_all(project, context, variables, strict=strict)
    filling = [script.file.name for script in scripts if _filled(script)]
    running = [script for script in scripts if any(map(_runs_on, script.statements))]
    if not running:
        raise ConfigError(
            f"no SQL file below {project.root} has a pipeline",
            hint="a pipeline is an INSERT that reads tables, a statement set, a CREATE TABLE AS, or a materialized "
            "table; `penstock init` writes a project with one",
        )
    for script in running:
        _refuse_repeated(script)
    _refuse_shared_sinks(running)
    named = [name_scripts_here([script], project.root)[0] for script in running]
    files = tuple(
        _pipeline_file(script, context.settings, filling if script.file.name in late else ())
        for script in named
    )
    _refuse_shared_names(files)
    others = [script for script in scripts if script not in running]
    return ProjectPipelines(
        files=files,
        definitions=tuple(each for script in others for each in _definitions(script)),
        left_out=tuple(script.file.name for script in others if not _only_defines(script)),
    )


def define_shared(found: ProjectPipelines, namespace: Namespace) -> None:
    """Put the definitions of all files into the catalog, so that each file finds those of the others.

    One that is there already stays as it is, as when the file is run. Raises InputError.
    """
    todo = [*found.definitions, *(each for file in found.files for each in file.definitions)]
    _define(todo, namespace)


def refuse_running(found: ProjectPipelines, context: SessionContext) -> None:
    """Raise PipelineLockedErrors, within InputErrors, for pipelines that are run already.

    A claim whose age the clock does not tell is left to the process that is to take it, which sees whether it lapses.
    """
    names = {name for file in found.files for name in file.leases}
    claims = [
        claim
        for claim in context.leases.claims()
        if claim.lease.pipeline in names and not is_ahead(claim)
    ]
    if claims:
        raise InputErrors([locked_by(claim) for claim in claims])


def _check_all(
    project: Project, context: SessionContext, variables: Mapping[str, Any], *, strict: bool
) -> tuple[list[CheckedScript], set[str]]:
    """Check each file alone, with the definitions of the others: again and again, until no more are right.

    Returns the files, and the names of those that are right only with tables that others create by queries.
    """
    overlay = context.overlay()
    todo = [_read(path, project.root) for path in project_files(project)]
    done: dict[str, CheckedScript] = {}
    faults: dict[str, InputError] = {}
    late: set[str] | None = None
    while todo:
        left: list[ScriptFile] = []
        for file in todo:
            try:
                (script,) = check_scripts(
                    [file],
                    replace(overlay, settings=dict(context.settings)),
                    variables=variables,
                    env=project.environment,
                    folders=project.folders,
                    strict=strict,
                )
            except InputError as error:
                faults[file.name] = error
                left.append(file)
                continue
            done[file.name] = script
            _define(_definitions(script), overlay.namespace)
            if late is not None:
                _define(_filled(script), overlay.namespace)
        if len(left) == len(todo):
            if late is not None:
                raise InputErrors([one for file in left for one in _each(faults[file.name])])
            late = {file.name for file in left}
            for script in done.values():
                _define(_filled(script), overlay.namespace)
        todo = left
    return [done[name] for name in sorted(done)], late or set()


def _read(path: Path, root: Path) -> ScriptFile:
    check_link(path, root)
    return replace(read_script(path), name=path.relative_to(root).as_posix())


def _each(error: InputError) -> Sequence[InputError]:
    return error.errors if isinstance(error, InputErrors) else (error,)


def _runs_on(one: CheckedStatement) -> bool:
    return starts_refresh(one.statement) or any(insert.is_stream for insert in one.inserts)


def _definitions(script: CheckedScript) -> list[SharedDefinition]:
    return [each for one in script.statements if (each := _shared(one.statement)) is not None]


def _shared(statement: Statement) -> SharedDefinition | None:
    match statement:
        case CreateCatalog() | CreateDatabase():
            return statement
        case CreateTable(table=defined) | CreateView(view=defined) if not defined.temporary:
            return statement
    return None


def _filled(script: CheckedScript) -> list[CreateTable]:
    """Return the tables that a file creates by queries, which stay in the catalog."""
    made = (
        one.statement.create
        for one in script.statements
        if isinstance(one.statement, CreateTableAs)
    )
    return [create for create in made if not create.table.temporary]


def _only_defines(script: CheckedScript) -> bool:
    return all(_shared(one.statement) is not None for one in script.statements)


def _define(definitions: Iterable[SharedDefinition], namespace: Namespace) -> None:
    for one in definitions:
        if isinstance(one, CreateTable | CreateView):
            defined = one.table if isinstance(one, CreateTable) else one.view
            if namespace.same_named(defined) is not None:
                continue
        apply_ddl(one, namespace)


def _refuse_repeated(script: CheckedScript) -> None:
    """Refuse statements that a restart of the file would run again. Raises ConfigError."""
    for one in script.statements:
        changes = isinstance(one.statement, DeleteRows | UpdateRows | TruncateTable)
        inserts = [insert.statement.span for insert in one.inserts if not insert.is_stream]
        if changes or (inserts and not _runs_on(one)):
            raise ConfigError(
                f"{script.file.name} has a pipeline and a statement that changes a table at once, which each restart "
                "would run again",
                hint="put that statement into a file of its own, which `penstock run` runs once",
                span=inserts[0] if inserts else None,
            )


def _sinks(script: CheckedScript) -> Iterator[tuple[str, InputError]]:
    """Return each table that a file's pipelines write, with the error where another file writes it, too."""
    for one in script.statements:
        for insert in one.inserts:
            table = str(insert.target.identifier)
            yield (
                table,
                ConfigError(
                    f"{script.file.name} writes table {table}, which another file of the project writes, too",
                    hint="put the INSERTs of one table into one file: two processes cannot share a checkpoint",
                    span=insert.statement.span,
                ),
            )


def _refuse_shared_sinks(scripts: Sequence[CheckedScript]) -> None:
    writers: dict[str, dict[str, InputError]] = {}
    for script in scripts:
        for table, error in _sinks(script):
            writers.setdefault(table, {}).setdefault(script.file.name, error)
    errors = [error for files in writers.values() if len(files) > 1 for error in files.values()]
    if errors:
        raise InputErrors(errors)


def _refuse_shared_names(files: Sequence[PipelineFile]) -> None:
    owners: dict[str, str] = {}
    for file in files:
        for name in file.leases:
            if name in owners:
                raise ConfigError(
                    f"{owners[name]} and {file.name} both have a pipeline {name!r}",
                    hint="name one of them otherwise, at the head of its file: SET 'pipeline.name' = '...'",
                )
            owners[name] = file.name


def _pipeline_file(
    script: CheckedScript, settings: Mapping[str, str], after: Sequence[str]
) -> PipelineFile:
    assert script.file.path is not None, "read from the project's folder"
    at_end = dict(settings)
    for one in script.statements:
        if isinstance(one.statement, SetOption | ResetOption):
            set_option(one.statement, at_end)
    leases = (name for one in script.statements for name in one.pipelines)
    names = (name for one in script.statements if _runs_on(one) for name in _names(one))
    return PipelineFile(
        name=script.file.name,
        path=script.file.path,
        pipelines=tuple(dict.fromkeys(names)),
        leases=tuple(dict.fromkeys(leases)),
        restarts=restart_strategy(at_end),
        after=tuple(name for name in after if name != script.file.name),
        definitions=tuple(_definitions(script)),
    )


def _names(one: CheckedStatement) -> Iterator[str]:
    """Return the names of the queries of a statement, once they are chosen."""
    if one.placed is None:
        return
    if one.placed.set_location is not None:
        yield one.placed.set_location.job
        return
    yield from (location.job for location in one.placed.locations)
