"""Columns and types of a maintained query's relations, found without reading; refuses types that cannot be kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as s

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.identifier import quote
from penstock.connector.changelog import ROW_KIND
from penstock.sql.dialect import to_spark_query
from penstock.sql.maintain.arrangement import COUNT, Layout
from penstock.sql.maintain.kept import BATCH_TIME, Total, Totals
from penstock.sql.maintain.measures import measure_types
from penstock.sql.maintain.stages import (
    ARRIVAL,
    VALID_FROM,
    VALID_TO,
    Closed,
    Input,
    Maintained,
    Normalize,
    Over,
    Recompute,
    Stateless,
    Temporal,
    feed_column,
)
from penstock.sql.maintain.tables import over_tables

__all__ = ["empty", "input_schema", "layout_of", "schemas_of", "total_of", "total_types"]

_NOT_COMPARED = (s.MapType, s.VariantType, s.CalendarIntervalType, s.NullType)
"""Types that Spark cannot group by, or parquet cannot hold."""


def schemas_of(
    spark: SparkSession, maintained: Maintained, schema: s.StructType
) -> dict[str, s.StructType]:
    """Give the columns of every relation by its name, without ROW_KIND; `schema` is that of the streaming query.

    Raises UnsupportedError for a column that cannot be kept or compared, Spark's AnalysisException for SQL that it
    does not take.
    """
    found: dict[str, s.StructType] = {}
    for index, feed in enumerate(maintained.feeds):
        kind = schema[feed_column(index)].dataType
        assert isinstance(kind, s.StructType), "the rows of a feed are a STRUCT"
        found[feed.name] = _of([field for field in kind.fields if field.name != ROW_KIND])
    for stage in maintained.stages:
        match stage:
            case Normalize():
                _check(found[stage.input])
                found[stage.name] = found[stage.input]
            case Stateless():
                changes = {name: empty(spark, found[name], changes=True) for name in stage.inputs}
                result = over_tables(spark, stage.query, changes).schema
                found[stage.name] = _of([f for f in result.fields if f.name != ROW_KIND])
            case Recompute():
                found[stage.name] = _recomputed(spark, stage, found)
            case Temporal():
                found[stage.name] = _joined(spark, stage, found)
            case Over():
                found[stage.name] = _over(spark, stage, found)
            case Closed():
                _check(found[stage.rows])
                rows = {stage.rows: empty(spark, found[stage.rows])}
                found[stage.name] = _of(over_tables(spark, stage.query, rows).schema.fields)
            case _:
                assert_never(stage)
    return found


def empty(spark: SparkSession, schema: s.StructType, *, changes: bool = False) -> DataFrame:
    """Give a frame without rows; `changes`: with ROW_KIND as its last column."""
    fields = [*schema.fields, s.StructField(ROW_KIND, s.ByteType())] if changes else schema.fields
    return spark.createDataFrame([], s.StructType(fields))


def input_schema(schema: s.StructType, given: Input) -> s.StructType:
    """Give the columns of an input as its stage keeps them, without measures."""
    if given.arrival is None:
        return schema
    return s.StructType([*schema.fields, s.StructField(given.arrival, s.LongType())])


def layout_of(
    spark: SparkSession, schema: s.StructType, given: Input, *, by_row: bool = False
) -> Layout:
    """Give what is kept of an input whose relation has the columns `schema`."""
    count = s.StructField(COUNT, s.LongType())
    if given.measures:
        sums = measure_types(empty(spark, schema), given.measures)
        dims = tuple(schema[name] for name in given.key)
        return Layout(dims=dims, values=(*sums, count), key=given.key)
    return Layout(
        dims=tuple(input_schema(schema, given).fields),
        values=(count,),
        key=given.key,
        by_row=by_row,
    )


def _recomputed(
    spark: SparkSession, stage: Recompute, found: Mapping[str, s.StructType]
) -> s.StructType:
    tables = {}
    for given in stage.inputs:
        _check(found[given.name])
        layout = layout_of(spark, found[given.name], given)
        fields = [*layout.dims, *layout.values] if given.measures else layout.dims
        tables[given.name] = empty(spark, _of(list(fields)))
    result = over_tables(spark, stage.query, tables).schema
    arrivals = {given.arrival for given in stage.inputs}
    schema = _of([field for field in result.fields if field.name not in arrivals])
    _check(schema)
    return schema


def _joined(
    spark: SparkSession, stage: Temporal, found: Mapping[str, s.StructType]
) -> s.StructType:
    rows, versions = found[stage.rows], found[stage.versions]
    for schema in (rows, versions):
        _check(schema)
    time = versions[stage.version_time].dataType
    validity = [s.StructField(name, time) for name in (VALID_FROM, VALID_TO)]
    tables = {
        stage.rows: empty(spark, rows),
        stage.versions: empty(spark, s.StructType([*versions.fields, *validity])),
    }
    return _of(over_tables(spark, stage.query, tables).schema.fields)


def total_types(spark: SparkSession, schema: s.StructType, totals: Totals) -> list[s.StructField]:
    """Give the columns of totals of rows with the columns `schema`: of the type that they add up to."""
    rows = empty(spark, schema)
    added = [total_of(one.total, F.expr(to_spark_query(one.value))) for one in totals.running]
    found = rows.agg(*added).schema.fields
    return [
        s.StructField(one.name, field.dataType)
        for one, field in zip(totals.running, found, strict=True)
    ]


def total_of(total: Total, value: Column) -> Column:
    """Write a total of a value as Spark's aggregate."""
    match total:
        case Total.SUM:
            return F.sum(value)
        case Total.MIN:
            return F.min(value)
        case Total.MAX:
            return F.max(value)
        case Total.FIRST:
            return F.first(value, ignorenulls=True)
        case Total.LAST:
            return F.last(value, ignorenulls=True)
        case _:
            assert_never(total)


def _over(spark: SparkSession, stage: Over, found: Mapping[str, s.StructType]) -> s.StructType:
    rows = found[stage.rows]
    _check(rows)
    more = [s.StructField(ARRIVAL, s.LongType())]
    if isinstance(stage.kept, Totals):
        more += total_types(spark, rows, stage.kept)
    elif stage.time is None:
        more.append(s.StructField(BATCH_TIME, s.TimestampType()))
    result = over_tables(spark, stage.query, {stage.rows: empty(spark, _of([*rows, *more]))})
    return _of([field for field in result.schema.fields if field.name != ARRIVAL])


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
