"""Runs the statements that are over at once and do something: jars, jobs, modules, functions, rows changed in place."""

from __future__ import annotations

from pathlib import Path

from penstock.catalog.names import Namespace
from penstock.sql.change_statements import (
    AlterFunction,
    CallProcedure,
    CreateFunction,
    DeleteRows,
    DropFunction,
    TruncateTable,
    UpdateRows,
)
from penstock.sql.run.changes import Change, check_change, run_change
from penstock.sql.run.ddl import Listing, define
from penstock.sql.run.job_list import stop_job
from penstock.sql.run.scene import Scene
from penstock.sql.show_statements import AddJar, StopJob, UseModules
from penstock.sql.statements import Statement

__all__ = ["Command", "check_command", "is_command", "run_command"]

FunctionChange = CreateFunction | AlterFunction | DropFunction
Command = AddJar | StopJob | UseModules | FunctionChange | Change


def is_command(statement: Statement) -> bool:
    """Tell whether `run_command` runs a statement."""
    return isinstance(statement, Command)


def check_command(statement: Statement, namespace: Namespace, project: Path) -> None:
    """Check what of a command can be checked without a JVM and without I/O. Raises InputError."""
    if isinstance(statement, UpdateRows | DeleteRows | TruncateTable | CallProcedure):
        check_change(statement, namespace, project)


def run_command(statement: Statement, scene: Scene) -> Listing | None:
    """Run a command; gives what it has to say. Raises InputError, RunError."""
    match statement:
        case AddJar(path=path):
            from penstock.sql.run.functions import add_jar

            add_jar(path, scene.spark(), scene.project)
        case StopJob(job=job):
            return stop_job(job, scene, savepoint=statement.savepoint)
        case CreateFunction() | AlterFunction() | DropFunction():
            _change_function(statement, scene)
        case UpdateRows() | DeleteRows() | TruncateTable() | CallProcedure():
            return run_change(statement, scene)
    return None


def _change_function(statement: FunctionChange, scene: Scene) -> None:
    """Change the definition. Spark forgets a function that is dropped; others it is given by the next query."""
    define(statement, scene.namespace)
    if isinstance(statement, DropFunction):
        name = statement.identifier.name.replace("`", "``")
        scene.spark().sql(f"DROP TEMPORARY FUNCTION IF EXISTS `{name}`")
