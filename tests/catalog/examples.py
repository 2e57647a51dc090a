"""Tables that tests of the catalog and of connectors make by hand."""

from __future__ import annotations

from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import PhysicalColumn, Schema, Table, View
from penstock.catalog.model.type_parser import parse_type


def identifier(name: str) -> Identifier:
    """A name in the default database."""
    return Identifier(catalog="default_catalog", database="default_database", name=name)


def columns(**types: str) -> tuple[PhysicalColumn, ...]:
    """Physical columns, as in `columns(id="BIGINT NOT NULL")`."""
    return tuple(PhysicalColumn(name=name, type=parse_type(text)) for name, text in types.items())


def table(name: str = "orders", *, temporary: bool = False, **options: str) -> Table:
    """A table of one column; options are given with `_` for `.`."""
    return Table(
        identifier=identifier(name),
        schema=Schema(columns=columns(id="BIGINT")),
        options=tuple((key.replace("_", "."), value) for key, value in options.items()),
        temporary=temporary,
    )


def view(name: str = "totals", *, temporary: bool = False) -> View:
    """A view of that table."""
    return View(identifier=identifier(name), query="SELECT id FROM orders", temporary=temporary)
