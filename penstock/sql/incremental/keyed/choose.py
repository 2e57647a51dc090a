"""Give a stage its keyed operator, or the reason why Spark runs it. No JVM; for the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from penstock.sql.incremental.keyed.aggregates import sum_type
from penstock.sql.incremental.keyed.normalize import NormalizeUpserts
from penstock.sql.incremental.keyed.operator import KeyedLayout, KeyedOperator, RunBySpark
from penstock.sql.incremental.keyed.recompute import KeyedInput, RecomputeKeys, SideQuery
from penstock.sql.incremental.keyed.statement import (
    TableColumns,
    result_columns,
    translate_over,
    translate_query,
)
from penstock.sql.incremental.keyed.tables import UntranslatableError, type_name
from penstock.sql.incremental.stages import (
    COUNT,
    Calc,
    ChangelogNormalize,
    InputState,
    RecomputeOperator,
    Stage,
    StageInput,
)


def keyed_operator(
    stage: Stage, schemas: Mapping[str, pa.Schema], time_to_live_ms: int
) -> KeyedOperator | RunBySpark:
    """Return the operator of a stage other than a Calc.

    `schemas` are the columns of its inputs and its result, by name, as Spark has them in Arrow, without ROW_KIND;
    `time_to_live_ms` is `table.exec.state.ttl` (0: none), which hints of the stage's inputs replace.
    """
    assert not isinstance(stage, Calc), "Spark runs it, row by row"
    try:
        match stage:
            case RecomputeOperator():
                return _recompute(stage, schemas, time_to_live_ms)
            case ChangelogNormalize():
                return _normalize(stage, schemas[stage.input], time_to_live_ms)
            case _:
                return RunBySpark(reason=f"{stage.mechanism.named} that waits for a watermark")
    except UntranslatableError as error:
        return RunBySpark(reason=str(error))


def _normalize(
    stage: ChangelogNormalize, schema: pa.Schema, time_to_live_ms: int
) -> NormalizeUpserts:
    for of in schema:
        type_name(of.type)
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
        unchanged=live and not stage.joins,
    )


def _input(one: StageInput, schema: pa.Schema, time_to_live_ms: int, *, by_row: bool) -> KeyedInput:
    for of in schema:
        type_name(of.type)
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
    )


def _check_keys(inputs: Sequence[KeyedInput]) -> None:
    """Raise UntranslatableError where keys that are compared go to different buckets, as their types differ."""
    first, *others = [one.layout.key_types for one in inputs]
    if any(other != first for other in others):
        raise UntranslatableError("keys of different types")


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
    statement = translate_query(stage.query, tables)
    columns = result_columns(statement, result, arrivals)
    return SideQuery(
        sql=statement.sql,
        names=tuple(name for name, _ in columns),
        columns=tuple(text for _, text in columns),
    )


def _result_dims(
    stage: RecomputeOperator, one: KeyedInput, names: Sequence[str]
) -> tuple[str, ...]:
    if stage.inputs[0].keeps is not InputState.RESULT:
        return ()
    return tuple(f"c{names.index(name)}" for name in one.layout.names)
