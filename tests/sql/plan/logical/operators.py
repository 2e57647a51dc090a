"""Operators of small plans, made by hand."""

from __future__ import annotations

from sqlglot import exp, parse_one

from penstock.sql.plan.logical.facts import (
    Column,
    Item,
    facts_of_alias,
    facts_of_join,
    facts_of_projection,
    facts_of_scan,
    facts_of_set_operation,
)
from penstock.sql.plan.logical.nodes import (
    Block,
    Join,
    JoinType,
    Node,
    Project,
    Scan,
    SetKind,
    SetOp,
    SubqueryAlias,
)


def block_of(*relations: str) -> Block:
    """A block that reads relations of these names."""
    return Block(select=exp.select("*"), relations=relations)


def bid(index: int = 0) -> Scan:
    """A table with a rowtime."""
    facts = facts_of_scan(index, ("auction", "price", "ts"), "ts", arrival=True)
    return Scan(facts=facts, index=index, table="bid", rowtime="ts")


def values(*texts: str) -> tuple[Item, ...]:
    """Items of a SELECT list, each `value AS name` or a column."""
    items: list[Item] = []
    for text in texts:
        item = parse_one(text)
        items.append((item.alias_or_name, item.unalias()))
    return tuple(items)


def alias(given: Node, name: str) -> SubqueryAlias:
    """A relation under a name."""
    facts = facts_of_alias(given.facts, (), keeps_rowtimes=True)
    return SubqueryAlias(facts=facts, input=given, alias=name)


def project(given: Node, *texts: str) -> Project:
    """A SELECT list over a relation with the alias b."""
    items, below = values(*texts), alias(given, "b")
    columns = tuple(Column(name=name) for name, _ in items)
    facts = facts_of_projection(below.facts, columns, items, "b")
    return Project(facts=facts, input=below, items=items, block=block_of("b"))


def join(one: Node, two: Node) -> Join:
    """An inner join."""
    facts = facts_of_join(one.facts, two.facts)
    return Join(facts=facts, left=one, right=two, kind=JoinType.INNER, block=block_of("a", "b"))


def union(one: Node, two: Node, *, keeps_rowtimes: bool = True) -> SetOp:
    """UNION ALL, or UNION, of which no rowtime is known."""
    facts = facts_of_set_operation(one.facts, two.facts, keeps_rowtimes=keeps_rowtimes)
    return SetOp(facts=facts, left=one, right=two, kind=SetKind.UNION, all=keeps_rowtimes)
