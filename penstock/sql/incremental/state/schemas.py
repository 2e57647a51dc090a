"""Columns and types of the relations and states of an incremental query, found without reading.

Also the sums (measures) that a state keeps instead of rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as s
from pyspark.sql.pandas.types import to_arrow_schema
from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.identifier import quote, quoted
from penstock.connector.changelog import ROW_KIND
from penstock.connector.spark.internals import empty_frame, make_active, select_sql
from penstock.connector.spark.sink.determinism import nondeterministic_scalars
from penstock.sql.dialect import to_spark_query
from penstock.sql.dialect.functions.table import FUNCTIONS, SPARK_FUNCTIONS
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS
from penstock.sql.incremental.stages import (
    BATCH_TIME,
    COUNT,
    INGESTION_ORDER,
    PANE,
    VALID_FROM,
    VALID_TO,
    AccumulatorFunction,
    AccumulatorState,
    Calc,
    ChangelogNormalize,
    IncrementalQuery,
    Measure,
    OverAggregate,
    PaneAggregate,
    RecomputeOperator,
    StageInput,
    TemporalJoin,
    WindowAggregate,
    input_column,
)
from penstock.sql.incremental.state.batch import over_tables
from penstock.sql.incremental.state.changed_keys import SIGN
from penstock.sql.incremental.state.panes import grouped_by_pane
from penstock.sql.incremental.state.state_table import StateLayout, columns_of

if TYPE_CHECKING:
    import pyarrow as pa


def measures_of(rows: DataFrame, key: Sequence[str], measures: Sequence[Measure]) -> DataFrame:
    """Return the increments of each key's measures and row count; `rows` have SIGN."""
    values = [_value(measure).alias(f"__m{n}") for n, measure in enumerate(measures)]
    valued = rows.select(*columns_of(key), *values, F.col(SIGN))
    # two sums and no minus: the least TINYINT has none
    totals = [
        (_sum(f"__m{n}", F.col(SIGN) > 0) - _sum(f"__m{n}", F.col(SIGN) < 0)).alias(measure.name)
        for n, measure in enumerate(measures)
    ]
    return valued.groupBy(*columns_of(key)).agg(*totals, F.sum(SIGN).alias(COUNT))


def measure_types(rows: DataFrame, measures: Sequence[Measure]) -> list[s.StructField]:
    """Return the columns of measures over `rows`: of the type of their sum."""
    sums = rows.select(*(F.sum(_value(measure)).alias(measure.name) for measure in measures))
    return sums.schema.fields


def _value(measure: Measure) -> Column:
    return F.expr(to_spark_query(measure.value))


def _sum(column: str, condition: Column) -> Column:
    return F.coalesce(F.sum(F.when(condition, F.col(column))), F.lit(0))


_NOT_COMPARED = (s.MapType, s.VariantType, s.CalendarIntervalType, s.NullType)
"""Types that Spark cannot group by, or parquet cannot hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Analysed:
    """The columns of the relations of a query, whose inputs have `schema`, as a session has analysed them."""

    spark: SparkSession
    maintained: IncrementalQuery
    schema: s.StructType
    relations: Mapping[str, s.StructType]


_ANALYSED: deque[_Analysed] = deque(maxlen=8)
"""The queries that were analysed last: a check and the start behind it ask for the same. Bounded, as it keeps them."""


def schemas_of(
    spark: SparkSession, maintained: IncrementalQuery, schema: s.StructType
) -> Mapping[str, s.StructType]:
    """Return the columns of every relation by its name, without ROW_KIND; `schema` is that of the streaming query.

    Raises UnsupportedError for a column that cannot be stored or compared, Spark's AnalysisException for SQL that it
    refuses.
    """
    for one in tuple(_ANALYSED):
        same = one.spark is spark and one.maintained is maintained
        if same and one.schema == schema:
            return one.relations
    found = _analysed(spark, maintained, schema)
    _ANALYSED.append(_Analysed(spark=spark, maintained=maintained, schema=schema, relations=found))
    return found


def _analysed(
    spark: SparkSession, maintained: IncrementalQuery, schema: s.StructType
) -> dict[str, s.StructType]:
    make_active(spark)
    found: dict[str, s.StructType] = {}
    for index, feed in enumerate(maintained.feeds):
        kind = schema[input_column(index)].dataType
        assert isinstance(kind, s.StructType), "the rows of a feed are a STRUCT"
        found[feed.name] = _of([field for field in kind.fields if field.name != ROW_KIND])
    for stage in maintained.stages:
        match stage:
            case ChangelogNormalize():
                _check(found[stage.input])
                found[stage.name] = found[stage.input]
            case Calc():
                changes = {
                    name: _without_rows(spark, found[name], changes=True) for name in stage.inputs
                }
                result = _columns_of_query(spark, stage.query, changes)
                found[stage.name] = _of([f for f in result.fields if f.name != ROW_KIND])
            case RecomputeOperator():
                found[stage.name] = _recomputed(spark, stage, found)
            case TemporalJoin():
                found[stage.name] = _joined(spark, stage, found)
            case OverAggregate():
                found[stage.name] = _over(spark, stage, found)
            case PaneAggregate():
                _check(found[stage.input])
                groups = grouped_by_pane(stage, _without_rows(spark, found[stage.input]))
                found[stage.name] = _of(groups.schema.fields)
            case WindowAggregate():
                _check(found[stage.rows])
                seen = found[stage.rows].fields
                if stage.panes is not None:
                    seen = [*seen, *_bounds(found[stage.rows][PANE].dataType)]
                rows = {stage.rows: _without_rows(spark, _of(seen))}
                found[stage.name] = _of(_columns_of_query(spark, stage.query, rows).fields)
            case _:
                assert_never(stage)
    return found


def _columns_of_query(
    spark: SparkSession, query: exp.Query, tables: Mapping[str, DataFrame]
) -> s.StructType:
    """Return the columns of a stage's query. Raises UnsupportedError where a function in it is not deterministic.

    Of a user's function only Spark knows that, and refuses it in aggregates alone; planning refuses others.
    """
    frame = over_tables(spark, query, tables)
    calls = (call.name for call in query.find_all(exp.Anonymous))
    own = any(n.upper() not in FUNCTIONS and n.lower() not in SPARK_FUNCTIONS for n in calls)
    varying = nondeterministic_scalars(frame) if own else ()
    if varying:
        raise UnsupportedError(
            f"{varying[0]} is declared not deterministic, and is called over rows that are kept: what it gave could "
            "not be taken back, or given again",
            hint="call it in the query that reads the table; or declare it deterministic",
        )
    return frame.schema


def _bounds(time: s.DataType) -> list[s.StructField]:
    """Return the columns that a windowing function adds to rows with a time."""
    return [s.StructField(name, time) for name in WINDOW_COLUMNS]


def empty(spark: SparkSession, schema: s.StructType, *, changes: bool = False) -> DataFrame:
    """Return a frame without rows; `changes`: with ROW_KIND as its last column."""
    fields = [*schema.fields, s.StructField(ROW_KIND, s.ByteType())] if changes else schema.fields
    return spark.createDataFrame([], s.StructType(fields))


def _without_rows(spark: SparkSession, schema: s.StructType, *, changes: bool = False) -> DataFrame:
    """Return a frame whose columns are asked for, and that is not run; `changes`: with ROW_KIND as its last column."""
    fields = [*schema.fields, s.StructField(ROW_KIND, s.ByteType())] if changes else schema.fields
    return empty_frame(spark, s.StructType(fields))


def last_relation(maintained: IncrementalQuery) -> str:
    """Return the relation that is the result of a query."""
    return (maintained.stages or maintained.feeds)[-1].name


def empty_changes(maintained: IncrementalQuery, frame: DataFrame) -> DataFrame:
    """Return an empty frame with the columns of a query's changes, ROW_KIND last, for the `frame` of its inputs.

    Reads nothing. Raises as `schemas_of`.
    """
    spark = frame.sparkSession
    schema = schemas_of(spark, maintained, frame.schema)[last_relation(maintained)]
    names = [quoted(name) for name in (*maintained.columns, ROW_KIND)]
    return select_sql(_without_rows(spark, schema, changes=True), names)


def input_schema(schema: s.StructType, stage_input: StageInput) -> s.StructType:
    """Return the columns that identify a row of an input as its stage keeps them, without measures."""
    if stage_input.arrival is None or stage_input.by_change:
        return schema
    return s.StructType([*schema.fields, s.StructField(stage_input.arrival, s.LongType())])


def layout_of(
    spark: SparkSession, schema: s.StructType, stage_input: StageInput, *, by_row: bool = False
) -> StateLayout:
    """Return the layout of an input whose relation has the columns `schema`."""
    count = s.StructField(COUNT, s.LongType())
    if stage_input.measures:
        sums = measure_types(_without_rows(spark, schema), stage_input.measures)
        dims = tuple(schema[name] for name in stage_input.key)
        return StateLayout(dims=dims, values=(*sums, count), key=stage_input.key)
    added = (
        [s.StructField(stage_input.arrival, s.LongType())]
        if stage_input.arrival and stage_input.by_change
        else []
    )
    return StateLayout(
        dims=tuple(input_schema(schema, stage_input).fields),
        values=(*added, count),
        key=stage_input.key,
        by_row=by_row,
    )


def _recomputed(
    spark: SparkSession, stage: RecomputeOperator, found: Mapping[str, s.StructType]
) -> s.StructType:
    tables = {}
    for stage_input in stage.inputs:
        _check(found[stage_input.name])
        layout = layout_of(spark, found[stage_input.name], stage_input)
        values = layout.values if stage_input.measures else layout.values[:-1]
        tables[stage_input.name] = _without_rows(spark, _of([*layout.dims, *values]))
    result = _columns_of_query(spark, stage.query, tables)
    arrivals = {stage_input.arrival for stage_input in stage.inputs}
    schema = _of([field for field in result.fields if field.name not in arrivals])
    _check(schema)
    return schema


def _joined(
    spark: SparkSession, stage: TemporalJoin, found: Mapping[str, s.StructType]
) -> s.StructType:
    rows, versions = found[stage.rows], found[stage.versions]
    for schema in (rows, versions):
        _check(schema)
    time = versions[stage.version_time].dataType
    validity = [s.StructField(name, time) for name in (VALID_FROM, VALID_TO)]
    tables = {
        stage.rows: _without_rows(spark, rows),
        stage.versions: _without_rows(spark, s.StructType([*versions.fields, *validity])),
    }
    return _of(_columns_of_query(spark, stage.query, tables).fields)


def total_types(
    spark: SparkSession, schema: s.StructType, totals: AccumulatorState
) -> list[s.StructField]:
    """Return the columns of accumulators over rows with the columns `schema`: of the type of their sum."""
    rows = _without_rows(spark, schema)
    added = [total_of(one.total, F.expr(to_spark_query(one.value))) for one in totals.running]
    found = rows.agg(*added).schema.fields
    return [
        s.StructField(one.name, field.dataType)
        for one, field in zip(totals.running, found, strict=True)
    ]


def total_of(total: AccumulatorFunction, value: Column) -> Column:
    """Write a total of a value as Spark's aggregate."""
    match total:
        case AccumulatorFunction.SUM:
            return F.sum(value)
        case AccumulatorFunction.MIN:
            return F.min(value)
        case AccumulatorFunction.MAX:
            return F.max(value)
        case AccumulatorFunction.FIRST:
            return F.first(value, ignorenulls=True)
        case AccumulatorFunction.LAST:
            return F.last(value, ignorenulls=True)
        case _:
            assert_never(total)


def _over(
    spark: SparkSession, stage: OverAggregate, found: Mapping[str, s.StructType]
) -> s.StructType:
    rows = found[stage.rows]
    _check(rows)
    more = [s.StructField(INGESTION_ORDER, s.LongType())]
    if isinstance(stage.frame_state, AccumulatorState):
        more += total_types(spark, rows, stage.frame_state)
    elif stage.time is None:
        more.append(s.StructField(BATCH_TIME, s.TimestampType()))
    table = _without_rows(spark, _of([*rows, *more]))
    result = _columns_of_query(spark, stage.query, {stage.rows: table})
    return _of([field for field in result.fields if field.name != INGESTION_ORDER])


def _of(fields: list[s.StructField]) -> s.StructType:
    return s.StructType([s.StructField(field.name, field.dataType) for field in fields])


def _check(schema: s.StructType) -> None:
    for field in schema.fields:
        inner = _not_compared(field.dataType)
        if inner is None:
            continue
        if isinstance(inner, s.NullType):
            raise UnsupportedError(
                f"column {quote(field.name)} is or holds a NULL without a type",
                hint="give it one: CAST(NULL AS INT)",
            )
        raise UnsupportedError(
            f"column {quote(field.name)} is or holds a {inner.typeName().upper()}, and rows with one cannot be "
            "compared, as an updating query of this kind has to",
            hint="leave the column out, or take its parts as columns of their own (m['key'])",
        )


def _not_compared(kind: s.DataType) -> s.DataType | None:
    match kind:
        case s.ArrayType():
            return _not_compared(kind.elementType)
        case s.StructType():
            inner = (_not_compared(field.dataType) for field in kind.fields)
            return next((found for found in inner if found is not None), None)
        case _:
            return kind if isinstance(kind, _NOT_COMPARED) else None


def plain_columns(rows: DataFrame) -> pa.Schema:
    """Return the columns of a frame without ROW_KIND."""
    fields = [of for of in rows.schema.fields if of.name != ROW_KIND]
    return to_arrow_schema(s.StructType(fields), timezone="UTC")
