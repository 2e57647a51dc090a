"""Plan GROUP BY, DISTINCT, UNION, INTERSECT and EXCEPT as stages: keys, columns kept, and sums instead of rows.

No sums of FLOAT and DOUBLE: an addend cannot be subtracted again exactly. A stage computes again what it retracts, so
aggregates that depend on the order of rows are sorted: the same rows give the same value. Windows over a stage's rows
wait for the watermark as the stage did; windows over tables are Spark's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.connector.changelog import ROW_KIND
from penstock.sql.dialect import to_text
from penstock.sql.dialect.rewrites.unfold_grouping_sets import is_determined, key_text
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS, WindowKind, WindowTable
from penstock.sql.incremental.planning.relation import (
    ChangelogRelation,
    ReadColumns,
    Relation,
    column,
    operator_at,
)
from penstock.sql.incremental.planning.source import Source
from penstock.sql.incremental.planning.stage_list import StageList
from penstock.sql.incremental.stages import InputState, Measure, StageInput, WindowAggregate
from penstock.sql.plan.clauses.select_list import read_values, refuse_clauses
from penstock.sql.plan.logical.facts import Item, WindowTime
from penstock.sql.plan.logical.nodes import WindowAssign
from penstock.sql.plan.rules.aggregate import (
    computed_arguments,
    is_listed,
    is_of_any_order,
    is_subtracted,
    own_aggregates,
    refuse_ordered,
    refuse_ordinals,
    without_filter,
)
from penstock.sql.plan.rules.changelog_project import constant_columns
from penstock.sql.plan.rules.flow import OperatorKind
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal

# --- windows ---


def with_windows(
    node: WindowAssign, window: WindowTable, rows: ChangelogRelation, stages: StageList
) -> ChangelogRelation | Refusal:
    """Return each row of a stage with its windows."""
    if (refusal := _refuse_windows(node)) is not None:
        return refusal
    read = window.node.copy()
    for part in ("alias", "joins", "laterals"):
        read.set(part, None)
    inner = next(node for node in read.this.find_all(type(window.input)) if node == window.input)
    inner.replace(exp.to_table(rows.name, quoted=True))
    columns = (*rows.columns, *WINDOW_COLUMNS)
    query = exp.select(*map(column, (*columns, ROW_KIND))).from_(read, copy=False)
    found = replace(rows, columns=columns, key=None, windowed=not rows.inserts)
    return stages.calc(query, (rows.name,), found)


def _refuse_windows(node: WindowAssign) -> Refusal | None:
    if not node.input.facts.sources(node.time_column):
        return Refusal(
            message=f"{node.time_column} is not a rowtime of the rows that {node.kind} reads",
            hint="a rowtime is the column of a stream's WATERMARK, also in a query that selects it; write the rows "
            "into a table with a WATERMARK, and window that in a second INSERT",
            span=node.span,
        )
    if node.kind is WindowKind.SESSION:
        return Refusal(
            message="SESSION over changes, or over the results of OVER or of a temporal join, is not supported",
            hint="write them into a table with a WATERMARK, and window that in a second INSERT",
            span=node.span,
        )
    return None


# --- aggregations ---

Rewritten = tuple[tuple[Measure, ...], list[exp.Expr], exp.Expr | None]


def _as_measures(items: Sequence[exp.Expr], condition: exp.Expr | None) -> Rewritten | None:
    """Return the measures of an aggregation, and its items and HAVING over them; None where rows have to be stored."""
    nodes = [
        n for tree in (*items, condition) if tree is not None for n in tree.find_all(exp.AggFunc)
    ]
    if not nodes or not all(map(is_subtracted, nodes)):
        return None
    measures = _Measures()
    new = [measures.over(item) for item in items]
    having = None if condition is None else measures.over(condition)
    return measures.all, new, having


class _Measures:
    """Collects measures, each value once."""

    def __init__(self) -> None:
        self._values: dict[exp.Expr, str] = {}

    @property
    def all(self) -> tuple[Measure, ...]:
        return tuple(Measure(name=name, value=value) for value, name in self._values.items())

    def over(self, value: exp.Expr) -> exp.Expr:
        """Write an expression over the measures."""
        found: exp.Expr = value.transform(self._replaced)
        return found

    def _replaced(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Filter | exp.AggFunc):
            aggregate, condition = without_filter(node)
            new = self._of(aggregate, condition)
            new.type = node.type
            return new
        return node

    def _of(self, node: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
        value = node.this
        if isinstance(node, exp.Count):
            there = None if isinstance(value, exp.Star | exp.Literal) else value
            return self._count(there, condition)
        total = self._sum(value if condition is None else when(condition, value))
        count = self._count(value, condition)
        if isinstance(node, exp.Avg):
            total = mean(total, count, exp.DType.BIGINT)
        return where_some(count, total)

    def _count(self, value: exp.Expr | None, condition: exp.Expr | None) -> exp.Expr:
        count = self._sum(counted(() if value is None else (value,), condition))
        count.type = exp.DataType.build(exp.DType.BIGINT)
        return count

    def _sum(self, value: exp.Expr) -> exp.Expr:
        name = self._values.setdefault(value, f"__m{len(self._values)}")
        return column(name)


def when(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    """Return a value where a condition holds, else NULL."""
    case = exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
    case.type = value.type
    return case


def counted(values: Sequence[exp.Expr], condition: exp.Expr | None) -> exp.Expr:
    """Return what a row adds to a COUNT of values with a FILTER: 1, or NULL where a value is NULL."""
    tests: list[exp.Expr] = [] if condition is None else [exp.paren(condition.copy())]
    tests += [
        exp.not_(exp.Is(this=exp.paren(value.copy()), expression=exp.null())) for value in values
    ]
    one = exp.cast(exp.Literal.number(1), exp.DType.BIGINT)
    return when(exp.and_(*tests), one) if tests else one


def mean(total: exp.Expr, count: exp.Expr, kind: exp.DType) -> exp.Expr:
    """Return an average; what a division gives follows from its types."""
    total.type = exp.DataType.build(kind)
    found = exp.Div(this=total, expression=count.copy())
    found.type = total.type
    return found


def where_some(count: exp.Expr, value: exp.Expr) -> exp.Expr:
    """Return the value of an aggregate, NULL where it has counted no row."""
    some = exp.GT(this=count, expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=some, true=value)])


_AROUND = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)


def _in_order(value: exp.Expr) -> exp.Expr:
    """Return an expression with sorted aggregates, which all of them can be (`refuse_ordered`)."""
    found: exp.Expr = value.transform(_sorted)
    return found


def _sorted(node: exp.Expr) -> exp.Expr:
    if isinstance(node, _AROUND):
        core: exp.Expr = node
        while isinstance(core, _AROUND):
            core = core.this
        new = _of(core, node)
    elif isinstance(node, exp.AggFunc):
        new = _of(node, node)
    else:
        return node
    new.type = node.type
    return new


def _of(aggregate: exp.Expr, whole: exp.Expr) -> exp.Expr:
    # a copy, as what is new is not looked into again
    copied: exp.Expr = whole.copy()
    if is_of_any_order(aggregate):
        return copied
    assert is_listed(aggregate), "others are refused"
    if isinstance(aggregate, exp.GroupConcat):
        return _listed(aggregate, copied)
    return exp.Anonymous(this="array_sort", expressions=[copied])


def _listed(aggregate: exp.GroupConcat, whole: exp.Expr) -> exp.Expr:
    """LISTAGG in the order of its values."""
    value = (
        aggregate.this.expressions[0]
        if isinstance(aggregate.this, exp.Distinct)
        else aggregate.this
    )
    order = exp.Order(expressions=[exp.Ordered(this=value.copy(), nulls_first=True)])
    inside = exp.WithinGroup(this=aggregate.copy(), expression=order)
    if isinstance(whole, exp.Filter):
        whole.set("this", inside)
        return whole
    return inside


_ACCUMULATED = {False: InputState.ACCUMULATORS, True: InputState.EXPIRING}
"""What an aggregation with accumulators keeps; where it gives the rows before an update its groups may expire."""

_OF_WINDOWS = "rows until the watermark has passed their window"


def plan_aggregate(
    select: exp.Select,
    listed: Sequence[Item],
    source: Source,
    stages: StageList,
    time_to_live_ms: int | None = None,
    closed: WindowTime | None = None,
) -> ChangelogRelation | Refusal:
    """Add the stage of an aggregation; `listed` is its SELECT list, `time_to_live_ms` is of the hint STATE_TTL.

    `closed` says what closes the windows that it groups by, where their rows come from a stage.
    """
    group, having = select.args.get("group"), select.args.get("having")
    keys = list(group.expressions) if group is not None else []
    aggregates = own_aggregates(select)
    refusal = refuse_ordinals(keys) or next(filter(None, map(refuse_ordered, aggregates)), None)
    if (refusal := refusal or source.refuse(read_values(keys, listed, having))) is not None:
        return refusal
    state_words = ", ".join(sorted({to_text(node) for node in aggregates})) or "that it was there"
    accumulates = stages.options.accumulates and closed is None
    columns = ReadColumns([*keys, *(computed_arguments(aggregates) if accumulates else ())])
    names = tuple(name for name, _ in listed)
    items = [columns.over(value) for _, value in listed]
    condition = None if having is None else columns.over(having.this)
    own = tuple(name for name, _ in columns.items[: len(keys)])
    time = None if closed is None else columns.over(closed.column).name
    found = _as_measures(items, condition) if closed is None and not accumulates else None
    rows = stages.staged(source.project(columns.items, narrow=found is None))
    measures: tuple[Measure, ...] = ()
    if found is None:
        items = [_in_order(item) for item in items]
        condition = None if condition is None else _in_order(condition)
        query = _grouped(rows.name, names, items, condition, own)
    else:
        measures, items, condition = found
        query = _selected(rows.name, names, items, condition)
    free_keys = [name for name, key in zip(own, keys, strict=True) if not is_determined(key)]
    key, spelled = _key(free_keys, items, names), tuple(map(key_text, keys))
    if closed is not None and time is not None:
        stage = WindowAggregate(
            name=stages.name("windows"),
            rows=rows.name,
            time=time,
            waits_for=tuple(sorted(closed.sources)),
            query=query,
            key=key,
            changes=not rows.inserts,
            mechanism=operator_at(OperatorKind.AGGREGATE, spelled, _OF_WINDOWS, group or select),
        )
        return stages.waiting(stage, columns=names)
    keeps, shown = _ACCUMULATED[stages.options.retracts] if accumulates else InputState.ROWS, names
    extremes = _Extremes(names=names, items=items, own=own, rows=rows)
    if found is None and having is None and stages.joins_in_time and extremes.is_all:
        keeps, shown, items = InputState.RESULT, extremes.shown, extremes.values
        query = _grouped(rows.name, shown, items, None, own)
        key = _key(free_keys, items, shown)
    stage_input = StageInput(
        name=rows.name, key=own, measures=measures, keeps=keeps, time_to_live_ms=time_to_live_ms
    )
    state = state_words if measures or keeps is not InputState.ROWS else "its rows"
    result = ChangelogRelation(
        name=stages.name("group"),
        columns=shown,
        key=key,
        constants=constant_columns(query),
        mechanism=operator_at(OperatorKind.AGGREGATE, spelled, state, group or select),
    )
    return stages.narrow(stages.recompute(result, [stage_input], query), names)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extremes:
    """An aggregation of inserts whose result has all that is needed of its rows: keys, and MIN or MAX of each column.

    `names` and `items` are its SELECT list over the columns of `rows`, of which `own` are the keys.
    """

    names: Sequence[str]
    items: Sequence[exp.Expr]
    own: Sequence[str]
    rows: ChangelogRelation

    @property
    def is_all(self) -> bool:
        """Whether it has no other aggregates, and its result can have the columns of its rows beside its own."""
        calls = [call for item in self.items for call in item.find_all(exp.AggFunc)]
        plain = all(
            isinstance(call, exp.Max | exp.Min)
            and isinstance(call.this, exp.Column)
            and not call.expressions
            and not isinstance(call.parent, exp.Filter | exp.Window)
            and call.this.name not in self.own
            for call in calls
        )
        values = self._column_values
        once = {call.this.name: type(call) for call in calls} if plain else {}
        alike = all(type(call) is once.get(call.this.name) for call in calls) if plain else False
        listed = dict(zip(self.names, self.items, strict=True))
        free = all(listed.get(name, value) == value for name, value in values.items())
        return (
            self.rows.inserts
            and bool(self.own)
            and plain
            and alike
            and free
            and values.keys() == set(self.rows.columns)
        )

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns of the result: those of the SELECT list, then those of the rows."""
        return (*self.names, *(name for name in self.rows.columns if name not in self.names))

    @property
    def values(self) -> list[exp.Expr]:
        """The values of these columns."""
        more = (self._column_values[n].copy() for n in self.rows.columns if n not in self.names)
        return [*self.items, *more]

    @property
    def _column_values(self) -> dict[str, exp.Expr]:
        """The columns of the rows as the result has them."""
        keys = {name: column(name) for name in self.own}
        calls = (call for item in self.items for call in item.find_all(exp.Max, exp.Min))
        return {**keys, **{call.this.name: call for call in calls}}


def plan_distinct(
    rows: ChangelogRelation, stages: StageList, origin: exp.Expr, time_to_live_ms: int | None = None
) -> ChangelogRelation:
    """Add the stage of a DISTINCT; none where rows have a key anyway.

    `time_to_live_ms` is of the hint STATE_TTL.
    """
    if rows.key is not None:
        return rows
    query = exp.select(*(column(name) for name in rows.columns))
    query = query.from_(exp.to_table(rows.name, quoted=True), copy=False)
    query.set("distinct", exp.Distinct())
    state = "how many rows there are"
    result = replace(
        rows,
        name=stages.name("distinct"),
        key=rows.columns,
        mechanism=operator_at(OperatorKind.DISTINCT, rows.columns, state, origin),
    )
    stage_input = StageInput(name=rows.name, key=rows.columns, time_to_live_ms=time_to_live_ms)
    return stages.recompute(result, [stage_input], query)


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
    """Name the output columns of the grouping columns; None where one is not selected."""
    shown: dict[str, str] = {}
    for name, value in zip(names, items, strict=True):
        if isinstance(value, exp.Column):
            shown.setdefault(value.name, name)
    if any(key not in shown for key in keys):
        return None
    return tuple(shown[key] for key in keys)


def plan_set_operation(
    node: exp.SetOperation, left: Relation, right: Relation, stages: StageList
) -> ChangelogRelation | Refusal:
    """Combine the rows of two queries, column by column."""
    if (refusal := refuse_clauses(node)) is not None:
        return refusal
    if len(left.columns) != len(right.columns):
        return Refusal(
            message=f"the queries of this {node.key.upper()} give {len(left.columns)} and {len(right.columns)} columns",
            span=span_of(node),
        )
    one, two = stages.staged(left), stages.staged(right)
    if isinstance(node, exp.Union):
        rows = _union_all(one, two, stages)
        return plan_distinct(rows, stages, node) if node.args.get("distinct") else rows
    return _compared(node, one, two if two.name != one.name else stages.renamed(two), stages)


def _union_all(
    one: ChangelogRelation, two: ChangelogRelation, stages: StageList
) -> ChangelogRelation:
    query = exp.Union(
        this=_read(one, one.columns), expression=_read(two, one.columns), distinct=False
    )
    names = dict.fromkeys((one.name, two.name))
    rows = replace(
        one if one.mechanism is not None or not one.inserts else two,
        columns=one.columns,
        key=None,
        constants=frozenset(),
        inserts=one.inserts and two.inserts,
        windowed=not (one.inserts and two.inserts)
        and all(rows.inserts or rows.windowed for rows in (one, two)),
    )
    return stages.calc(query, tuple(names), rows)


def _compared(
    node: exp.SetOperation, one: ChangelogRelation, two: ChangelogRelation, stages: StageList
) -> ChangelogRelation:
    query = type(node)(
        this=_read(one, one.columns, kind=False),
        expression=_read(two, two.columns, kind=False),
        distinct=bool(node.args.get("distinct")),
    )
    result = ChangelogRelation(
        name=stages.name(node.key),
        columns=one.columns,
        key=one.columns if node.args.get("distinct") else None,
        mechanism=operator_at(OperatorKind.SET, one.columns, "the rows of both sides", node),
    )
    # Flink joins distinct rows, and writes those of the left side with each match; it counts all rows in one state
    both = not node.args.get("distinct")
    sides = [
        StageInput(name=side.name, key=side.columns, renewed=both or side is one)
        for side in (one, two)
    ]
    return stages.recompute(result, sides, query)


def _read(rows: ChangelogRelation, names: tuple[str, ...], *, kind: bool = True) -> exp.Select:
    fields = [
        exp.alias_(column(own), name, quoted=True)
        for own, name in zip(rows.columns, names, strict=True)
    ]
    if kind:
        fields.append(column(ROW_KIND))
    return exp.select(*fields).from_(exp.to_table(rows.name, quoted=True), copy=False)
