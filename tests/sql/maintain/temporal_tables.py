"""Tables for the tests of temporal joins, and a query over them analysed as an INSERT's."""

from __future__ import annotations

from pathlib import Path

from penstock.connector.changelog import ChangelogMode
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.analysis import analyse
from penstock.sql.plan.rules.sink_changelog import SinkTable
from penstock.sql.statements.statement import Select
from tests.sql.sql_objects import new_namespace, parse_script

AT = "'topic' = 't', 'properties.bootstrap.servers' = 'nowhere:1'"
KAFKA = f"'connector' = 'kafka', {AT}, 'format' = 'json', 'scan.startup.mode' = 'earliest-offset'"
UPSERT = f"'connector' = 'upsert-kafka', {AT}, 'key.format' = 'json', 'value.format' = 'json'"
LAST = "(SELECT *, ROW_NUMBER() OVER (PARTITION BY currency ORDER BY since DESC) AS n FROM quotes)"
TABLES = f"""
CREATE TABLE orders (id INT, currency STRING, amount INT, ts TIMESTAMP(3), pt AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ({KAFKA});
CREATE TABLE rates (currency STRING, rate INT, region STRING, since TIMESTAMP(3),
  PRIMARY KEY (currency) NOT ENFORCED, WATERMARK FOR since AS since) WITH ({UPSERT});
CREATE TABLE regions (region STRING, zone STRING, label STRING, since TIMESTAMP(3),
  PRIMARY KEY (region, zone) NOT ENFORCED, WATERMARK FOR since AS since) WITH ({UPSERT});
CREATE TABLE instants (currency STRING, rate INT, since TIMESTAMP_LTZ(3),
  PRIMARY KEY (currency) NOT ENFORCED, WATERMARK FOR since AS since) WITH ({UPSERT});
CREATE TABLE untimed (currency STRING, rate INT, PRIMARY KEY (currency) NOT ENFORCED) WITH ({UPSERT});
CREATE TABLE quotes (currency STRING, rate INT, since TIMESTAMP(3), WATERMARK FOR since AS since)
  WITH ({KAFKA});
CREATE TABLE resting (currency STRING, rate INT, PRIMARY KEY (currency) NOT ENFORCED)
  WITH ('connector' = 'delta', 'path' = 'c');
CREATE VIEW last_quotes AS SELECT currency, rate AS price, since FROM {LAST} WHERE n = 1;
CREATE VIEW first_quotes AS SELECT * FROM {LAST.replace("DESC", "ASC")} WHERE n = 1;
CREATE VIEW plain AS SELECT * FROM quotes;
"""
JOIN = "SELECT o.id, r.rate FROM orders AS o {0} FOR SYSTEM_TIME AS OF {1} AS r ON o.currency = r.currency"
_ANYWHERE = SinkTable(name="anywhere", accepts=ChangelogMode.ALL, columns=())


def planned(query: str) -> AnalysedQuery:
    """An INSERT of this query into a table that takes everything."""
    namespace = new_namespace(TABLES)
    (statement,) = parse_script(query, "f.sql", namespace)
    assert isinstance(statement, Select)
    return analyse(statement.query, namespace, Path("/nowhere"), appends=True, sink=_ANYWHERE)
