"""What is known of an INSERT before Spark runs: its mode, the columns its tables deliver, and its sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.connector.changelog import ROW_KIND, ChangelogMode
from penstock.connector.contract import OutputMode
from penstock.sql.plan.analysis import mechanism_lines
from penstock.sql.plan.planner import AnalysedInsert, Planner
from penstock.sql.statements import InsertInto
from tests.sql.sql_objects import new_namespace, run

KAFKA = "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b:9092', 'scan.startup.mode' = 'earliest-offset'"
TABLES = f"""
CREATE TABLE events (id BIGINT, k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ({KAFKA}, 'format' = 'json');
CREATE TABLE cdc (id BIGINT, region STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ({KAFKA}, 'format' = 'debezium-json');
CREATE TABLE names (region STRING, name STRING, PRIMARY KEY (region) NOT ENFORCED)
  WITH ('connector' = 'delta', 'path' = 'names');
CREATE TABLE counts (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'delta', 'path' = 'counts');
CREATE TABLE appended (k STRING, n BIGINT) WITH ('connector' = 'delta', 'path' = 'appended');
CREATE TABLE copy (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'delta', 'path' = 'copy')
"""


def analyse(sql: str, project: Path) -> AnalysedInsert:
    """Analyse an INSERT over the tables above."""
    namespace = new_namespace(TABLES)
    (statement,) = run(sql, namespace)
    assert isinstance(statement, InsertInto)
    return Planner(namespace=namespace, project=project).analyse_insert(statement)


def test_an_updating_query_runs_in_update_mode_and_waits_for_no_watermark(tmp_path: Path) -> None:
    """No row of it is late."""
    query = analyse("INSERT INTO counts SELECT k, COUNT(*) FROM events GROUP BY k", tmp_path).query

    assert (query.output, query.changes) == (OutputMode.UPDATE, ChangelogMode.INSERT_ONLY)
    assert query.leaves[0].rowtime is None
    assert mechanism_lines(query)[1] == "  key: k"


def test_a_table_of_changes_delivers_their_kind(tmp_path: Path) -> None:
    """A table that is looked up is no source that the checkpoint knows."""
    query = analyse(
        "INSERT INTO copy SELECT c.id, n.name FROM cdc AS c JOIN names AS n ON c.region = n.region",
        tmp_path,
    ).query

    assert (query.output, query.changes) == (OutputMode.APPEND, ChangelogMode.ALL)
    assert [leaf.columns for leaf in query.leaves] == [
        ("id", "region", ROW_KIND),
        ("region", "name"),
    ]
    assert [name.rpartition(".")[2].strip("`") for name in query.source_names] == ["cdc"]
    assert mechanism_lines(query)[0].endswith("is read anew in each batch; no state")


def test_the_order_of_the_inserted_columns_counts(tmp_path: Path) -> None:
    """The key is matched by the columns that the INSERT names."""
    analyse("INSERT INTO counts (n, k) SELECT COUNT(*), k FROM events GROUP BY k", tmp_path)

    with pytest.raises(UnsupportedError, match="one row for each"):
        analyse(
            "INSERT INTO copy (name, id) SELECT k, COUNT(*) AS n FROM events GROUP BY k", tmp_path
        )


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, COUNT(*) FROM events GROUP BY k",
        "SELECT region, id FROM cdc",
        "SELECT k, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS rn FROM events) WHERE rn = 1",
    ],
)
def test_an_append_only_table_is_refused(query: str, tmp_path: Path) -> None:
    """With the place of the operator."""
    with pytest.raises(UnsupportedError, match="only takes rows that stay") as caught:
        analyse(f"INSERT INTO appended {query}", tmp_path)

    assert caught.value.span is not None
