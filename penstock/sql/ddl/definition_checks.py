"""Check a definition when it is made or changed: by its table's connector, and for passwords written into it."""

from __future__ import annotations

import logging
from pathlib import Path

from penstock.catalog.definitions.encryption import check_written_references
from penstock.catalog.errors import InputError, OptionError
from penstock.catalog.options.redaction import literal_secrets
from penstock.connector.registry import connector_of
from penstock.sql.ddl.apply_ddl import defined_table
from penstock.sql.statements.changes import ChangeMaterializedTable
from penstock.sql.statements.statement import AlterCatalog, CreateCatalog, Statement

__all__ = ["check_connector", "check_written_secrets"]


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


logger = logging.getLogger(__name__)

_INSTEAD = "keep it by `penstock secret set NAME` and write ${secret:NAME}; ${env:NAME} and ${file:/path} do as well"


def check_written_secrets(statement: Statement, *, strict: bool = False) -> None:
    """Warn of literal secrets in what a statement defines. `strict` raises OptionError at the first instead."""
    for error in _found(statement):
        if strict:
            raise error
        place = f"{error.span.file}:{error.span.line}: " if error.span is not None else ""
        logger.warning("%s%s; %s", place, error.message, error.hint)


def _found(statement: Statement) -> list[InputError]:
    if isinstance(statement, CreateCatalog | AlterCatalog):
        made = statement.after if isinstance(statement, AlterCatalog) else statement.catalog
        errors = [_literal(f"catalog {made.name}", key) for key in literal_secrets(made.option_map)]
        for error in errors:
            error.span = statement.span
        return errors
    found = None if isinstance(statement, ChangeMaterializedTable) else defined_table(statement)
    if found is None:
        return []
    table, statement = found
    owner = f"table {table.identifier}"
    return [statement.place(_literal(owner, key)) for key in literal_secrets(table.option_map)]


def _literal(owner: str, key: str) -> InputError:
    return OptionError(
        f"{owner}: option '{key}' holds a password or key itself, which whoever reads the file or the catalog has",
        hint=_INSTEAD,
    )
