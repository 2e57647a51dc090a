"""The SQL files of a project, in an order in which each finds what it names: definitions of one serve the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputError
from penstock.sql.check.script_check import CheckedScript, check_scripts
from penstock.sql.ddl.apply_ddl import is_definition
from penstock.sql.execution.context import SessionContext
from penstock.sql.execution.ddl import define
from penstock.sql.lineage.build import LineageBuilder
from penstock.sql.runner.replay import replay
from penstock.sql.script.files import ScriptFile, read_script
from penstock.sql.script.project import Project, project_files


def add_files(
    builder: LineageBuilder,
    files: Sequence[ScriptFile],
    namespace: Namespace,
    project: Project,
    variables: Mapping[str, object],
) -> None:
    """Add the statements of files, checked as one. Raises InputErrors with everything that is wrong in them."""
    scripts = _check(files, namespace, project, variables)
    _add(builder, scripts, namespace, project)


def add_project(
    builder: LineageBuilder, namespace: Namespace, project: Project, variables: Mapping[str, object]
) -> None:
    """Add the statements of all files of a project; those that are not right become notes."""
    overlay = namespace.overlay()
    todo: list[ScriptFile] = []
    for path in project_files(project):
        name = str(path.relative_to(project.root))
        try:
            todo.append(replace(read_script(path), name=name))
        except InputError as error:
            builder.notes.append(f"{name} is left out: {error.message.splitlines()[0]}")
    problems: dict[str, InputError] = {}
    while todo:
        left: list[ScriptFile] = []
        for file in todo:
            try:
                scripts = _check([file], overlay, project, variables)
            except InputError as error:
                problems[file.name] = error
                left.append(file)
                continue
            _add(builder, scripts, overlay, project)
            for one in scripts[0].statements:
                if is_definition(one.statement):
                    define(one.statement, overlay)
        if len(left) == len(todo):
            break
        todo = left
    builder.notes += [
        f"{file.name} is left out: {problems[file.name].message.splitlines()[0]}" for file in todo
    ]


def _check(
    files: Sequence[ScriptFile],
    namespace: Namespace,
    project: Project,
    variables: Mapping[str, object],
) -> tuple[CheckedScript, ...]:
    return check_scripts(
        files,
        _context(namespace, project),
        variables=variables,
        env=project.environment,
        folders=project.folders,
    )


def _add(
    builder: LineageBuilder,
    scripts: Sequence[CheckedScript],
    namespace: Namespace,
    project: Project,
) -> None:
    for one in replay(scripts, _context(namespace, project)):
        builder.add_statement(one.checked.statement, one.planner.namespace)


def _context(namespace: Namespace, project: Project) -> SessionContext:
    settings = dict(project.settings)
    return SessionContext(namespace=namespace, project=project.root, settings=settings)
