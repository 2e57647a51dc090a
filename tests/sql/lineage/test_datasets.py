"""What pipelines read and write outside of Penstock: addresses of tables, columns through views."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.connector.capabilities import Dataset
from penstock.sql.lineage.datasets import PipelineLineage, datasets_of, statement_lineages
from tests.sql.sql_objects import new_namespace, run

PROJECT = Path("/srv/shop")
TABLES = """
CREATE TABLE orders (
  id BIGINT, amount DECIMAL(10, 2), at_ms BIGINT, ts AS TO_TIMESTAMP_LTZ(at_ms, 3)
) WITH ('connector' = 'kafka', 'topic' = 'eu;us', 'properties.bootstrap.servers' = 'b1:9092,b2:9092',
        'properties.sasl.password' = 'hunter2', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE totals (id BIGINT, total DECIMAL(20, 2), seen TIMESTAMP_LTZ(3))
WITH ('connector' = 'delta', 'path' = 'lake/totals');
CREATE TABLE shown (id BIGINT) WITH ('connector' = 'print');
CREATE TABLE far (id BIGINT) WITH ('connector' = 'filesystem', 'path' = 's3a://lake/raw/far', 'format' = 'json');
CREATE TABLE stored (id BIGINT) WITH (
  'connector' = 'jdbc', 'url' = 'jdbc:postgresql://db:5432/shop', 'table-name' = 'sales.stored',
  'username' = 'shop', 'password' = 'hunter2');
CREATE VIEW large AS SELECT id, amount * 2 AS twice, ts FROM orders WHERE amount > 100;
CREATE VIEW larger AS SELECT id, twice, ts FROM large;
"""
EU, US = (Dataset(namespace="kafka://b1:9092", name=name) for name in ("eu", "us"))
TOTALS = Dataset(namespace="file", name="/srv/shop/lake/totals")


def query(sink: str, **more: Any) -> Any:
    """A query that is planned."""
    values = {"sink": f"default_catalog.default_database.{sink}", "bounded": False}
    return SimpleNamespace(pipeline=f"job/{sink}", **(values | more))


def lineages(sql: str, *queries: Any) -> dict[str, PipelineLineage]:
    """The lineages of the last statement."""
    namespace = new_namespace()
    statements = run(TABLES + sql, namespace)
    return statement_lineages(statements[-1], queries, namespace, PROJECT)


@pytest.mark.parametrize(
    ("table", "found"),
    [
        ("orders", (EU, US)),
        ("totals", (TOTALS,)),
        ("far", (Dataset(namespace="s3a://lake", name="raw/far"),)),
        ("stored", (Dataset(namespace="postgres://db:5432", name="shop.sales.stored"),)),
        (
            "shown",
            (Dataset(namespace="penstock", name="default_catalog.default_database.shown"),),
        ),
    ],
)
def test_tables_have_the_addresses_of_openlineage(table: str, found: tuple[Dataset, ...]) -> None:
    """A system and a name in it, without a secret."""
    namespace = new_namespace()
    run(TABLES, namespace)
    looked_up: Any = namespace.lookup(namespace.resolve((table,)))

    assert datasets_of(looked_up, PROJECT) == found


def test_views_are_written_out_to_the_columns_of_tables() -> None:
    """Through two of them, and through a column that is computed."""
    sql = "INSERT INTO totals SELECT id, SUM(twice), MAX(ts) FROM larger GROUP BY id;"
    found = lineages(sql, query("totals"))["job/totals"]
    (read,), (written,) = found.inputs, found.outputs

    assert (read.datasets, written.datasets) == ((EU, US), (TOTALS,))
    assert [column.name for column in read.columns] == ["id", "amount", "at_ms", "ts"]
    sources = {column.name: column.sources for column in written.columns}
    assert sources == {
        "id": ((EU, "id"), (US, "id")),
        "total": ((EU, "amount"), (US, "amount")),
        "seen": ((EU, "at_ms"), (US, "at_ms")),
    }


def test_queries_of_a_statement_set_have_the_flow_of_their_sink() -> None:
    """One query of all has all of them."""
    sql = """EXECUTE STATEMENT SET BEGIN
      INSERT INTO shown SELECT id FROM orders; INSERT INTO far SELECT id FROM orders; END;"""
    apart = lineages(sql, query("shown"), query("far"))
    together = lineages(sql, query("shown, far"))["job/shown, far"]

    assert [table.table for table in apart["job/far"].outputs] == [
        "default_catalog.default_database.far"
    ]
    assert len(together.outputs) == 2
    assert len(together.inputs) == 1
