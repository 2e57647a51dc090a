"""What a query reads: views written out in place, and every table of the catalog found as a leaf."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.catalog.identifier import Identifier
from penstock.catalog.names import Namespace
from penstock.catalog.table import Table, View
from penstock.connector.older_options import translated
from penstock.sql.bind import forget_types, view_body
from penstock.sql.dialect import table_options
from penstock.sql.dialect.access import named_tables
from penstock.sql.dialect.copying import copy_tree

__all__ = ["Leaf", "Relations", "find_relations"]


@dataclass(slots=True, kw_only=True)
class Leaf:
    """A table that a query reads, with the options of its hints. `nodes` are all its places in the query."""

    table: Table
    nodes: list[exp.Table] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relations:
    """A query without views, and its tables in order of their first mention.

    The order is kept over restarts, as a checkpoint knows sources by their position only.
    """

    query: exp.Expr
    leaves: tuple[Leaf, ...]


def find_relations(query: exp.Expr, namespace: Namespace) -> Relations:
    """Write out the views of `query` and find its tables. Raises UnknownObjectError."""
    expanded = _expand(copy_tree(query), namespace)
    leaves: dict[tuple[Identifier, tuple[tuple[str, str], ...]], Leaf] = {}
    for node in named_tables(expanded):
        table = namespace.lookup(namespace.resolve(_parts(node)))
        assert isinstance(table, Table), "views are written out before"
        hints = tuple(sorted(translated(table_options(node)).options.items()))
        if hints:
            table = replace(table, options=tuple({**table.option_map, **dict(hints)}.items()))
        leaves.setdefault((table.identifier, hints), Leaf(table=table)).nodes.append(node)
    return Relations(query=expanded, leaves=tuple(leaves.values()))


def _expand(query: exp.Expr, namespace: Namespace) -> exp.Expr:
    typed = True
    for node in named_tables(query):
        found = namespace.lookup(namespace.resolve(_parts(node)))
        if not isinstance(found, View):
            continue
        body, known = view_body(found, namespace)
        typed &= known
        _expand(body, namespace)
        columns = [exp.to_identifier(name, quoted=True) for name in found.columns]
        alias = exp.TableAlias(
            this=exp.to_identifier(node.alias or node.name, quoted=True), columns=columns
        )
        version = node.args.get("version")
        node.replace(exp.Subquery(this=body, alias=alias, version=version))
    if not typed:
        forget_types(query)
    return query


def _parts(node: exp.Table) -> tuple[str, ...]:
    return tuple(part.name for part in node.parts)
