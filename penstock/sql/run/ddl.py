"""Runs the statements that need no Spark: definitions into the catalog, settings, SHOW and DESCRIBE as small tables."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.names import Namespace
from penstock.catalog.schema import Column, ComputedColumn, MetadataColumn, Schema
from penstock.catalog.table import Table, View
from penstock.sql.show import show_create
from penstock.sql.statements import (
    CreateTable,
    CreateView,
    Describe,
    DropTable,
    DropView,
    ResetOption,
    SetOption,
    ShowCreate,
    ShowOptions,
    ShowTables,
    Statement,
    Use,
)

__all__ = ["Listing", "define", "is_definition", "listing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A small table of text: the answer of SHOW and DESCRIBE."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


Definition = CreateTable | CreateView | DropTable | DropView | Use
Question = ShowTables | ShowCreate | ShowOptions | Describe


def is_definition(statement: Statement) -> bool:
    """Tell whether a statement changes the catalog or the place in it."""
    return isinstance(statement, Definition)


def define(statement: Statement, namespace: Namespace) -> None:
    """Run a definition. Raises UnknownObjectError, ObjectExistsError."""
    match statement:
        case CreateTable():
            namespace.create(statement.table, if_not_exists=statement.if_not_exists)
        case CreateView():
            namespace.create(statement.view, if_not_exists=statement.if_not_exists)
        case DropTable():
            namespace.drop(
                statement.identifier,
                kind="table",
                if_exists=statement.if_exists,
                temporary=statement.temporary,
            )
        case DropView():
            namespace.drop(
                statement.identifier,
                kind="view",
                if_exists=statement.if_exists,
                temporary=statement.temporary,
            )
        case Use():
            namespace.use(statement.parts)
        case _:
            raise UnsupportedError(f"{type(statement).__name__} is not a definition")


def set_option(statement: SetOption | ResetOption, settings: dict[str, str]) -> None:
    """Run SET and RESET."""
    match statement:
        case SetOption():
            settings[statement.key] = statement.value
        case ResetOption(key=None):
            settings.clear()
        case ResetOption():
            settings.pop(statement.key or "", None)


def listing(statement: Statement, namespace: Namespace, settings: dict[str, str]) -> Listing:
    """Answer SHOW and DESCRIBE."""
    match statement:
        case ShowTables():
            return _names(statement, namespace)
        case ShowCreate():
            return Listing(
                columns=("result",), rows=((show_create(namespace.lookup(statement.identifier)),),)
            )
        case ShowOptions():
            return Listing(columns=("key", "value"), rows=tuple(sorted(settings.items())))
        case Describe():
            found = namespace.lookup(statement.identifier)
            return describe(found)
    raise UnsupportedError(f"{type(statement).__name__} has no answer to show")


def describe(found: Table | View) -> Listing:
    """Describe a table as Flink does: name, type, null, key, extras, watermark, comment."""
    if isinstance(found, View):
        return Listing(
            columns=("name",), rows=tuple((name,) for name in found.columns) or ((found.query,),)
        )
    columns = ("name", "type", "null", "key", "extras", "watermark", "comment")
    return Listing(
        columns=columns,
        rows=tuple(_describe(column, found.schema) for column in found.schema.columns),
    )


def _describe(column: Column, schema: Schema) -> tuple[str | None, ...]:
    key = schema.primary_key
    watermark = (
        schema.watermark if schema.watermark and schema.watermark.column == column.name else None
    )
    kind = str(column.type) if column.type is not None else None
    nullable = column.type.nullable if column.type is not None else True
    if kind is not None:
        kind = kind.removesuffix(" NOT NULL")
    if watermark is not None:
        kind = f"{kind or ''} *ROWTIME*".strip()
    extras = None
    match column:
        case ComputedColumn():
            extras = f"AS {column.expression}"
        case MetadataColumn():
            virtual = " VIRTUAL" if column.virtual else ""
            extras = f"METADATA{'' if column.key is None else f' FROM {column.key!r}'}{virtual}"
    return (
        column.name,
        kind,
        "TRUE" if nullable else "FALSE",
        f"PRI({', '.join(key.columns)})"
        if key is not None and column.name in key.columns
        else None,
        extras,
        watermark.expression if watermark is not None else None,
        column.comment,
    )


def _names(asked: ShowTables, namespace: Namespace) -> Listing:
    found = set(namespace.views(asked.database))
    if not asked.views_only:
        found |= set(namespace.tables(asked.database))
    names = sorted(identifier.name for identifier in found)
    if asked.pattern is not None:
        flags = re.IGNORECASE if asked.ignore_case else 0
        like = re.compile(_like(asked.pattern), flags | re.DOTALL)
        names = [name for name in names if bool(like.fullmatch(name)) != asked.negated]
    title = "view name" if asked.views_only else "table name"
    return Listing(columns=(title,), rows=tuple((name,) for name in names))


def _like(pattern: str) -> str:
    """Write a LIKE pattern as a regular expression: % is any text, _ any character."""
    return "".join({"%": ".*", "_": "."}.get(char, re.escape(char)) for char in pattern)
