"""Answers SHOW and DESCRIBE of what is no table, with the column titles of Flink."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from pyspark.errors import AnalysisException

from penstock.catalog.definitions.ddl_rules import find_catalog
from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.function import Function
from penstock.catalog.model.identifier import quoted
from penstock.catalog.model.table import Table
from penstock.catalog.options.redaction import redact
from penstock.connector.registry import connector_of
from penstock.sql.ddl.show_create import show_create
from penstock.sql.dialect.parser.calls import built_in_functions
from penstock.sql.errors.spark import as_input_error
from penstock.sql.execution.commands import describe_job, list_jobs
from penstock.sql.execution.context import SessionContext
from penstock.sql.execution.ddl import Listing, describe, listing
from penstock.sql.statements.show import (
    DescribeCatalog,
    DescribeDatabase,
    DescribeFunction,
    DescribeJob,
    LikePattern,
    ShowList,
    Shown,
)
from penstock.sql.statements.statement import ShowCreate, Statement

INFO = ("info name", "info value")
CORE = "core"


def answer(statement: Statement, context: SessionContext) -> Listing:
    """Answer SHOW or DESCRIBE. Raises InputError for what is not there."""
    match statement:
        case ShowCreate(or_alter=True, identifier=identifier):
            text = show_create(context.namespace.lookup(identifier))
            text = text.replace("CREATE ", "CREATE OR ALTER ", 1)
            return Listing(columns=("result",), rows=((text,),))
        case ShowList(what=what):
            return SHOWN[what](statement, context)
        case DescribeCatalog():
            return _describe_catalog(statement, context)
        case DescribeDatabase():
            return _describe_database(statement, context)
        case DescribeFunction():
            return _describe_function(statement, context)
        case DescribeJob(job=job):
            return describe_job(job, context)
    return listing(statement, context.namespace, dict(context.settings))


def _names(title: str, names: Iterable[str], like: LikePattern | None) -> Listing:
    matching = [name for name in names if like is None or like.keeps(name)]
    return Listing(columns=(title,), rows=tuple((name,) for name in matching))


def _catalogs(asked: ShowList, context: SessionContext) -> Listing:
    return _names("catalog name", context.namespace.catalogs(), asked.like)


def _current_catalog(asked: ShowList, context: SessionContext) -> Listing:
    return _names("current catalog name", [context.namespace.current_catalog], asked.like)


def _databases(asked: ShowList, context: SessionContext) -> Listing:
    return _names("database name", context.namespace.databases(asked.catalog), asked.like)


def _current_database(asked: ShowList, context: SessionContext) -> Listing:
    return _names("current database name", [context.namespace.current_database], asked.like)


def _materialized_tables(asked: ShowList, context: SessionContext) -> Listing:
    found = []
    for identifier in context.namespace.tables(asked.database, asked.catalog):
        table = context.namespace.lookup(identifier)
        if isinstance(table, Table) and table.materialization is not None:
            found.append(identifier.name)
    return _names("table name", found, asked.like)


def _columns(asked: ShowList, context: SessionContext) -> Listing:
    assert asked.table is not None, "the parser asks for a table"
    whole = describe(context.namespace.lookup(asked.table), context.namespace)
    rows = [row for row in whole.rows if asked.like is None or asked.like.keeps(row[0] or "")]
    return Listing(columns=whole.columns, rows=tuple(rows))


def _partitions(asked: ShowList, context: SessionContext) -> Listing:
    assert asked.table is not None, "the parser asks for a table"
    table = context.namespace.lookup(asked.table)
    assert isinstance(table, Table), "views have no partitions"
    connector = connector_of(table, project=context.project)
    editor = connector.editor(table)
    if editor is None:
        raise UnsupportedError(f"tables of the connector '{connector.name}' list no partitions")
    wanted = dict(asked.partition)
    found = [
        values
        for values in editor.partitions(context.spark())
        if all(values.get(name) == value for name, value in wanted.items())
    ]
    names = ("/".join(f"{name}={value}" for name, value in each.items()) for each in found)
    return _names("partition name", sorted(names), asked.like)


def _functions(asked: ShowList, context: SessionContext) -> Listing:
    own = context.namespace.functions.visible(asked.catalog, asked.database)
    return _names("function name", sorted({*built_in_functions(), *own}), asked.like)


def _user_functions(asked: ShowList, context: SessionContext) -> Listing:
    own = context.namespace.functions.visible(asked.catalog, asked.database)
    return _names("function name", sorted(own), asked.like)


def _procedures(asked: ShowList, context: SessionContext) -> Listing:
    if asked.catalog in context.namespace.catalogs():
        return _names("procedure name", [], asked.like)  # ours have none
    quoted_catalog = quoted(asked.catalog)
    try:
        rows = context.spark().sql(f"SHOW PROCEDURES IN {quoted_catalog}").collect()
    except AnalysisException as error:
        raise as_input_error(error) from error
    found = [str(row["procedure_name"]) for row in rows]
    return _names("procedure name", sorted(found), asked.like)


def _modules(asked: ShowList, _: SessionContext) -> Listing:
    return _names("module name", [CORE], asked.like)


def _full_modules(_: ShowList, __: SessionContext) -> Listing:
    return Listing(columns=("module name", "used"), rows=((CORE, "TRUE"),))


def _secrets(asked: ShowList, context: SessionContext) -> Listing:
    rows = tuple(
        (info.name, _instant(info.created_ms), _instant(info.changed_ms))
        for info in context.namespace.secrets.listed()
        if asked.like is None or asked.like.keeps(info.name)
    )
    return Listing(columns=("secret name", "created", "changed"), rows=rows)


def _instant(epoch_ms: int) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, tz=UTC).isoformat(sep=" ", timespec="seconds")


def _jars(asked: ShowList, context: SessionContext) -> Listing:
    rows = context.spark().sql("LIST JARS").collect()
    return _names("jars", [str(row[0]) for row in rows], asked.like)


SHOWN: dict[Shown, Callable[[ShowList, SessionContext], Listing]] = {
    Shown.CATALOGS: _catalogs,
    Shown.CURRENT_CATALOG: _current_catalog,
    Shown.DATABASES: _databases,
    Shown.CURRENT_DATABASE: _current_database,
    Shown.MATERIALIZED_TABLES: _materialized_tables,
    Shown.COLUMNS: _columns,
    Shown.PARTITIONS: _partitions,
    Shown.FUNCTIONS: _functions,
    Shown.USER_FUNCTIONS: _user_functions,
    Shown.PROCEDURES: _procedures,
    Shown.MODULES: _modules,
    Shown.FULL_MODULES: _full_modules,
    Shown.JARS: _jars,
    Shown.JOBS: lambda _, context: list_jobs(context),
    Shown.SECRETS: _secrets,
}


def _describe_catalog(asked: DescribeCatalog, context: SessionContext) -> Listing:
    catalog = find_catalog(asked.catalog, context.namespace.catalog)
    rows: list[tuple[str, str | None]] = [
        ("name", catalog.name),
        ("type", catalog.type),
        ("comment", catalog.comment),
    ]
    if asked.extended:
        shown = redact(catalog.option_map)
        rows += [(f"option:{key}", value) for key, value in shown.items() if key != "type"]
    return Listing(columns=INFO, rows=tuple(rows))


def _describe_database(asked: DescribeDatabase, context: SessionContext) -> Listing:
    database = context.namespace.catalog.database(asked.catalog, asked.database)
    rows: list[tuple[str, str | None]] = [
        ("catalog", database.catalog),
        ("database", database.name),
        ("comment", database.comment),
    ]
    if asked.extended:
        shown = redact(database.option_map)
        rows += [(f"option:{key}", value) for key, value in shown.items()]
    return Listing(columns=INFO, rows=tuple(rows))


def _describe_function(asked: DescribeFunction, context: SessionContext) -> Listing:
    identifier = asked.identifier
    own = context.namespace.functions.visible(identifier.catalog, identifier.database)
    function = own.get(identifier.name)
    if function is None and identifier.name in built_in_functions():
        return Listing(
            columns=INFO, rows=(("is system function", "true"), ("is temporary", "false"))
        )
    if function is None:
        function = context.namespace.functions.find(identifier)  # raises, with the nearest name
    return Listing(columns=INFO, rows=tuple(_function_rows(function, extended=asked.extended)))


def _function_rows(function: Function, *, extended: bool) -> list[tuple[str, str | None]]:
    rows: list[tuple[str, str | None]] = [
        ("is system function", str(function.system).lower()),
        ("is temporary", str(function.temporary or function.system).lower()),
        ("class name", function.code),
        ("function language", function.language.value),
        ("resource uris", ", ".join(function.jars) or None),
    ]
    if extended:
        rows.append(("called as", f"{function.name}(...)"))
    return rows
