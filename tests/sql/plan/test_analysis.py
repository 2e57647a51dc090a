"""What is known of an INSERT before Spark runs: its mode, the columns its tables deliver, and its sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.connector.changelog import ROW_KIND, ChangelogMode
from penstock.connector.contract import OutputMode
from penstock.sql.maintain.describe import state_of, text_of
from penstock.sql.plan.analysed_insert import AnalysedInsert
from penstock.sql.plan.analysed_query import mechanism_lines
from penstock.sql.plan.planner import Planner
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


def analyse(sql: str, project: Path, **settings: str) -> AnalysedInsert:
    """Analyse an INSERT over the tables above."""
    namespace = new_namespace(TABLES)
    (statement,) = run(sql, namespace)
    assert isinstance(statement, InsertInto)
    return Planner(namespace=namespace, project=project, settings=settings).analyse_insert(
        statement
    )


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
    assert mechanism_lines(query)[0].endswith("is looked up in each batch; no state")


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


def test_an_updating_query_with_a_time_to_live_is_maintained(tmp_path: Path) -> None:
    """Spark's own state has no expiry; its lines say what bounds the state."""
    insert = "INSERT INTO counts SELECT k, COUNT(*) FROM events GROUP BY k"
    query = analyse(insert, tmp_path, **{"table.exec.state.ttl": "1 h"}).query

    assert query.maintained is not None
    assert (query.output, query.changes) == (OutputMode.APPEND, ChangelogMode.ALL)
    assert mechanism_lines(query, state_ttl_ms=3_600_000) == (
        "maintained in micro-batches, with state in the checkpoint",
        "  feed_0: Spark streams k (insert-only)",
        "  group_0: aggregation over feed_0, of the keys that a batch touches",
        "    key: k",
        "    keeps: COUNT(*)",
        "    bound: table.exec.state.ttl, 3600 s after the last change",
        "rows to the sink: inserts, updates with the row before and after, deletes",
    )


@pytest.mark.parametrize(
    "query",
    [
        "SELECT /*+ STATE_TTL('events' = '1 h') */ k, COUNT(*) FROM events GROUP BY k",
        "SELECT k, MAX(n) FROM (SELECT /*+ STATE_TTL('e' = '1 h') */ k, COUNT(*) AS n FROM events AS e GROUP BY k) GROUP BY k",
    ],
)
def test_a_hint_makes_an_updating_query_maintained_as_the_setting_does(
    query: str, tmp_path: Path
) -> None:
    """Spark's own state has no expiry; the advice counts what the hint leaves unbounded."""
    found = analyse(f"INSERT INTO counts {query}", tmp_path).query

    assert found.maintained is not None
    assert any("STATE_TTL, 3600 s" in line for line in mechanism_lines(found))


def test_a_query_that_spark_cannot_stream_is_maintained(tmp_path: Path) -> None:
    """Its tables are numbered as Spark finds them in the streaming query."""
    query = analyse(
        "INSERT INTO copy SELECT c.id, e.k FROM events AS e JOIN cdc AS c ON e.id = c.id", tmp_path
    ).query

    assert query.maintained is not None
    names = [name.rpartition(".")[2].strip("`") for name in query.source_names]
    assert names == ["cdc", "events"]
    assert query.leaves[0].columns == ("id", ROW_KIND)
    assert mechanism_lines(query)[-3:-1] == (
        "    bound: none",
        "  rows_1: rows of join_0, each by itself; no state",
    )


def test_rows_that_stay_go_into_any_table(tmp_path: Path) -> None:
    """A DISTINCT over a stream only adds rows."""
    query = analyse("INSERT INTO appended SELECT DISTINCT k, id FROM events", tmp_path).query

    assert query.maintained is not None
    assert query.changes is ChangelogMode.INSERT_ONLY
    assert query.output is OutputMode.APPEND


def test_what_a_checkpoint_is_for_names_the_stages(tmp_path: Path) -> None:
    """But for those behind the last state, which may change over it."""
    chain = "INSERT INTO appended SELECT k, id{more} FROM (SELECT DISTINCT k, id FROM events) AS d"
    one = analyse(chain.format(more=""), tmp_path).query.maintained
    two = analyse(chain.format(more=" + 1"), tmp_path).query.maintained
    other = analyse(
        "INSERT INTO appended SELECT DISTINCT k, id FROM events WHERE id > 3", tmp_path
    ).query.maintained
    assert one is not None
    assert two is not None
    assert other is not None

    assert state_of(one) == state_of(two)
    assert text_of(one) != text_of(two)
    assert state_of(one)[0] == "FEED feed_0 (k, id)"
    assert state_of(other) == state_of(one), "a filter of rows that stay may change"


@pytest.mark.parametrize(
    ("clause", "named"), [("ORDER BY ts", "ORDER BY"), ("LIMIT 3 OFFSET 2", "of a stream")]
)
def test_what_waits_for_the_end_of_a_stream_is_refused(
    clause: str, named: str, tmp_path: Path
) -> None:
    """LIMIT alone does not wait."""
    insert = "INSERT INTO appended SELECT k, id FROM events"

    with pytest.raises(UnsupportedError, match=named) as caught:
        analyse(f"{insert} {clause}", tmp_path)

    assert caught.value.span is not None
    assert analyse(f"{insert} LIMIT 3", tmp_path).query.maintained is None


def test_a_natural_join_reads_the_columns_that_it_joins_by(tmp_path: Path) -> None:
    """They are named nowhere."""
    insert = "INSERT INTO appended (k) SELECT e.k FROM events AS e NATURAL JOIN names AS n"
    query = analyse(insert, tmp_path).query

    assert query.leaves[0].columns == ("id", "k", "ts")
    assert query.leaves[1].columns == ("region", "name")
