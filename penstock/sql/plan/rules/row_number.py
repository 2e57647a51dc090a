"""Finds queries that number rows: Flink's ROW_NUMBER() OVER (PARTITION BY k ORDER BY t) <= n, and its bound.

`top_n.py` plans them, or, over changes, `sql/incremental/planning/top_n.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from penstock.sql.syntax.positions import attach, source_of, span_of
from penstock.sql.syntax.refusal import Refusal

__all__ = [
    "RowNumberQuery",
    "check_limit",
    "check_row_number",
    "find_row_number",
    "is_processing_time",
    "take_bound",
]

MAX_ROWS = 10_000
"""Most rows of a key that are kept: each change sends all of them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowNumberQuery:
    """A query that numbers rows, and the bound of its reader: `limit` is the highest number that may pass.

    `select` has the projection `item`, an OVER under the name `name`; `subquery` is `select` as the reader names it,
    and the number `shown`. `rest` is the WHERE of the reader without the bound; None where that was all of it.
    """

    select: exp.Select
    subquery: exp.Subquery
    item: exp.Alias
    shown: str
    limit: int
    rest: exp.Where | None = field(compare=False)

    @property
    def name(self) -> str:
        """The column of the row number."""
        return self.item.alias

    @property
    def window(self) -> exp.Window:
        """The OVER."""
        assert isinstance(self.item.this, exp.Window)
        return self.item.this

    @property
    def ties(self) -> bool:
        """Whether ties have one number: RANK and DENSE_RANK."""
        return isinstance(self.window.this, exp.Rank | exp.DenseRank)

    def is_by_arrival(self, proctimes: frozenset[str]) -> bool:
        """Return whether rows are in order of arrival: by the column of these that is PROCTIME(), or the call."""
        order = self.window.args.get("order")
        first = order.expressions[0].this if order is not None and order.expressions else None
        return is_processing_time(first, proctimes)


def is_processing_time(order: exp.Expr | None, proctimes: frozenset[str]) -> bool:
    """Return whether a value of ORDER BY is PROCTIME(): the call, or a column of these that are."""
    if isinstance(order, exp.Anonymous):
        return order.name.upper() == "PROCTIME"
    return isinstance(order, exp.Column) and order.name in proctimes


def find_row_number(where: exp.Where | None, source: exp.Expr) -> RowNumberQuery | None:
    """Find a ROW_NUMBER, RANK or DENSE_RANK in a relation, with its bound in `where`, the WHERE of its reader.

    None also for a number without a bound, or beside another OVER: that is an ordinary OVER aggregate.
    """
    if not isinstance(source, exp.Subquery) or not isinstance(source.this, exp.Select):
        return None
    select = source.this
    items = [
        i for i in select.expressions if isinstance(i, exp.Alias) and isinstance(i.this, exp.Window)
    ]
    found = [i for i in items if isinstance(i.this.this, exp.RowNumber | exp.Rank | exp.DenseRank)]
    if not found:
        return None
    if len(items) > 1:
        return None
    (item,) = found
    shown = _shown_name(source, select, item)
    bound = _bound(where, shown)
    if bound is None:
        return None
    limit, rest = bound
    return RowNumberQuery(
        select=select, subquery=source, item=item, shown=shown, limit=limit, rest=rest
    )


def take_bound(reader: exp.Select, numbered: RowNumberQuery) -> None:
    """Remove the bound from the WHERE of the reader, in place."""
    reader.set("where", numbered.rest)


def check_limit(numbered: RowNumberQuery) -> Refusal | None:
    """Refuse a bound that keeps too many rows."""
    if numbered.limit <= MAX_ROWS:
        return None
    return Refusal(
        message=f"the {numbered.limit} best rows of each key are more than the {MAX_ROWS} that are kept",
        span=span_of(numbered.item if numbered.rest is None else numbered.rest),
    )


def check_row_number(numbered: RowNumberQuery) -> Refusal | None:
    """Refuse a query that numbers rows and does more than that."""
    select = numbered.select
    for part in ("group", "having", "distinct", "order", "limit", "qualify"):
        if select.args.get(part) is not None:
            return Refusal(
                message=f"a query that numbers rows of a stream cannot have {part.upper()} of its own",
                hint="number the rows of a plain SELECT",
                span=span_of(numbered.item),
            )
    return None


def _shown_name(source: exp.Subquery, select: exp.Select, item: exp.Alias) -> str:
    """Return the row number's name outside the subquery, which may rename its columns."""
    alias = source.args.get("alias")
    columns = [c.name for c in alias.columns] if alias is not None else []
    place = select.expressions.index(item)
    if columns and not any(isinstance(i, exp.Star) for i in select.expressions):
        return str(columns[place]) if place < len(columns) else item.alias
    return item.alias


# --- the bound ---


def _bound(where: exp.Where | None, name: str) -> tuple[int, exp.Where | None] | None:
    """Find `name = 1`, `name <= n` and the like in a WHERE; returns the highest number, and the WHERE without it."""
    if where is None:
        return None
    parts = (
        list(where.this.unnest().flatten())
        if isinstance(where.this.unnest(), exp.And)
        else [where.this]
    )
    bounds = [(part, limit) for part in parts if (limit := _limit(part, name)) is not None]
    if not bounds:
        return None
    part, limit = min(bounds, key=lambda found: found[1])
    exact = isinstance(part.unnest(), exp.EQ) and limit > 1
    rest = [p.copy() for p in parts if p is not part or exact]
    if not rest:
        return limit, None
    return limit, attach(exp.Where(this=exp.and_(*rest)), source_of(where))


def _limit(part: exp.Expr, name: str) -> int | None:
    test = part.unnest()
    if not isinstance(test, exp.EQ | exp.LTE | exp.LT | exp.GTE | exp.GT):
        return None
    left, right = test.this, test.expression
    kind: type[exp.Expr] = type(test)
    turned: dict[type[exp.Expr], type[exp.Expr]] = {
        exp.GTE: exp.LTE,
        exp.GT: exp.LT,
        exp.LTE: exp.GTE,
        exp.LT: exp.GT,
    }
    if isinstance(left, exp.Literal):
        left, right, kind = right, left, turned.get(kind, kind)
    named = isinstance(left, exp.Column) and left.name == name
    if not named or not (isinstance(right, exp.Literal) and right.is_int):
        return None
    number = int(right.name)
    limits: dict[type[exp.Expr], int] = {exp.EQ: number, exp.LTE: number, exp.LT: number - 1}
    limit = limits.get(kind)
    return limit if limit is not None and limit >= 1 else None
