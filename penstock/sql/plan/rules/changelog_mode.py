"""Changelog modes of a SELECT and of a set operation in Spark, from those of what they read.

As Flink's planner (FlinkChangelogModeInferenceProgram) this refuses, at the operator, what cannot run correctly.
`plan/placement` asks for each operator; `plan/spark_text` writes the query. Changes are joined with a table that Spark
reads by itself, once a batch, as Flink's lookup join does: rows that changed there do not change results that are
written. The table is broadcast: a shuffle would lose the order of a key's changes. Over upserts an inner join becomes
a left one whose rows without a match are deletes of their key: the row that they replace may have had one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.catalog.errors import Span
from penstock.connector.changelog import ChangelogMode
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS, WindowKind
from penstock.sql.plan.logical.nodes import Block
from penstock.sql.plan.rules.aggregate import (
    aggregate_flow,
    check_distinct,
    own_aggregates,
)
from penstock.sql.plan.rules.changelog_project import (
    QualifiedRelation,
    changes_flow,
    check_add_kind,
    rows_flow,
)
from penstock.sql.plan.rules.flow import Flow, ScanFlow, renamed
from penstock.sql.plan.rules.joins import updates
from penstock.sql.plan.rules.lookup_join import compared_columns, is_lookup
from penstock.sql.plan.rules.top_n import (
    RowNumberQuery,
    check_limit,
    top_n_flow,
)
from penstock.sql.plan.rules.union_parts import have_other_keys, telling_column, union_parts
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal
from penstock.sql.syntax.traversal import find_nodes, is_table

# --- joins under changes ---

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
        stateful_joins = (
            j for j, n in zip(joins, nodes[1:], strict=True) if is_table(n) and not is_lookup(j)
        )
        join = next(stateful_joins, None)
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
    changed: Flow | Refusal = flow
    for position, (node, join, relation) in enumerate(zip(nodes, joins, relations, strict=True)):
        if not is_table(node):
            changed = _unfolded(flow, join)
            if isinstance(changed, Refusal):
                return changed
            flow = changed
            continue
        found = static_leaf(node)
        if (refusal := _check(join, found)) is not None:
            return refusal
        assert found is not None, "it was checked"
        assert isinstance(join, exp.Join), "it was checked"
        index, table = found
        looked_up.append((index, relation.alias))
        if not _is_unique(join, relation.alias, table):
            changed = _multiplied(flow, join, table)
            if isinstance(changed, Refusal):
                return changed
            flow = changed
        elif flow.changes is ChangelogMode.UPSERT and not join.side:
            assert table.key is not None, "a match is unique by the key"
            outer.append(position)
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
    using = (column.name for column in join.args.get("using") or [])
    return set(table.key) <= {*using, *compared_columns(join.args.get("on"), alias)}


def _multiplied(flow: Flow, join: exp.Join, table: ScanFlow) -> Flow | Refusal:
    if flow.changes is ChangelogMode.UPSERT:
        return Refusal(
            message=f"this join may give several rows for one upsert, as it does not compare a PRIMARY KEY of "
            f"{table.name}",
            hint="declare the PRIMARY KEY of that table, and compare all of it in ON, with its name before the columns",
            span=span_of(join),
        )
    return replace(flow, key=None)


# --- queries ---


@dataclass(frozen=True, slots=True, kw_only=True)
class FromClause:
    """The relations of a FROM clause, and the joined one; `where` is the WHERE without bounds of numbers."""

    relations: list[QualifiedRelation]
    joined: JoinedFlow
    where: exp.Where | None


def windows_flow(flow: Flow, kind: WindowKind, span: Span | None) -> Flow | Refusal:
    """Return the flow of rows with their windows."""
    if flow.is_changing:
        return Refusal(
            message=f"{kind} over rows that are updated or deleted is not supported",
            hint="aggregate without a window into a table with a PRIMARY KEY: GROUP BY FLOOR(ts TO MINUTE), ...",
            span=span,
        )
    columns = None if flow.columns is None else (*flow.columns, *WINDOW_COLUMNS)
    return replace(flow, columns=columns)


def check_numbered(numbered: RowNumberQuery, tables: Sequence[ScanFlow]) -> Refusal | None:
    """Refuse a query that numbers rows before its FROM is looked at."""
    if (refusal := check_limit(numbered)) is not None:
        return refusal
    if numbered.is_by_arrival(frozenset().union(*(table.proctimes for table in tables))):
        return Refusal(
            message="the order in which rows come is not known in Spark's update mode",
            hint="order by a column of the rows",
            span=span_of(numbered.item),
        )
    return None


def numbered_flow(numbered: RowNumberQuery, found: FromClause) -> Flow | Refusal:
    """Return the flow of a query that numbers rows in update mode."""
    source = found.joined.flow
    return _check_chain(source, numbered.item, "ROW_NUMBER") or top_n_flow(
        numbered, found.relations, source
    )


def select_flow(block: Block, found: FromClause, *, windowed: bool) -> Flow | Refusal:
    """Return the flow of a SELECT over its FROM clause. `windowed`: windows end its groups, or its distinct rows."""
    select = block.select
    if (refusal := check_over(select) or _check_sorting(select)) is not None:
        return refusal
    if is_aggregation(select):
        return _aggregated(select, found, windowed=windowed)
    relations, source = found.relations, found.joined.flow
    if source.is_changing:
        return changes_flow(select, relations, source, found.where, found.joined.conditions)
    if (refusal := _check_keeping_all(block, windowed=windowed)) is not None:
        return refusal
    distinct = select.args.get("distinct")
    return rows_flow(select, relations, source.stateful or (None if distinct is None else select))


def is_aggregation(select: exp.Select) -> bool:
    """Return whether a SELECT aggregates."""
    return select.args.get("group") is not None or bool(own_aggregates(select))


def _aggregated(select: exp.Select, found: FromClause, *, windowed: bool) -> Flow | Refusal:
    group, source = select.args.get("group"), found.joined.flow
    if windowed and not source.is_changing:
        return check_distinct(select) or rows_flow(select, found.relations, group)
    if (refusal := _check_chain(source, group or select, "an aggregation")) is not None:
        return refusal
    if found.joined.conditions:
        return Refusal(
            message="an aggregation over a join of upserts is not supported",
            span=span_of(group or select),
        )
    return aggregate_flow(select, found.relations, source)


def union_flow(node: exp.SetOperation, flows: Sequence[Flow]) -> Flow | Refusal:
    """Return the flow of a set operation over the flows of its sides."""
    plain = isinstance(node, exp.Union) and not node.args.get("distinct")
    stateful = next((flow.stateful for flow in flows if flow.stateful is not None), None)
    if not any(flow.is_changing for flow in flows):
        if not plain:
            return Refusal(
                message=f"{node.key.upper()} of streams keeps every row it has seen and is not supported in "
                "Spark's append mode",
                hint="UNION ALL is",
                span=span_of(node),
            )
        return Flow(columns=flows[0].columns, stateful=stateful)
    refusal = _check_union(node, flows, plain=plain, stateful=stateful)
    return refusal or _united(node, flows)


def _united(node: exp.SetOperation, branches: Sequence[Flow]) -> Flow | Refusal:
    """Return the flow of a UNION ALL of changes."""
    names = list(branches[0].columns or ())
    flows = [renamed(flow, names) for flow in branches]
    first = next(flow for flow in flows if flow.is_changing)
    upserts = [flow for flow in flows if flow.changes is ChangelogMode.UPSERT]
    if any(flow.key != first.key for flow in upserts):
        return Refusal(
            message="UNION ALL of upserts by different keys is not supported",
            hint="give the key the same columns in both queries",
            span=span_of(node),
        )
    kinds = any(flow.kinds for flow in flows)
    for side, flow in zip((node.this, node.expression), branches, strict=True):
        if (refusal := check_add_kind(side) if kinds and not flow.kinds else None) is not None:
            return refusal
    constants = frozenset.intersection(*(flow.constants for flow in flows))
    if first.changes is ChangelogMode.ALL:
        first = replace(first, key=None)  # a key of each part is no key of all
    else:
        parts = union_parts(node)
        telling = telling_column(parts, names)
        if first.key is None or (telling is None and not have_other_keys(parts, names, first.key)):
            return Refusal(
                message="UNION ALL of upserts whose keys may meet is not supported: the delete of a key in one part "
                "would delete the row of the other",
                hint="tell the parts apart by a constant column that belongs into the PRIMARY KEY of the target: "
                "SELECT 'a' AS part, ... UNION ALL SELECT 'b' AS part, ...; or by WHERE, over columns of the key alone",
                span=span_of(node),
            )
        if telling is not None:
            first = replace(first, key=tuple(dict.fromkeys((*first.key, telling))))
            constants -= {telling}
    return replace(
        first, kinds=kinds, constants=constants if first.mechanism is None else frozenset()
    )


def check_over(select: exp.Select) -> Refusal | None:
    """Refuse an OVER of the SELECT itself."""
    for window in find_nodes(select, exp.Window):
        call = window.this.find(exp.Func)  # none in a WINDOW clause: what is OVER it comes, too
        if call is not None and window.find_ancestor(exp.Select) is select:
            return Refusal(
                message=f"{call.sql_name()} OVER a stream is not supported here: beside GROUP BY, lookups, or outside "
                "the SELECT list",
                hint="give it a SELECT of its own: aggregate or look up in a query in FROM or in a second INSERT, and "
                "filter on its result in the query around it",
                span=span_of(window),
            )
    return None


def _check_chain(source: Flow, node: exp.Expr, name: str) -> Refusal | None:
    """Refuse an updating operator over one that keeps state, or that emits no row before an update."""
    span = span_of(node)
    if source.mechanism is not None:
        return Refusal(
            message=f"{name} over the results of {source.mechanism.named} is not supported: "
            "Spark updates one such operator in a query",
            hint="write the inner results into a Delta table with a PRIMARY KEY, and query that table",
            span=span,
        )
    if source.stateful is not None:
        return Refusal(
            message=f"{name} without a window over a windowed aggregation, a join of streams or a DISTINCT is not "
            "supported",
            hint="write the inner results into a Delta table, and read that in a second INSERT",
            span=span,
        )
    if source.changes is ChangelogMode.UPSERT:
        return Refusal(
            message=f"{name} over upserts is not supported: what a row was before is not told",
            hint="write the upserts into a Delta table with the same PRIMARY KEY and aggregate that, or read the "
            "changes in a format that has the row before (debezium-json)",
            span=span,
        )
    return None


def _check_sorting(select: exp.Select) -> Refusal | None:
    """Refuse clauses that would have to wait for the end of a stream."""
    for name, words in (("order", "ORDER BY"), ("offset", "OFFSET")):
        node = select.args.get(name)
        if node is not None and find_nodes(select, ScanTable):
            return Refusal(
                message=f"{words} of a stream is not supported",
                hint="sort where the rows are read; ROW_NUMBER() OVER (ORDER BY ...) AS n in a query in FROM, and "
                "WHERE n <= 10 in the query around it keep the best",
                span=span_of(node) or span_of(select),
            )
    return None


def _check_keeping_all(block: Block, *, windowed: bool) -> Refusal | None:
    """Refuse what would keep every row in Spark permanently, or what Spark's append mode cannot do."""
    select, join = block.select, updates(block)
    if join is not None:
        return Refusal(
            message="this join of streams has no bound in time, and its results may change",
            hint="compare event times: b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR",
            span=span_of(join) or span_of(select),
        )
    if select.args.get("distinct") is not None and not windowed:
        return Refusal(
            message="SELECT DISTINCT over a stream keeps every row it has seen and is not supported without a window",
            hint="add window_start and window_end of a windowing function to the selected columns",
            span=span_of(select),
        )
    return None


def _check_union(
    node: exp.SetOperation, flows: Sequence[Flow], *, plain: bool, stateful: exp.Expr | None
) -> Refusal | None:
    changing = [flow for flow in flows if flow.is_changing]
    if not plain:
        return Refusal(
            message=f"{node.key.upper()} of rows that are updated or deleted is not supported",
            hint="UNION ALL is",
            span=span_of(node),
        )
    updating = [flow for flow in changing if flow.mechanism is not None]
    if len(updating) > 1 or (updating and stateful is not None):
        return Refusal(
            message="Spark updates one operator with state in a query; this UNION ALL has two",
            hint="write one INSERT for each part",
            span=span_of(node),
        )
    if len({flow.changes for flow in changing}) > 1:
        return Refusal(
            message="UNION ALL of upserts with changes that have the row before is not supported",
            hint="write one INSERT for each part",
            span=span_of(node),
        )
    if any(flow.columns is None for flow in flows):
        return Refusal(
            message="the columns of a part of this UNION ALL cannot be told",
            hint="name the columns",
            span=span_of(node),
        )
    return None
