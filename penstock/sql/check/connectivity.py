"""Check that the tables of checked files are reachable: brokers, folders, databases.

Checks that folders to write to can be made, too. Reads no row and writes nothing. A table that only Spark can
reach (Delta in an object store) is reported as such.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from penstock.catalog.definitions.encryption import encrypt_references
from penstock.catalog.errors import (
    InputErrors,
    OptionError,
    PenstockError,
    QueryFailedError,
    UnknownObjectError,
)
from penstock.catalog.model.table import Table
from penstock.connector.contract import ReadRequest, SourceKind, SplitSource
from penstock.connector.registry import connector_of
from penstock.connector.urls import is_remote, resolve_path, split_url
from penstock.sql.check.script_check import CheckedScript
from penstock.sql.jobs.progress import short_name
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.analysis import analyse
from penstock.sql.statements.statement import CreateTable, Select

if TYPE_CHECKING:
    from penstock.sql.check.script_check import CheckedStatement
    from penstock.sql.plan.physical.planner import Planner

__all__ = [
    "ConnectivityResult",
    "TableUse",
    "check_connectivity",
    "check_folder",
    "check_target_folders",
    "tables_of",
]

_IN_FOLDERS = ("delta", "filesystem")

_OF_THE_SYSTEM = ("/proc", "/sys")
"""Folders in which none can be made, whatever their permissions."""


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
    """Check that a table's folder exists or can be made, where this process can know. Raises OptionError."""
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


_STARTUP = "scan.startup.mode"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUse:
    """A table and its use in the files. `missing`: what its options refer to does not exist."""

    table: Table
    read: bool
    written: bool
    missing: PenstockError | None = None

    @property
    def words(self) -> str:
        """The use in words."""
        used = [word for word, is_so in (("read", self.read), ("written", self.written)) if is_so]
        return " and ".join(used) or "defined"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectivityResult:
    """What was found of a table: a text, or the error that a run would meet."""

    use: TableUse
    text: str
    error: PenstockError | None = None

    @property
    def name(self) -> str:
        """The table's name as a person would type it."""
        return short_name(self.use.table.identifier)


class StatementInTurn(Protocol):
    """A checked statement, and a planner as it is when the statement's turn comes (`runner.replay.Replayed`)."""

    @property
    def checked(self) -> CheckedStatement:
        """The statement."""

    @property
    def planner(self) -> Planner:
        """The planner; the definitions before the statement have taken effect."""


def tables_of(statements: Iterable[StatementInTurn]) -> list[TableUse]:
    """List the tables that statements define, read or write, in order of their first mention."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], TableUse] = {}
    for statement in statements:
        for use in _uses(statement.checked, statement.planner):
            key = (str(use.table.identifier), use.table.options)
            # secrets are those of the statement's own time
            known = found.get(key) or _ready(use, statement.planner)
            found[key] = replace(
                known, read=known.read or use.read, written=known.written or use.written
            )
    return list(found.values())


def _ready(use: TableUse, planner: Planner) -> TableUse:
    try:
        return replace(use, table=encrypt_references(use.table, planner.namespace.secrets))
    except PenstockError as error:
        return replace(use, missing=error)


def _uses(one: CheckedStatement, planner: Planner) -> Iterator[TableUse]:
    if isinstance(one.statement, CreateTable):
        yield TableUse(table=one.statement.table, read=False, written=False)
    queries: list[AnalysedQuery] = []
    if isinstance(one.statement, Select):
        text = one.statement.query
        queries.append(analyse(text, planner.namespace, planner.project, appends=False))
    for insert in (one.analysed, *one.members):
        if insert is not None:
            queries.append(insert.query)
            yield TableUse(table=insert.target, read=False, written=True)
    for query in queries:
        for leaf in query.leaves:
            yield TableUse(table=leaf.table, read=True, written=False)


def check_connectivity(use: TableUse, project: Path) -> ConnectivityResult:
    """Check the table's external system. May wait for an answer as long as a run would; raises nothing."""
    if use.missing is not None:
        return ConnectivityResult(use=use, text="cannot be used", error=use.missing)
    try:
        return ConnectivityResult(use=use, text=_look(use, project))
    except PenstockError as error:
        return ConnectivityResult(use=use, text="cannot be used", error=error)
    except Exception as error:  # noqa: BLE001  a client's own error: the other tables are looked at all the same
        failure = QueryFailedError(f"{type(error).__name__}: {error}")
        return ConnectivityResult(use=use, text="cannot be looked at", error=failure)


def _look(use: TableUse, project: Path) -> str:
    if not use.read:
        check_folder(use.table, project)
    match use.table.connector:
        case "print" | "blackhole" | "memory" | "information-schema" | "spark":
            return "nothing to look at"
        case "delta":
            return _delta(use, project)
        case "jdbc":
            return _database(use, project)
    table = use.table
    if not use.read and table.connector == "kafka":
        # a topic that is only written needs no consumer group, which a scan would ask for
        options = {k: v for k, v in table.option_map.items() if not k.startswith("scan.")}
        options[_STARTUP] = "earliest-offset"
        table = replace(table, options=tuple(options.items()))
    source = connector_of(table, project=project).source(table)
    if source.kind is not SourceKind.SPLITS:
        return "only Spark reaches it: not looked at"
    return _splits(source, use)


def _splits(source: SplitSource, use: TableUse) -> str:
    planner = source.open_planner(ReadRequest(columns=()))
    try:
        found = planner.list_splits()
        extents = planner.extents(tuple(found.owners))
    finally:
        planner.close()
    if use.table.connector == "filesystem":
        return f"{_counted(len(extents), 'file')}"
    records = sum(max(extent.end - extent.first, 0) for extent in extents.values())
    names = sorted(set(found.owners.values()))
    topics = ", ".join(names) if len(names) <= 3 else f"{len(names)} topics"
    return f"{topics}: {_counted(len(extents), 'partition')}, {records:,} offsets held"


def _delta(use: TableUse, project: Path) -> str:
    from penstock.connector.delta.log.schema import read_head
    from penstock.connector.delta.options import PATH, resolve_options
    from penstock.connector.storage import open_folder
    from penstock.connector.urls import is_remote, resolve_path

    location = resolve_path(resolve_options(use.table).get(PATH), project)
    if is_remote(location):
        return f"{location}: only Spark reaches it: not looked at"
    folder = open_folder(location)
    head = read_head(folder)
    if head is not None:
        return f"{folder.path}: version {head.version}, columns {', '.join(head.columns)}"
    if use.read and not use.written:
        raise UnknownObjectError(
            f"there is no Delta table in {folder.path}",
            hint="run what writes it first, or check the option 'path'",
        )
    return f"{folder.path} is not there yet: made when rows are written"


def _database(use: TableUse, project: Path) -> str:
    from sqlalchemy import Connection, inspect

    from penstock.connector.jdbc.database import JdbcDatabase
    from penstock.connector.jdbc.settings import read_jdbc_table

    table = read_jdbc_table(use.table, project)
    database = JdbcDatabase.of(table)

    def work(connection: Connection) -> str:
        looked = inspect(connection)
        if not looked.has_table(table.name, table.database_schema):
            raise UnknownObjectError(f"there is no {table.shown}", hint="create it there first")
        there = [column["name"] for column in looked.get_columns(table.name, table.database_schema)]
        lost = [c.name for c in table.schema.physical if c.name not in there]
        if lost:
            raise UnknownObjectError(
                f"{table.shown} has no column {', '.join(lost)}",
                hint=f"its columns are: {', '.join(there)}",
            )
        return f"{table.shown}: columns {', '.join(there)}"

    return database.run(work)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
