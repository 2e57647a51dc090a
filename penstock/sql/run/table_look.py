"""Looks whether the tables of checked files are there: metadata of brokers, folders and databases. No JVM, no group.

Reads no row and writes nothing. What only Spark can reach (a Delta table in an object store) is said to be that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from penstock.catalog.errors import PenstockError, QueryFailedError, UnknownObjectError
from penstock.catalog.secret_sealing import sealed
from penstock.catalog.table import Table
from penstock.connector.contract import ReadRequest, SplitSource, is_split_source
from penstock.connector.registry import connector_of
from penstock.sql.plan.analysed_query import AnalysedQuery
from penstock.sql.plan.analysis import analyse
from penstock.sql.run.progress import short_name
from penstock.sql.run.target_folders import check_folder
from penstock.sql.statements import CreateTable, Select

if TYPE_CHECKING:
    from penstock.sql.plan.planner import Planner
    from penstock.sql.run.replay import Replayed
    from penstock.sql.run.script_check import CheckedStatement

__all__ = ["TableLook", "TableUse", "look_at", "tables_of"]

_STARTUP = "scan.startup.mode"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUse:
    """A table and what the files do with it. `missing`: what its options refer to is not there."""

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
class TableLook:
    """What was found of a table: a text, or the error that a run would meet."""

    use: TableUse
    text: str
    error: PenstockError | None = None

    @property
    def name(self) -> str:
        """The table's name as a person would type it."""
        return short_name(self.use.table.identifier)


def tables_of(statements: Iterable[Replayed]) -> list[TableUse]:
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
        return replace(use, table=sealed(use.table, planner.namespace.secrets))
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


def look_at(use: TableUse, project: Path) -> TableLook:
    """Ask where a table lives what is there. May wait for an answer as long as a run would; raises nothing."""
    if use.missing is not None:
        return TableLook(use=use, text="cannot be used", error=use.missing)
    try:
        return TableLook(use=use, text=_look(use, project))
    except PenstockError as error:
        return TableLook(use=use, text="cannot be used", error=error)
    except Exception as error:  # noqa: BLE001  a client's own error: the other tables are looked at all the same
        failure = QueryFailedError(f"{type(error).__name__}: {error}")
        return TableLook(use=use, text="cannot be looked at", error=failure)


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
    if not is_split_source(source):
        return "only Spark reaches it: not looked at"
    return _splits(cast("SplitSource", source), use)


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
    from penstock.connector.delta.log import read_head
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

    from penstock.connector.jdbc.database import Database
    from penstock.connector.jdbc.settings import read_jdbc_table

    table = read_jdbc_table(use.table, project)
    database = Database.of(table)

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
