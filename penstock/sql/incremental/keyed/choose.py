"""Give a stage its keyed operator, or the reason why Spark runs it. No JVM; for the driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

import pyarrow as pa
from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.sql.incremental.keyed.accumulate import ACCUMULATED, accumulating_operator
from penstock.sql.incremental.keyed.aggregates import sum_type, window_order
from penstock.sql.incremental.keyed.append_join import AppendJoin
from penstock.sql.incremental.keyed.choose_event_time import (
    append_join_operator,
    over_operator,
    panes_operator,
    side_query,
    temporal_join_operator,
    window_operator,
)
from penstock.sql.incremental.keyed.one_row import BestRow, NormalizeUpserts
from penstock.sql.incremental.keyed.operator import (
    KeyedLayout,
    KeyedOperator,
    RunBySpark,
    WatermarkOperator,
)
from penstock.sql.incremental.keyed.recompute import KeyedInput, RecomputeKeys, SideQuery
from penstock.sql.incremental.keyed.statement import TableColumns, translate_over
from penstock.sql.incremental.keyed.tables import OpenTypeError, UntranslatableError, check_stored
from penstock.sql.incremental.stages import (
    COUNT,
    ChangelogNormalize,
    IncrementalQuery,
    InputState,
    Measure,
    OverAggregate,
    Panes,
    RecomputeOperator,
    Stage,
    StageInput,
    Stateless,
    TemporalJoin,
    WindowAggregate,
    inputs_of,
    ordered_inputs_of,
    ordered_relations,
)
from penstock.sql.plan.logical.facts import unique_name
from penstock.sql.plan.rules.flow import OperatorKind


def keyed_operator(
    stage: Stage,
    schemas: Mapping[str, pa.Schema],
    time_to_live_ms: int,
    inserts: frozenset[str] = frozenset(),
) -> KeyedOperator | RunBySpark:
    """Return the operator of a stage other than a Calc.

    `schemas` are the columns of its inputs and its result, by name, as Spark has them in Arrow, without ROW_KIND;
    `time_to_live_ms` is `table.exec.state.ttl` (0: none), which hints of the stage's inputs replace. `inserts` are the
    relations whose rows are never updated or deleted.
    """
    assert not isinstance(stage, Stateless), "it has no state"
    try:
        match stage:
            case RecomputeOperator() if _is_append_join(stage, time_to_live_ms, inserts):
                return _append_join(stage, schemas)
            case RecomputeOperator(inputs=(one,)) if one.keeps in ACCUMULATED:
                return accumulating_operator(stage, schemas, time_to_live_ms)
            case RecomputeOperator():
                recomputed = _recompute(stage, schemas, time_to_live_ms)
                return _best_row(stage, recomputed) or recomputed
            case ChangelogNormalize():
                return _normalize(stage, schemas[stage.input], time_to_live_ms)
            case OverAggregate():
                return over_operator(stage, schemas, time_to_live_ms)
            case TemporalJoin():
                return temporal_join_operator(stage, schemas, time_to_live_ms)
            case WindowAggregate(panes=Panes() as panes):
                return panes_operator(stage, panes, schemas)
            case WindowAggregate():
                return window_operator(stage, schemas)
            case _:
                assert_never(stage)
    except UntranslatableError as error:
        is_open = isinstance(error, OpenTypeError)
        return RunBySpark(reason=str(error), hint=error.hint, is_open=is_open)


def _normalize(
    stage: ChangelogNormalize, schema: pa.Schema, time_to_live_ms: int
) -> NormalizeUpserts:
    check_stored(schema)
    layout = KeyedLayout(
        dims=tuple(schema),
        values=(pa.field(COUNT, pa.int64()),),
        key=stage.key,
        time_to_live_ms=time_to_live_ms,
    )
    return NormalizeUpserts(name=stage.input, layout=layout)


def _recompute(
    stage: RecomputeOperator, schemas: Mapping[str, pa.Schema], time_to_live_ms: int
) -> RecomputeKeys:
    inputs = tuple(
        _input(one, schemas[one.name], time_to_live_ms, by_row=stage.joins) for one in stage.inputs
    )
    _check_keys(inputs)
    result = schemas[stage.name]
    arrivals = {one.arrival: pa.int64() for one in stage.inputs if one.arrival is not None}
    sides = [_side(stage, inputs, side, result, arrivals) for side in ("before", "after")]
    live = any(one.layout.time_to_live_ms for one in inputs)
    return RecomputeKeys(
        inputs=inputs,
        before=sides[0],
        after=sides[1],
        result=tuple(result),
        key=None if stage.key is None else tuple(result.names.index(name) for name in stage.key),
        result_dims=_result_dims(stage, inputs[0], sides[0].names),
        unchanged=live and not (stage.joins or stage.inserts),
        refreshed=stage.mechanism.way is OperatorKind.AGGREGATE,
    )


def _best_row(stage: RecomputeOperator, recomputed: RecomputeKeys) -> BestRow | None:
    """Return the operator of Top-1 of inserts that are numbered as they come: it has the state of the other."""
    one, window = recomputed.inputs[0], stage.query.find(exp.Window)
    if window is None or not stage.keeps_first or one.layout.time_to_live_ms:
        return None
    where, parts = stage.query.args.get("where"), window.args["order"].expressions
    names = [by.this.name for by in parts]
    bound = None if where is None else where.this
    first = isinstance(bound, exp.LTE) and bound.expression.name == "1"
    if not first or not isinstance(window.this, exp.RowNumber):
        return None
    if stage.inputs[0].arrival not in names:
        return None
    arrival = names.index(stage.inputs[0].arrival)
    # what stands behind the number decides nothing
    order = exp.Window(order=exp.Order(expressions=parts[:arrival]))
    positions = tuple(dict.fromkeys(map(one.layout.names.index, names[:arrival])))
    columns = TableColumns(sql="rows", columns=tuple(one.layout.dims[n] for n in positions))
    position_of = {name: n for n, name in enumerate(one.layout.names)}
    return BestRow(
        name=one.name,
        layout=one.layout,
        compared=positions,
        order=window_order(order, lambda value: translate_over(value, columns)).by,
        latest=bool(parts[arrival].args.get("desc")),
        result=recomputed.result,
        taken=tuple(position_of.get(of.name) for of in recomputed.result),
        upserts=stage.upserts,
    )


_PLAIN_JOIN = {"expressions", "from_", "joins"}


def _is_append_join(
    stage: RecomputeOperator, time_to_live_ms: int, inserts: frozenset[str]
) -> bool:
    """Return whether a stage is an inner join of inserts that are kept for good, or any whose rows end."""
    lifetimes = (
        time_to_live_ms if one.time_to_live_ms is None else one.time_to_live_ms
        for one in stage.inputs
    )
    if not stage.joins or len(stage.inputs) != 2 or any(lifetimes):
        return False
    query = stage.query
    if not isinstance(query, exp.Select) or not inserts >= {one.name for one in stage.inputs}:
        return False
    plain = {name for name, part in query.args.items() if part} <= _PLAIN_JOIN
    joins = query.args.get("joins") or []
    if not plain or len(joins) != 1 or joins[0].kind not in ("", "INNER"):
        return False
    return not joins[0].side or stage.times is not None


def _append_join(stage: RecomputeOperator, schemas: Mapping[str, pa.Schema]) -> AppendJoin:
    left, right = (_input(one, schemas[one.name], 0, by_row=True) for one in stage.inputs)
    _check_keys((left, right))
    return append_join_operator(stage, (left, right), schemas[stage.name])


def _input(one: StageInput, schema: pa.Schema, time_to_live_ms: int, *, by_row: bool) -> KeyedInput:
    check_stored(schema)
    count = pa.field(COUNT, pa.int64())
    ttl_ms = time_to_live_ms if one.time_to_live_ms is None else one.time_to_live_ms
    measures: list[str] = []
    if one.measures:
        changes = TableColumns(sql="changes", columns=tuple(schema))
        sums = []
        for measure in one.measures:
            value = translate_over(measure.value, changes)
            if value.type is None:
                raise UntranslatableError(f"the sum {measure.name} of NULL")
            measures.append(value.sql)
            sums.append(pa.field(measure.name, sum_type(value.type)))
        dims = tuple(schema.field(name) for name in one.key)
        values = (*sums, count)
    else:
        arrival = [] if one.arrival is None else [pa.field(one.arrival, pa.int64())]
        dims = (*schema, *([] if one.by_change else arrival))
        values = (*(arrival if one.by_change else []), count)
    return KeyedInput(
        name=one.name,
        columns=tuple(schema),
        layout=KeyedLayout(
            dims=dims, values=values, key=one.key, time_to_live_ms=ttl_ms, by_row=by_row
        ),
        measures=tuple(measures),
        keeps=one.keeps,
        arrival=one.arrival is not None,
        by_batch=one.by_batch,
        by_change=one.by_change,
        renewed=one.renewed,
    )


def _check_keys(inputs: Sequence[KeyedInput]) -> None:
    """Raise UntranslatableError where keys that are compared go to different buckets, as their types differ."""
    first, *others = [one.layout.key_types for one in inputs]
    if any(other != first for other in others):
        raise UntranslatableError("keys of different types", "CAST both sides to one type")


def _side(
    stage: RecomputeOperator,
    inputs: Sequence[KeyedInput],
    side: str,
    result: pa.Schema,
    arrivals: Mapping[str, pa.DataType],
) -> SideQuery:
    tables = {
        one.name: TableColumns(
            sql=f"{side}{n}",
            columns=one.seen,
            order=", ".join(f"{{0}}.c{i}" for i in range(len(one.seen))),
        )
        for n, one in enumerate(inputs)
    }
    return side_query(stage.query, tables, result, arrivals)


def _result_dims(
    stage: RecomputeOperator, one: KeyedInput, names: Sequence[str]
) -> tuple[str, ...]:
    if stage.inputs[0].keeps is not InputState.RESULT:
        return ()
    return tuple(f"c{names.index(name)}" for name in one.layout.names)


# --- all stages of a query ---


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenOperators:
    """What runs the stages of a query with state, by their names.

    `computed` are, by stage, the columns that Spark adds to the changes of its inputs, and `read` the columns of such
    an input by stage and input. `steps` are the stages in their order: those that run in one task together, at the
    place of the last of them; none where Spark runs a stage, as it then runs all.
    """

    found: Mapping[str, KeyedOperator | RunBySpark]
    computed: Mapping[str, AddedColumns]
    read: Mapping[tuple[str, str], pa.Schema]
    steps: tuple[tuple[Stage, ...], ...]

    @property
    def operators(self) -> dict[str, KeyedOperator]:
        """The keyed operators."""
        return {name: of for name, of in self.found.items() if not isinstance(of, RunBySpark)}

    @property
    def by_spark(self) -> dict[str, RunBySpark]:
        """The stages without one, with the reason; first those that no start of the query gives one."""
        found = [(name, of) for name, of in self.found.items() if isinstance(of, RunBySpark)]
        return dict(sorted(found, key=lambda one: one[1].is_open))


def choose_operators(
    maintained: IncrementalQuery,
    schemas: Mapping[str, pa.Schema],
    time_to_live_ms: int,
    with_added: Callable[[str, Sequence[AddedColumn]], pa.Schema],
) -> ChosenOperators:
    """Give each stage but a Calc its operator, or the reason why Spark runs it.

    `schemas` and `time_to_live_ms` as in `keyed_operator`, for all relations of the query; `with_added` returns the
    columns of a relation to which some are added. Of types that are not known yet the plan says so; a run has them.
    """
    found: dict[str, KeyedOperator | RunBySpark] = {}
    computed: dict[str, AddedColumns] = {}
    read: dict[tuple[str, str], pa.Schema] = {}
    inserts = {feed.name for feed in maintained.feeds if feed.changes is ChangelogMode.INSERT_ONLY}
    ordered = ordered_relations(maintained)
    for stage in maintained.stages:
        if isinstance(stage, Stateless):
            if inserts.issuperset(inputs_of(stage)):
                inserts.add(stage.name)
            continue
        own, computed[stage.name] = with_computed(stage, schemas)
        more = {name: with_added(name, added) for name, added in computed[stage.name].items()}
        read |= {(stage.name, name): columns for name, columns in more.items()}
        operator = keyed_operator(own, {**schemas, **more}, time_to_live_ms, frozenset(inserts))
        if isinstance(operator, AppendJoin):
            operator = replace(operator, sorted=stage.name in ordered)
        assert isinstance(operator, RunBySpark) or operator.ordered <= {
            *ordered_inputs_of(stage)
        }, "tables are read in the order that operators count in"
        if isinstance(operator, AppendJoin | WatermarkOperator):
            inserts.add(stage.name)
        found[stage.name] = operator
    operators = {name: of for name, of in found.items() if not isinstance(of, RunBySpark)}
    together = operators.keys() == found.keys()
    return ChosenOperators(
        found=found,
        computed=computed,
        read=read,
        steps=task_steps(maintained.stages, operators, computed) if together else (),
    )


# --- stages that run in one task ---


def task_steps(
    stages: Sequence[Stage],
    operators: Mapping[str, KeyedOperator],
    computed: Mapping[str, AddedColumns],
) -> tuple[tuple[Stage, ...], ...]:
    """Put a stage into the tasks of the only one that reads it, where the rows of its result are in the right bucket.

    Rows then do not leave the task, and are not shuffled again.
    """
    readers = Counter(name for stage in stages for name in inputs_of(stage))
    steps: dict[str, tuple[Stage, ...]] = {}
    for stage in stages:
        together: tuple[Stage, ...] = (stage,)
        for name in inputs_of(stage):
            before = steps.get(name, ())
            if (
                before
                and readers[name] == 1
                and name not in computed.get(stage.name, {})
                and _runs_in_task_of(before[-1], stage, operators)
                and (len(inputs_of(stage)) == 1 or _has_one_key(before, operators))
                and not _shared_inputs(before, together)
            ):
                together = (*steps.pop(name), *together)
        steps[stage.name] = together
    return tuple(steps.values())


def _shared_inputs(first: Sequence[Stage], second: Sequence[Stage]) -> bool:
    """Return whether two groups of stages read one relation: a task has the rows of each of its inputs once."""
    names = [{name for stage in stages for name in inputs_of(stage)} for stages in (first, second)]
    return not names[0].isdisjoint(names[1])


def _has_one_key(stages: Sequence[Stage], operators: Mapping[str, KeyedOperator]) -> bool:
    """Return whether all stages of a task have keys of the same types: one may have the key of the first, and more."""
    kinds = {layout.key_types for one in stages for layout in operators[one.name].layouts.values()}
    return len(kinds) == 1


def outer_inputs(stages: Sequence[Stage]) -> tuple[tuple[Stage, str], ...]:
    """Return what stages of one task read from outside of it: the stage and the name of the relation."""
    own = {stage.name for stage in stages}
    return tuple((stage, name) for stage in stages for name in inputs_of(stage) if name not in own)


def _runs_in_task_of(first: Stage, then: Stage, operators: Mapping[str, KeyedOperator]) -> bool:
    """Return whether each row of the result of `first` is in the bucket where `then` needs it.

    That is where the result has the key of `first` in the columns that are the key of `then`, as it is. Floating
    point numbers are no such keys: an operator may return another zero or NaN than it got.
    """
    if not isinstance(first, RecomputeOperator) or isinstance(then, Stateless):
        return False
    wanted = operators[then.name].layouts[first.name]
    kinds = {layout.key_types for layout in operators[first.name].layouts.values()}
    if first.times is not None and len(inputs_of(then)) == 1:
        return _is_part_of_key(first, kinds, wanted)
    if not wanted.key or kinds != {wanted.key_types}:
        return False
    if any(pa.types.is_floating(kind) or pa.types.is_nested(kind) for kind in wanted.key_types):
        return False
    passed = passed_keys(first)
    return len(passed) == len(wanted.key) and all(
        column in columns for column, columns in zip(wanted.key, passed, strict=True)
    )


def _is_part_of_key(
    first: RecomputeOperator, kinds: set[tuple[pa.DataType, ...]], wanted: KeyedLayout
) -> bool:
    """Return whether rows that agree in a key agree in that of `first`, too, as it is: they are in its bucket.

    Not of other operators than joins in time, whose checkpoints may have the buckets of the whole key.
    """
    passed = passed_keys(first)
    own = dict(zip(wanted.key, wanted.key_types, strict=True))
    if len(kinds) != 1 or not passed:
        return False
    (types,) = kinds
    return all(
        not (pa.types.is_floating(kind) or pa.types.is_nested(kind))
        and any(own.get(column) == kind for column in columns)
        for columns, kind in zip(passed, types, strict=True)
    )


def passed_keys(stage: RecomputeOperator) -> tuple[frozenset[str], ...]:
    """Return the columns of the result that are the key's columns, by their position in the key."""
    query = stage.query
    if not isinstance(query, exp.Select) or query.find(exp.GroupingSets, exp.Cube, exp.Rollup):
        return ()
    preserved = _preserved_inputs(query)
    keys = {one.name: one.key for one in stage.inputs}
    found = [
        (keys[preserved[value.table]].index(value.name), projection.alias_or_name)
        for projection in query.expressions
        if isinstance(value := projection.unalias(), exp.Column)
        and value.name in keys.get(preserved.get(value.table, ""), ())
    ]
    return tuple(
        frozenset(name for at, name in found if at == n) for n in range(len(stage.inputs[0].key))
    )


def _preserved_inputs(query: exp.Select) -> dict[str, str]:
    """Return the relations that a SELECT reads and never fills up with NULL, by their names in its text."""
    source = query.args["from_"].this if query.args.get("from_") else None
    preserved = {source.alias_or_name: source.name} if isinstance(source, exp.Table) else {}
    for join in query.args.get("joins") or []:
        if join.side in ("RIGHT", "FULL"):
            preserved = {}
        if join.side not in ("LEFT", "FULL") and isinstance(join.this, exp.Table):
            preserved[join.this.alias_or_name] = join.this.name
    if len(preserved) == 1 and not query.args.get("joins"):
        preserved[""] = next(iter(preserved.values()))
    return preserved


# --- what Spark computes for an operator ---


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedColumn:
    """A column that Spark adds to the changes of an input: an expression of Flink's dialect over its columns."""

    name: str
    value: exp.Expr


AddedColumns = Mapping[str, tuple[AddedColumn, ...]]
"""The columns that are added, by input."""


def with_computed(stage: Stage, schemas: Mapping[str, pa.Schema]) -> tuple[Stage, AddedColumns]:
    """Return a stage whose sums read columns where DuckDB cannot compute their addends, and those columns.

    State does not change by that: it has the sums, whoever has computed what was added.
    """
    if not isinstance(stage, RecomputeOperator):
        return stage, {}
    inputs, found = [], {}
    for one in stage.inputs:
        measures, columns = _readable(one, schemas[one.name])
        inputs.append(replace(one, measures=measures))
        if columns:
            found[one.name] = columns
    return replace(stage, inputs=tuple(inputs)), found


def _readable(
    one: StageInput, schema: pa.Schema
) -> tuple[tuple[Measure, ...], tuple[AddedColumn, ...]]:
    changes = TableColumns(sql="changes", columns=tuple(schema))
    measures: list[Measure] = []
    columns: list[AddedColumn] = []
    for measure in one.measures:
        try:
            translate_over(measure.value, changes)
        except UntranslatableError:
            name = unique_name("__computed", [*schema.names, *(column.name for column in columns)])
            columns.append(AddedColumn(name=name, value=measure.value))
            measures.append(replace(measure, value=exp.column(name, quoted=True)))
        else:
            measures.append(measure)
    return tuple(measures), tuple(columns)
