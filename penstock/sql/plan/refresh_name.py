"""What the query that fills a materialized table is called: always the same, so that it goes on where it stopped."""

from __future__ import annotations

from penstock.catalog.contract import DEFAULT_DATABASE
from penstock.catalog.identifier import Identifier

__all__ = ["refresh_name"]


def refresh_name(table: Identifier) -> str:
    """Name the query by its table; tables of other databases are told apart."""
    here = table.database == DEFAULT_DATABASE
    return table.name if here else f"{table.database}.{table.name}"
