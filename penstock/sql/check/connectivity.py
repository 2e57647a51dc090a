"""Check that the tables of checked files are reachable: brokers, folders, databases.

A check connects to servers that the user of the command names, and to those that they trust.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from penstock.catalog.definitions.encryption import encrypt_references
from penstock.catalog.errors import (
    ConfigError,
    InputErrors,
    OptionError,
    PenstockError,
    QueryFailedError,
    UnknownObjectError,
)
from penstock.catalog.model.identifier import short_name
from penstock.catalog.model.table import Table
from penstock.catalog.options.redaction import is_secret
from penstock.connector.capabilities import TableAccess
from penstock.connector.checks import check_source
from penstock.connector.contract import ReadRequest, SourceKind
from penstock.connector.registry import connector_of
from penstock.connector.urls import is_remote, split_url
from penstock.sql.check.script_check import CheckedScript
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.statements.statement import CreateTable, Select

if TYPE_CHECKING:
    from penstock.sql.check.script_check import CheckedStatement
    from penstock.sql.execution.context import SessionContext
    from penstock.sql.plan.physical.planner import Planner


TRUSTED_VARIABLE = "PENSTOCK_TRUSTED_CATALOGS"
"""URLs of catalogs, separated by blanks, that a check may connect to although a project's file names them; `*`: all."""


def check_trusted(url: str) -> None:
    """Check that a URL which a project's files name is a file's, or is trusted. Raises ConfigError."""
    if url.partition(":")[0].partition("+")[0] == "sqlite":
        return  # a file, for which SQLAlchemy need not be loaded
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        make_url(url)
    except (ArgumentError, ValueError):
        return  # what is no URL is told by who opens it
    shown = _plain(url)
    trusted = os.environ.get(TRUSTED_VARIABLE, "").split()
    if "*" not in trusted and shown not in {_plain(each) for each in trusted}:
        raise ConfigError(
            f"the project names the catalog {shown}, and a check logs in to no server that a project names",
            hint=f"name it by --catalog or PENSTOCK_CATALOG, or, if you trust it: export {TRUSTED_VARIABLE}='{shown}'",
        )


def _plain(text: str) -> str | None:
    """Write a URL without its password, the same way however it was written; None for what is none."""
    from sqlalchemy.engine import URL, make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        return None
    query = {key: value for key, value in url.query.items() if not is_secret(key)}
    plain = URL.create(
        url.drivername,
        username=url.username,
        host=url.host,
        port=url.port,
        database=url.database,
        query=query,
    )
    return plain.render_as_string()


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


def check_sources_exist(scripts: Sequence[CheckedScript], context: SessionContext) -> None:
    """Check that what the INSERTs of files read exists on its server, such as a topic, before Spark is started.

    Raises InputErrors. What else is wrong is left to the run: it waits for a server that does not answer. A table is
    not asked for where an INSERT of the files writes with its connector, which may make what it reads.
    """
    inserts = [one for script in scripts for each in script.statements for one in each.inserts]
    written = {insert.target.connector for insert in inserts}
    missing: dict[Table, UnknownObjectError] = {}
    for insert in inserts:
        for leaf in insert.query.leaves:
            if not leaf.by_splits or leaf.table.connector in written or leaf.table in missing:
                continue
            try:
                table = encrypt_references(leaf.table, context.namespace.secrets)
            except PenstockError:
                continue  # a statement of the files may make the secret
            try:
                _list(table, context.project)
            except UnknownObjectError as error:
                error.span = error.span or insert.statement.span
                missing[leaf.table] = error
            except PenstockError:
                return
    if missing:
        raise InputErrors(list(missing.values()))


def _list(table: Table, project: Path) -> None:
    """List the splits of a table on a server; a folder may hold many files, and come later."""
    connector = connector_of(table, project=project)
    source = connector.source(table)
    if connector.folder(table) is not None or source.kind is not SourceKind.SPLITS:
        return
    planner = source.open_planner(ReadRequest(columns=()))
    try:
        planner.list_splits()
    finally:
        planner.close()


def check_folder(table: Table, project: Path) -> None:
    """Check that a table's folder exists or can be made, where this process can know. Raises OptionError."""
    location = connector_of(table, project=project).folder(table)
    if location is None or is_remote(location):
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
        queries.append(planner.analyse_once(text))
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
        return ConnectivityResult(use=use, text="cannot be checked", error=failure)


def _look(use: TableUse, project: Path) -> str:
    if not use.read:
        check_folder(use.table, project)
    connector = connector_of(use.table, project=project)
    check = connector.connectivity_check(use.table)
    if check is None:
        return check_source(connector.source(use.table))
    return check(TableAccess(read=use.read, written=use.written))
