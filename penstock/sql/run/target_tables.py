"""Tables that a file defines otherwise for another target of the same catalog: only one of the two would be used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.catalog.errors import DefinitionError, InputErrors
from penstock.catalog.identifier import Identifier
from penstock.sql.drift import definition_drift
from penstock.sql.run.script_check import CheckedScript
from penstock.sql.statements import CreateTable, CreateTableAs

__all__ = ["refuse_shared"]


def refuse_shared(
    ours: Sequence[CheckedScript], theirs: Sequence[CheckedScript], *, target: str
) -> None:
    """Compare the tables of files with those of the same files for `target`. Raises InputErrors."""
    others = {create.table.identifier: create.table for create in _tables(theirs)}
    errors: list[DefinitionError] = []
    for create in _tables(ours):
        other = others.get(create.table.identifier)
        drift = None if other is None else definition_drift(other, create.table)
        if drift is not None and drift.parts:
            errors.append(_shared(create, str(drift), target))
    if errors:
        raise InputErrors(errors)


def _tables(scripts: Sequence[CheckedScript]) -> Iterator[CreateTable]:
    """Give the tables that stay, each as it is first made."""
    seen: set[Identifier] = set()
    for script in scripts:
        for one in script.statements:
            made = (
                one.statement.create if isinstance(one.statement, CreateTableAs) else one.statement
            )
            if not isinstance(made, CreateTable) or made.table.temporary:
                continue
            if made.table.identifier not in seen:
                seen.add(made.table.identifier)
                yield made


def _shared(create: CreateTable, drift: str, target: str) -> DefinitionError:
    name = create.table.identifier.name
    return DefinitionError(
        f"{name} is another table for the target {target!r}, which has the same catalog; here it has: {drift}",
        hint=f"give the targets catalogs of their own: [targets.{target}] catalog.url = '...' (without any url "
        "each target has one), or make the table TEMPORARY",
        span=create.span,
    )
