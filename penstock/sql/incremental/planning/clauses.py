"""The clauses of a SELECT as planning reads them: relations in FROM, names of columns, unsupported clauses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.sql.expressions.nondeterministic import find_nondeterministic
from penstock.sql.incremental.planning.relation import Relation, unique_name
from penstock.sql.incremental.planning.versions import VersionedRelation
from penstock.sql.plan.rules import changelog_project
from penstock.sql.plan.rules.flow import Flow
from penstock.sql.syntax.positions import attach, source_of, span_of

__all__ = [
    "NamedRelation",
    "alias_names",
    "all_of",
    "check_clauses",
    "expand",
    "is_only_of",
    "is_table",
    "name_all",
    "needed_names",
    "own_names",
    "refuse_nondeterministic",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRelation:
    """A relation in FROM: its name there, and those of its columns; `node` is its place.

    `versions` is its versioned form under FOR SYSTEM_TIME AS OF a rowtime; the column names in it are those of `rows`.
    """

    node: exp.Expr
    alias: str
    shown: tuple[str, ...]
    rows: Relation
    versions: VersionedRelation | None = None


def all_of(node: exp.Expr) -> exp.Select:
    """Return a query for all columns of a relation in FROM, with the place of the relation."""
    bare = node.copy()
    for part in ("joins", "laterals"):
        bare.set(part, None)
    return attach(exp.select("*").from_(bare, copy=False), source_of(node))


def is_table(node: exp.Expr) -> bool:
    """Return whether an item of FROM is a table or a query, rather than a function that unfolds each row."""
    return isinstance(node, exp.Table | exp.Subquery)


def is_only_of(test: exp.Expr, alias: str) -> bool:
    """Return whether a condition names columns of one relation, by its name."""
    columns = list(test.find_all(exp.Column))
    return bool(columns) and all(c.parts[0].name == alias and c.table for c in columns)


def alias_names(node: exp.Expr) -> list[str]:
    """Name the columns of an UNNEST, or of LATERAL. Raises UnsupportedError where they have no names."""
    alias = node.args.get("alias")
    if alias is None or not alias.columns:
        lateral = isinstance(node, exp.Lateral)
        example = "LATERAL TABLE(f(a.text))" if lateral else "CROSS JOIN UNNEST(a.items)"
        raise UnsupportedError(
            f"the columns that {'LATERAL' if lateral else 'UNNEST'} gives have no names here",
            hint=f"name them: {example} AS t (item)",
            span=span_of(node),
        )
    return [c.name for c in alias.columns]


def check_clauses(select: exp.Select) -> None:
    """Raise UnsupportedError for clauses that no stage has."""
    for name in ("order", "limit", "fetch", "offset", "qualify"):
        node = select.args.get(name)
        if node is not None:
            words = {"order": "ORDER BY", "fetch": "FETCH"}.get(name, name.upper())
            raise UnsupportedError(
                f"{words} of a stream is not supported",
                hint="number the rows: ROW_NUMBER() OVER (ORDER BY ...) AS n in a query in FROM, and WHERE n <= 10 in "
                "the query around it",
                span=span_of(node) or span_of(select),
            )


def refuse_nondeterministic(select: exp.Select) -> None:
    """Raise UnsupportedError for functions whose values cannot be retracted. PROCTIME() as an order is no value."""
    own = (
        call
        for call in find_nondeterministic(select)
        if call.find_ancestor(exp.Select) is select
        and not isinstance(call.find_ancestor(exp.Ordered, exp.Window), exp.Ordered)
    )
    varying = next(own, None)
    if varying is not None:
        raise UnsupportedError(
            "a function that gives another value each time is not supported over rows that are kept: what it gave "
            "could not be taken back, or given again",
            hint="call it in the query that reads the table, where it is computed once for each row",
            span=span_of(varying) or span_of(select),
        )


def expand(select: exp.Select, named: Sequence[NamedRelation], joins: Sequence[exp.Expr]) -> None:
    """Expand the stars of a SELECT."""
    stars = any(isinstance(i, exp.Star) for i in select.expressions)
    if stars and any(isinstance(j, exp.Join) and j.args.get("using") for j in joins):
        raise UnsupportedError(
            "* over a join with USING is not supported here",
            hint="name the columns",
            span=span_of(select),
        )
    relations = [
        changelog_project.QualifiedRelation(alias=n.alias, flow=Flow(columns=n.shown))
        for n in named
    ]
    for join_ in joins:
        inner = join_.this if isinstance(join_, exp.Join) else join_
        if not is_table(inner):
            flow = Flow(columns=tuple(alias_names(inner)))
            relations.append(
                changelog_project.QualifiedRelation(alias=inner.alias_or_name, flow=flow)
            )
    changelog_project.expand_stars(select, relations)


def needed_names(select: exp.Select) -> frozenset[str] | None:
    """Return the names that a SELECT may need of its relations; None where a star needs all."""
    if any(item.find(exp.Star) and not item.find(exp.Count) for item in select.expressions):
        return None
    bare = select.copy()
    for node in list(bare.find_all(exp.Subquery)):
        if isinstance(node.parent, exp.From | exp.Join) and node.find_ancestor(exp.Select) is bare:
            node.set("this", exp.select(exp.Literal.number(1)))
    return frozenset(node.name for node in bare.find_all(exp.Identifier))


def name_all(query: exp.Expr, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Name every column of a query uniquely, in place; `columns` where a star prevents that."""
    first = query
    while not isinstance(first, exp.Select):
        first = first.this
    if any(item.find(exp.Star) and not item.find(exp.AggFunc) for item in first.expressions):
        return columns
    names = own_names(first)
    items = zip(first.expressions, names, strict=True)
    first.set("expressions", [exp.alias_(i.unalias(), name, quoted=True) for i, name in items])
    return names


def own_names(select: exp.Select) -> tuple[str, ...]:
    """Name the columns of a SELECT uniquely; unnamed ones get a reserved name."""
    names: list[str] = []
    for index, item in enumerate(select.expressions):
        named = isinstance(item, exp.Alias | exp.Column | exp.Dot)
        wanted = item.alias_or_name if named and item.alias_or_name else f"__column{index}"
        names.append(unique_name(wanted, names))
    return tuple(names)
