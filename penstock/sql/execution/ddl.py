"""Runs the statements that need no Spark: definitions into the catalog, settings, SHOW and DESCRIBE as small tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.catalog.definitions.ddl_rules import find_catalog
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import OptionError, UnsupportedError
from penstock.catalog.model.table import Column, ComputedColumn, MetadataColumn, Schema, Table, View
from penstock.sql.binding.binder import columns_of_object
from penstock.sql.ddl.apply_ddl import apply_ddl
from penstock.sql.ddl.show_create import show_create, show_create_catalog
from penstock.sql.dialect.flink.trees import to_text
from penstock.sql.settings import TARGET
from penstock.sql.statements.definitions import ShowCreateCatalog
from penstock.sql.statements.statement import (
    Definition,
    Describe,
    ResetOption,
    SetOption,
    ShowCreate,
    ShowOptions,
    ShowTables,
    Statement,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A small table of text: the answer of SHOW and DESCRIBE."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


def define(statement: Statement, namespace: Namespace) -> None:
    """Run a definition. Raises UnknownObjectError, ObjectExistsError."""
    if not isinstance(statement, Definition):
        raise UnsupportedError(f"{type(statement).__name__} is not a definition")
    apply_ddl(statement, namespace)


def set_option(statement: SetOption | ResetOption, settings: dict[str, str]) -> None:
    """Run SET and RESET. Raises OptionError for keys that the project sets."""
    match statement:
        case SetOption(key=TARGET.key) | ResetOption(key=TARGET.key):
            raise OptionError(
                f"'{TARGET.key}' is given by penstock.toml",
                hint="choose a target with --target",
                span=statement.span,
            )
        case SetOption():
            settings[statement.key] = statement.value
        case ResetOption(key=None):
            target = {key: value for key, value in settings.items() if key == TARGET.key}
            settings.clear()
            settings.update(target)
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
        case ShowCreateCatalog(name=name):
            found = find_catalog(name, namespace.catalog)
            return Listing(columns=("result",), rows=((show_create_catalog(found),),))
        case ShowOptions():
            return Listing(columns=("key", "value"), rows=tuple(sorted(settings.items())))
        case Describe():
            return describe(namespace.lookup(statement.identifier), namespace)
    raise UnsupportedError(f"{type(statement).__name__} has no answer to show")


def describe(found: Table | View, namespace: Namespace) -> Listing:
    """Describe a table or view as Flink does: name, type, null, key, extras, watermark, comment."""
    columns = ("name", "type", "null", "key", "extras", "watermark", "comment")
    if isinstance(found, View):
        return Listing(columns=columns, rows=tuple(_described_view(found, namespace)))
    return Listing(
        columns=columns,
        rows=tuple(_describe(column, found.schema) for column in found.schema.columns),
    )


def _described_view(view: View, namespace: Namespace) -> Iterator[tuple[str | None, ...]]:
    """Return the columns of a view with the types that its query has; an unknown one is left empty."""
    known = columns_of_object(view, namespace) or dict.fromkeys(view.columns)
    comments = view.column_comments or (None,) * len(known)
    for (name, kind), comment in zip(known.items(), comments, strict=True):
        yield name, None if kind is None else to_text(kind), "TRUE", None, None, None, comment


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
    elif _is_proctime(column):
        kind, nullable = f"{kind or ''} *PROCTIME*".strip(), False
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


def _is_proctime(column: Column) -> bool:
    """Return whether a column is the time at which a row is processed."""
    return isinstance(column, ComputedColumn) and column.expression.upper() == "PROCTIME()"


def _names(asked: ShowTables, namespace: Namespace) -> Listing:
    found = set(namespace.views(asked.database, asked.catalog))
    if not asked.views_only:
        found |= set(namespace.tables(asked.database, asked.catalog))
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
