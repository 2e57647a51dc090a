"""Lets the connector of a table check its definition, when a statement makes or changes one."""

from __future__ import annotations

from pathlib import Path

from penstock.catalog.errors import InputError
from penstock.catalog.secret_sealing import check_written_references
from penstock.connector.registry import connector_of
from penstock.sql.catalog_changes import defined_table
from penstock.sql.statements import Statement

__all__ = ["check_connector"]


def check_connector(statement: Statement, project: Path) -> None:
    """Check the table that a statement defines, if it does. Raises InputError at the option that is wrong."""
    found = defined_table(statement)
    if found is None:
        return
    table, made = found
    try:
        check_written_references(table)
        connector_of(table, project=project).check(table)
    except InputError as error:
        raise made.place(error) from error
