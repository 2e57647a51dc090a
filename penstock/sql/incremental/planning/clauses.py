"""The clauses of a SELECT as planning reads them: relations in FROM, names of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.sql.incremental.planning.accepted import accepted
from penstock.sql.incremental.planning.relation import Relation
from penstock.sql.incremental.planning.versions import VersionedRelation
from penstock.sql.plan.clauses.select_clauses import read_alias_names, refuse_star_over_using
from penstock.sql.plan.logical.names import own_names
from penstock.sql.plan.rules import changelog_project
from penstock.sql.plan.rules.flow import Flow
from penstock.sql.syntax.positions import attach, source_of

__all__ = [
    "NamedRelation",
    "all_of",
    "expand",
    "is_only_of",
    "is_table",
    "name_all",
    "needed_names",
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


def expand(select: exp.Select, named: Sequence[NamedRelation], joins: Sequence[exp.Expr]) -> None:
    """Expand the stars of a SELECT."""
    accepted(refuse_star_over_using(select, joins))
    relations = [
        changelog_project.QualifiedRelation(alias=n.alias, flow=Flow(columns=n.shown))
        for n in named
    ]
    for join_ in joins:
        inner = join_.this if isinstance(join_, exp.Join) else join_
        if not is_table(inner):
            flow = Flow(columns=tuple(accepted(read_alias_names(inner))))
            relations.append(
                changelog_project.QualifiedRelation(alias=inner.alias_or_name, flow=flow)
            )
    select.set("expressions", accepted(changelog_project.expanded(select, relations)))


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
    names = own_names(first.expressions)
    items = zip(first.expressions, names, strict=True)
    first.set("expressions", [exp.alias_(i.unalias(), name, quoted=True) for i, name in items])
    return names
