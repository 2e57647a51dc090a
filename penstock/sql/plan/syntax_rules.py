"""The rules over a query's syntax that come before it is planned, in their order.

They decide what a checkpoint and a replayed batch are compared by: the text of the query that Spark runs. They raise
for what has a wrong form, whatever would run the query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import reduce
from pathlib import Path

from sqlglot import exp

from penstock.catalog.definitions.information_schema import is_information
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputError
from penstock.catalog.model.table import ComputedColumn
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import Source, SourceKind
from penstock.connector.registry import connector_of
from penstock.sql.binding.binder import annotate
from penstock.sql.dialect import WindowTable, window_tables
from penstock.sql.dialect.rewrites.unfold_grouping_sets import (
    unfold_group_ids,
    unfold_grouping_sets,
)
from penstock.sql.information_schema.source import InformationSource
from penstock.sql.plan.logical.facts import Arrival
from penstock.sql.plan.rules.field_paths import Paths, field_paths
from penstock.sql.plan.rules.flow import ScanFlow
from penstock.sql.plan.rules.inline import Relations, TableReference, find_relations
from penstock.sql.plan.rules.inline import number_scans as number_tables
from penstock.sql.plan.rules.joins import has_temporal
from penstock.sql.plan.rules.local_windows import move_windows
from penstock.sql.plan.rules.lookup_join import take_lookups
from penstock.sql.plan.rules.prune_columns import narrowed_input, wanted_columns, with_key
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.positions import span_of


class PlanForm(StrEnum):
    """The forms in which versions plan a query, the oldest first; a checkpoint resumes in that of its version."""

    TIES_OPEN = "ties-open"
    """Ties in an order are left open."""
    TIES_BROKEN = "ties-broken"
    """They are broken by arrival."""
    WINDOWS_FOLLOWED = "windows-followed"
    """The bounds of windows are followed to where they have other names."""
    REGULAR_JOINS = "regular-joins"
    """Inner joins that the watermark does not end run by keyed operators, where Spark could stream them."""
    TIME_JOINS = "time-joins"
    """So do those that the watermark ends, where it is known when a row does."""
    PANES = "panes"
    """So do aggregations by windows below such joins, whose rows are grouped by pane."""
    BEST_ROWS = "best-rows"
    """So do deduplication and Top-1 of the rows of a table, which Spark's update mode ran."""
    ACCUMULATORS = "accumulators"
    """So do aggregations with DISTINCT of the rows of a table, which Spark's update mode ran, or which kept these."""
    STORED_JOINS = "stored-joins"
    """Inner joins stay with Spark where keyed operators cannot store their columns, or compute their conditions."""
    LISTS_APART = "lists-apart"
    """SELECT lists of aggregations that keyed operators do not compute are computed behind these."""
    CURRENT = LISTS_APART

    @property
    def age(self) -> int:
        """The place of a form among all, the oldest first."""
        return list(PlanForm).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxContext:
    """What a query is read for.

    `appends`: it feeds a sink. `shown` has what tables of `information_schema` show; None is `namespace`. `time_zone`
    is the session's.
    """

    namespace: Namespace
    project: Path
    appends: bool
    form: PlanForm = PlanForm.CURRENT
    shown: Namespace | None = None
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySyntax:
    """A query as it is planned, and its tables in order of their first mention.

    Rules change the tree of `query` in place and return what they found beside it. `inputs` are all columns of the
    tables, of which the query reads those `wanted` (None: all); `paths` are the names that it mentions, with what
    follows them. `lookups` are the tables that are looked up; `temporal`: it joins as of an event time. `as_is`: Spark
    runs it as it is, as all tables are at rest, or it only shows rows that stay.
    """

    query: exp.Expr
    leaves: tuple[TableReference, ...] = ()
    sources: tuple[Source, ...] = ()
    inputs: tuple[ScanFlow, ...] = ()
    wanted: tuple[frozenset[str] | None, ...] = ()
    paths: Mapping[str, Paths] = field(default_factory=dict)
    lookups: frozenset[int] = frozenset()
    temporal: bool = False
    as_is: bool = False

    @property
    def bounded(self) -> bool:
        """Whether every table has an end."""
        return all(source.bounded for source in self.sources)

    @property
    def changes(self) -> bool:
        """Whether rows of some table are updated or deleted."""
        return any(source.changes is not ChangelogMode.INSERT_ONLY for source in self.sources)

    @property
    def followed(self) -> frozenset[int]:
        """The tables that Spark reads as streams; none where some change, whose joins are look-ups or incremental."""
        if self.changes:
            return frozenset()
        leaves = enumerate(self.sources)
        return frozenset(i for i, s in leaves if s.kind is not SourceKind.SNAPSHOT) - self.lookups

    @property
    def tables(self) -> tuple[ScanFlow, ...]:
        """The tables with the columns that are read of them."""
        return tuple(map(narrowed_input, self.inputs, self.wanted))

    @property
    def keyed(self) -> tuple[frozenset[str] | None, ...]:
        """The columns that are wanted where the rows that upserts replace are looked for."""
        return tuple(map(with_key, self.inputs, self.wanted))


SyntaxRule = Callable[[QuerySyntax, SyntaxContext], QuerySyntax]


def read_query(query: exp.Expr, context: SyntaxContext) -> QuerySyntax:
    """Apply the rules to a query, which is not changed. Raises InputError subclasses for wrong forms."""
    return reduce(
        lambda syntax, rule: rule(syntax, context), SYNTAX_RULES, QuerySyntax(query=query)
    )


def write_out_views(syntax: QuerySyntax, context: SyntaxContext) -> QuerySyntax:
    """Write out the views of a query in a copy of it, and find its tables."""
    relations = find_relations(syntax.query, context.namespace)
    return replace(syntax, query=relations.query, leaves=relations.leaves)


def bind_types(syntax: QuerySyntax, context: SyntaxContext) -> QuerySyntax:
    """Give expressions their types: how they are written for Spark depends on these."""
    annotate(syntax.query, context.namespace)
    return syntax


def cut_local_windows(syntax: QuerySyntax, context: SyntaxContext) -> QuerySyntax:
    """Cut windows over instants in the session's time zone."""
    move_windows(syntax.query, context.time_zone)
    return syntax


def find_sources(syntax: QuerySyntax, context: SyntaxContext) -> QuerySyntax:
    """Make the sources of the tables, which check their options."""
    sources = tuple(_source(leaf, context) for leaf in syntax.leaves)
    inputs = tuple(map(_input, syntax.leaves, sources))
    if context.form is PlanForm.TIES_OPEN:
        inputs = tuple(replace(table, arrival=Arrival.OPEN) for table in inputs)
    found = replace(syntax, sources=sources, inputs=inputs)
    at_rest = all(source.kind is SourceKind.SNAPSHOT for source in sources)
    return replace(found, as_is=at_rest or not (context.appends or found.changes))


def number_scans(syntax: QuerySyntax, _: SyntaxContext) -> QuerySyntax:
    """Give tables of the query their numbers."""
    number_tables(Relations(query=syntax.query, leaves=syntax.leaves))
    return syntax


def take_lookup_joins(syntax: QuerySyntax, _: SyntaxContext) -> QuerySyntax:
    """Mark the tables that are joined as of a processing time."""
    lookups = take_lookups(syntax.query, syntax.inputs, bounded=syntax.bounded)
    return replace(syntax, lookups=lookups)


def find_temporal_joins(syntax: QuerySyntax, _: SyntaxContext) -> QuerySyntax:
    """Find joins as of an event time."""
    return replace(syntax, temporal=has_temporal(syntax.query))


def unfold_sets(syntax: QuerySyntax, _: SyntaxContext) -> QuerySyntax:
    """Unfold grouping sets; of a query that Spark reads once, those only that Spark has not."""
    if syntax.as_is and syntax.bounded and not syntax.temporal:
        unfold_group_ids(syntax.query)
    else:
        unfold_grouping_sets(syntax.query)
    return syntax


def prune_columns(syntax: QuerySyntax, _: SyntaxContext) -> QuerySyntax:
    """Find the columns that are read of each table, and mark the tables whose late rows a window counts."""
    windows = window_tables(syntax.query)
    unnamed = _unnamed_columns(windows, syntax.inputs if syntax.temporal else ())
    wanted = wanted_columns(syntax.query, syntax.inputs, unnamed)
    for window in windows:
        if isinstance(window.input, ScanTable):
            window.input.set("counts_late", True)
    paths = {} if all(names is None for names in wanted) else field_paths([syntax.query])
    return replace(syntax, wanted=wanted, paths=paths)


SYNTAX_RULES: tuple[SyntaxRule, ...] = (
    write_out_views,
    bind_types,
    cut_local_windows,
    find_sources,
    number_scans,
    take_lookup_joins,
    find_temporal_joins,
    unfold_sets,
    prune_columns,
)


def _unnamed_columns(
    windows: Sequence[WindowTable], versioned: Sequence[ScanFlow]
) -> frozenset[str]:
    """Return the columns that a query reads, named or not.

    Windows read their time column, temporal joins key and rowtime of `versioned` tables.
    """
    times = {table.rowtime for table in versioned if table.rowtime is not None}
    keys = frozenset[str]().union(*(table.key or () for table in versioned))
    return keys | times | {window.time_column for window in windows}


def _source(leaf: TableReference, context: SyntaxContext) -> Source:
    if is_information(leaf.table.identifier):
        shown = context.shown or context.namespace
        return InformationSource(table=leaf.table, namespace=shown, project=context.project)
    connector = connector_of(leaf.table, project=context.project)
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


def _input(leaf: TableReference, source: Source) -> ScanFlow:
    schema = leaf.table.schema
    watermark = schema.watermark if source.kind is SourceKind.SPLITS else None
    return ScanFlow(
        name=str(leaf.table.identifier),
        columns=schema.names,
        changes=source.changes,
        key=schema.primary_key.columns if schema.primary_key is not None else None,
        static=source.kind is not SourceKind.SPLITS and len(leaf.nodes) == 1,
        proctimes=frozenset(
            column.name
            for column in schema.columns
            if isinstance(column, ComputedColumn) and column.expression.upper() == "PROCTIME()"
        ),
        rowtime=watermark.column if watermark is not None else None,
        arrival=Arrival.RECORD if source.kind is SourceKind.SPLITS else Arrival.BATCH,
    )
