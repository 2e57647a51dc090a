"""Logical plans of queries, and their shapes as text."""

from __future__ import annotations

from penstock.connector.changelog import ChangelogMode
from penstock.sql.binding.binder import annotate
from penstock.sql.dialect.rewrites.unfold_grouping_sets import unfold_grouping_sets
from penstock.sql.plan.builder.builder import build
from penstock.sql.plan.logical.facts import Arrival
from penstock.sql.plan.logical.nodes import (
    Distinct,
    Filter,
    Join,
    Node,
    Refused,
    Scan,
    SetOp,
    SubqueryAlias,
    TopN,
    Unnest,
    WindowAssign,
)
from penstock.sql.plan.logical.plan import Plan, inputs
from penstock.sql.plan.rules.flow import ScanFlow
from penstock.sql.plan.rules.inline import TableReference, find_relations, number_scans
from penstock.sql.plan.rules.lookup_join import take_lookups
from penstock.sql.statements.statement import Select
from tests.sql.sql_objects import new_namespace, parse_script

TABLES = """
CREATE TABLE bid (auction BIGINT, bidder BIGINT, price BIGINT, tags ARRAY<STRING>, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka');
CREATE TABLE auction (id BIGINT, seller BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'kafka');
CREATE TABLE rates (currency STRING, rate INT, ts TIMESTAMP(3), PRIMARY KEY (currency) NOT ENFORCED,
  WATERMARK FOR ts AS ts) WITH ('connector' = 'upsert-kafka');
CREATE TABLE orders (id BIGINT, currency STRING, pt AS PROCTIME(), ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'kafka');
CREATE TABLE countries (code STRING, name STRING, PRIMARY KEY (code) NOT ENFORCED) WITH ('connector' = 'delta');
CREATE VIEW last_bids AS SELECT auction AS a, price, ts FROM
  (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY ts DESC) AS n FROM bid) WHERE n = 1;
CREATE VIEW first_bids AS SELECT auction AS a, price, ts FROM
  (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY ts) AS n FROM bid) WHERE n = 1
"""
NAMESPACE = new_namespace(TABLES)


def plan_of(sql: str, arrival: Arrival = Arrival.RECORD, *, follows_windows: bool = True) -> Plan:
    """Build the plan of a query over the tables above."""
    (statement,) = parse_script(sql, "query.sql", NAMESPACE)
    assert isinstance(statement, Select)
    relations = find_relations(statement.query, NAMESPACE)
    annotate(relations.query, NAMESPACE)
    number_scans(relations)
    tables = [_input(leaf, arrival) for leaf in relations.leaves]
    lookups = take_lookups(relations.query, tables, bounded=False)
    unfold_grouping_sets(relations.query)
    return build(relations.query, tables, lookups, follows_windows=follows_windows)


def shape(node: Node) -> str:
    """Write operators with their inputs."""
    match node:
        case Scan():
            words = f"Scan {node.index}"
        case SubqueryAlias():
            words = f"Alias {node.alias}"
        case WindowAssign() | SetOp():
            words = str(node.kind)
        case Unnest():
            words = f"Unnest {node.alias}"
        case Join():
            words = f"{node.kind} Join"
        case Filter():
            words = str(node.clause)
        case TopN():
            words = f"Top {node.limit}"
        case Distinct() | Refused() | _:
            words = type(node).__name__
    below = ", ".join(map(shape, inputs(node)))
    return f"{words}({below})" if below else words


def _input(leaf: TableReference, arrival: Arrival) -> ScanFlow:
    schema, name = leaf.table.schema, leaf.table.identifier.name
    static = leaf.table.connector == "delta"
    return ScanFlow(
        name=name,
        columns=schema.names,
        changes=ChangelogMode.UPSERT if name == "rates" else ChangelogMode.INSERT_ONLY,
        key=schema.primary_key.columns if schema.primary_key is not None else None,
        static=static,
        proctimes=frozenset({"pt"}) if name == "orders" else frozenset(),
        rowtime=schema.watermark.column if schema.watermark is not None else None,
        arrival=Arrival.BATCH if static else arrival,
    )
