"""What the tests of changing queries share: tables of every kind, and a query over them planned and written out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.catalog.model.table import Table
from penstock.connector.changelog import ChangelogMode
from penstock.sql.binding.binder import annotate
from penstock.sql.dialect import to_spark_query
from penstock.sql.dialect.rewrites.unfold_grouping_sets import unfold_grouping_sets
from penstock.sql.plan.builder.builder import build
from penstock.sql.plan.placement.place import PhysicalPlan, on_spark
from penstock.sql.plan.placement.spark import SparkTraits
from penstock.sql.plan.rules.flow import Arrival, Flow, ScanFlow
from penstock.sql.plan.rules.inline import find_relations, number_scans
from penstock.sql.plan.spark_text.spark_query import spark_query
from penstock.sql.statements.statement import Select
from penstock.sql.syntax.refusal import Refusal
from tests.sql.sql_objects import new_namespace, run

# events: rows that stay. cdc: changes with the row before. latest: upserts. countries, notes: read by Spark itself.
TABLES = """
CREATE TABLE events (id BIGINT, k STRING, x INT, y DOUBLE, ts TIMESTAMP(3), arr ARRAY<INT>,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'kafka');
CREATE TABLE later (id BIGINT, k STRING, x INT) WITH ('connector' = 'kafka');
CREATE TABLE cdc (id BIGINT, region STRING, amount INT, price DOUBLE, ts TIMESTAMP(3), arr ARRAY<INT>,
  PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'kafka');
CREATE TABLE latest (id BIGINT, region STRING, amount INT, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'upsert-kafka');
CREATE TABLE countries (code STRING, name STRING, PRIMARY KEY (code) NOT ENFORCED) WITH ('connector' = 'delta');
CREATE TABLE notes (code STRING, note STRING) WITH ('connector' = 'delta');
CREATE FUNCTION parts AS 'texts.parts' LANGUAGE PYTHON
"""
NAMESPACE = new_namespace(TABLES)
CHANGES = {"cdc": ChangelogMode.ALL, "latest": ChangelogMode.UPSERT}


@dataclass(frozen=True)
class SparkPlan:
    """A query as Spark runs it, and its rows."""

    query: exp.Expr
    flow: Flow
    looked_up: frozenset[int]


def plan(sql: str, arrival: Arrival = Arrival.OPEN) -> SparkPlan:
    """Plan a query over the tables above; of those that Spark reads by itself no record's order is known."""
    (statement,) = run(sql, NAMESPACE)
    assert isinstance(statement, Select)
    relations = find_relations(statement.query, NAMESPACE)
    annotate(relations.query, NAMESPACE)
    unfold_grouping_sets(relations.query)
    number_scans(relations)
    tables = [_input(leaf.table) for leaf in relations.leaves]
    known = [t if t.static else replace(t, arrival=arrival) for t in tables]
    planned = build(relations.query, known)
    traits = SparkTraits(planned.scans)
    flow = traits.of(planned.root)
    if isinstance(flow, Refusal):
        raise flow.error()
    root = on_spark(planned.root, traits)
    written = spark_query(PhysicalPlan(root=root, plan=planned, flow=flow, traits=traits))
    return SparkPlan(query=written.query, flow=flow, looked_up=written.looked_up)


def spark_sql(sql: str, arrival: Arrival = Arrival.OPEN) -> str:
    """Plan a query and write it as Spark SQL, without the quotes of names."""
    tree = plan(sql, arrival).query.copy()
    for table in tree.find_all(exp.Table):
        table.set("alias", None if table.alias == table.name else table.args.get("alias"))
    return to_spark_query(tree).replace("`", "")


def _input(table: Table) -> ScanFlow:
    key = table.schema.primary_key
    return ScanFlow(
        name=table.identifier.name,
        columns=table.schema.names,
        changes=CHANGES.get(table.identifier.name, ChangelogMode.INSERT_ONLY),
        key=key.columns if key is not None else None,
        static=table.option_map["connector"] == "delta",
        rowtime=table.schema.watermark.column if table.schema.watermark is not None else None,
    )
