"""Versioned relations: tables whose changes are versions by their rowtime, and Flink's view of the last rows.

The right side of a temporal join in event time (Flink's pages "Versioned Tables"; TemporalJoinUtil).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.connector.changelog import ROW_KIND, ChangelogMode
from penstock.sql.incremental.planning.accepted import accepted
from penstock.sql.incremental.planning.relation import ChangelogRelation, Item, column, written
from penstock.sql.incremental.planning.source import AppendSource, ChangelogSource
from penstock.sql.incremental.planning.stage_list import StageList
from penstock.sql.plan.clauses.temporal_joins import refuse_table_versions, refuse_unversioned
from penstock.sql.plan.clauses.versions import LastRows, read_last_row
from penstock.sql.plan.rules.flow import ScanFlow

__all__ = ["VersionedRelation", "last_rows", "versions_of_table"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedRelation:
    """A versioned relation: its changes as they arrive, the key and the rowtime of its versions, its name."""

    rows: ChangelogRelation
    key: tuple[str, ...]
    time: str
    label: str

    @property
    def shown(self) -> tuple[ChangelogRelation, Sequence[str]]:
        """The changes, and the names of their columns."""
        return self.rows, self.rows.columns


def versions_of_table(
    node: exp.Table, table: ScanFlow, needed: frozenset[str] | None, stages: StageList
) -> VersionedRelation:
    """Treat a table as versions, with the columns `needed` (None: all) and those that make it versioned.

    Raises UnsupportedError for one without a PRIMARY KEY or a WATERMARK.
    """
    accepted(refuse_table_versions(table, node.args["version"]))
    assert table.rowtime is not None, "others are refused"
    assert table.key is not None, "others are refused"
    own = {*table.key, table.rowtime}
    names = tuple(n for n in table.columns if needed is None or n in needed or n in own)
    bare = node.copy()
    for part in ("alias", "joins", "laterals", "version"):
        bare.set(part, None)
    fields: Sequence[exp.Expr] = written([(name, column(name)) for name in names])
    if table.changes is not ChangelogMode.INSERT_ONLY:
        fields = [column(name) for name in (*names, ROW_KIND)]
    query = exp.select(*fields).from_(bare, copy=False)
    rows = stages.versions(query, names, table.key, table.changes, node)
    return VersionedRelation(rows=rows, key=table.key, time=table.rowtime, label=table.name)


def last_rows(
    node: exp.Subquery,
    needed: frozenset[str] | None,
    source: Callable[[exp.Select], AppendSource | ChangelogSource],
    stages: StageList,
) -> VersionedRelation:
    """Treat Flink's view of the last rows of a stream as versions: each row of the stream is one.

    `source` plans FROM and WHERE of a SELECT. Raises UnsupportedError for any other query.
    """
    numbered = accepted(read_last_row(node))
    inner = source(numbered.select)
    items_of = (i for i in numbered.select.expressions if i is not numbered.item)
    view = LastRows.of(node, numbered, {i.alias_or_name: i.unalias() for i in items_of})
    found = view.versions
    if not isinstance(inner, AppendSource) or found is None:
        raise refuse_unversioned(node).error()
    items: list[Item] = [
        (name, view.values[own])
        for name, own in view.names.items()
        if needed is None or name in needed or name in (*found.key, found.time)
    ]
    rows = inner.project(items)
    staged = stages.versions(rows.query, rows.columns, found.key, ChangelogMode.INSERT_ONLY, node)
    return VersionedRelation(rows=staged, key=found.key, time=found.time, label=node.alias)
