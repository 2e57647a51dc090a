"""Measures: sums over the rows of a key, kept in the place of the rows."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as s

from penstock.sql.dialect import to_spark_query
from penstock.sql.maintain.arrangement import COUNT, columns_of
from penstock.sql.maintain.difference import SIGN
from penstock.sql.maintain.stages import Measure

__all__ = ["measure_types", "measures_of"]


def measures_of(rows: DataFrame, key: Sequence[str], measures: Sequence[Measure]) -> DataFrame:
    """Give what the rows of each key add to its measures and to the number of its rows; `rows` have SIGN."""
    values = [_value(measure).alias(f"__m{n}") for n, measure in enumerate(measures)]
    valued = rows.select(*columns_of(key), *values, F.col(SIGN))
    # two sums and no minus: the least TINYINT has none
    totals = [
        (_sum(f"__m{n}", F.col(SIGN) > 0) - _sum(f"__m{n}", F.col(SIGN) < 0)).alias(measure.name)
        for n, measure in enumerate(measures)
    ]
    return valued.groupBy(*columns_of(key)).agg(*totals, F.sum(SIGN).alias(COUNT))


def measure_types(rows: DataFrame, measures: Sequence[Measure]) -> list[s.StructField]:
    """Give the columns that measures over `rows` are: of the type of their sum."""
    sums = rows.select(*(F.sum(_value(measure)).alias(measure.name) for measure in measures))
    return sums.schema.fields


def _value(measure: Measure) -> Column:
    return F.expr(to_spark_query(measure.value))


def _sum(column: str, condition: Column) -> Column:
    return F.coalesce(F.sum(F.when(condition, F.col(column))), F.lit(0))
