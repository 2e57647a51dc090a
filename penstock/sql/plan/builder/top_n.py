"""Read queries that number rows up to a bound of their reader as Top-N."""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.plan.builder.relations import SelectList
from penstock.sql.plan.logical.facts import facts_of_projection
from penstock.sql.plan.logical.nodes import Block, Node, TopN
from penstock.sql.plan.rules.top_n import RowNumberQuery


def top_n(
    numbered: RowNumberQuery,
    child: Node,
    listed: SelectList,
    block: Block,
    *,
    shown: bool,
    proctimes: frozenset[str],
    keeps_rowtimes: bool,
) -> TopN:
    """Return the operator over FROM and WHERE of the numbering query, whose SELECT list is `listed`.

    `shown`: its reader reads the number; `proctimes` are the columns of processing time.
    """
    order = numbered.window.args.get("order")
    facts = facts_of_projection(
        child.facts, listed.columns, listed.shown, block.first, keeps_rowtimes=keeps_rowtimes
    )
    return TopN(
        facts=facts,
        origin=numbered.item,
        syntax=numbered.select,
        input=child,
        function=numbered.window.this,
        partition=tuple(numbered.window.args.get("partition_by") or ()),
        order=() if order is None else tuple(order.expressions),
        limit=numbered.limit,
        number=numbered.name,
        shown=numbered.shown,
        shows_number=shown,
        by_arrival=numbered.is_by_arrival(proctimes),
        items=listed.shown,
        star=listed.star,
        block=block,
    )


def shows_number(reader: exp.Select, numbered: RowNumberQuery) -> bool:
    """Return whether the reader of a numbering query reads the number, beside its bound, or names all columns."""
    if numbered.subquery.alias_column_names:
        return True
    if any(item.find(exp.Star) and not item.find(exp.Count) for item in reader.expressions):
        return True
    where = reader.args.get("where")
    clauses = [
        part
        for name, value in reader.args.items()
        if name != "where"
        for part in (value if isinstance(value, list) else [value])
        if isinstance(part, exp.Expr)
    ]
    names = {
        node.name
        for part in clauses
        for node in part.find_all(exp.Column)
        if node.find_ancestor(exp.Select) is reader
    }
    if where is not None and numbered.rest is not None:
        rest = numbered.rest.find_all(exp.Column)
        names |= {node.name for node in rest if node.find_ancestor(exp.Select) is None}
    return numbered.shown in names
