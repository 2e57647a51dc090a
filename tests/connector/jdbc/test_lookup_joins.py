"""Lookup joins with a real PostgreSQL on Spark: rows by key are those of the whole table, and only they are read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.sql.session.session import connect
from tests.connector.jdbc.conftest import TestDatabase, rows_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.sql.session.session import Session

CUSTOMERS = """
CREATE TABLE customers (id integer, region varchar(10), name text, since timestamptz, PRIMARY KEY (id, region));
INSERT INTO customers SELECT n / 2, CASE n % 2 WHEN 0 THEN 'eu' ELSE 'us' END, 'name ' || n,
  TIMESTAMPTZ '2024-01-01 00:00:00Z' + n * INTERVAL '1 hour' FROM generate_series(0, 19999) AS n;
"""
ORDERS = [
    {"id": 1, "customer": 5, "region": "eu"},
    {"id": 2, "customer": 5, "region": "us"},
    {"id": 3, "customer": None, "region": "eu"},
    {"id": 4, "customer": 77_777, "region": "eu"},
    {"id": 5, "customer": 9_000, "region": None},
    {"id": 6, "customer": 5, "region": "eu"},
]
JOINS = """
SELECT 'one column' AS what, o.id, c.name, c.since FROM orders AS o JOIN customers {0} AS c ON o.customer = c.id
UNION ALL
SELECT 'two', o.id, c.name, c.since FROM orders AS o LEFT JOIN customers {0} AS c
  ON o.customer = c.id AND c.region = o.region
UNION ALL
SELECT 'conditions', o.id, c.name, c.since FROM orders AS o LEFT JOIN customers {0} AS c
  ON c.id = o.customer AND c.name <> 'name 10' AND c.since > TIMESTAMP '2024-01-01 11:00:00' WHERE o.id > 1
UNION ALL
SELECT 'grouped', COUNT(*), c.region, MAX(c.since) FROM orders AS o JOIN customers {0} AS c
  ON o.customer = c.id AND c.region = 'eu' GROUP BY c.region
"""


@pytest.fixture
def session(
    spark: SparkSession, project: Path, postgresql_database: TestDatabase
) -> Iterator[Session]:
    """Tables of orders, bounded and as a stream, of customers in PostgreSQL, and of results."""
    (project / "orders").mkdir()
    for order in ORDERS:
        (project / "orders" / f"{order['id']}.json").write_text(json.dumps(order), encoding="utf-8")
    postgresql_database.execute(CUSTOMERS)
    options = ", ".join(
        f"'{key}' = '{value}'" for key, value in postgresql_database.options.items()
    )
    orders = (
        "(id BIGINT, customer BIGINT, region STRING, pt AS PROCTIME()) WITH ('connector' = 'filesystem', "
        "'path' = 'orders', 'format' = 'json', 'scan.parallelism' = '1'"
    )
    with connect(spark) as made:
        for text in (
            f"CREATE TABLE orders {orders})",
            f"CREATE TABLE coming {orders}, 'source.monitor-interval' = '1 s', 'source.max-bytes-per-batch' = '64 b')",
            "CREATE TABLE customers (id INT, region STRING, name STRING, since TIMESTAMP_LTZ(3)) "
            f"WITH ('connector' = 'jdbc', 'table-name' = 'customers', {options})",
            "CREATE TABLE named (id BIGINT, name STRING) WITH ('connector' = 'delta', 'path' = 'named')",
        ):
            made.sql(text)
        yield made


def test_rows_that_are_asked_for_by_key_are_those_of_the_whole_table(
    session: Session, postgresql_database: TestDatabase
) -> None:
    """INNER and LEFT, one column and two, with conditions, over a type that is not the column's; none else is read."""

    def answers(version: str) -> list[str]:
        return sorted(map(repr, session.sql(JOINS.format(version)).collect()))

    by_key = answers("FOR SYSTEM_TIME AS OF o.pt")
    read = rows_read(postgresql_database, "customers")

    assert by_key == answers("")
    assert len(by_key) == 8 + 6 + 6 + 1
    assert read[0] == 0
    assert read[1] <= 20


def test_a_stream_looks_rows_up_in_each_batch(
    session: Session, postgresql_database: TestDatabase, project: Path, spark: SparkSession
) -> None:
    """Rows without a match stay, and the table is not read from end to end."""
    script = project / "job.sql"
    script.write_text(
        "INSERT INTO named SELECT o.id, c.name FROM coming AS o LEFT JOIN customers "
        "FOR SYSTEM_TIME AS OF o.pt AS c ON c.id = o.customer AND c.region = 'eu';",
        encoding="utf-8",
    )
    (job,) = session.run_file(script, available_now=True)
    job.await_termination(60)

    rows = spark.read.format("delta").load(str(project / "named")).collect()
    assert sorted(map(tuple, rows)) == [
        (1, "name 10"),
        (2, "name 10"),
        (3, None),
        (4, None),
        (5, "name 18000"),
        (6, "name 10"),
    ]
    assert rows_read(postgresql_database, "customers")[0] == 0


def test_a_worker_process_remembers_rows_from_run_to_run(
    session: Session, postgresql_database: TestDatabase
) -> None:
    """Each of the few workers asks once, however often the query is run."""
    runs = 12
    found = session.sql(
        "SELECT c.name FROM orders AS o JOIN customers "
        "/*+ OPTIONS('lookup.cache' = 'PARTIAL', 'lookup.partial-cache.max-rows' = '100') */ "
        "FOR SYSTEM_TIME AS OF o.pt AS c ON c.id = 7 AND c.region = 'eu' WHERE o.id = 1"
    )
    answers = [[row.name for row in found.collect()] for _ in range(runs)]

    assert answers == [["name 14"]] * runs
    assert 1 <= rows_read(postgresql_database, "customers")[1] <= runs // 2
