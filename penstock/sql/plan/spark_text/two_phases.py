"""Aggregations in two phases: reading tasks group the rows, and Spark puts the groups together.

Found in a plan for TUMBLE, HOP and CUMULATE, and for GROUP BY whose results are updated, over one table that is read
once, or over rows of its arrays, where every key and argument is in the set of `expressions/fragments.py`;
`second_phase.py` writes the SELECT. State of a query in two phases is other state: a checkpoint of one needs them for
good. So Spark makes both phases where a condition or the rowtime is one that tasks do not compute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.catalog.model import types as t
from penstock.catalog.model.table import Schema
from penstock.connector.expression import (
    Constant,
    Expression,
    NamedExpression,
    PartialAggregate,
    PartialFunction,
    PartialResult,
)
from penstock.sql.dialect import WindowKind
from penstock.sql.dialect.spark.aggregates import AVERAGE_SCALE
from penstock.sql.dialect.spark.types import (
    INTEGERS,
    TYPES,
    decimal_of,
    number_kind,
)
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS
from penstock.sql.expressions.value_types import WHOLE
from penstock.sql.plan.logical import nodes
from penstock.sql.plan.logical.plan import Plan, walk
from penstock.sql.plan.rules.aggregate import own_aggregates, without_filter
from penstock.sql.plan.rules.push_filters import (
    KnownRows,
    RowNames,
    all_of,
    checked_parts,
    is_sure,
    read_once,
    rows_of_operators,
    with_unnested,
)

_KINDS = (WindowKind.TUMBLE, WindowKind.HOP, WindowKind.CUMULATE)
COMPARED = (
    t.BooleanType, *WHOLE, t.FloatType, t.DoubleType, t.DecimalType, t.VarCharType, t.DateType, t.TimestampType,
    t.TimestampLtzType,
)  # fmt: skip
"""Types of keys, and of what MIN and MAX compare."""
_SUM_DIGITS = 10
"""Digits that a sum of DECIMALs has more than these, in Spark."""
_MOST_DIGITS = 38
_LONG_DIGITS = 18
"""Digits that each whole number of 64 bits has."""
_LEAST_SCALE, _AVERAGE_DIGITS = 2, 4
"""Digits behind the point that a DECIMAL is given for AVG, and those that Spark adds."""
_CLAUSES = {"expressions", "from_", "where", "group", "having"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedCall:
    """An aggregate of the query; `text` is Spark SQL for it, with {0}, {1} in the place of its `parts`."""

    call: exp.Expr
    text: str
    parts: tuple[PartialResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoPhases:
    """How an aggregation over one table runs in two phases.

    `by_tasks`: the reading tasks make the first one, else Spark does. `keys` are the keys that are no bounds of
    windows, and the columns that groups have in their place. `unnested` are the calls of UNNEST below the aggregation.
    """

    aggregate: PartialAggregate
    by_tasks: bool
    keys: tuple[tuple[exp.Expr, str], ...]
    calls: tuple[MergedCall, ...]
    unnested: tuple[exp.Expr, ...] = ()

    @property
    def windowed(self) -> bool:
        """Whether it is one by windows."""
        return self.aggregate.time is not None


def find_two_phases(
    plan: Plan, schemas: Sequence[Schema], *, updates: bool
) -> Mapping[int, TwoPhases]:
    """Return the aggregations that run in two phases, by the number of their table in `schemas`.

    `updates`: those whose results are updated, which have no windows; else those by windows.
    """
    every = rows_of_operators(plan, schemas)
    once = read_once(plan)
    found: dict[int, TwoPhases] = {}
    for node in walk(plan.root):
        if isinstance(node, nodes.Aggregate):
            of = _of_groups(node, every) if updates else _of_windows(node, every, schemas)
            scan, phases = of
            if phases is not None and scan in once:
                found[scan] = phases
    return found


_NONE = (-1, None)


def _of_groups(
    node: nodes.Aggregate, every: Mapping[int, KnownRows]
) -> tuple[int, TwoPhases | None]:
    """Return how an aggregation runs whose results are updated; rows are grouped behind all conditions below it."""
    rows = every.get(id(node.input))
    if rows is None or node.windowed or not _is_plain(node, 0):
        return _NONE
    names = RowNames(rows, node.block.relations)
    keys, calls = _keys(node, names), _calls(node.block.select, names)
    if not keys or calls is None or not _is_covered(node.block.select, keys, calls):
        return _NONE
    aggregate = PartialAggregate(keys=_named_keys(keys), results=_parts(calls))
    phases = TwoPhases(
        aggregate=aggregate,
        by_tasks=not rows.open,
        keys=tuple((key, name) for key, name, _ in keys),
        calls=calls,
        unnested=tuple(call for call, _ in rows.unnested),
    )
    return rows.scan, phases


def _named_keys(keys: Sequence[tuple[exp.Expr, str, Expression]]) -> tuple[NamedExpression, ...]:
    return tuple(NamedExpression(name=name, value=value) for _, name, value in keys)


def _parts(calls: Sequence[MergedCall]) -> tuple[PartialResult, ...]:
    return tuple(dict.fromkeys(part for call in calls for part in call.parts))


def _of_windows(
    node: nodes.Aggregate, every: Mapping[int, KnownRows], schemas: Sequence[Schema]
) -> tuple[int, TwoPhases | None]:
    window, unnests, condition = _window_below(node)
    rows = None if window is None else every.get(id(window.input))
    if window is None or rows is None or not node.windowed or not _is_plain(node, len(unnests)):
        return _NONE
    schema = schemas[rows.scan]
    time = _rowtime(rows, window, schema)
    if time is None:
        return _NONE
    columns = (*rows.columns, *((name, None) for name in WINDOW_COLUMNS))
    unfolded = _unfolded(replace(rows, columns=columns), unnests)
    if unfolded is None:
        return _NONE
    names = RowNames(unfolded, node.block.relations)
    keys, calls = _keys(node, names), _calls(node.block.select, names)
    if keys is None or calls is None or not _is_covered(node.block.select, keys, calls):
        return _NONE
    checked = _checked(condition, names)
    aggregate = PartialAggregate(
        time=NamedExpression(name=window.time_column, value=time),
        pane_ms=window.slide_ms or window.step_ms or window.size_ms,
        offset_ms=window.offset_ms,
        keys=_named_keys(keys),
        results=_parts(calls),
        condition=checked,
        unnesting=unfolded.unnested_behind(rows),
    )
    phases = TwoPhases(
        aggregate=aggregate,
        # tasks do not know the session's time zone
        by_tasks=not rows.open and is_sure(time) and (checked is not None or condition is None),
        keys=tuple((key, name) for key, name, _ in keys),
        calls=calls,
        unnested=tuple(call for call, _ in unfolded.unnested),
    )
    return rows.scan, phases


def _window_below(
    node: nodes.Aggregate,
) -> tuple[nodes.WindowAssign | None, Sequence[nodes.Unnest], exp.Expr | None]:
    """Return the windowing function that an aggregation reads, UNNESTs in between and the condition behind them."""
    below: nodes.Node = node.input
    condition: exp.Expr | None = None
    unnests: list[nodes.Unnest] = []
    if isinstance(below, nodes.Filter) and below.clause is nodes.Clause.WHERE:
        condition, below = below.condition, below.input
    while isinstance(below, nodes.Unnest):
        unnests.insert(0, below)
        below = below.input
    if isinstance(below, nodes.SubqueryAlias) and not below.names:
        below = below.input
    if isinstance(below, nodes.WindowAssign) and below.kind in _KINDS:
        return below, unnests, condition
    return None, (), None


def _unfolded(rows: KnownRows, unnests: Sequence[nodes.Unnest]) -> KnownRows | None:
    """Return the rows behind UNNESTs; None where tasks do not make them."""
    found: KnownRows | None = rows
    for unnest in unnests:
        if found is None or set(unnest.names) & set(WINDOW_COLUMNS):
            return None
        found = with_unnested(found, unnest)
    return found


def _is_plain(node: nodes.Aggregate, unnests: int) -> bool:
    """Return whether a SELECT has keys, aggregates, what is computed of them and so many UNNESTs, and nothing else."""
    select = node.block.select
    group = select.args.get("group")
    clauses = {name for name, value in select.args.items() if value}
    if (
        group is None
        or not clauses <= (_CLAUSES | {"joins"} if unnests else _CLAUSES)
        or {k for k, v in group.args.items() if v} != {"expressions"}
    ):
        return False
    if node.grouping_sets is not None or node.star or len(node.block.relations) != 1 + unnests:
        return False
    parts = [*select.expressions, *group.expressions]
    parts += [part for name in ("where", "having") if (part := select.args.get(name)) is not None]
    return not any(part.find(exp.Window, exp.Query) for part in parts)


def _rowtime(rows: KnownRows, window: nodes.WindowAssign, schema: Schema) -> Expression | None:
    """Return the time of a windowing function, where it is the rowtime of the table."""
    if schema.watermark is None:
        return None
    names = [name for name, _ in rows.columns]
    if names.count(window.time_column) != 1 or set(names) & set(WINDOW_COLUMNS):
        return None
    time = dict(rows.columns)[window.time_column]
    own = dict(rows.table)[schema.watermark.column]
    if (
        time is None
        or time != own
        or not isinstance(time.type, t.TimestampType | t.TimestampLtzType)
    ):
        return None
    return time


def _checked(condition: exp.Expr | None, names: RowNames) -> Expression | None:
    """Return a condition as tasks check it; None where they do not, or there is none."""
    if condition is None:
        return None
    parts, is_open = checked_parts(condition, names)
    return None if is_open else all_of([value for _, value in parts])


def _keys(
    node: nodes.Aggregate, names: RowNames
) -> tuple[tuple[exp.Expr, str, Expression], ...] | None:
    found: list[tuple[exp.Expr, str, Expression]] = []
    for key in node.keys:
        if isinstance(key.value, exp.Column) and key.value.name in WINDOW_COLUMNS:
            continue
        value = names.value(key.value)
        if value is None or isinstance(value, Constant) or not is_sure(value):
            return None
        if key.determined or key.telling_calls or not isinstance(value.type, COMPARED):
            return None
        found.append((key.value, f"__key_{len(found)}", value))
    return tuple(found)


# --- aggregates ---


def _calls(select: exp.Select, names: RowNames) -> tuple[MergedCall, ...] | None:
    """Return the aggregates of a SELECT in two phases; None where one of them has none."""
    known: dict[tuple[PartialFunction, Expression | None, Expression | None], PartialResult] = {}
    found: list[MergedCall] = []
    for node in own_aggregates(select):
        outer = node.parent if isinstance(node.parent, exp.Filter) else node
        assert outer is not None, "it is in the SELECT"
        merged = merged_call(outer, names)
        if merged is None:
            return None
        parts = []
        for part in merged.parts:
            key = (part.function, part.argument, part.condition)
            parts.append(known.setdefault(key, replace(part, name=f"__part_{len(known)}")))
        found.append(replace(merged, parts=tuple(parts)))
    return tuple(found)


def merged_call(call: exp.Expr, names: RowNames) -> MergedCall | None:
    """Return an aggregate as partial results of tasks; None where it has none."""
    node, filtered = without_filter(call)
    condition = None if filtered is None else names.value(filtered)
    if filtered is not None:
        if condition is None or not is_sure(condition):
            return None
        if not isinstance(condition.type, t.BooleanType):
            return None
    if set(_parts_of(node)) != {"this"} or isinstance(node.this, exp.Distinct):
        return None
    if isinstance(node, exp.Count) and _is_of_rows(node.this):
        return MergedCall(call=call, text=_COUNT, parts=(_part(_Function.COUNT, None, condition),))
    argument = names.value(node.this)
    if argument is None or not is_sure(argument) or not isinstance(argument.type, COMPARED):
        return None
    function = _FUNCTIONS.get(type(node))
    found = None if function is None else function(node, argument)
    if found is None:
        return None
    text, functions = found
    parts = tuple(_part(one, argument, condition) for one in functions)
    return MergedCall(call=call, text=text, parts=parts)


def _parts_of(node: exp.Expr) -> Iterator[str]:
    return (name for name, value in node.args.items() if value and name != "big_int")


def _is_of_rows(value: exp.Expr) -> bool:
    return isinstance(value, exp.Star | exp.Literal)


_Function = PartialFunction
_COUNT = "coalesce(sum({0}), 0)"
_Merged = tuple[str, tuple[PartialFunction, ...]] | None


def _part(
    function: PartialFunction, argument: Expression | None, condition: Expression | None
) -> PartialResult:
    kind: t.LogicalType = t.BigIntType()
    if argument is not None and function is not _Function.COUNT:
        bare = replace(argument.type, nullable=True)
        kind = _sum_type(bare) if function is _Function.SUM else bare
    return PartialResult(
        name="", function=function, argument=argument, condition=condition, type=kind
    )


def _sum_type(kind: t.LogicalType) -> t.LogicalType:
    match kind:
        case t.DecimalType(precision=precision, scale=scale):
            return t.DecimalType(precision=precision + _SUM_DIGITS, scale=scale)
        case t.FloatType() | t.DoubleType():
            return t.DoubleType()
        case _:
            return t.BigIntType()


def _count(_: exp.Expr, __: Expression) -> _Merged:
    return _COUNT, (_Function.COUNT,)


def _sum(_: exp.Expr, argument: Expression) -> _Merged:
    kind = argument.type
    if isinstance(kind, (*WHOLE, t.FloatType, t.DoubleType)):
        return "sum({0})", (_Function.SUM,)
    if isinstance(kind, t.DecimalType) and kind.precision + _SUM_DIGITS <= _MOST_DIGITS:
        # the sum of sums has more digits than the sum, which is an error where Spark's own is one
        return f"CAST(sum({{0}}) AS {_sum_type(kind)})", (_Function.SUM,)
    return None


def _average(node: exp.Expr, argument: Expression) -> _Merged:
    """Return AVG as `dialect/spark/aggregates.py` writes it, by sum and count."""
    kind, found = number_kind(node.this), argument.type
    parts = (_Function.SUM, _Function.COUNT)
    if isinstance(found, t.DecimalType):
        written = _decimal_average(node.this, found)
        return None if written is None else (written, parts)
    if not isinstance(found, (*WHOLE, t.FloatType, t.DoubleType)):
        return None
    if kind in INTEGERS:
        if isinstance(found, t.BigIntType) and kind != exp.DType.BIGINT:
            return None
        # no sum of fractions: that is another one in a replay (connector/spark/sink/determinism.py)
        text = "(sum(CAST({0} AS DECIMAL(38, 0))) DIV nullif(sum({1}), 0))"
        return (text if kind == exp.DType.BIGINT else f"CAST({text} AS {TYPES[kind]})"), parts
    text = "(sum(CAST({0} AS DOUBLE)) / nullif(sum({1}), 0))"
    return (f"CAST({text} AS {TYPES[kind]})" if kind == exp.DType.FLOAT else text), parts


def _decimal_average(value: exp.Expr, kind: t.DecimalType) -> str | None:
    """Write AVG of a DECIMAL, which Spark rounds to four digits more than the value has, and half up.

    The sum, times as many tens, is divided as a whole number, as the quotient of two DECIMALs is rounded before. None
    where the numbers have more digits than Spark computes with.
    """
    if decimal_of(value) != (kind.precision, kind.scale):
        return None
    digits, scale = kind.precision, kind.scale
    rounded = max(scale, _LEAST_SCALE) + _AVERAGE_DIGITS
    if digits + rounded + _SUM_DIGITS + 3 > _MOST_DIGITS or digits - scale + rounded > _LONG_DIGITS:
        return None
    total = f"CAST(sum({{0}}) AS DECIMAL({digits + _SUM_DIGITS}, {scale}))"
    twice = f"CAST(2{'0' * rounded} AS DECIMAL({rounded + 1}, 0))"
    whole = f"((abs({total}) * {twice} + sum({{1}})) DIV nullif(2 * sum({{1}}), 0))"
    signed = f"CASE WHEN sum({{0}}) < 0 THEN -{whole} ELSE {whole} END"
    unit = f"CAST(0.{'0' * (rounded - 1)}1 AS DECIMAL({rounded}, {rounded}))"
    return f"CAST(({signed}) * {unit} AS DECIMAL(38, {max(AVERAGE_SCALE, scale)}))"


def _least(node: exp.Expr, _: Expression) -> _Merged:
    name = "min" if isinstance(node, exp.Min) else "max"
    return f"{name}({{0}})", (_Function(name),)


_FUNCTIONS: Mapping[type[exp.Expr], Callable[[exp.Expr, Expression], _Merged]] = {
    exp.Count: _count,
    exp.Sum: _sum,
    exp.Avg: _average,
    exp.Min: _least,
    exp.Max: _least,
}


def _is_covered(
    select: exp.Select,
    keys: Sequence[tuple[exp.Expr, str, Expression]],
    calls: Sequence[MergedCall],
) -> bool:
    """Return whether keys, aggregates and bounds of windows are all that a SELECT names behind its FROM and WHERE."""
    taken = [key for key, _, _ in keys] + [call.call for call in calls]
    parts = [*select.expressions, *([select.args["having"]] if select.args.get("having") else [])]
    pending: list[exp.Expr] = list(parts)
    while pending:
        node = pending.pop()
        if node in taken:
            continue
        if isinstance(node, exp.Column) and node.name not in WINDOW_COLUMNS:
            return False
        pending += [child for child in node.iter_expressions() if isinstance(child, exp.Expr)]
    return True
