"""GROUP BY and DISTINCT as stages: which columns are kept, by which key, as rows or as sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from penstock.sql.dialect import to_text
from penstock.sql.dialect.unfolded_sets import is_determined, key_text
from penstock.sql.maintain.linear import as_measures
from penstock.sql.maintain.ordered import in_order
from penstock.sql.maintain.relation import Item, Staged, column, unique_name
from penstock.sql.maintain.source import StagedSource, StreamedSource
from penstock.sql.maintain.stage_list import StageList
from penstock.sql.maintain.stages import Input, Measure
from penstock.sql.plan.aggregation import is_same, own_aggregates
from penstock.sql.plan.mechanism import Mechanism, Way
from penstock.sql.plan.row_kinds import constant_columns
from penstock.sql.positions import span_of

__all__ = ["distinct", "group_by"]


def group_by(
    select: exp.Select,
    names: tuple[str, ...],
    source: StreamedSource | StagedSource,
    stages: StageList,
    time_to_live_ms: int | None = None,
) -> Staged:
    """Add the stage of an aggregation; `names` are those of its columns, `time_to_live_ms` is of the hint STATE_TTL.

    Raises UnsupportedError for aggregates whose value depends on the order of rows.
    """
    group = select.args.get("group")
    aggregates = own_aggregates(select)
    for node in aggregates:
        in_order(node)  # refuses what cannot be, with its place
    spelled = sorted({to_text(node) for node in aggregates})
    keys = list(group.expressions) if group is not None else []
    columns = _Columns(keys)
    items = [columns.over(item.unalias()) for item in select.expressions]
    having = select.args.get("having")
    condition = None if having is None else columns.over(having.this)
    own = tuple(name for name, _ in columns.items[: len(keys)])
    place = group or select
    found = as_measures(items, condition)
    rows = stages.staged(source.project(columns.items, narrow=found is None))
    measures: tuple[Measure, ...] = ()
    if found is None:
        items = [in_order(item) for item in items]
        condition = None if condition is None else in_order(condition)
        query = _grouped(rows.name, names, items, condition, own)
    else:
        measures, items, condition = found
        query = _selected(rows.name, names, items, condition)
    told = [name for name, key in zip(own, keys, strict=True) if not is_determined(key)]
    key = _key(told, items, names)
    return stages.recompute(
        "group",
        [Input(name=rows.name, key=own, measures=measures, time_to_live_ms=time_to_live_ms)],
        query,
        columns=names,
        key=key,
        constants=constant_columns(query),
        mechanism=Mechanism(
            way=Way.AGGREGATE,
            key=tuple(map(key_text, keys)),
            state=(", ".join(spelled) or "that it was there") if measures else "its rows",
            span=span_of(place),
        ),
        origin=place,
    )


def distinct(
    rows: Staged, stages: StageList, place: exp.Expr, time_to_live_ms: int | None = None
) -> Staged:
    """Add the stage of a DISTINCT; none where rows are told apart by a key anyway.

    `time_to_live_ms` is of the hint STATE_TTL.
    """
    if rows.key is not None:
        return rows
    query = exp.select(*(column(name) for name in rows.columns))
    query = query.from_(exp.to_table(rows.name, quoted=True), copy=False)
    query.set("distinct", exp.Distinct())
    return stages.recompute(
        "distinct",
        [Input(name=rows.name, key=rows.columns, time_to_live_ms=time_to_live_ms)],
        query,
        columns=rows.columns,
        key=rows.columns,
        constants=rows.constants,
        mechanism=Mechanism(
            way=Way.DISTINCT,
            key=rows.columns,
            state="how many rows there are",
            span=span_of(place),
        ),
        origin=place,
        inserts=rows.inserts,
    )


@dataclass(slots=True)
class _Columns:
    """The columns that an aggregation needs: its keys first, then what its aggregates read."""

    keys: Sequence[exp.Expr]
    items: list[Item] = field(default_factory=list)
    _read: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for index, key in enumerate(self.keys):
            wanted = key.name if isinstance(key, exp.Column) else f"__group{index}"
            self.items.append((unique_name(wanted, self._taken()), key))

    def over(self, value: exp.Expr) -> exp.Expr:
        """Write an expression over these columns."""
        found: exp.Expr = value.transform(self._own)
        return found

    def _own(self, node: exp.Expr) -> exp.Expr:
        for (name, _), key in zip(self.items, self.keys, strict=False):
            if is_same(node, key):
                return column(name, like=node)
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return node
        text = to_text(node)
        if text not in self._read:
            self._read[text] = unique_name(node.name, self._taken())
            self.items.append((self._read[text], node.copy()))
        return column(self._read[text], like=node)

    def _taken(self) -> list[str]:
        return [name for name, _ in self.items]


def _grouped(
    table: str,
    names: Sequence[str],
    items: Sequence[exp.Expr],
    condition: exp.Expr | None,
    keys: Sequence[str],
) -> exp.Select:
    query = _selected(table, names, items, None)
    if keys:
        query.set("group", exp.Group(expressions=[column(name) for name in keys]))
    if condition is not None:
        query.set("having", exp.Having(this=condition))
    return query


def _selected(
    table: str, names: Sequence[str], items: Sequence[exp.Expr], condition: exp.Expr | None
) -> exp.Select:
    fields = [exp.alias_(v, name, quoted=True) for name, v in zip(names, items, strict=True)]
    query = exp.select(*fields).from_(exp.to_table(table, quoted=True), copy=False)
    if condition is not None:
        query.set("where", exp.Where(this=condition))
    return query


def _key(
    keys: Sequence[str], items: Sequence[exp.Expr], names: Sequence[str]
) -> tuple[str, ...] | None:
    """Name the columns that the grouping columns come out as; None where one does not."""
    shown: dict[str, str] = {}
    for name, value in zip(names, items, strict=True):
        if isinstance(value, exp.Column):
            shown.setdefault(value.name, name)
    if any(key not in shown for key in keys):
        return None
    return tuple(shown[key] for key in keys)
