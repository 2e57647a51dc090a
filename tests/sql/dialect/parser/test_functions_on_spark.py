"""Spark gives Flink's answer to every built-in function: all answers in a few queries, each a test of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from penstock.sql.binding.binder import data_type, type_expression
from penstock.sql.dialect.spark.writer import write_spark
from penstock.sql.expressions.expression import parse_expression
from tests.sql.dialect.answers import (
    aggregates,
    casts,
    collections,
    constructed,
    json,
    numbers,
    texts,
    times,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from sqlglot import exp

pytestmark = pytest.mark.spark

CHUNK = 60
"""Columns of one query: Spark's analysis of a wider one takes longer than that of several."""

SCALARS = [
    pair
    for family in (numbers, texts, times, collections, json, casts, constructed)
    for pair in family.ANSWERS
]


def spark_form(sql: str, columns: Mapping[str, exp.DataType | None]) -> str:
    """The Spark SQL of a Flink expression."""
    tree = parse_expression(sql)
    type_expression(tree, columns)
    return write_spark(tree)


def evaluate(spark: SparkSession, forms: list[str], source: str = "") -> list[Any]:
    """The values of Spark expressions, in one row."""
    values: list[Any] = []
    for start in range(0, len(forms), CHUNK):
        items = ", ".join(f"{form} AS c{n}" for n, form in enumerate(forms[start : start + CHUNK]))
        row = spark.sql(f"SELECT {items}{source}").first()
        assert row is not None, "a query without a source gives one row"
        values += row
    return values


QUICK = {  # each query runs once, over a handful of rows: compiling it would take longer than running it
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.timeType.enabled": "true",
}


@pytest.fixture(scope="module")
def quick(spark_session: SparkSession) -> Iterator[SparkSession]:
    """A session that compiles nothing."""
    before = {key: spark_session.conf.get(key, None) for key in QUICK}
    for key, value in QUICK.items():
        spark_session.conf.set(key, value)
    yield spark_session
    for key, old in before.items():
        spark_session.conf.unset(key) if old is None else spark_session.conf.set(key, old)


@pytest.fixture(scope="module")
def scalars(quick: SparkSession) -> dict[str, Any]:
    """What Spark answers to each scalar expression."""
    forms = [spark_form(sql, {}) for sql, _ in SCALARS]
    return dict(zip((sql for sql, _ in SCALARS), evaluate(quick, forms), strict=True))


@pytest.fixture(scope="module")
def aggregated(quick: SparkSession) -> dict[str, Any]:
    """What Spark answers to each aggregate."""
    kinds = {name: data_type(kind) for name, kind in aggregates.COLUMNS.items()}
    schema = ", ".join(f"{name} {kind}" for name, kind in aggregates.COLUMNS.items())
    quick.createDataFrame(aggregates.ROWS, schema).createOrReplaceTempView("function_rows")
    forms = [spark_form(sql, kinds) for sql, _ in aggregates.ANSWERS]
    values = evaluate(quick, forms, " FROM function_rows")
    return dict(zip((sql for sql, _ in aggregates.ANSWERS), values, strict=True))


def same(got: Any, wanted: Any) -> bool:
    """Equal, of the same kind of number, and fractions to their last digits."""
    if isinstance(wanted, float):
        near = isinstance(got, float) and math.isclose(got, wanted, rel_tol=1e-14)
        return near or got == wanted
    alike = isinstance(wanted, tuple | list | bytes) or type(got) is type(wanted)
    return alike and bool(got == wanted)


@pytest.mark.parametrize(("sql", "wanted"), SCALARS, ids=[sql for sql, _ in SCALARS])
def test_a_function_gives_flinks_answer(sql: str, wanted: Any, scalars: dict[str, Any]) -> None:
    """In ANSI mode, as Penstock runs."""
    assert same(scalars[sql], wanted), f"{scalars[sql]!r} is not {wanted!r}"


@pytest.mark.parametrize(
    ("sql", "wanted"), aggregates.ANSWERS, ids=[sql for sql, _ in aggregates.ANSWERS]
)
def test_an_aggregate_gives_flinks_answer(
    sql: str, wanted: Any, aggregated: dict[str, Any]
) -> None:
    """NULLs among the rows included."""
    assert same(aggregated[sql], wanted), f"{aggregated[sql]!r} is not {wanted!r}"
