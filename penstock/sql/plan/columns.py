"""Which columns of a table a query needs, so that nothing else is decoded."""

from __future__ import annotations

from sqlglot import exp

from penstock.catalog.schema import ComputedColumn, Schema
from penstock.sql.expressions import columns_of
from penstock.sql.walking import all_nodes

__all__ = ["delivered_columns", "mentioned_names"]


def mentioned_names(query: exp.Expr) -> frozenset[str] | None:
    """Give every name that `query` mentions and that may be a column; None when a star asks for all.

    So does NATURAL JOIN, by names that it does not write.
    COUNT(*) asks for none. Names are taken from the whole query, so the answer may be too large, never too small.
    """
    nodes = all_nodes(query)
    for node in nodes:
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            return None
        if isinstance(node, exp.Join) and node.method == "NATURAL":
            return None
    return frozenset(node.name for node in nodes if isinstance(node, exp.Identifier))


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
