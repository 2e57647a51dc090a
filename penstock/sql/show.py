"""Writes tables and views back as the statements that define them: SHOW CREATE.

The text parses back to the same value (unless a secret was hidden in it).
"""

from __future__ import annotations

from penstock.catalog.identifier import Identifier
from penstock.catalog.options import redact
from penstock.catalog.schema import Column, ComputedColumn, MetadataColumn, Schema
from penstock.catalog.table import Table, View

__all__ = ["show_create"]


def show_create(value: Table | View, *, redacted: bool = True) -> str:
    """CREATE TABLE or CREATE VIEW of a value; values of secret options are '******' if `redacted`."""
    return _table(value, redacted=redacted) if isinstance(value, Table) else _view(value)


def _table(table: Table, *, redacted: bool) -> str:
    lines = [f"  {line}" for line in _elements(table.schema)]
    text = f"CREATE {_temporary(table)}TABLE {_name(table.identifier)} (\n{_join(lines)}\n)"
    if table.comment is not None:
        text += f"\nCOMMENT {_string(table.comment)}"
    if table.partition_keys:
        text += f"\nPARTITIONED BY ({', '.join(_quote(key) for key in table.partition_keys)})"
    options = redact(table.option_map) if redacted else table.option_map
    if options:
        pairs = [f"  {_string(key)} = {_string(value)}" for key, value in options.items()]
        text += f"\nWITH (\n{_join(pairs)}\n)"
    return text


def _view(view: View) -> str:
    text = f"CREATE {_temporary(view)}VIEW {_name(view.identifier)}"
    if view.columns:
        text += f" ({', '.join(_quote(column) for column in view.columns)})"
    if view.comment is not None:
        text += f"\nCOMMENT {_string(view.comment)}"
    return f"{text}\nAS {view.query}"


def _elements(schema: Schema) -> list[str]:
    elements = [_column(column) for column in schema.columns]
    if schema.watermark is not None:
        column, expression = _quote(schema.watermark.column), schema.watermark.expression
        elements.append(f"WATERMARK FOR {column} AS {expression}")
    if (key := schema.primary_key) is not None:
        name = f"CONSTRAINT {_quote(key.name)} " if key.name is not None else ""
        columns = ", ".join(_quote(column) for column in key.columns)
        elements.append(f"{name}PRIMARY KEY ({columns}) NOT ENFORCED")
    return elements


def _column(column: Column) -> str:
    text = _quote(column.name)
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
        _quote(part) for part in (identifier.catalog, identifier.database, identifier.name)
    )


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _join(lines: list[str]) -> str:
    return ",\n".join(lines)
