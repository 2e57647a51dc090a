"""Decide whether one task runs all stages of a small batch, over all buckets.

A task costs some 30 ms however few rows it has, and so does each shuffle between stages by other keys. A small batch
over a small state is less work than that: one task takes what the reading tasks give, runs the stages one behind the
other, and writes the files of each bucket. What it returns, and what its files add up to, is that of tasks by bucket,
so that a batch that is run again may run the other way.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import types as s
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.connector.changelog import ROW_KIND
from penstock.connector.spark.source.buckets import is_hashed
from penstock.sql.incremental.keyed.choose import passed_keys
from penstock.sql.incremental.keyed.files.manifest import StateManifest
from penstock.sql.incremental.keyed.operator import WatermarkOperator
from penstock.sql.incremental.keyed.recompute import SideQuery
from penstock.sql.incremental.keyed.runtime.plan import KeyedPlan, OneTask
from penstock.sql.incremental.keyed.runtime.task import calc_table
from penstock.sql.incremental.keyed.statement import (
    Statement,
    TableColumns,
    result_columns,
    translate_query,
)
from penstock.sql.incremental.keyed.tables import UntranslatableError, cast_text
from penstock.sql.incremental.stages import (
    Calc,
    IncrementalQuery,
    RecomputeOperator,
    Stage,
    Stateless,
    inputs_of,
)

MOST_STORED = 1_000_000
MOST_STORED_BYTES = 32 << 20
"""Stored rows, not added up, and the bytes of their files: of all states, which one worker holds in memory together."""


def is_small(records: int | None, most_records: int, before: StateManifest) -> bool:
    """Return whether a batch of so many records (None: it is not known) over the state before it is for one task.

    `most_records` 0: none is.
    """
    rows = sum(of.rows for of in before.files.values())
    size = sum(of.bytes for of in before.files.values())
    few = records is not None and most_records > 0 and records <= most_records
    return few and rows <= MOST_STORED and size <= MOST_STORED_BYTES


def plan_one_task(maintained: IncrementalQuery, plan: KeyedPlan) -> OneTask | None:
    """Return what one task runs of a query: all but what Spark computes in front of the first operator.

    None where it cannot: where a Calc behind an operator has floating point numbers, or is outside of what DuckDB
    computes, or what Spark adds to changes; where keys are of types whose bucket Spark alone tells; where an operator
    counts the rows of another in their order, which tasks by bucket would give in another one; and for OVER and
    temporal joins, which number rows.
    """
    by_spark = {feed.name for feed in maintained.feeds}
    stages: list[Stage] = []
    calcs: dict[str, SideQuery] = {}
    for stage in maintained.stages:
        if isinstance(stage, Stateless) and by_spark.issuperset(inputs_of(stage)):
            by_spark.add(stage.name)
            continue
        stages.append(stage)
        if isinstance(stage, Calc):
            query = None if _has_fractions(stage, plan) else _translated(stage, plan)
            if query is None:
                return None
            calcs[stage.name] = query
        elif isinstance(stage, Stateless) or not _takes(stage, plan, by_spark):
            return None
    return OneTask(stages=tuple(stages), calcs=calcs, hashed=hashed_columns(plan))


def _takes(stage: Stage, plan: KeyedPlan, by_spark: set[str]) -> bool:
    """Return whether the operator of a stage does in one task what it does in tasks by bucket."""
    operator = plan.operators[stage.name]
    kinds = (kind for layout in operator.layouts.values() for kind in layout.key_types)
    # rows that wait are numbered in the order of their bucket, so that those of two may have one number
    numbers = isinstance(operator, WatermarkOperator) and bool(operator.ordered)
    return (
        not numbers
        and by_spark.issuperset(operator.ordered)
        and by_spark.issuperset(plan.computed.get(stage.name, {}))
        and all(map(is_hashed, kinds))
    )


def _has_fractions(stage: Calc, plan: KeyedPlan) -> bool:
    """Return whether a Calc reads or gives floating point numbers.

    Spark adds them in the order of its shuffle, and keeps a zero's sign, so that a replay could differ in digits.
    """
    names = (*stage.inputs, stage.name)
    kinds = (of.dataType for name in names for of in plan.schemas[name].fields)
    return any(
        isinstance(kind, s.FractionalType) and not isinstance(kind, s.DecimalType) for kind in kinds
    )


def _translated(stage: Calc, plan: KeyedPlan) -> SideQuery | None:
    kind = pa.field(ROW_KIND, pa.int8())
    schemas = {
        name: to_arrow_schema(plan.schemas[name], timezone="UTC")
        for name in (*stage.inputs, stage.name)
    }
    tables = {
        name: TableColumns(
            sql=calc_table(n),
            columns=(*schemas[name], kind),
            order=", ".join(f"{{0}}.c{i}" for i in range(len(schemas[name]) + 1)),
        )
        for n, name in enumerate(stage.inputs)
    }
    try:
        statement = translate_query(stage.query, tables)
        plain = Statement(sql=statement.sql, columns=statement.columns[:-1])
        found = result_columns(plain, schemas[stage.name], {})
    except UntranslatableError:
        return None
    last = cast_text(f"c{len(found)}", kind.type)
    return SideQuery(
        sql=statement.sql,
        names=(*(name for name, _ in found), ROW_KIND),
        columns=(*(text for _, text in found), last),
    )


def hashed_columns(plan: KeyedPlan) -> Mapping[tuple[str, str], tuple[str, ...]]:
    """Return, by stage and input, the columns of the layout whose hash tells the bucket in which tasks keep its rows.

    Those of the key; of a stage that runs in the task of another one, by a longer key, those that are the key there.
    """
    positions: dict[str, tuple[int, ...]] = {}
    for stages in plan.steps:
        for stage in stages:
            if isinstance(stage, Stateless):
                continue
            layouts = plan.operators[stage.name].layouts
            first = next((one for one in stages if one.name in inputs_of(stage)), None)
            if first is None:
                # what stores values of a key has a longer one
                width = min((len(of.key) for of in layouts.values() if of.key), default=0)
                positions[stage.name] = tuple(range(width))
                continue
            assert isinstance(first, RecomputeOperator), "others pass no key on"
            key, passed = layouts[first.name].key, passed_keys(first)
            positions[stage.name] = tuple(
                next(n for n, name in enumerate(key) if name in passed[position])
                for position in positions[first.name]
            )
    return {
        (stage, name): tuple(layout.key[n] for n in positions[stage] if layout.key)
        for (stage, name), layout in plan.layouts.items()
    }
