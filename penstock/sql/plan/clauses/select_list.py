"""Read the SELECT list of a query over streams: its stars, what it needs of its FROM, and what stages refuse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from penstock.sql.expressions.expression import find_nondeterministic
from penstock.sql.plan.clauses.joins import read_alias_names
from penstock.sql.plan.logical.facts import Item, unique_name
from penstock.sql.plan.rules.aggregate import is_same
from penstock.sql.plan.rules.changelog_project import QualifiedRelation, expanded
from penstock.sql.plan.rules.flow import Flow
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal


def refuse_clauses(select: exp.Query) -> Refusal | None:
    """Return why a SELECT, or a query in brackets, cannot be a stage: it has a clause that no stage has."""
    for name in ("order", "limit", "fetch", "offset", "qualify"):
        node = select.args.get(name)
        if node is not None:
            words = {"order": "ORDER BY", "fetch": "FETCH"}.get(name, name.upper())
            return Refusal(
                message=f"{words} of a stream is not supported",
                hint="number the rows: ROW_NUMBER() OVER (ORDER BY ...) AS n in a query in FROM, and WHERE n <= 10 in "
                "the query around it",
                span=span_of(node) or span_of(select),
            )
    return None


def refuse_nondeterministic(select: exp.Select) -> Refusal | None:
    """Return why values of a SELECT cannot be retracted: a function varies. PROCTIME() as an order is no value."""
    own = (
        call
        for call in find_nondeterministic(select)
        if call.find_ancestor(exp.Select) is select and not _is_order_of_arrival(call)
    )
    varying = next(own, None)
    if varying is None:
        return None
    return Refusal(
        message="a function that gives another value each time is not supported over rows that are kept: what it gave "
        "could not be taken back, or given again",
        hint="call it in the query that reads the table, where it is computed once for each row",
        span=span_of(varying) or span_of(select),
    )


def _is_order_of_arrival(call: exp.Expr) -> bool:
    window = call.find_ancestor(exp.Ordered, exp.Window)
    return call.name.upper() == "PROCTIME" and isinstance(window, exp.Ordered)


def expanded_items(
    select: exp.Select, relations: Sequence[exp.Expr], shown: Sequence[Sequence[str] | None]
) -> list[exp.Expr] | Refusal:
    """Return the SELECT list with its stars written out, over the relations of FROM; None: a function names its own."""
    using = any(join.args.get("using") for join in select.args.get("joins") or [])
    if using and any(isinstance(item, exp.Star) for item in select.expressions):
        return Refusal(
            message="* over a join with USING is not supported here",
            hint="name the columns",
            span=span_of(select),
        )
    tables: list[QualifiedRelation] = []
    functions: list[QualifiedRelation] = []
    for relation, known in zip(relations, shown, strict=True):
        names = read_alias_names(relation) if known is None else known
        if isinstance(names, Refusal):
            return names
        flow = Flow(columns=tuple(names))
        found = QualifiedRelation(alias=relation.alias_or_name, flow=flow)
        (functions if known is None else tables).append(found)
    return expanded(select, [*tables, *functions])


def needed_names(
    select: exp.Select, items: Sequence[exp.Expr], where: exp.Where | None
) -> frozenset[str] | None:
    """Return the names that a SELECT may need of its relations; None where a star needs all.

    `items` are its list, and `where` is what relations have left of its WHERE.
    """
    if any(item.find(exp.Star) and not item.find(exp.Count) for item in items):
        return None

    def is_relation(node: exp.Expr) -> bool:
        if not isinstance(node, exp.Subquery) or not isinstance(node.parent, exp.From | exp.Join):
            return False
        return node.parent_select is select

    found = set[str]()
    clauses = (select.args[name] for name in select.args if name not in ("expressions", "where"))
    parts = [*items, *clauses, where]
    for part in parts:
        for tree in part if isinstance(part, list) else [part]:
            for node in tree.walk(prune=is_relation) if isinstance(tree, exp.Expr) else ():
                if isinstance(node, exp.Identifier):
                    found.add(node.name)
                elif is_relation(node):
                    named = (node.args.get("alias"), node.args.get("version"))
                    names = (name for one in named if one for name in one.find_all(exp.Identifier))
                    found |= {name.name for name in names}
    return frozenset(found)


def read_values(
    keys: Sequence[exp.Expr], items: Sequence[Item], having: exp.Expr | None
) -> Iterator[exp.Expr]:
    """Iterate over the values that an operator reads: its keys whole, and other columns."""
    yield from keys
    for value in [*(value for _, value in items), *([] if having is None else [having.this])]:
        for node in value.walk(prune=lambda n: any(is_same(n, key) for key in keys)):
            if not isinstance(node, exp.Column) or any(is_same(node, key) for key in keys):
                continue
            if not isinstance(node.this, exp.Star):
                yield node


def name_value(value: exp.Expr, items: list[Item]) -> str:
    """Name the column of a value, a new one where no column has that value."""
    for name, item in items:
        if is_same(item, value):
            return name
    wanted = value.name if isinstance(value, exp.Column) else "__value"
    items.append((unique_name(wanted, [name for name, _ in items]), value))
    return items[-1][0]
