"""Which columns of a table a query needs, so that nothing else is decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from penstock.catalog.schema import ComputedColumn, Schema
from penstock.connector.changelog import ChangelogMode
from penstock.sql.expressions import columns_of
from penstock.sql.plan.flow import TableInput
from penstock.sql.plan.stars import is_unnamed, whole_leaves
from penstock.sql.walking import all_nodes

__all__ = ["delivered_columns", "narrowed_input", "wanted_columns", "with_key"]


def wanted_columns(
    query: exp.Expr, tables: Sequence[TableInput], unnamed: frozenset[str] = frozenset()
) -> tuple[frozenset[str] | None, ...]:
    """Give, for each of the tables of `query`, every name that may be a column of it that is read; None for all.

    `query` has no views, and its table nodes are labelled with their index in `tables`. `unnamed` are columns that are
    read though the query names them nowhere. Names are taken from the whole query, so the answer may be too large,
    never too small.
    """
    nodes = all_nodes(query)
    names = unnamed | {node.name for node in nodes if isinstance(node, exp.Identifier)}
    if not any(map(is_unnamed, nodes)):
        return tuple(names for _ in tables)
    whole = whole_leaves(query, nodes)
    return tuple(
        None if index in whole else _behind_stars(table, names)
        for index, table in enumerate(tables)
    )


def _behind_stars(table: TableInput, names: frozenset[str]) -> frozenset[str]:
    """Give the columns of a table that stars may stand for.

    With the key of its changes, which a star passes on; one at least, as a star cannot stand for nothing; and in any
    case of letters, as Spark resolves what it was not found out statically to be.
    """
    folded = {name.casefold() for name in names}
    found = frozenset(name for name in table.columns if name.casefold() in folded)
    if table.changes is not ChangelogMode.INSERT_ONLY:
        found |= set(table.key or ())
    return found or frozenset(table.columns[:1])


def with_key(table: TableInput, wanted: frozenset[str] | None) -> frozenset[str] | None:
    """Add the key of upserts, by which the row is found that one replaces."""
    if wanted is None or table.changes is not ChangelogMode.UPSERT:
        return wanted
    return wanted | set(table.key or ())


def narrowed_input(table: TableInput, wanted: frozenset[str] | None) -> TableInput:
    """Give a table with the columns that are read of it, which are those that stars over it stand for."""
    if wanted is None:
        return table
    return replace(table, columns=tuple(name for name in table.columns if name in wanted))


def delivered_columns(
    schema: Schema, wanted: frozenset[str] | None
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Split the wanted columns into those that the source delivers, in table order, and computed ones.

    The second maps a computed column to its Flink SQL text; what its expression reads is delivered too.
    """
    computed: dict[str, str] = {}
    names = {column.name for column in schema.columns} if wanted is None else set(wanted)
    pending = list(names)
    needed: set[str] = set()
    known = {column.name: column for column in schema.columns}
    while pending:
        column = known.get(pending.pop())
        if column is None or column.name in needed:
            continue
        needed.add(column.name)
        if isinstance(column, ComputedColumn):
            computed[column.name] = column.expression
            pending.extend(columns_of(column.expression))
    delivered = tuple(
        c.name for c in schema.columns if c.name in needed and not isinstance(c, ComputedColumn)
    )
    return delivered, computed
