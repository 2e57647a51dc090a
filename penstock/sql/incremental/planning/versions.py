"""Versioned relations: tables whose changes are versions by their rowtime, and Flink's view of the last rows.

The right side of a temporal join in event time (Flink's pages "Versioned Tables"; TemporalJoinUtil).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.connector.changelog import ROW_KIND, ChangelogMode
from penstock.sql.incremental.planning.accepted import accepted
from penstock.sql.incremental.planning.relation import ChangelogRelation, Item, column, written
from penstock.sql.incremental.planning.source import AppendSource, ChangelogSource
from penstock.sql.incremental.planning.stage_list import StageList
from penstock.sql.plan.clauses.rowtimes import rowtime_sources
from penstock.sql.plan.clauses.temporal_joins import refuse_table_versions, refuse_unversioned
from penstock.sql.plan.rules.aggregate import is_same
from penstock.sql.plan.rules.flow import ScanFlow
from penstock.sql.plan.rules.row_number import (
    RowNumberQuery,
    check_limit,
    check_row_number,
    find_row_number,
)

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
    tables: Sequence[ScanFlow],
    needed: frozenset[str] | None,
    source: Callable[[exp.Select], AppendSource | ChangelogSource],
    stages: StageList,
) -> VersionedRelation:
    """Treat Flink's view of the last rows of a stream as versions: each row of the stream is one.

    `source` plans FROM and WHERE of a SELECT. Raises UnsupportedError for any other query.
    """
    reader = node.this
    numbered = _last_row(reader, tables) if isinstance(reader, exp.Select) else None
    if numbered is None:
        raise refuse_unversioned(node).error()
    inner = source(numbered.select)
    values = {
        i.alias_or_name: i.unalias() for i in numbered.select.expressions if i is not numbered.item
    }
    names = _view_names(reader, list(values))
    key = [_shown(part, names, values) for part in numbered.window.args["partition_by"]]
    time = _shown(_order(numbered), names, values)
    known = tuple(name for name in key if name is not None)
    if not isinstance(inner, AppendSource) or time is None or len(known) < len(key):
        raise refuse_unversioned(node).error()
    items: list[Item] = [
        (name, values[own])
        for name, own in names.items()
        if needed is None or name in needed or name in (*known, time)
    ]
    rows = inner.project(items)
    staged = stages.versions(rows.query, rows.columns, known, ChangelogMode.INSERT_ONLY, node)
    return VersionedRelation(rows=staged, key=known, time=time, label=node.alias)


def _last_row(reader: exp.Select, tables: Sequence[ScanFlow]) -> RowNumberQuery | None:
    """Return the numbering query of a view that selects only the last row of each key by rowtime."""
    others = ("joins", "laterals", "group", "having", "distinct", "order", "limit")
    if reader.args.get("from_") is None or any(reader.args.get(part) for part in others):
        return None
    numbered = find_row_number(reader.args.get("where"), reader.args["from_"].this)
    if numbered is None:
        return None
    accepted(check_limit(numbered))
    if numbered.rest is not None or numbered.limit != 1:
        return None
    order, select = numbered.window.args.get("order"), numbered.select
    if numbered.ties or order is None or len(order.expressions) != 1:
        return None
    if not order.expressions[0].args.get("desc") or not numbered.window.args.get("partition_by"):
        return None
    accepted(check_row_number(numbered))
    time, first = _order(numbered), select.args["from_"].this
    if not isinstance(time, exp.Column) or select.args.get("joins") or select.args.get("laterals"):
        return None
    return None if rowtime_sources(first, time.name, tables) is None else numbered


def _order(numbered: RowNumberQuery) -> exp.Expr:
    order: exp.Expr = numbered.window.args["order"].expressions[0].this
    return order


def _view_names(reader: exp.Select, inner: Sequence[str]) -> dict[str, str]:
    """Return the columns of a view by their names, with their names in the numbering query.

    The number itself, which is always 1, and computed values are left out.
    """
    if any(item.find(exp.Star) for item in reader.expressions):
        return {name: name for name in inner}
    columns = ((i.alias_or_name, i.unalias()) for i in reader.expressions)
    return {
        name: value.name
        for name, value in columns
        if isinstance(value, exp.Column) and value.name in inner
    }


def _shown(part: exp.Expr, names: Mapping[str, str], values: Mapping[str, exp.Expr]) -> str | None:
    """Name the column of the view for a value of the numbering query; None where there is none."""
    return next((name for name, own in names.items() if is_same(values[own], part)), None)
