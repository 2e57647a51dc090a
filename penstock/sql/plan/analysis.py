"""What is known of a query before any JVM runs: tables and columns read, event time, boundedness. Refuses early."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sqlglot import exp

from penstock.catalog.names import Namespace
from penstock.catalog.table import Table
from penstock.connector.contract import is_split_source
from penstock.connector.registry import connector_of
from penstock.connector.rowtime import Rowtime
from penstock.sql.bind import annotate
from penstock.sql.dialect import window_tables
from penstock.sql.plan.append_only import check_append_only, is_stateful
from penstock.sql.plan.columns import delivered_columns, mentioned_names
from penstock.sql.plan.relations import Leaf, find_relations
from penstock.sql.plan.rowtime import rowtime_of

__all__ = ["LEAF", "WINDOWED", "AnalysedLeaf", "AnalysedQuery", "analyse"]

LEAF = "penstock.leaf"  # label of a table node: index of its leaf
WINDOWED = "penstock.windowed"  # label of a table node that a windowing function reads


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysedLeaf:
    """A table that a query reads. `columns` come from the source, `computed` are Flink SQL over them.

    `rowtime` is set when the query waits for the table's watermark, or the table is aligned by it; `by_splits`
    tells the split runtime's tables from those that the engine reads. `group` is the table's alignment group.
    """

    table: Table
    columns: tuple[str, ...]
    computed: Mapping[str, str] = field(default_factory=dict)
    rowtime: Rowtime | None = None
    by_splits: bool = True
    bounded: bool = False
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysedQuery:
    """A query without views, its table nodes labelled with their leaf. `bounded`: every table it reads has an end."""

    query: exp.Expr
    leaves: tuple[AnalysedLeaf, ...]

    @property
    def bounded(self) -> bool:
        """Whether every table read has an end."""
        return all(leaf.bounded for leaf in self.leaves)

    @property
    def source_names(self) -> tuple[str, ...]:
        """Give the tables read, in the order that a checkpoint knows them by."""
        return tuple(str(leaf.table.identifier) for leaf in self.leaves)


def analyse(
    query: exp.Expr, namespace: Namespace, project: Path, *, appends: bool
) -> AnalysedQuery:
    """Analyse a query; `appends` says that it feeds a sink that only takes rows that stay.

    Raises InputError subclasses: unknown tables, wrong options, updating queries.
    """
    relations = find_relations(query, namespace)
    # views come in as text; how an expression is written for Spark depends on types
    annotate(relations.query, namespace)
    if appends:
        check_append_only(relations.query)
    wanted = mentioned_names(relations.query)
    windows = window_tables(relations.query)
    if wanted is not None:
        wanted |= {window.time_column for window in windows}
    for window in windows:
        window.input.meta[WINDOWED] = True
    for index, leaf in enumerate(relations.leaves):
        for node in leaf.nodes:
            node.meta[LEAF] = index
    stateful = is_stateful(relations.query) or bool(windows)
    leaves = tuple(_analyse_leaf(leaf, wanted, stateful, project) for leaf in relations.leaves)
    return AnalysedQuery(query=relations.query, leaves=leaves)


def _analyse_leaf(
    leaf: Leaf, wanted: frozenset[str] | None, stateful: bool, project: Path
) -> AnalysedLeaf:
    connector = connector_of(leaf.table, project=project)
    connector.check(leaf.table)
    source = connector.source(leaf.table)
    by_splits = is_split_source(source)
    columns, computed = delivered_columns(leaf.table.schema, wanted)
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
    )
