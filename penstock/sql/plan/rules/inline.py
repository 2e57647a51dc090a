"""Inline the queries of WITH and the views that a query reads; find the tables that remain, and classify the query.

Stateful queries, those that wait for event time, plain projections, whose rows need no count; the users' functions
that a query calls, in its views too. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.model.function import Function
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import Table, View
from penstock.connector.options.legacy import translate_legacy_options
from penstock.sql.binding.binder import forget_types, view_body
from penstock.sql.dialect import table_options
from penstock.sql.dialect.flink.trees import named_tables
from penstock.sql.dialect.functions.table import FUNCTIONS
from penstock.sql.syntax.nodes import SCAN_PARTS, ScanTable
from penstock.sql.syntax.traversal import copy_tree, find_nodes


def inline_ctes(query: exp.Expr) -> exp.Expr:
    """Return `query` without WITH; a query that is named twice is copied twice. The tree is changed."""
    with_ = query.args.get("with_")
    if with_ is not None:
        query.set("with_", None)
        known: dict[str, exp.CTE] = {}
        for cte in with_.expressions:
            _fill(cte.this, known)
            inline_ctes(cte.this)
            known[cte.alias] = cte
        _fill(query, known)
    for inner in [node for node in find_nodes(query, exp.Query) if node.args.get("with_")]:
        inline_ctes(inner)
    return query


def _fill(query: exp.Expr, known: dict[str, exp.CTE]) -> None:
    # a WITH further in may give a name another meaning; Flink resolves the nearest
    for table in find_nodes(query, exp.Table):
        cte = known.get(table.name)
        if cte is None or table.db or not isinstance(table.this, exp.Identifier):
            continue
        if _is_hidden(table, query):
            continue
        columns = table.args["alias"].columns if table.args.get("alias") else []
        alias = exp.TableAlias(
            this=exp.to_identifier(table.alias or table.name, quoted=True),
            columns=[c.copy() for c in columns or cte.args["alias"].columns],
        )
        table.replace(
            exp.Subquery(
                this=cte.this.copy(),
                alias=alias,
                joins=table.args.get("joins"),
                version=table.args.get("version"),
            )
        )


def _is_hidden(table: exp.Table, query: exp.Expr) -> bool:
    above: exp.Expr | None = table.parent
    while above is not None and above is not query:
        with_ = above.args.get("with_")
        if with_ is not None and any(cte.alias == table.name for cte in with_.expressions):
            return True
        above = above.parent
    return False


@dataclass(slots=True, kw_only=True)
class TableReference:
    """A table that a query reads, with the options of its hints. `nodes` are all its places in the query."""

    table: Table
    nodes: list[exp.Table] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relations:
    """A query without views, and its tables in order of their first mention.

    The order is kept over restarts, as a checkpoint knows sources by their position only.
    """

    query: exp.Expr
    leaves: tuple[TableReference, ...]


def find_relations(query: exp.Expr, namespace: Namespace) -> Relations:
    """Inline the views of `query` and find its tables. Raises UnknownObjectError."""
    expanded = _expand(copy_tree(query), namespace)
    leaves: dict[tuple[Identifier, tuple[tuple[str, str], ...]], TableReference] = {}
    for node in named_tables(expanded):
        table = namespace.lookup(namespace.resolve(_parts(node)))
        assert isinstance(table, Table), "views are written out before"
        hints = tuple(sorted(translate_legacy_options(table_options(node)).options.items()))
        if hints:
            table = replace(table, options=tuple({**table.option_map, **dict(hints)}.items()))
        leaves.setdefault((table.identifier, hints), TableReference(table=table)).nodes.append(node)
    return Relations(query=expanded, leaves=tuple(leaves.values()))


def number_scans(relations: Relations) -> None:
    """Give the tables of a query their numbers, in place: those of the leaves."""
    for index, leaf in enumerate(relations.leaves):
        leaf.nodes[:] = [ScanTable.put(node, index) for node in leaf.nodes]


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


# --- kinds of queries ---


def is_stateful(query: exp.Expr) -> bool:
    """Return whether a query has an operator that waits for the watermark: aggregation, DISTINCT or a join."""
    return query.find(exp.Group, exp.AggFunc, exp.Distinct, exp.Join) is not None


def waits_for_time(query: exp.Expr) -> bool:
    """Return whether an operator of a query depends on event time: as is_stateful, but for joins
    that only unfold a row.
    """
    if query.find(exp.Group, exp.AggFunc, exp.Distinct) is not None:
        return True
    return any(isinstance(j.this, exp.Table | exp.Subquery) for j in query.find_all(exp.Join))


# every part of a SELECT that leaves the number of rows as it is; what is not named here counts as changing it
_HARMLESS = {"expressions", "from_", "kind", "hint"}

# every part of a table in FROM that only names it or says how it is read
_NAMING = {"this", "db", "catalog", "alias", "hints", *SCAN_PARTS}

# what gives several rows for one, or one for several
_GENERATORS = (exp.UDTF, exp.Explode, exp.Inline, exp.AggFunc, exp.Window, exp.Query)


def is_plain_projection(query: exp.Expr, *, filtered: bool = False, unnested: bool = False) -> bool:
    """Return whether a query without views gives exactly one row for each row of the one table that it reads.

    `filtered`: for each row for which its conditions hold; `unnested`: for each element of an array of it.
    """
    if not isinstance(query, exp.Select):
        return False
    parts = {name for name, value in query.args.items() if value}
    harmless = _HARMLESS | ({"where"} if filtered else set()) | ({"joins"} if unnested else set())
    if not parts <= harmless or "from_" not in parts:
        return False
    if not all(isinstance(join.this, exp.Unnest) for join in query.args.get("joins") or ()):
        return False
    if not all(_is_scalar(projection) for projection in query.expressions):
        return False
    source = query.args["from_"].this
    if isinstance(source, exp.Subquery):
        return is_plain_projection(source.this, filtered=filtered, unnested=unnested)
    if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier):
        return False
    return {name for name, value in source.args.items() if value} <= _NAMING


def _is_scalar(projection: exp.Expr) -> bool:
    if projection.find(*_GENERATORS) is not None:
        return False
    # a function of the user's may give several rows
    functions = (FUNCTIONS.get(call.name.upper()) for call in projection.find_all(exp.Anonymous))
    return all(function is not None and not function.aggregate for function in functions)


def called_functions(
    query: exp.Expr, namespace: Namespace
) -> list[tuple[Function, Sequence[exp.Anonymous]]]:
    """The users' functions that a query calls, sorted by name, each with its calls."""
    known = namespace.functions.visible(namespace.current_catalog, namespace.current_database)
    if not known:
        return []
    calls: dict[str, list[exp.Anonymous]] = {}
    for call in find_nodes(find_relations(query, namespace).query, exp.Anonymous):
        calls.setdefault(call.name.lower(), []).append(call)
    return [(known[name], calls[name]) for name in sorted(calls.keys() & known.keys())]
