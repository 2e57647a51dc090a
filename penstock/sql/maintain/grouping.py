"""GROUP BY and DISTINCT as stages: which columns are kept, by which key, as rows or as sums."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.sql.dialect import to_text
from penstock.sql.dialect.unfolded_sets import is_determined, key_text
from penstock.sql.maintain.closing import time_of_windows
from penstock.sql.maintain.linear import as_measures
from penstock.sql.maintain.ordered import in_order
from penstock.sql.maintain.read_columns import ReadColumns
from penstock.sql.maintain.relation import Staged, column
from penstock.sql.maintain.source import StagedSource, StreamedSource
from penstock.sql.maintain.stage_list import StageList
from penstock.sql.maintain.stages import Closed, Input, Measure
from penstock.sql.plan.aggregation import own_aggregates
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
    closes: frozenset[int] = frozenset(),
) -> Staged:
    """Add the stage of an aggregation; `names` are those of its columns, `time_to_live_ms` is of the hint STATE_TTL.

    `closes` are the leaves whose watermarks close the windows that it groups by, where their rows come from a stage.
    Raises UnsupportedError for aggregates whose value depends on the order of rows.
    """
    group = select.args.get("group")
    aggregates = own_aggregates(select)
    for node in aggregates:
        in_order(node)  # refuses what cannot be, with its place
    kept = ", ".join(sorted({to_text(node) for node in aggregates})) or "that it was there"
    keys = list(group.expressions) if group is not None else []
    columns = ReadColumns(keys)
    items = [columns.over(item.unalias()) for item in select.expressions]
    having = select.args.get("having")
    condition = None if having is None else columns.over(having.this)
    own = tuple(name for name, _ in columns.items[: len(keys)])
    place = group or select
    time = columns.over(time_of_windows(select)).name if closes else None
    found = None if closes else as_measures(items, condition)
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
    if time is not None:
        stage = Closed(
            name=stages.name("windows"),
            rows=rows.name,
            time=time,
            waits_for=tuple(sorted(closes)),
            query=query,
            key=key,
            mechanism=_mechanism(keys, "rows until the watermark has passed their window", place),
        )
        return stages.waiting(stage, columns=names, origin=place)
    return stages.recompute(
        "group",
        [Input(name=rows.name, key=own, measures=measures, time_to_live_ms=time_to_live_ms)],
        query,
        columns=names,
        key=key,
        constants=constant_columns(query),
        mechanism=_mechanism(keys, kept if measures else "its rows", place),
        origin=place,
    )


def _mechanism(keys: Sequence[exp.Expr], state: str, place: exp.Expr) -> Mechanism:
    key = tuple(map(key_text, keys))
    return Mechanism(way=Way.AGGREGATE, key=key, state=state, span=span_of(place))


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
