"""Traits of stages: the rows that stages give of each query, or why they cannot.

What Spark streams by itself is left to it: the largest queries, and the largest FROM clauses, whose rows are inserts
and whose joins all end with the watermark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from penstock.sql.dialect.parser.table_functions import table_call
from penstock.sql.dialect.rewrites.unfold_grouping_sets import is_determined, key_text
from penstock.sql.plan.builder.joins import INNER
from penstock.sql.plan.clauses.joins import (
    conjuncts,
    has_query,
    pairs_of,
    read_correlated,
    read_join_kind,
    read_query_condition,
    read_relation_names,
)
from penstock.sql.plan.clauses.over import OverWindow, over_calls, read_window
from penstock.sql.plan.clauses.temporal_joins import (
    refuse_left_without_rowtime,
    refuse_unversioned,
)
from penstock.sql.plan.logical import nodes
from penstock.sql.plan.placement.blocks import (
    BlockRelation,
    QueryBlock,
    StageTrait,
    numbering_block,
    query_block,
    remembered,
    rowtimes_of,
)
from penstock.sql.plan.placement.spark import SparkTraits, StreamedParts
from penstock.sql.plan.placement.stage_from import (
    Shown,
    expanded_items,
    join_rows,
    join_versions,
    open_relation,
    read_conditions,
    set_rows,
    table_rows,
    top_n_rows,
    unnest_rows,
    version_rows,
    window_rows,
)
from penstock.sql.plan.placement.stage_select import (
    StageSource,
    Streamed,
    distinct_rows,
    is_constant,
    mechanism_at,
    needed_names,
    over_rows,
    read_values,
    refuse_clauses,
    refuse_nondeterministic,
    streamed_rows,
)
from penstock.sql.plan.rules.aggregate import (
    is_same,
    own_aggregates,
    refuse_ordered,
    refuse_ordinals,
)
from penstock.sql.plan.rules.changelog_mode import check_over, is_aggregation
from penstock.sql.plan.rules.changelog_project import QualifiedRelation
from penstock.sql.plan.rules.flow import Flow, OperatorKind
from penstock.sql.plan.rules.joins import is_temporal
from penstock.sql.plan.rules.top_n import (
    RowNumberQuery,
    check_limit,
    find_row_number,
)
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal

__all__ = ["StageTraits"]


class StageTraits:
    """The traits of the queries of one plan as stages, each found once; `spark` are those of Spark.

    `kept` are the places of relations of which operators without a bound in time keep rows.
    """

    def __init__(self, scans: Sequence[nodes.Scan], spark: SparkTraits) -> None:
        self._proctimes = frozenset[str]().union(*(scan.proctimes for scan in scans))
        self._spark = spark
        self._found: dict[int, StageTrait | Refusal] = {}
        self._streams = StreamedParts(spark)
        self._native: set[int] = set()
        self._whole: set[int] = set()
        self.kept: set[int] = set()

    def of(self, node: nodes.Node) -> StageTrait | Refusal:
        """Return the trait of an operator that is the top of a query."""
        return remembered(node, self._found, self._of)

    def known(self, node: nodes.Node) -> StageTrait | None:
        """Return the trait of an operator; None for one inside a SELECT that has its inputs' or its query's."""
        found = self._found.get(id(node))
        return None if isinstance(found, Refusal) else found

    def streams_from(self, block: QueryBlock) -> bool:
        """Return whether Spark streams FROM and WHERE of a SELECT that a stage runs."""
        return id(block.block) in self._native

    def streamed(self, node: nodes.Node) -> StageTrait | None:
        """Return the rows of a query, or of a windowing function, that Spark streams as the user wrote it."""
        return self.known(node) if id(node) in self._whole else None

    def streamed_relations(self, block: QueryBlock) -> list[QualifiedRelation]:
        """Return the relations of a FROM that Spark streams, with the columns that stars stand for."""
        return self._streams.relations(block)

    def _of(self, node: nodes.Node) -> StageTrait | Refusal:
        streamed = self._streams.query(node)
        if streamed is not None:
            self._whole.add(id(node))
            return streamed
        match node:
            case nodes.SetOp():
                return self._set(node)
            case nodes.Limit() if isinstance(node.syntax, exp.Subquery):
                refusal = refuse_clauses(node.syntax)
                assert refusal is not None, "it has a clause"
                return refusal
            case nodes.Limit() if query_block(node) is None:
                if isinstance(node.input, nodes.SetOp) and node.syntax is node.input.syntax:
                    return self._set(node.input)
                return self.of(node.input)
            case _:
                block = query_block(node)
                if block is None:
                    assert node.syntax is not None, "it is the top of a query"
                    return Refusal(
                        message="this query cannot be kept up to date as rows come",
                        span=span_of(node.syntax),
                    )
                return self._select(block)

    def _set(self, node: nodes.SetOp) -> StageTrait | Refusal:
        left = self.of(node.left)
        if isinstance(left, Refusal):
            return left
        right = self.of(node.right)
        if isinstance(right, Refusal):
            return right
        assert isinstance(node.syntax, exp.SetOperation), "it is one"
        return set_rows(node.syntax, left, right)

    # --- relations ---

    def _relation(
        self, relation: BlockRelation, numbered: RowNumberQuery | None, reader: exp.Select
    ) -> Shown | Refusal:
        """Return a relation in FROM under the names of its columns there."""
        rows = self._rows(relation, numbered, reader)
        if isinstance(rows, Refusal):
            return rows
        names = read_relation_names(relation.place, rows.columns)
        if isinstance(names, Refusal):
            return names
        if relation.node is not None:
            self._found[id(relation.node)] = rows
        return rows, names

    def _rows(
        self, relation: BlockRelation, numbered: RowNumberQuery | None, reader: exp.Select
    ) -> StageTrait | Refusal:
        if is_temporal(relation.place):
            return self._versions(relation, needed_names(reader))
        if numbered is not None and relation.top_n is not None:
            return self._top_n(relation.top_n, numbered)
        node = relation.node
        assert isinstance(node, nodes.SubqueryAlias), "each relation has a name"
        match node.input:
            case nodes.Scan() as scan:
                return table_rows(scan, needed_names(reader))
            case nodes.WindowAssign() as assigned:
                return self._windows(assigned, relation)
            case _ if isinstance(relation.place, exp.Table):
                call = table_call(relation.place)
                assert call is not None, "other tables are scans"
                return Refusal(
                    message=f"TABLE({call.name}(...)) is not supported in a query whose results are kept up to date",
                    hint=f"write LATERAL TABLE({call.name}(...)) behind a table",
                    span=span_of(relation.place),
                )
            case given:
                return self.of(given)

    def _windows(self, node: nodes.WindowAssign, relation: BlockRelation) -> StageTrait | Refusal:
        """Return rows with their windows: those of tables are Spark's."""
        flow = self._spark.of(node)
        if isinstance(flow, Flow) and self._streams.gives(node, flow):
            found = StageTrait(columns=flow.columns or (), stays=True, native=True)
            self._found[id(node)] = found
            self._whole.add(id(node))
            return found
        given = node.input
        bare = given.input if isinstance(given, nodes.SubqueryAlias) else given
        inner: StageTrait | Refusal
        match bare:
            case nodes.Scan():
                inner = table_rows(bare, None)
            case nodes.WindowAssign():
                inner = self._windows(bare, relation)
            case _:
                inner = self.of(bare)
        if isinstance(inner, Refusal):
            return inner
        if inner.native:
            if isinstance(flow, Refusal):
                return flow
            return Refusal(
                message="the columns of this windowing function cannot be told",
                hint="name the columns in the query that it reads",
                span=span_of(relation.place),
            )
        rows = self._found[id(node)] = window_rows(node, inner)
        return rows

    def _versions(
        self, relation: BlockRelation, needed: frozenset[str] | None
    ) -> StageTrait | Refusal:
        """Return the versions of a relation behind FOR SYSTEM_TIME AS OF."""
        join = relation.join
        if not isinstance(join, nodes.TemporalJoin):
            left = refuse_left_without_rowtime(relation.place.args["version"])
            assert relation.refused is not None, "it is no temporal join"
            # why its left side has no rowtime is told when it is joined
            late = relation.refused.message == left.message
            return StageTrait(columns=(), stays=False) if late else relation.refused
        view = relation.place
        if isinstance(view, exp.Subquery):
            block = numbering_block(join.right)
            if not self._streams.has_from(block):
                return refuse_unversioned(view)
            self._native.add(id(block.block))
        return version_rows(join, view, needed)

    def _top_n(self, node: nodes.TopN, numbered: RowNumberQuery) -> StageTrait | Refusal:
        if (refusal := check_limit(numbered)) is not None:
            return refusal
        block = query_block(node)
        assert block is not None, "it is a SELECT"
        source = self._source(block)
        if isinstance(source, Refusal):
            return source
        rows = self._found[id(node)] = top_n_rows(node, numbered, source)
        return rows

    # --- FROM and WHERE ---

    def _source(self, block: QueryBlock) -> StageSource | Streamed | Refusal:
        """Return the rows of FROM and WHERE; Streamed where Spark gives them."""
        if self._streams.has_from(block):
            self._native.add(id(block.block))
            return self._streams.refuse_stars(block) or Streamed()
        select = block.select
        if not block.relations:
            return Refusal(message="a query over streams needs a FROM", span=span_of(select))
        if (refusal := _refuse_first(block)) is not None:
            return refusal
        where = select.args.get("where")
        shown: list[Shown | None] = []
        for relation in block.relations:
            if not isinstance(relation.place, exp.Table | exp.Subquery):
                shown.append(None)
                continue
            numbered = None
            if not is_temporal(relation.place):
                numbered = find_row_number(where, relation.place)
            where = where if numbered is None else numbered.rest
            found = self._relation(relation, numbered, select)
            if isinstance(found, Refusal):
                return found
            shown.append(found)
        places = [relation.place for relation in block.relations]
        items = expanded_items(select, places, [None if own is None else own[1] for own in shown])
        if isinstance(items, Refusal):
            return items
        tests = conjuncts(where.this if where is not None else None)
        plain = [test for test in tests if not has_query(test)]
        source = self._joined(block, shown, plain)
        if isinstance(source, Refusal):
            return source
        return source.refuse(plain) or self._filtered(block, source, filter(has_query, tests))

    def _joined(
        self, block: QueryBlock, shown: Sequence[Shown | None], tests: list[exp.Expr]
    ) -> StageSource | Refusal:
        """Join the relations of FROM from left to right; equalities of WHERE that are used are removed from `tests`."""
        relations = block.relations
        kinds: list[nodes.JoinType | None] = []
        for relation in relations[1:]:
            kind = (
                read_join_kind(relation.clause) if isinstance(relation.clause, exp.Join) else None
            )
            if isinstance(kind, Refusal):
                return kind
            kinds.append(kind)
        inner_joins = all(kind in (None, nodes.JoinType.INNER) for kind in kinds)
        early = tests if inner_joins else []
        first = shown[0]
        assert first is not None, "a function stands behind a relation"
        source = open_relation(relations[0], first, early)
        joined = 1
        for relation, given, kind in zip(relations[1:], shown[1:], kinds, strict=True):
            if isinstance(source, Refusal):
                return source
            assert relation.clause is not None, "it stands behind another"
            if given is None:
                source = unnest_rows(source, relation)
                continue
            assert isinstance(relation.clause, exp.Join), "tables are joined"
            assert kind is not None, "it was read"
            joined += 1
            timed = is_temporal(relation.place)
            right = open_relation(relation, given, [] if timed else early)
            if isinstance(right, Refusal):
                return right
            if timed and relation.refused is not None:
                return relation.refused
            conditions = read_conditions(relation.clause, kind, source, right, tests)
            if isinstance(conditions, Refusal):
                return conditions
            if timed:
                source = self._noted(
                    relation.join, join_versions(relation, kind, source, right, conditions)
                )
                continue
            self.kept.add(id(relation.place))
            if joined == 2:  # of what an earlier join gave, no hint can speak
                self.kept.add(id(relations[0].place))
            read = pairs_of(conditions, source, right)
            source = self._noted(
                relation.join, join_rows(kind, source, right, read, relation.clause)
            )
        return source

    def _noted(
        self, join: nodes.Node | None, source: StageSource | Refusal
    ) -> StageSource | Refusal:
        """Note the rows of a join inside a SELECT."""
        if join is not None and isinstance(source, StageSource):
            self._found[id(join)] = source.trait
        return source

    def _filtered(
        self, block: QueryBlock, source: StageSource, tests: Iterable[exp.Expr]
    ) -> StageSource | Refusal:
        """Keep the rows for which conditions with a query hold."""
        queries = iter(block.queries)
        for test in tests:
            read = read_query_condition(test)
            apart = read if isinstance(read, Refusal) else read_correlated(read, source.knows)
            if isinstance(apart, Refusal):
                return apart
            join = next(queries)
            rows = self.of(join.right)
            if isinstance(rows, Refusal):
                return rows
            right = StageSource.of(rows, INNER, rows.columns)
            conditions = (join.pairs, join.rest)
            kept = self._noted(join, join_rows(join.kind, source, right, conditions, test))
            if isinstance(kept, Refusal):
                return kept
            source = kept
        return source

    # --- SELECT ---

    def _select(self, block: QueryBlock) -> StageTrait | Refusal:
        select, core = block.select, block.core
        if (refusal := refuse_clauses(select)) is not None:
            return refusal
        grouped, calls = is_aggregation(select), over_calls(select)
        if (refusal := check_over(select) if grouped or not calls else None) is not None:
            return refusal
        window = read_window(select, calls, rowtimes_of(core), self._proctimes)
        if isinstance(window, Refusal):
            return window
        source = self._source(block)
        if isinstance(source, Refusal):
            return source
        rows = self._listed(block, source, window, calls)
        if isinstance(rows, Refusal) or select.args.get("distinct") is None:
            return rows
        if not grouped:
            self._keep_alone(block)
        return distinct_rows(rows, select)

    def _listed(
        self,
        block: QueryBlock,
        source: StageSource | Streamed,
        window: OverWindow | None,
        calls: Sequence[exp.Window],
    ) -> StageTrait | Refusal:
        """Return the rows of the SELECT list over FROM and WHERE."""
        select, items = block.select, block.core.items
        grouped = is_aggregation(select)
        kept = window is not None or grouped or isinstance(source, StageSource)
        varying = refuse_nondeterministic(select) if kept else None
        if window is not None:
            over = over_rows(items, source, window, calls)
            return over if isinstance(over, Refusal) else varying or over
        if varying is not None:
            return varying
        if grouped:
            return self._aggregated(block, source)
        return source.project(items) if isinstance(source, StageSource) else streamed_rows(items)

    def _aggregated(
        self, block: QueryBlock, source: StageSource | Streamed
    ) -> StageTrait | Refusal:
        select, items = block.select, block.core.items
        group = select.args.get("group")
        keys = list(group.expressions) if group is not None else []
        if (refusal := refuse_ordinals(keys)) is not None:
            return refusal
        closes = _closes(block, source)
        if not closes:
            self._keep_alone(block)
        for aggregate in own_aggregates(select):
            if (refusal := refuse_ordered(aggregate)) is not None:
                return refusal
        if isinstance(source, StageSource):
            refusal = source.refuse(read_values(keys, items, select.args.get("having")))
            if refusal is not None:
                return refusal
        shown = [
            next((name for name, value in items if is_same(value, key)), None)
            for key in keys
            if not is_determined(key)
        ]
        named = tuple(name for name in shown if name is not None)
        constants = {
            name
            for name, value in items
            if is_constant(value) and not any(is_same(value, key) for key in keys)
        }
        place = group or select
        texts = tuple(map(key_text, keys))
        return StageTrait(
            columns=tuple(name for name, _ in items),
            stays=closes,
            key=named if len(named) == len(shown) else None,
            constants=frozenset() if closes else frozenset(constants),
            mechanism=mechanism_at(OperatorKind.AGGREGATE, texts, "its rows", place),
            origin=place,
        )

    def _keep_alone(self, block: QueryBlock) -> None:
        """Note that an operator keeps rows of the only relation in FROM."""
        if len(block.relations) == 1:
            self.kept.add(id(block.relations[0].place))


def _refuse_first(block: QueryBlock) -> Refusal | None:
    """Return why FROM cannot begin as it does: with VALUES, or a function that unfolds rows, and no table."""
    first = block.relations[0].place
    if isinstance(first, exp.Table | exp.Subquery):
        return None
    return Refusal(
        message=f"{first.key.upper()} in front of rows that are kept is not supported",
        hint="put it behind them: FROM t JOIN (VALUES (1)) AS v (x) ON t.id = v.x",
        span=span_of(first) or span_of(block.select),
    )


def _closes(block: QueryBlock, source: StageSource | Streamed) -> bool:
    """Return whether watermarks close the windows of a stage's rows that a SELECT groups by."""
    if isinstance(source, Streamed) or not source.stays:
        return False
    return isinstance(block.core, nodes.Aggregate) and block.core.closed is not None
