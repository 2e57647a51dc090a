"""Joins under changes: with a table that Spark reads by itself, read once a batch; all others are refused.

Each batch sees the newest version of the table, as Flink's lookup join does; rows that changed there do not change
results that are written. The table is broadcast: a shuffle would lose the order of a key's changes. Over upserts an
inner join becomes a left one whose rows without a match are deletes of their key: the row that they replace may have
had one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.sql.plan.rules.changelog_project import QualifiedRelation
from penstock.sql.plan.rules.flow import Flow, ScanFlow
from penstock.sql.plan.rules.lookup_join import is_lookup
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal

__all__ = ["JoinedFlow", "joined_flow"]

INSTEAD = (
    "write the changes into a Delta table with a PRIMARY KEY, and join that; or join with a Delta "
    "table on the right side, INNER or LEFT"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedFlow:
    """A FROM clause as one relation. Of upserts, rows that do not pass `conditions` are deletes of their key.

    `looked_up` are the leaves that are read once a batch, `broadcast` their names here; the joins at the places
    `outer` become LEFT joins.
    """

    flow: Flow
    conditions: tuple[exp.Expr, ...] = ()
    looked_up: frozenset[int] = frozenset()
    broadcast: tuple[str, ...] = ()
    outer: tuple[int, ...] = ()


StaticScan = Callable[[exp.Expr], tuple[int, ScanFlow] | None]


def joined_flow(
    select: exp.Select,
    nodes: Sequence[exp.Expr],
    joins: Sequence[exp.Expr],
    relations: Sequence[QualifiedRelation],
    static_leaf: StaticScan,
) -> JoinedFlow | Refusal:
    """Return the joined relation of a FROM clause; refuses the first join that changes cannot pass."""
    changing = [i for i, relation in enumerate(relations) if relation.flow.is_changing]
    if not changing:
        stateful = next((r.flow.stateful for r in relations if r.flow.stateful is not None), None)
        kept = (
            j for j, n in zip(joins, nodes[1:], strict=True) if _is_table(n) and not is_lookup(j)
        )
        join = next(kept, None)
        return JoinedFlow(flow=Flow(columns=None, stateful=stateful or join))
    flow = relations[changing[0]].flow
    if len(relations) == 1:
        return JoinedFlow(flow=flow)
    if changing != [0]:
        return Refusal(
            message="a join in which the second table is updated, or both are, is not supported",
            hint=INSTEAD,
            span=span_of(joins[changing[-1] - 1]) or span_of(select),
        )
    if flow.mechanism is not None:
        return Refusal(
            message=f"a join with the results of {flow.mechanism.named} is not supported",
            hint="write these results into a Delta table with a PRIMARY KEY, and join that",
            span=span_of(joins[0]) or span_of(select),
        )
    return _with_static(flow, nodes[1:], joins, relations[1:], static_leaf)


def _with_static(
    flow: Flow,
    nodes: Sequence[exp.Expr],
    joins: Sequence[exp.Expr],
    relations: Sequence[QualifiedRelation],
    static_leaf: StaticScan,
) -> JoinedFlow | Refusal:
    """Join changes with what stands behind them: tables that Spark reads by itself, and UNNEST."""
    conditions: list[exp.Expr] = []
    outer: list[int] = []
    looked_up: list[tuple[int, str]] = []
    kept: Flow | Refusal = flow
    for place, (node, join, relation) in enumerate(zip(nodes, joins, relations, strict=True)):
        if not _is_table(node):
            kept = _unfolded(flow, join)
            if isinstance(kept, Refusal):
                return kept
            flow = kept
            continue
        found = static_leaf(node)
        refusal = _check(join, found)
        if refusal is not None:
            return refusal
        assert found is not None, "it was checked"
        assert isinstance(join, exp.Join), "it was checked"
        index, table = found
        looked_up.append((index, relation.alias))
        if not _is_unique(join, relation.alias, table):
            kept = _multiplied(flow, join, table)
            if isinstance(kept, Refusal):
                return kept
            flow = kept
        elif flow.changes is ChangelogMode.UPSERT and not join.side:
            assert table.key is not None, "a match is unique by the key"
            outer.append(place)
            there = exp.Is(
                this=exp.column(table.key[0], relation.alias, quoted=True), expression=exp.null()
            )
            conditions.append(exp.not_(there))
    return JoinedFlow(
        flow=replace(flow, columns=None),
        conditions=tuple(conditions),
        looked_up=frozenset(index for index, _ in looked_up),
        broadcast=tuple(alias for _, alias in looked_up),
        outer=tuple(outer),
    )


def _is_table(node: exp.Expr) -> bool:
    return isinstance(node, exp.Table | exp.Subquery)


def _unfolded(flow: Flow, join: exp.Expr) -> Flow | Refusal:
    """UNNEST and LATERAL return several rows for one: their key is unknown."""
    if flow.changes is ChangelogMode.UPSERT:
        node = join.this if isinstance(join, exp.Join) else join
        return Refusal(
            message=f"{node.key.upper()} of upserts is not supported: which rows an update takes away is not told",
            hint="read the changes in a format that has the row before (debezium-json)",
            span=span_of(join),
        )
    return replace(flow, key=None)


def _check(join: exp.Expr, found: tuple[int, ScanFlow] | None) -> Refusal | None:
    assert isinstance(join, exp.Join), "tables are joined"
    words = f"{join.side} {join.kind}".strip().upper()
    if found is None or found[1].changes is not ChangelogMode.INSERT_ONLY:
        return Refusal(
            message="a join of rows that are updated or deleted with a stream is not supported",
            hint=INSTEAD,
            span=span_of(join),
        )
    if words not in ("", "INNER", "LEFT", "LEFT OUTER", "CROSS"):
        return Refusal(
            message=f"a {words} join of rows that are updated or deleted is not supported",
            hint=INSTEAD,
            span=span_of(join),
        )
    return None


def _is_unique(join: exp.Join, alias: str, table: ScanFlow) -> bool:
    """Return whether at most one row of the table matches: its PRIMARY KEY is within the columns compared."""
    if table.key is None:
        return False
    compared = {column.name for column in join.args.get("using") or []}
    on = join.args.get("on")
    for part in on.flatten() if isinstance(on, exp.And) else [on]:
        test = part.unnest() if part is not None else None
        if not isinstance(test, exp.EQ):
            continue
        for side, other in ((test.this, test.expression), (test.expression, test.this)):
            own = isinstance(side, exp.Column) and side.table == alias
            theirs = other.find_all(exp.Column)
            if own and all(column.table != alias for column in theirs):
                compared.add(side.name)
    return set(table.key) <= compared


def _multiplied(flow: Flow, join: exp.Join, table: ScanFlow) -> Flow | Refusal:
    if flow.changes is ChangelogMode.UPSERT:
        return Refusal(
            message=f"this join may give several rows for one upsert, as it does not compare a PRIMARY KEY of "
            f"{table.name}",
            hint="declare the PRIMARY KEY of that table, and compare all of it in ON, with its name before the columns",
            span=span_of(join),
        )
    return replace(flow, key=None)
