"""Finds out what is known of a query before any JVM runs: tables and columns read, event time, boundedness.

Refuses early what cannot run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sqlglot import exp

from penstock.catalog.errors import InputError, UnsupportedError
from penstock.catalog.information_schema import is_information
from penstock.catalog.names import Namespace
from penstock.catalog.schema import ComputedColumn
from penstock.catalog.types import RowType
from penstock.connector.changelog import ROW_KIND, ChangelogMode
from penstock.connector.contract import (
    EngineSource,
    ProjectsFields,
    SplitSource,
    is_split_source,
)
from penstock.connector.read_once import ReadOnce
from penstock.connector.registry import connector_of
from penstock.sql.bind import annotate
from penstock.sql.dialect import window_tables
from penstock.sql.dialect.unfolded_sets import unfold_group_ids, unfold_grouping_sets
from penstock.sql.expressions import parse_expression
from penstock.sql.information_schema.source import InformationSource
from penstock.sql.plan.analysed_query import AnalysedLeaf, AnalysedQuery
from penstock.sql.plan.changelog import LEAF, ChangePlan, plan_changes
from penstock.sql.plan.columns import (
    delivered_columns,
    narrowed_input,
    wanted_columns,
    with_key,
)
from penstock.sql.plan.fields import Paths, field_paths, merged, row_paths
from penstock.sql.plan.flow import Arrival, Flow, TableInput
from penstock.sql.plan.lookup_joins import take_lookups
from penstock.sql.plan.lookup_keys import check_lookups
from penstock.sql.plan.relations import Leaf, find_relations
from penstock.sql.plan.rowtime import rowtime_of
from penstock.sql.plan.sink_changes import SinkTable, check_sink
from penstock.sql.plan.stateful import is_stateful
from penstock.sql.plan.temporal_joins import has_temporal
from penstock.sql.plan.temporal_leaves import check_rowtimes, numbered_anew, unnamed_columns
from penstock.sql.plan.unstreamable import check_processing_time, refuse_unequal_joins
from penstock.sql.positions import span_of
from penstock.sql.query_hints import bounds_state

__all__ = ["LEAF", "WINDOWED", "analyse"]

WINDOWED = "penstock.windowed"  # label of a table node that a windowing function reads


def analyse(
    query: exp.Expr,
    namespace: Namespace,
    project: Path,
    *,
    appends: bool,
    sink: SinkTable | None = None,
    state_ttl_ms: int = 0,
    breaks_ties: bool = True,
) -> AnalysedQuery:
    """Analyse a query; `appends` says that it feeds a sink, which without a `sink` only takes rows that stay.

    An updating query is maintained where Spark cannot stream it, and where its state has a time to live; one with the
    hint STATE_TTL always.

    Without `breaks_ties` it does not ask which of rows with equal order came first, as in earlier versions.

    Raises InputError subclasses: unknown tables, wrong options, updating queries that the sink cannot take.
    """
    relations = find_relations(query, namespace)
    # how an expression is written for Spark depends on types
    annotate(relations.query, namespace)
    sources = [_source(leaf, namespace, project) for leaf in relations.leaves]
    inserts = all(source.changes is ChangelogMode.INSERT_ONLY for source in sources)
    bounded = all(source.bounded for source in sources)
    for index, leaf in enumerate(relations.leaves):
        for node in leaf.nodes:
            node.meta[LEAF] = index
    inputs = tuple(map(_table_input, relations.leaves, sources))
    if not breaks_ties:
        inputs = tuple(replace(given, arrival=Arrival.OPEN) for given in inputs)
    lookups = take_lookups(
        relations.query,
        inputs,
        lambda node: node.meta_get(LEAF),
        bounded=bounded,
    )
    temporal = has_temporal(relations.query)
    # tables at rest are read as they are, and so is what only shows rows that stay
    as_is = all(isinstance(source, ReadOnce) for source in sources) or not (appends or not inserts)
    if as_is and bounded and not temporal:
        unfold_group_ids(relations.query)  # the other grouping sets Spark has itself
    else:
        unfold_grouping_sets(relations.query)
    windows = window_tables(relations.query)
    unnamed = unnamed_columns(windows, inputs if temporal else ())
    wanted = wanted_columns(relations.query, inputs, unnamed)
    for window in windows:
        window.input.meta[WINDOWED] = True
    read = _Read(
        query=relations.query,
        leaves=relations.leaves,
        sources=tuple(sources),
        wanted=wanted,
        paths={} if all(names is None for names in wanted) else field_paths([relations.query]),
        inputs=inputs,
        lookups=lookups,
    )
    target = sink or _APPENDS
    if temporal:
        maintained = read.maintained()
        if appends:
            check_sink(maintained.flow, target)
        return maintained
    if as_is:
        return read.analysed(ChangePlan(query=relations.query, flow=Flow(columns=None)))
    return _changing(read, target if appends else None, state_ttl_ms=state_ttl_ms)


def _changing(read: _Read, target: SinkTable | None, *, state_ttl_ms: int) -> AnalysedQuery:
    """Analyse a query whose changes are followed, for a sink if there is one."""
    check_processing_time(read.query, read.inputs)
    refuse_unequal_joins(read.query, read.followed, bounded=True)
    try:
        refuse_unequal_joins(read.query, read.followed, bounded=False)
        plan = plan_changes(read.query, tuple(map(narrowed_input, read.inputs, read.wanted)))
        if not bounds_state(read.query) and (plan.flow.mechanism is None or state_ttl_ms == 0):
            if target is not None:
                check_sink(plan.flow, target)
            return read.analysed(plan)
    except UnsupportedError:
        if read.lookups:
            raise  # what is maintained follows its tables, and a lookup does not
    maintained = read.maintained()
    if target is not None:
        check_sink(maintained.flow, target)
    return maintained


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A query without views, and its tables, of which it reads the columns `wanted` (None: all).

    `paths` are the names that it mentions, with what follows them.
    """

    query: exp.Expr
    leaves: tuple[Leaf, ...]
    sources: tuple[SplitSource | EngineSource, ...]
    inputs: tuple[TableInput, ...]
    wanted: tuple[frozenset[str] | None, ...]
    paths: Mapping[str, Paths]
    lookups: frozenset[int]

    @property
    def followed(self) -> frozenset[int]:
        """The tables that Spark reads as streams; none where some change, whose joins are looked up or maintained."""
        if any(table.changes is not ChangelogMode.INSERT_ONLY for table in self.inputs):
            return frozenset()
        leaves = enumerate(self.sources)
        return frozenset(i for i, s in leaves if not isinstance(s, ReadOnce)) - self.lookups

    def analysed(self, plan: ChangePlan) -> AnalysedQuery:
        """Give the query as Spark runs it."""
        # results that are updated wait for no watermark, and drop no row that is late
        waits = plan.flow.mechanism is None
        stateful = waits and (is_stateful(plan.query) or bool(window_tables(plan.query)))
        leaves = tuple(
            replace(
                _with_fields(
                    _analyse_leaf(leaf, source, wanted, stateful=stateful),
                    source,
                    {} if wanted is None else self.paths,
                ),
                looked_up=index in plan.looked_up | self.lookups or isinstance(source, ReadOnce),
                marked=waits,
            )
            for index, (leaf, source, wanted) in enumerate(
                zip(self.leaves, self.sources, self.wanted, strict=True)
            )
        )
        check_lookups(plan.query, leaves, self.sources)
        return AnalysedQuery(query=plan.query, leaves=leaves, flow=plan.flow)

    def maintained(self) -> AnalysedQuery:
        """Give the query as its feeds and stages. Raises UnsupportedError for what cannot be maintained."""
        for index in self.lookups:
            raise UnsupportedError(
                f"the results of this query are kept up to date, and a lookup in {self.inputs[index].name} gives other "
                "rows each time",
                hint="INSERT the joined rows into a Delta table first, and read that",
            )
        from penstock.sql.maintain.planning import plan_maintained  # few queries are maintained

        wanted = tuple(map(with_key, self.inputs, self.wanted))
        tables = tuple(map(narrowed_input, self.inputs, wanted))
        for leaf, source in zip(self.leaves, self.sources, strict=True):
            if isinstance(source, ReadOnce):
                raise _not_followed(leaf)
        plan = plan_maintained(self.query, tables)
        timed = plan.waiting | plan.timed
        leaves = tuple(
            replace(
                _analyse_leaf(leaf, source, names, stateful=index in timed),
                marked=index in plan.waiting,
            )
            for index, (leaf, source, names) in enumerate(
                zip(self.leaves, self.sources, wanted, strict=True)
            )
        )
        named = [str(leaf.table.identifier) for leaf in leaves]
        check_rowtimes(plan.maintained, [leaf.rowtime for leaf in leaves], named)
        order = _relabelled(plan.query)
        return AnalysedQuery(
            query=plan.query,
            leaves=tuple(leaves[index] for index in order),
            flow=plan.flow,
            maintained=numbered_anew(plan.maintained, order),
        )


def _relabelled(query: exp.Expr) -> list[int]:
    """Number the leaves of a query anew, in the order in which Spark finds them; gives the numbers that they had."""
    order: list[int] = []
    for node in query.find_all(exp.Table, bfs=False):
        index = node.meta.get(LEAF)
        if index is not None:
            if index not in order:
                order.append(index)
            node.meta[LEAF] = order.index(index)
    return order


_APPENDS = SinkTable(name="the sink", accepts=ChangelogMode.INSERT_ONLY, columns=())


def _source(leaf: Leaf, namespace: Namespace, project: Path) -> SplitSource | EngineSource:
    if is_information(leaf.table.identifier):
        return InformationSource(table=leaf.table, namespace=namespace, project=project)
    connector = connector_of(leaf.table, project=project)
    try:
        connector.check(leaf.table)
        return connector.source(leaf.table)
    except InputError as error:
        node = leaf.nodes[0]
        if not node.args.get(
            "hints"
        ):  # where there are some, the option that is wrong may stand there
            error.span = error.span or span_of(node)
        raise


def _not_followed(leaf: Leaf) -> UnsupportedError:
    return UnsupportedError(
        f"the results of this query are kept up to date, and the changes of {leaf.table.identifier} cannot be "
        f"followed: a table with the connector '{leaf.table.connector}' is read as it is",
        hint="INSERT it into a Delta table first, and read that",
        span=span_of(leaf.nodes[0]),
    )


def _table_input(leaf: Leaf, source: SplitSource | EngineSource) -> TableInput:
    schema = leaf.table.schema
    watermark = schema.watermark if is_split_source(source) else None
    return TableInput(
        name=str(leaf.table.identifier),
        columns=schema.names,
        changes=source.changes,
        key=schema.primary_key.columns if schema.primary_key is not None else None,
        static=not is_split_source(source) and len(leaf.nodes) == 1,
        proctimes=frozenset(
            column.name
            for column in schema.columns
            if isinstance(column, ComputedColumn) and column.expression.upper() == "PROCTIME()"
        ),
        rowtime=watermark.column if watermark is not None else None,
        arrival=Arrival.RECORD if is_split_source(source) else Arrival.BATCH,
    )


def _with_fields(
    leaf: AnalysedLeaf, source: SplitSource | EngineSource, paths: Mapping[str, Paths]
) -> AnalysedLeaf:
    """Narrow the rows of a table to the fields that the query, its own expressions and its watermark name."""
    schema = leaf.table.schema
    if not paths or source.changes is not ChangelogMode.INSERT_ONLY:
        return leaf
    if not any(isinstance(schema.column(name).type, RowType) for name in leaf.columns):
        return leaf
    if not (isinstance(source, ProjectsFields) and source.projects_fields):
        return leaf
    own = [c.expression for c in schema.columns if isinstance(c, ComputedColumn)]
    own += [schema.watermark.expression] if schema.watermark is not None else []
    asked = dict(paths)
    for name, more in field_paths(map(parse_expression, own)).items():
        asked[name] = merged((asked[name], more)) if name in asked else more
    return replace(leaf, fields=row_paths(schema, leaf.columns, asked))


def _analyse_leaf(
    leaf: Leaf,
    source: SplitSource | EngineSource,
    wanted: frozenset[str] | None,
    *,
    stateful: bool,
) -> AnalysedLeaf:
    by_splits = is_split_source(source)
    columns, computed = delivered_columns(leaf.table.schema, wanted)
    if source.changes is not ChangelogMode.INSERT_ONLY:
        columns = (*columns, ROW_KIND)
    alignment = source.watermark.alignment if by_splits else None  # type: ignore[union-attr]
    followed = by_splits and (stateful or alignment is not None)
    rowtime = rowtime_of(leaf.table) if followed else None
    return AnalysedLeaf(
        table=leaf.table,
        columns=columns,
        computed=computed,
        rowtime=rowtime,
        by_splits=by_splits,
        bounded=source.bounded,
        group=alignment.group if alignment is not None and rowtime is not None else None,
        source=source if isinstance(source, InformationSource) else None,
    )
