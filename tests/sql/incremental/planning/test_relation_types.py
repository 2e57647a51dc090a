"""The types of relations that are known without Spark are those that Spark finds, and decide what runs a stage alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import types as s
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.connector.changelog import ROW_KIND
from penstock.connector.spark.types import spark_schema
from penstock.sql.dialect import to_spark_query
from penstock.sql.incremental.keyed.operator import RunBySpark
from penstock.sql.incremental.keyed.runtime.run import keyed_plan
from penstock.sql.incremental.planning.relation_types import OPEN
from penstock.sql.incremental.state.schemas import schemas_of
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.stage_runs import StageRunner, stage_runs, typed_relations
from tests.sql.test_plan_cases import Case, planned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KEYED, SPARK = StageRunner.KEYED, StageRunner.SPARK
HOUR_MS = 3_600_000
BY_REGION = "FROM cdc GROUP BY region"
RANK = "ROW_NUMBER() OVER (PARTITION BY region ORDER BY amount DESC) AS n"
QUERIES = [
    (f"SELECT region, COUNT(*) AS n, SUM(amount) AS s {BY_REGION}", KEYED),
    (f"SELECT region, AVG(amount) AS a, MAX(ts) AS t {BY_REGION}", KEYED),
    (f"SELECT region, AVG(price) AS a, SUM(price) AS s {BY_REGION}", KEYED),
    (f"SELECT region, SUM(CAST(amount AS DECIMAL(12, 2))) AS s {BY_REGION}", KEYED),
    (f"SELECT region, SUM(CHAR_LENGTH(region)) AS s {BY_REGION}", KEYED),
    (f"SELECT region, AVG(CAST(amount AS DECIMAL(10, 2))) AS s {BY_REGION}", SPARK),
    (f"SELECT region, MAX(UPPER(region || 'x')) AS m {BY_REGION}", SPARK),
    (f"SELECT region, STDDEV_POP(amount) AS m {BY_REGION}", SPARK),
    ("SELECT u, COUNT(*) AS n FROM (SELECT UPPER(region) AS u FROM cdc) GROUP BY u", KEYED),
    ("SELECT n, COUNT(*) AS c FROM (SELECT k, COUNT(*) AS n FROM events GROUP BY k) GROUP BY n", KEYED),
    ("SELECT DISTINCT amount + 1, price * 2 FROM cdc", KEYED),
    ("SELECT region, amount FROM cdc INTERSECT SELECT region, amount FROM latest", KEYED),
    ("SELECT amount FROM cdc INTERSECT SELECT 1.5", SPARK),
    ("SELECT a.region, b.amount FROM cdc AS a JOIN latest AS b ON a.id = b.id", KEYED),
    ("SELECT a.id, b.x FROM cdc AS a LEFT JOIN events AS b ON a.region = b.k", KEYED),
    ("SELECT a.id FROM cdc AS a JOIN latest AS b ON a.region = CAST(b.id AS STRING)", KEYED),
    (f"SELECT region, id FROM (SELECT region, id, {RANK} FROM cdc) WHERE n <= 2", KEYED),
    (f"SELECT * FROM (SELECT *, {RANK} FROM cdc) WHERE n <= 2", SPARK),  # of ties an ARRAY decides
]  # fmt: skip


def analysed(sql: str) -> AnalysedQuery:
    """Plan a query over the tables of the golden files, as stages."""
    return planned(Case(title="", sql=sql, ttl="1 h"), "changes")


def at_start(spark: SparkSession, query: AnalysedQuery) -> s.StructType:
    """Return the columns of the streaming query, as Spark finds them."""
    names = [leaf.table.identifier.name for leaf in query.leaves]
    try:
        for leaf, name in zip(query.leaves, names, strict=True):
            fields = list(spark_schema(leaf.table.schema.physical).fields)
            if ROW_KIND in leaf.columns:
                fields.append(s.StructField(ROW_KIND, s.ByteType()))
            spark.createDataFrame([], s.StructType(fields)).createOrReplaceTempView(name)
        return spark.sql(to_spark_query(query.executed)).schema
    finally:
        for name in names:
            spark.catalog.dropTempView(name)


@pytest.mark.parametrize(("sql", "by"), QUERIES)
def test_what_the_plan_tells_is_what_the_start_decides(
    spark: SparkSession, sql: str, by: StageRunner
) -> None:
    """And the types that are told are Spark's; those that are not are few."""
    query = analysed(sql)
    assert query.maintained is not None
    told = stage_runs(query, HOUR_MS)
    schema = at_start(spark, query)
    plan = keyed_plan(spark, query.maintained, schema, HOUR_MS)

    assert by in {run.by for run in told.values()}
    assert (by is SPARK) == isinstance(plan, RunBySpark)
    if isinstance(plan, RunBySpark):
        assert plan.reason in {run.reason for run in told.values()}
    else:
        shares = {
            stage.name: tuple(other.name for other in together if other is not stage)
            for together in plan.steps
            for stage in together
            if stage.name in told
        }
        assert {name: run.shares for name, run in told.items()} == shares
    found = schemas_of(spark, query.maintained, schema)
    for name, columns in typed_relations(query, query.maintained).items():
        assert columns.names == found[name].names
        types = to_arrow_schema(found[name], timezone="UTC").types
        assert [
            kind
            for kind, other in zip(columns.types, types, strict=True)
            if kind not in (OPEN, other)
        ] == []
