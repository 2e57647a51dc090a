"""Top-N as a stage: ROW_NUMBER, RANK and DENSE_RANK with a bound, over rows of any kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.connector.scan import ARRIVED
from penstock.sql.dialect import to_text
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS
from penstock.sql.incremental.planning.relation import (
    ChangelogRelation,
    Item,
    Relation,
    column,
)
from penstock.sql.incremental.planning.stage_list import StageList
from penstock.sql.incremental.stages import INGESTION_ORDER, InputState, StageInput
from penstock.sql.plan.placement.stage_select import name_value
from penstock.sql.plan.rules.flow import OperatorKind, UpdatingOperator
from penstock.sql.plan.rules.top_n import RowNumberQuery, TieBreak
from penstock.sql.syntax.positions import span_of

__all__ = ["Ties", "plan_top_n"]

_START = WINDOW_COLUMNS[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ties:
    """How ties in the order are broken: by arrival, of which the `winner` comes first.

    `by_record`: rows have the column ARRIVED; else only the batch in which they came is known.
    """

    winner: TieBreak
    by_record: bool


def plan_top_n(
    numbered: RowNumberQuery,
    project: Callable[[Sequence[Item]], Relation],
    stages: StageList,
    *,
    shows_number: bool,
    by_arrival: bool,
    ties: Ties | None = None,
) -> ChangelogRelation:
    """Add the stage; the numbering SELECT has no star any more. Returns its columns in their order, then others.

    `by_arrival`: it numbers rows in order of arrival; of rows that are updated or deleted, in that of the batches that
    last added them. Ties in the order are broken by `ties`, and where that does not, or for changes, by the other
    columns, so that the choice is deterministic.
    """
    columns = [i for i in numbered.select.expressions if i is not numbered.item]
    names = [i.alias_or_name for i in columns]
    items: list[Item] = [(i.alias_or_name, i.unalias()) for i in columns]
    spelled = numbered.window.args.get("partition_by") or []
    partition = tuple(name_value(part, items) for part in spelled)
    parts = numbered.window.args["order"].expressions
    order = [_ordered(part, items) for part in parts[1 if by_arrival else 0 :]]
    if by_arrival or numbered.ties:
        ties = None
    if ties is not None and ties.by_record:
        items.append((ARRIVED, exp.column(ARRIVED, quoted=True)))
    rows = stages.staged(project(items))
    if not rows.inserts:
        ties = None  # a row that is updated came more than once
    if by_arrival:
        order = [_in_order_of_arrival(parts[0])]
    by_batch = ties is not None and not ties.by_record
    ranks = _Ranks(
        numbered=numbered,
        rows=rows,
        names=tuple(names),
        partition=partition,
        order=tuple(order),
        arrival=(INGESTION_ORDER,) if by_arrival or by_batch else (),
        ties=ties,
        shows_number=shows_number,
    )
    number = numbered.name
    return stages.recompute(
        "ranks",
        [ranks.given],
        ranks.query(),
        columns=ranks.shown,
        key=ranks.key,
        constants=frozenset({number}) if shows_number and numbered.limit == 1 else frozenset(),
        mechanism=UpdatingOperator(
            way=OperatorKind.TOP_N,
            key=tuple(to_text(part) for part in spelled),
            state=ranks.kept,
            span=span_of(numbered.item),
        ),
        origin=numbered.item,
        inserts=rows.inserts
        and ranks.one
        and by_arrival
        and not parts[0].args.get("desc"),  # the first one stays
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranks:
    """The stage: `rows` with the columns `names`, then those that only partition and order need."""

    numbered: RowNumberQuery
    rows: ChangelogRelation
    names: tuple[str, ...]
    partition: tuple[str, ...]
    order: tuple[exp.Expr, ...]
    arrival: tuple[str, ...]
    ties: Ties | None
    shows_number: bool

    @property
    def one(self) -> bool:
        """Whether a key has one row in the result."""
        return self.numbered.limit == 1 and not self.numbered.ties

    @property
    def keeps(self) -> InputState:
        return InputState.RESULT if self.rows.inserts else InputState.ROWS

    @property
    def kept(self) -> str:
        if self.keeps is InputState.ROWS:
            return "its rows"
        return "the row of the result" if self.one else f"the {self.numbered.limit} best rows"

    @property
    def given(self) -> StageInput:
        arrival = self.arrival[0] if self.arrival else None
        return StageInput(
            name=self.rows.name,
            key=self.partition,
            keeps=self.keeps,
            arrival=arrival,
            by_batch=arrival is not None and self.ties is not None,
            by_change=arrival is not None and not self.rows.inserts,
        )

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns of the result; all of the rows where the result is what is kept."""
        shown = [item.alias_or_name for item in self.numbered.select.expressions]
        if not self.shows_number:
            shown.remove(self.numbered.name)
        if self.keeps is InputState.RESULT:
            shown += [name for name in self.rows.columns if name not in self.names]
        return tuple(shown)

    @property
    def key(self) -> tuple[str, ...] | None:
        """The partition where it has one row, with the number, or the key of the rows."""
        known = set(self.partition) <= set(self.names)
        if known and self.one:
            return self.partition
        if known and not self.numbered.ties and self.shows_number:
            return (*self.partition, self.numbered.name)
        if self.rows.key is not None and set(self.rows.key) <= set(self.names):
            return self.rows.key
        return None

    @property
    def _by_arrival(self) -> list[exp.Expr]:
        """The order that breaks ties in the order of the query."""
        if self.ties is None:
            return []
        arrival = column(ARRIVED if self.ties.by_record else INGESTION_ORDER)
        last = self.ties.winner is TieBreak.LAST
        return [exp.Ordered(this=arrival, desc=last or None, nulls_first=not last)]

    def query(self) -> exp.Select:
        """Number the rows, and keep those within the bound."""
        columns, number = (*self.rows.columns, *self.arrival), self.numbered.name
        order = list(self.order)
        if not self.numbered.ties:
            order += self._by_arrival
            known = {part.this.name for part in order}
            # of one record there may be a row for each of its windows
            others = [_START] if ARRIVED in known else columns
            order += [_ascending(n) for n in others if n not in known and n in columns]
        over = exp.Window(
            this=self.numbered.window.this.copy(),
            partition_by=[column(name) for name in self.partition],
            order=exp.Order(expressions=order),
            over="OVER",
        )
        inner = exp.select(*map(column, columns), exp.alias_(over, number, quoted=True))
        inner = inner.from_(exp.to_table(self.rows.name, quoted=True), copy=False)
        bound = exp.LTE(this=column(number), expression=exp.Literal.number(self.numbered.limit))
        shown = (*self.shown, *self.arrival)
        query = exp.select(*(exp.alias_(column(name), name, quoted=True) for name in shown))
        return query.from_(inner.subquery("__numbered"), copy=False).where(bound, copy=False)


def _ascending(name: str) -> exp.Expr:
    return exp.Ordered(this=column(name), nulls_first=True)


def _in_order_of_arrival(first: exp.Ordered) -> exp.Expr:
    order = first.copy()
    order.set("this", column(INGESTION_ORDER))
    return order


def _ordered(part: exp.Ordered, items: list[Item]) -> exp.Expr:
    name = name_value(part.this, items)
    ordered = part.copy()
    ordered.set("this", column(name, like=part.this))
    return ordered
