"""The tables that a case names, found in what its files define; and those that its files read and write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import ConfigError, InputError, Span
from penstock.catalog.model.identifier import Identifier, parse_identifier
from penstock.catalog.model.table import Table
from penstock.sql.check.script_check import CheckedScript, CheckedStatement
from penstock.sql.execution.ddl import define, is_definition
from penstock.sql.plan.analysed import AnalysedInsert
from penstock.sql.statements.dml import DeleteRows, TruncateTable, UpdateRows
from penstock.sql.testing.cases import Case
from penstock.sql.testing.substitutes import all_tables, local_store_of

__all__ = ["NamedTables", "name_tables"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTables:
    """Tables by the names that a case uses. `written` are the names of those that its files write into.

    `read` are those that queries read; `shared` those that are stored here and are read, replaced or given rows.
    """

    tables: Mapping[str, Table] = field(default_factory=dict)
    written: tuple[str, ...] = ()
    all: tuple[Table, ...] = ()
    shared: frozenset[Identifier] = frozenset()
    read: frozenset[Identifier] = frozenset()


def name_tables(
    case: Case, scripts: Sequence[CheckedScript], namespace: Namespace, *, lenient: bool
) -> NamedTables:
    """Look up what a case names, in the definitions of its files.

    `lenient`: a case that expects nothing yields every table that is written. Raises ConfigError for an unknown name,
    and for a table without a broker between its writer and its reader.
    """
    checked = [one for script in scripts for one in script.statements]
    final = namespace.overlay()
    for one in checked:
        if is_definition(one.statement):
            define(one.statement, final)
    found = {name: _find(name, span, final) for name, span in _names(case)}
    given = {found[name].identifier for name, _ in _given(case)}
    inserts = [insert for one in checked for insert in _inserts(one)]
    written = {insert.target.identifier for insert in inserts}
    _check_chains(case, inserts, given, written)
    names = _short_names(sorted(written), final)
    if lenient and case.then is None:
        found |= {name: _find(name, case.span, final) for name in names}
    tables = [table for table in all_tables(final) if isinstance(table, Table)]
    read = {leaf.table.identifier for insert in inserts for leaf in insert.query.leaves}
    looked_at = _changed(inserts, checked, tables) | read | given
    return NamedTables(
        tables=found,
        written=names,
        all=tuple(tables),
        read=frozenset(read | given),
        shared=frozenset(
            t.identifier
            for t in tables
            if t.identifier in looked_at and local_store_of(t) is not None
        ),
    )


def _changed(
    inserts: Sequence[AnalysedInsert],
    checked: Sequence[CheckedStatement],
    tables: Sequence[Table],
) -> set[Identifier]:
    """Find the tables whose rows statements replace or change."""
    if any(isinstance(o.statement, UpdateRows | DeleteRows | TruncateTable) for o in checked):
        return {table.identifier for table in tables}
    return {insert.target.identifier for insert in inserts if insert.editor is not None}


def _names(case: Case) -> Iterator[tuple[str, Span]]:
    yield from _given(case)
    if case.then is not None:
        yield from ((table.name, table.span) for table in case.then.tables)


def _given(case: Case) -> Iterator[tuple[str, Span]]:
    for step in case.steps:
        yield from ((table.name, table.span) for table in step)


def _find(name: str, span: Span, namespace: Namespace) -> Table:
    try:
        table = namespace.lookup(namespace.resolve(parse_identifier(name)))
    except InputError as error:
        raise ConfigError(error.message, hint=error.hint, span=span) from error
    if not isinstance(table, Table):
        raise ConfigError(f"{name} is a view", hint="name the tables that it reads", span=span)
    return table


def _inserts(checked: CheckedStatement) -> Sequence[AnalysedInsert]:
    one = () if checked.analysed is None else (checked.analysed,)
    return (*one, *checked.members)


def _check_chains(
    case: Case,
    inserts: Sequence[AnalysedInsert],
    given: set[Identifier],
    written: set[Identifier],
) -> None:
    """Refuse a topic between two statements for which the case gives no rows. Raises ConfigError."""
    for insert in inserts:
        for leaf in insert.query.leaves:
            table = leaf.table
            between = table.identifier in written and local_store_of(table) is None
            if between and table.identifier not in given:
                raise ConfigError(
                    f"table {table.identifier.name} is written by one statement and read by another, and a test has "
                    "nothing between them",
                    hint=f"give rows of {table.identifier.name}, as they would be written",
                    span=case.span,
                )


def _short_names(identifiers: Sequence[Identifier], namespace: Namespace) -> tuple[str, ...]:
    """Name tables as a statement of the current database would."""
    here = (namespace.current_catalog, namespace.current_database)
    return tuple(
        i.name if (i.catalog, i.database) == here and i.name.isidentifier() else str(i)
        for i in identifiers
    )
