"""Plan aggregations by windows over inserts in two phases: partial results of panes, which are put together by window.

Also aggregations of closed windows, all of whose rows come in one batch. `plan/placement/panes.py` tells which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from penstock.connector.changelog import ROW_KIND
from penstock.sql.dialect import to_text
from penstock.sql.dialect.rewrites.unfold_grouping_sets import key_text
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS
from penstock.sql.incremental.planning.relation import (
    ChangelogRelation,
    ReadColumns,
    Relation,
    column,
    operator_at,
)
from penstock.sql.incremental.planning.source import AppendSource, ChangelogSource
from penstock.sql.incremental.planning.stage_list import StageList
from penstock.sql.incremental.stages import (
    PANE,
    PaneAggregate,
    Panes,
    PartialCall,
    WindowAggregate,
)
from penstock.sql.plan.clauses.select_list import read_values
from penstock.sql.plan.logical.facts import Item, own_names, unique_name
from penstock.sql.plan.logical.nodes import Aggregate, WindowAssign
from penstock.sql.plan.rules.aggregate import is_same, refuse_ordinals, without_filter
from penstock.sql.plan.rules.changelog_project import constant_columns
from penstock.sql.plan.rules.flow import OperatorKind
from penstock.sql.syntax.refusal import Refusal

_GROUPS = "groups of open windows"


def plan_windows(
    node: Aggregate,
    rows: Relation,
    alias: str,
    windows: WindowAssign,
    stages: StageList,
) -> ChangelogRelation | Refusal:
    """Add the stages of an aggregation by windows; `rows` are those that the windowing function `alias` reads."""
    if isinstance(rows, ChangelogRelation):
        return Refusal(
            message="windows over the rows of a stage are not grouped by pane", span=windows.span
        )
    named = rows.query.subquery(alias or "__windowed")
    source = AppendSource(skeleton=exp.select("*").from_(named, copy=False))
    selected = node.block.select.expressions
    listed = [(n, i.unalias()) for n, i in zip(own_names(selected), selected, strict=True)]
    if (refusal := refuse_ordinals([key.value for key in node.keys])) is not None:
        return refusal
    calls = _Calls(read=ReadColumns([key.value for key in node.keys]))
    values = [calls.over(value) for _, value in listed]
    condition = None if node.having is None else calls.over(node.having)
    keys = [name for name, _ in calls.read.items[: len(node.keys)]]
    bounds = {name for name, value in calls.read.items if _is_bound(value)}
    read = [(name, value) for name, value in calls.read.items if name not in bounds]
    time = unique_name(windows.time_column, [name for name, _ in read])
    read.append((time, column(windows.time_column)))
    panes = Panes(
        kind=windows.kind,
        size_ms=windows.size_ms,
        pane_ms=windows.slide_ms or windows.step_ms or windows.size_ms,
        offset_ms=windows.offset_ms,
    )
    groups = PaneAggregate(
        name=stages.name("panes"),
        input=stages.staged(source.project(read)).name,
        time=time,
        panes=panes,
        keys=tuple(name for name in keys if name not in bounds),
        parts=tuple(calls.parts),
    )
    # what is merged under the names of the keys and calls is the same stage for all that select of it
    grouped = stages.panes(groups)
    merged = [*((name, column(name)) for name in keys), *calls.merged]
    query = _grouped(grouped, merged, keys)
    assert node.closed is not None, "the watermark closes the windows"
    stage = WindowAggregate(
        name=stages.name("windows"),
        rows=grouped,
        time=PANE,
        waits_for=tuple(sorted(node.closed.sources)),
        query=query,
        key=tuple(keys),
        panes=panes,
        mechanism=operator_at(
            OperatorKind.AGGREGATE,
            tuple(key_text(key.value) for key in node.keys),
            _GROUPS,
            node.origin or node.block.select,
        ),
    )
    found = stages.waiting(stage, columns=tuple(name for name, _ in merged))
    return _selected(found, listed, values, condition, stages)


def plan_closed_windows(
    node: Aggregate, listed: Sequence[Item], source: ChangelogSource, stages: StageList
) -> ChangelogRelation | Refusal:
    """Add the stage of an aggregation of closed windows. It keeps nothing: all rows of a window come in one batch."""
    keys = [key.value for key in node.keys]
    refusal = refuse_ordinals(keys) or source.refuse(
        read_values(keys, listed, node.block.select.args.get("having"))
    )
    if refusal is not None:
        return refusal
    columns = ReadColumns(keys)
    values = [columns.over(value) for _, value in listed]
    condition = None if node.having is None else columns.over(node.having)
    own = [name for name, _ in columns.items[: len(keys)]]
    rows = source.project(columns.items)
    names = tuple(name for name, _ in listed)
    query = _grouped(rows.name, list(zip(names, values, strict=True)), own)
    # all of them are inserts
    kind = exp.alias_(exp.Max(this=column(ROW_KIND)), ROW_KIND, quoted=True)
    query = query.select(kind, copy=False)
    if condition is not None:
        query.set("having", exp.Having(this=condition))
    found = ChangelogRelation(
        name="",
        columns=names,
        key=_key_of(own, values, names),
        inserts=True,
        mechanism=rows.mechanism,
    )
    return stages.calc(query, (rows.name,), found, of_windows=True)


def _is_bound(value: exp.Expr) -> bool:
    return isinstance(value, exp.Column) and value.name in WINDOW_COLUMNS


@dataclass(slots=True, kw_only=True)
class _Calls:
    """The aggregates of a SELECT, each once: their `parts` over the columns that are `read`, and what merges these."""

    read: ReadColumns
    parts: list[PartialCall] = field(default_factory=list)
    merged: list[Item] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)

    def over(self, value: exp.Expr) -> exp.Expr:
        """Write an expression over the merged calls and the keys."""
        found: exp.Expr = value.transform(self._written)
        return found

    def _written(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Filter | exp.AggFunc):
            return self._call(node)
        is_key = any(is_same(node, key) for key in self.read.keys)
        return self.read.over(node) if is_key or isinstance(node, exp.Column) else node

    def _call(self, node: exp.Expr) -> exp.Expr:
        call = self.read.over(node)
        text = to_text(call)
        if text not in self._names:
            self._names[text] = f"__call{len(self._names)}"
            self._add(self._names[text], call)
        return column(self._names[text], like=node)

    def _add(self, name: str, call: exp.Expr) -> None:
        part = f"__part{len(self.parts)}"
        self.parts.append(PartialCall(name=part, call=call))
        core, _ = without_filter(call)
        merges = type(core) if isinstance(core, exp.Min | exp.Max) else exp.Sum
        value = column(part)
        value.type = (
            call.type if isinstance(core, exp.Min | exp.Max) else exp.DataType.build("BIGINT")
        )
        merged = merges(this=value)
        merged.type = value.type
        self.merged.append((name, merged))


def _grouped(table: str, items: Sequence[Item], keys: Sequence[str]) -> exp.Select:
    fields = [exp.alias_(value, name, quoted=True) for name, value in items]
    query = exp.select(*fields).from_(exp.to_table(table, quoted=True), copy=False)
    query.set("group", exp.Group(expressions=[column(name) for name in keys]))
    return query


def _selected(
    rows: ChangelogRelation,
    listed: Sequence[Item],
    values: Sequence[exp.Expr],
    condition: exp.Expr | None,
    stages: StageList,
) -> ChangelogRelation:
    """Return the SELECT list over merged groups."""
    names = tuple(name for name, _ in listed)
    if condition is None and names == rows.columns and _names_of(values) == list(names):
        return rows
    query = exp.select(
        *(exp.alias_(v, n, quoted=True) for n, v in zip(names, values, strict=True)),
        column(ROW_KIND),
    ).from_(exp.to_table(rows.name, quoted=True), copy=False)
    if condition is not None:
        query.set("where", exp.Where(this=condition))
    found = ChangelogRelation(
        name="",
        columns=names,
        key=None if rows.key is None else _key_of(rows.key, values, names),
        constants=constant_columns(query),
        inserts=True,
        mechanism=rows.mechanism,
    )
    return stages.calc(query, (rows.name,), found)


def _names_of(values: Sequence[exp.Expr]) -> list[str]:
    return [value.name if isinstance(value, exp.Column) else "" for value in values]


def _key_of(
    keys: Sequence[str], values: Sequence[exp.Expr], names: Sequence[str]
) -> tuple[str, ...] | None:
    """Name the output columns of the grouping columns; None where one is not selected."""
    shown = dict(zip(reversed(_names_of(values)), reversed(names), strict=True))
    if any(key not in shown for key in keys):
        return None
    return tuple(shown[key] for key in keys)
