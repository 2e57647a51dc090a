"""Carries row kinds through one SELECT: projection and filter over changes, and the key that must be kept.

A filter over before-and-after changes drops rows of either side alike. Over upserts a row that does not pass becomes
the delete of its key: the row it replaces may have passed. (Flink's planner puts a ChangelogNormalize there, with
state; for a sink of the same key the delete says the same.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.connector.changelog import ROW_KIND, ChangelogMode
from penstock.sql.plan.rules.flow import Flow, OperatorKind
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal
from penstock.sql.syntax.traversal import find_nodes, star_qualifier


@dataclass(frozen=True, slots=True, kw_only=True)
class QualifiedRelation:
    """One relation in FROM, under the name that columns are qualified by (empty: none)."""

    alias: str
    flow: Flow


def check_add_kind(query: exp.Expr) -> Refusal | None:
    """Refuse a query whose rows cannot have a kind."""
    match query:
        case exp.Subquery():
            return check_add_kind(query.this)
        case exp.SetOperation():
            return check_add_kind(query.this) or check_add_kind(query.expression)
        case exp.Select():
            return None
        case _:
            return Refusal(
                message="UNION ALL of changes takes queries of tables only", span=span_of(query)
            )


def expanded(
    select: exp.Select, relations: Sequence[QualifiedRelation]
) -> list[exp.Expr] | Refusal:
    """Return the SELECT list with `*` and `t.*` written out."""
    items: list[exp.Expr] = []
    for item in select.expressions:
        star = star_qualifier(item)
        if star is None:
            items.append(item)
            continue
        for relation in relations:
            if star and relation.alias != star:
                continue
            if relation.flow.columns is None or item.args.get("except_"):
                return Refusal(
                    message="the columns that * stands for cannot be told here",
                    hint="name the columns",
                    span=span_of(item),
                )
            if len(set(relation.flow.columns)) < len(relation.flow.columns):
                return Refusal(
                    message=f"the query '{relation.alias}' gives columns of one name, which * cannot tell apart",
                    hint="name them apart in that query, with AS",
                    span=span_of(item),
                )
            table = relation.alias or None
            items += [exp.column(n, table, quoted=True) for n in relation.flow.columns]
    return items


def output_names(
    items: Sequence[exp.Expr], relations: Sequence[QualifiedRelation]
) -> tuple[str, ...] | None:
    """Return the names of the columns that a SELECT list gives, without the hidden one; None where they are unknown."""
    names: list[str] = []
    for item in items:
        star = star_qualifier(item)
        if star is None:
            names.append(item.alias_or_name)
            continue
        for relation in relations:
            if star and relation.alias != star:
                continue
            if relation.flow.columns is None or item.args.get("except_"):
                return None
            names += relation.flow.columns
    return tuple(name for name in names if name != ROW_KIND)


def rows_flow(
    select: exp.Select, relations: Sequence[QualifiedRelation], stateful: exp.Expr | None
) -> Flow:
    """Return the flow of a SELECT over rows that stay. `stateful` is its operator with state, or one below it."""
    return Flow(
        columns=output_names(select.expressions, relations),
        constants=constant_columns(select),
        stateful=stateful,
    )


def changes_flow(
    select: exp.Select,
    relations: Sequence[QualifiedRelation],
    source: Flow,
    where: exp.Where | None,
    conditions: Sequence[exp.Expr],
) -> Flow | Refusal:
    """Return the flow of a SELECT over changes. `where` and `conditions` decide what stays.

    `source` is the flow of the whole FROM clause.
    """
    if (refusal := _check(select, where)) is not None:
        return refusal
    items = select.expressions
    if source.kinds or where is not None or conditions:
        written = expanded(select, relations)
        if isinstance(written, Refusal):
            return written
        items = written
    own = relations[0].alias
    key = _projected_key(select, items, source, own)
    if isinstance(key, Refusal):
        return key
    return replace(
        source,
        columns=output_names(items, relations),
        key=key,
        kinds=source.kinds or deletes(source, own, where, conditions),
        constants=constant_columns(select),
    )


def constant_columns(select: exp.Select) -> frozenset[str]:
    """Name the columns that have the same value in every row."""
    return frozenset(
        item.alias
        for item in select.expressions
        if isinstance(item, exp.Alias) and is_constant(item.this)
    )


def is_constant(value: exp.Expr) -> bool:
    """Return whether a value is a literal."""
    if isinstance(value, exp.Cast | exp.Neg | exp.Paren):
        return is_constant(value.this)
    return isinstance(value, exp.Literal | exp.Boolean)


def _check(select: exp.Select, where: exp.Where | None) -> Refusal | None:
    windows = (n for n in find_nodes(select, exp.Window) if n.find_ancestor(exp.Select) is select)
    window = next(windows, None)
    refused = {
        "OVER": window,
        "ORDER BY": select.args.get("order"),
        "LIMIT": select.args.get("limit") or select.args.get("fetch"),
        "OFFSET": select.args.get("offset"),
        "DISTINCT": select.args.get("distinct"),
    }
    for name, node in refused.items():
        if node is not None:
            return Refusal(
                message=f"{name} over rows that are updated and deleted is not supported",
                hint="write the changes into a table with a PRIMARY KEY, and query that table",
                span=span_of(node) or span_of(select),
            )
    inner = where.find(exp.Query) if where is not None else None
    if inner is not None:
        return Refusal(
            message="a query inside the WHERE of rows that are updated and deleted is not supported",
            hint="join a Delta table instead: its rows are looked up in each batch",
            span=span_of(inner),
        )
    return None


def _projected_key(
    select: exp.Select, items: Sequence[exp.Expr], source: Flow, own: str
) -> tuple[str, ...] | Refusal | None:
    """Return the key under the names that the SELECT list `items` gives it; refuses upserts that lose theirs."""
    if source.key is None:
        return None
    found: list[str] = []
    for name in source.key:
        if name in source.constants:
            continue
        shown_as = next(
            (i.alias_or_name for i in items if _is_column(i.unalias(), name, own)),
            None,
        )
        if shown_as is None and any(star_qualifier(item) is not None for item in items):
            shown_as = name
        if shown_as is None:
            if source.changes is ChangelogMode.ALL:
                return None
            return Refusal(
                message=f"the column {name!r}, by which the rows are told apart, is not selected",
                hint=_hint(name, source),
                span=span_of(select),
            )
        found.append(shown_as)
    return tuple(found)


def _hint(name: str, source: Flow) -> str:
    if source.mechanism is not None and source.mechanism.way is OperatorKind.TOP_N:
        return f"select {name!r} too, and make ({', '.join(source.key or ())}) the PRIMARY KEY of the target"
    return f"select {name!r} as it is; it belongs into the PRIMARY KEY of the target"


def _is_column(value: exp.Expr, name: str, own: str) -> bool:
    return isinstance(value, exp.Column) and value.name == name and value.table in ("", own)


def deletes(
    source: Flow, own: str, where: exp.Where | None, conditions: Sequence[exp.Expr]
) -> bool:
    """Return whether an upsert that does not pass has to delete the row of its key."""
    if source.changes is not ChangelogMode.UPSERT:
        return False
    if conditions:
        return True
    if where is None:
        return False
    fixed = {*(source.key or ()), *source.constants}
    return not all(
        column.name in fixed and column.table in ("", own) for column in where.find_all(exp.Column)
    )


def is_computed(value: exp.Expr) -> bool:
    """Return whether a value is more than a column, an aggregate or a constant: it may fail."""
    return not (isinstance(value, exp.Column | exp.AggFunc) or is_constant(value))
