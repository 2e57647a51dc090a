"""Top-N as a stage: ROW_NUMBER, RANK and DENSE_RANK with a bound, over rows of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.connector.scan import ARRIVED
from penstock.sql.dialect import to_text
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS
from penstock.sql.incremental.planning.relation import ChangelogRelation, column, operator_at
from penstock.sql.incremental.planning.source import AppendSource, Source
from penstock.sql.incremental.planning.stage_list import StageList
from penstock.sql.incremental.stages import INGESTION_ORDER, InputState, StageInput
from penstock.sql.plan.clauses.select_list import name_value, refuse_nondeterministic
from penstock.sql.plan.logical.facts import Item, TieBreak
from penstock.sql.plan.logical.nodes import TopN
from penstock.sql.plan.rules.flow import OperatorKind
from penstock.sql.plan.rules.top_n import (
    RowNumberQuery,
    carry_arrival,
    check_row_number,
)
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal

_START = WINDOW_COLUMNS[0]


def plan_top_n(
    node: TopN,
    numbered: RowNumberQuery,
    listed: Sequence[exp.Expr],
    source: Source,
    stages: StageList,
    *,
    by_position: bool = False,
) -> ChangelogRelation | Refusal:
    """Add the stage; `listed` is its SELECT list without stars. Returns its columns in their order, then others.

    Rows that are updated or deleted arrive with the batches that last added them. Ties in the order are broken by
    arrival, and where that does not, or for changes, by the other columns, so that the choice is deterministic.
    `by_position`: rows of records are numbered in their order, and do not carry it as a column.
    """
    by_record = False
    of_records = node.by_record and isinstance(source, AppendSource)
    by_position = by_position and of_records and node.tie is not None
    if of_records and not by_position and isinstance(source, AppendSource):
        carry_arrival(source.skeleton)
        by_record = node.tie is not None
    columns = [i for i in listed if i is not numbered.item]
    names = [i.alias_or_name for i in columns]
    if (refusal := _refuse(node, numbered, names)) is not None:
        return refusal
    items: list[Item] = [(i.alias_or_name, i.unalias()) for i in columns]
    by_arrival = node.by_arrival
    partition = tuple(name_value(part, items) for part in node.partition)
    order = [_ordered(part, items) for part in node.order[1 if by_arrival else 0 :]]
    if (refusal := source.refuse(value for _, value in items)) is not None:
        return refusal
    varying = None if isinstance(source, AppendSource) else refuse_nondeterministic(numbered.select)
    if varying is not None:
        return varying
    if by_record:
        items.append((ARRIVED, exp.column(ARRIVED, quoted=True)))
    rows = stages.staged(source.project(items))
    tie = node.tie if rows.inserts else None  # a row that is updated came more than once
    if by_arrival:
        order = [_in_order_of_arrival(node.order[0])]
    by_batch = tie is not None and not by_record and not by_position
    shown = (i.alias_or_name for i in listed)
    ranks = _Ranks(
        node=node,
        listed=tuple(name for name in shown if node.shows_number or name != node.number),
        rows=rows,
        names=tuple(names),
        partition=partition,
        order=tuple(order),
        arrival=(INGESTION_ORDER,) if by_arrival or by_batch or by_position else (),
        tie=tie,
        by_record=by_record,
        by_position=by_position,
    )
    alone = node.shows_number and node.limit == 1
    spelled = tuple(map(to_text, node.partition))
    result = ChangelogRelation(
        name=stages.name("ranks"),
        columns=ranks.shown,
        key=ranks.key,
        constants=frozenset({node.number}) if alone else frozenset(),
        # the first one stays
        inserts=rows.inserts and ranks.one and by_arrival and not node.order[0].args.get("desc"),
        mechanism=operator_at(OperatorKind.TOP_N, spelled, ranks.state_words, numbered.item),
    )
    return stages.recompute(result, [ranks.stage_input], ranks.query())


def _refuse(node: TopN, numbered: RowNumberQuery, names: Sequence[str]) -> Refusal | None:
    if (refusal := check_row_number(numbered)) is not None:
        return refusal
    if not all(names) or len(set(names)) < len(names):
        return Refusal(
            message="a column of a query that numbers rows has no name of its own",
            hint="name it with AS",
            span=span_of(numbered.select),
        )
    if not node.order:
        return Refusal(
            message=f"{to_text(numbered.window.this)} without ORDER BY is not supported",
            hint="add ORDER BY to its OVER",
            span=span_of(numbered.item),
        )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranks:
    """The stage: `rows` with the columns `names`, then those that only partition and order need.

    `listed` are the columns that its reader knows. `tie`: ties in the order are broken by arrival, of records where
    rows have the column ARRIVED (`by_record`) or are numbered in their order (`by_position`), else of the batches in
    which they came.
    """

    node: TopN
    listed: tuple[str, ...]
    rows: ChangelogRelation
    names: tuple[str, ...]
    partition: tuple[str, ...]
    order: tuple[exp.Expr, ...]
    arrival: tuple[str, ...]
    tie: TieBreak | None
    by_record: bool
    by_position: bool

    @property
    def one(self) -> bool:
        """Whether a key has one row in the result."""
        return self.node.limit == 1 and not self.node.ties

    @property
    def keeps(self) -> InputState:
        return InputState.RESULT if self.rows.inserts else InputState.ROWS

    @property
    def state_words(self) -> str:
        if self.keeps is InputState.ROWS:
            return "its rows"
        return "the row of the result" if self.one else f"the {self.node.limit} best rows"

    @property
    def stage_input(self) -> StageInput:
        arrival = self.arrival[0] if self.arrival else None
        return StageInput(
            name=self.rows.name,
            key=self.partition,
            keeps=self.keeps,
            arrival=arrival,
            by_batch=arrival is not None and self.tie is not None and not self.by_position,
            by_change=arrival is not None and not self.rows.inserts,
        )

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns of the result; all of the rows where the result is what is kept."""
        if self.keeps is not InputState.RESULT:
            return self.listed
        return (*self.listed, *(name for name in self.rows.columns if name not in self.names))

    @property
    def key(self) -> tuple[str, ...] | None:
        """The partition where it has one row, with the number, or the key of the rows."""
        known = set(self.partition) <= set(self.names)
        if known and self.one:
            return self.partition
        if known and not self.node.ties and self.node.shows_number:
            return (*self.partition, self.node.number)
        if self.rows.key is not None and set(self.rows.key) <= set(self.names):
            return self.rows.key
        return None

    @property
    def _by_arrival(self) -> list[exp.Expr]:
        """The order that breaks ties in the order of the query."""
        if self.tie is None:
            return []
        arrival = column(ARRIVED if self.by_record else INGESTION_ORDER)
        last = self.tie is TieBreak.LAST
        return [exp.Ordered(this=arrival, desc=last or None, nulls_first=not last)]

    def query(self) -> exp.Select:
        """Number the rows, and keep those within the bound."""
        columns, number = (*self.rows.columns, *self.arrival), self.node.number
        order = list(self.order)
        if not self.node.ties:
            order += self._by_arrival
            known = {part.this.name for part in order}
            # of one record there may be a row for each of its windows
            others = [_START] if ARRIVED in known else () if self.by_position else columns
            order += [_ascending(n) for n in others if n not in known and n in columns]
        over = exp.Window(
            this=self.node.function.copy(),
            partition_by=[column(name) for name in self.partition],
            order=exp.Order(expressions=order),
            over="OVER",
        )
        inner = exp.select(*map(column, columns), exp.alias_(over, number, quoted=True))
        inner = inner.from_(exp.to_table(self.rows.name, quoted=True), copy=False)
        bound = exp.LTE(this=column(number), expression=exp.Literal.number(self.node.limit))
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
