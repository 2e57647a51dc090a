"""A lookup join on Spark: each run sees the rows that the table has then, and what is written stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.sql.session.session import connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = """
CREATE TABLE orders (id BIGINT, customer BIGINT, item ROW<sku STRING, n INT>, pt AS PROCTIME())
  WITH ('connector' = 'filesystem', 'path' = 'orders', 'format' = 'json',
        'source.monitor-interval' = '1 s');
CREATE TABLE customers (id BIGINT, name STRING) WITH ('connector' = 'delta', 'path' = 'customers');
CREATE TABLE named (id BIGINT, sku STRING, name STRING) WITH ('connector' = 'delta', 'path' = 'named');
"""
JOIN = """
INSERT INTO named SELECT o.id, o.item.sku, c.name FROM orders AS o
  LEFT JOIN customers FOR SYSTEM_TIME AS OF o.pt AS c ON o.customer = c.id;
"""


def test_a_delta_table_is_looked_up_as_it_is_when_the_batch_runs(
    spark: SparkSession, project: Path
) -> None:
    """A customer who comes later is there for later orders, and not for those that were written."""
    orders = project / "orders"
    orders.mkdir()

    def order(number: int) -> None:
        row = {"id": number, "customer": 7, "item": {"sku": "a", "n": number}}
        (orders / f"{number}.json").write_text(json.dumps(row), encoding="utf-8")

    script, tables = project / "job.sql", project / "tables.sql"
    script.write_text(JOIN, encoding="utf-8")
    tables.write_text(f"{TABLES} INSERT INTO customers VALUES (1, 'nobody');", encoding="utf-8")
    with connect(spark) as session:
        session.run_file(tables, available_now=True)
        for number, name in ((1, "Ann"), (2, "")):
            order(number)
            for job in session.run_file(script, available_now=True):
                job.await_termination(60)
            if name:
                session.sql(f"INSERT INTO customers VALUES (7, '{name}')")
        rows = spark.read.format("delta").load(str(project / "named")).collect()

        assert sorted(tuple(row) for row in rows) == [(1, "a", None), (2, "a", "Ann")]
