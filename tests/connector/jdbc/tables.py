"""jdbc tables that tests make by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.catalog.model.table import PrimaryKey, Schema, Table
from penstock.connector.contract import Sink
from penstock.connector.jdbc.connector import JdbcConnector
from tests.catalog.examples import columns, identifier

COLUMNS = {"id": "BIGINT NOT NULL", "name": "STRING"}
URL = "jdbc:postgresql://db.example:5432/shop"


def jdbc_table(
    options: Mapping[str, str | None] | None = None,
    *,
    types: Mapping[str, str] = COLUMNS,
    key: tuple[str, ...] = (),
) -> Table:
    """A table `orders`, changed by `options` (None takes one away)."""
    plain = {"connector": "jdbc", "url": URL, "table-name": "orders", **(options or {})}
    return Table(
        identifier=identifier("orders"),
        schema=Schema(
            columns=columns(**types), primary_key=PrimaryKey(columns=key) if key else None
        ),
        options=tuple((name, value) for name, value in plain.items() if value is not None),
    )


def sink_of(table: Table) -> Sink:
    """Its sink, checked as CREATE TABLE and INSERT do."""
    connector = JdbcConnector(project=Path("/project"))
    connector.check(table)
    return connector.sink(table)
