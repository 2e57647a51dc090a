"""Writes what a catalog holds back as the statements that define it: SHOW CREATE.

The text parses back to the same value (unless a secret was hidden in it).
"""

from __future__ import annotations

from penstock.catalog.model.function import Function
from penstock.catalog.model.identifier import Identifier, quoted
from penstock.catalog.model.namespaces import CatalogDescriptor, DatabaseDescriptor
from penstock.catalog.model.table import (
    Column,
    ComputedColumn,
    Materialization,
    MetadataColumn,
    Schema,
    Table,
    View,
)
from penstock.catalog.options.redaction import redact


def show_create(value: Table | View, *, redacted: bool = True) -> str:
    """CREATE TABLE or CREATE VIEW of a value; values of secret options are '******' if `redacted`."""
    return _table(value, redacted=redacted) if isinstance(value, Table) else _view(value)


def _table(table: Table, *, redacted: bool) -> str:
    filled = table.materialization
    # the columns of a materialized table are its query's
    elements = _elements(table.schema) if filled is None else _key(table.schema)
    kind = "TABLE" if filled is None else "MATERIALIZED TABLE"
    text = f"CREATE {_temporary(table)}{kind} {_name(table.identifier)}"
    if elements:
        text += f" (\n{_join([f'  {line}' for line in elements])}\n)"
    if table.comment is not None:
        text += f"\nCOMMENT {_string(table.comment)}"
    if table.distribution is not None:
        text += f"\nDISTRIBUTED {table.distribution}"
    if table.partition_keys:
        text += f"\nPARTITIONED BY ({', '.join(quoted(key) for key in table.partition_keys)})"
    text += _with(table.option_map, redacted=redacted)
    return text if filled is None else text + _filling(filled)


def _filling(filled: Materialization) -> str:
    text = ""
    if filled.freshness_ms is not None:
        seconds = f"{filled.freshness_ms // 1000}.{filled.freshness_ms % 1000:03}"
        text += f"\nFRESHNESS = INTERVAL '{seconds.rstrip('0').rstrip('.')}' SECOND"
    if filled.mode is not None:
        text += f"\nREFRESH_MODE = {filled.mode}"
    return f"{text}\nAS {filled.query}"


def show_create_catalog(catalog: CatalogDescriptor, *, redacted: bool = True) -> str:
    """CREATE CATALOG of a value; values of secret options are '******' if `redacted`."""
    text = f"CREATE CATALOG {quoted(catalog.name)}"
    if catalog.comment is not None:
        text += f"\nCOMMENT {_string(catalog.comment)}"
    return text + _with(catalog.option_map, redacted=redacted)


def show_create_database(database: DatabaseDescriptor, *, redacted: bool = True) -> str:
    """CREATE DATABASE of a value; values of secret options are '******' if `redacted`."""
    text = f"CREATE DATABASE {quoted(database.catalog)}.{quoted(database.name)}"
    if database.comment is not None:
        text += f"\nCOMMENT {_string(database.comment)}"
    return text + _with(database.option_map, redacted=redacted)


def show_create_function(function: Function) -> str:
    """CREATE FUNCTION of a value that is stored."""
    text = f"CREATE FUNCTION {_name(function.identifier)}\nAS {_string(function.code)}"
    text += f" LANGUAGE {function.language.value}"
    jars = [f"JAR {_string(jar)}" for jar in function.jars]
    return f"{text}\nUSING {', '.join(jars)}" if jars else text


def _with(options: dict[str, str], *, redacted: bool) -> str:
    shown = redact(options) if redacted else options
    pairs = [f"  {_string(key)} = {_string(value)}" for key, value in shown.items()]
    return f"\nWITH (\n{_join(pairs)}\n)" if pairs else ""


def _view(view: View) -> str:
    text = f"CREATE {_temporary(view)}VIEW {_name(view.identifier)}"
    if view.columns:
        comments = view.column_comments or (None,) * len(view.columns)
        named = (
            quoted(c) if n is None else f"{quoted(c)} COMMENT {_string(n)}"
            for c, n in zip(view.columns, comments, strict=True)
        )
        text += f" ({', '.join(named)})"
    if view.comment is not None:
        text += f"\nCOMMENT {_string(view.comment)}"
    return f"{text}\nAS {view.query}"


def _elements(schema: Schema) -> list[str]:
    elements = [_column(column) for column in schema.columns]
    if schema.watermark is not None:
        column, expression = quoted(schema.watermark.column), schema.watermark.expression
        elements.append(f"WATERMARK FOR {column} AS {expression}")
    return [*elements, *_key(schema)]


def _key(schema: Schema) -> list[str]:
    key = schema.primary_key
    if key is None:
        return []
    name = f"CONSTRAINT {quoted(key.name)} " if key.name is not None else ""
    columns = ", ".join(quoted(column) for column in key.columns)
    return [f"{name}PRIMARY KEY ({columns}) NOT ENFORCED"]


def _column(column: Column) -> str:
    text = quoted(column.name)
    match column:
        case ComputedColumn():
            text += f" AS {column.expression}"
        case MetadataColumn():
            text += f" {column.type} METADATA"
            text += f" FROM {_string(column.key)}" if column.key is not None else ""
            text += " VIRTUAL" if column.virtual else ""
        case _:
            text += f" {column.type}"
    return text + (f" COMMENT {_string(column.comment)}" if column.comment is not None else "")


def _temporary(value: Table | View) -> str:
    return "TEMPORARY " if value.temporary else ""


def _name(identifier: Identifier) -> str:
    return ".".join(
        quoted(part) for part in (identifier.catalog, identifier.database, identifier.name)
    )


def _string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _join(lines: list[str]) -> str:
    return ",\n".join(lines)
