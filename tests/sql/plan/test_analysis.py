"""What is known of an INSERT before Spark runs: its mode, the columns its tables deliver, and its sources."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.connector.changelog import ROW_KIND, ChangelogMode
from penstock.connector.contract import OutputMode
from penstock.sql.dialect import parse_query, to_text
from penstock.sql.incremental.describe import state_of, text_of
from penstock.sql.plan.analysed import AnalysedInsert
from penstock.sql.plan.analysis import ScanOrder
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.plan.query_location import as_checkpointed, insert_fingerprint
from penstock.sql.statements.dml import InsertInto
from penstock.sql.syntax.nodes import ScanTable
from tests.sql.plan.explained import operator_lines
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
    assert operator_lines(query)[:2] == [
        "Aggregate by k: COUNT(*) [spark update mode] [I,UA,D]",
        "- key: k",
    ]


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
    assert operator_lines(query)[-1] == "- looked up: read anew in each batch"


def test_the_order_of_the_inserted_columns_counts(tmp_path: Path) -> None:
    """The key is matched by the columns that the INSERT names."""
    by_key = analyse(
        "INSERT INTO counts (n, k) SELECT COUNT(*), k FROM events GROUP BY k", tmp_path
    )
    other = analyse(
        "INSERT INTO copy (name, id) SELECT k, COUNT(*) FROM events GROUP BY k", tmp_path
    )

    assert by_key.query.maintained is None
    assert other.query.maintained is not None


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


def test_explain_says_what_distinct_keeps_of_a_star(tmp_path: Path) -> None:
    """The columns that the star stands for have no place in the text; the stage is that of its SELECT."""
    query = analyse(
        "INSERT INTO counts SELECT DISTINCT * FROM (SELECT region AS k, id % 2 AS n FROM cdc) AS c",
        tmp_path,
    ).query
    lines = operator_lines(query)

    first = lines.index("Distinct [stage distinct_1] [I,UB,UA,D]")
    assert lines[first + 1 : first + 4] == [
        "- key: k, n",
        "- state: how many rows there are",
        "- bound: none",
    ]
    assert "Scan cdc (kafka) [spark, feed_0] [I,UB,UA,D]" in lines


def test_an_updating_query_with_a_time_to_live_is_maintained(tmp_path: Path) -> None:
    """Spark's own state has no expiry; its lines say what bounds the state."""
    insert = "INSERT INTO counts SELECT k, COUNT(*) FROM events GROUP BY k"
    query = analyse(insert, tmp_path, **{"table.exec.state.ttl": "1 h"}).query

    assert query.maintained is not None
    assert (query.output, query.changes) == (OutputMode.APPEND, ChangelogMode.ALL)
    assert operator_lines(query, state_ttl_ms=3_600_000) == [
        "Aggregate by k: COUNT(*) [stage group_0] [I,UB,UA,D]",
        "- key: k",
        "- state: COUNT(*)",
        "- bound: table.exec.state.ttl, 3600 s after the last change",
        "- run by a keyed operator",
        "Scan events (kafka) [spark, feed_0] [I]",
        "- columns: k",
        "- watermark: ts AS ts (not followed: nothing waits for it)",
    ]


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
    assert any("STATE_TTL, 3600 s" in line for line in operator_lines(found))


def test_a_query_that_spark_cannot_stream_is_maintained(tmp_path: Path) -> None:
    """Its tables are numbered as Spark finds them in the streaming query."""
    query = analyse(
        "INSERT INTO copy SELECT c.id, e.k FROM events AS e JOIN cdc AS c ON e.id = c.id", tmp_path
    ).query

    assert query.maintained is not None
    names = [name.rpartition(".")[2].strip("`") for name in query.source_names]
    assert names == ["cdc", "events"]
    assert query.leaves[0].columns == ("id", ROW_KIND)
    lines = operator_lines(query)
    assert lines[:2] == [
        "Project id, name [stage ranks_3] [I,UB,UA,D]",
        "TopN ROW_NUMBER() <= 1 of each id, order by PROCTIME() DESC [stage ranks_3] [I,UB,UA,D]",
    ]
    assert "Join INNER on e.id = c.id [stage join_0] [I,D]" in lines


def test_a_column_that_only_an_unused_part_of_a_view_names_is_not_read(tmp_path: Path) -> None:
    """The checkpoint is compared with the query as it was, so that one of an earlier version still fits."""
    namespace = new_namespace(f"{TABLES}; CREATE VIEW wide AS SELECT id, k, ts FROM events")
    (statement,) = run("INSERT INTO counts SELECT k, COUNT(*) FROM wide GROUP BY k", namespace)
    assert isinstance(statement, InsertInto)
    insert = Planner(namespace=namespace, project=tmp_path).analyse_insert(statement)

    assert insert.query.leaves[0].columns == ("k",)
    assert "(SELECT k FROM" in to_text(insert.query.executed)
    state, phases = insert_fingerprint(insert).state
    assert phases == "TWO PHASES OVER default_catalog.default_database.events"
    assert state.startswith("GROUP BY k COMPUTE COUNT(*) FROM (SELECT id, k, ts FROM")


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


STREAMS = f"""
CREATE TABLE l (id BIGINT, v BIGINT, pt AS PROCTIME(), ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ({KAFKA}, 'format' = 'json');
CREATE TABLE r (id BIGINT, v BIGINT, m MAP<STRING, INT>, pt AS PROCTIME(), ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ({KAFKA}, 'format' = 'json');
CREATE TABLE rates (v BIGINT) WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:x.db', 'table-name' = 'rates');
CREATE TABLE ids (id BIGINT) WITH ('connector' = 'delta', 'path' = 'ids')
"""


def joined(sql: str, project: Path) -> AnalysedInsert:
    """Analyse an INSERT of ids over two streams."""
    namespace = new_namespace(STREAMS)
    (statement,) = run(f"INSERT INTO ids {sql}", namespace)
    assert isinstance(statement, InsertInto)
    return Planner(namespace=namespace, project=project, settings={}).analyse_insert(statement)


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("SELECT l.id FROM l JOIN r ON l.v > r.v", "JOIN r ON l.v > r.v"),
        ("SELECT l.id FROM l CROSS JOIN r", "CROSS JOIN r"),
        ("SELECT l.id FROM l JOIN r ON l.v = 1 AND r.v = 1", "JOIN r ON l.v = 1 AND r.v = 1"),
        ("SELECT l.id FROM l JOIN r ON l.id = r.id OR l.v = r.v", "JOIN r ON l.id = r.id OR l.v = r.v"),
        ("SELECT l.id FROM l JOIN r ON l.ts BETWEEN r.ts AND r.ts + INTERVAL '1' HOUR", "JOIN r ON"),
        ("SELECT l.id FROM l JOIN r ON l.id = r.id JOIN r AS s ON s.v < l.v", "JOIN r AS s ON s.v < l.v"),
    ],
)  # fmt: skip
def test_a_join_of_streams_without_an_equality_is_refused_at_its_place(
    sql: str, place: str, tmp_path: Path
) -> None:
    """Spark would refuse it when it starts, again and again."""
    with pytest.raises(UnsupportedError, match="without an equality") as caught:
        joined(sql, tmp_path)
    span = caught.value.span

    assert span is not None
    assert span.line_text[span.column - 1 :].startswith(place)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT l.id FROM l JOIN r ON l.id = r.id AND l.v > r.v",
        "SELECT l.id FROM l, r WHERE l.id = r.id",
        "SELECT id FROM l JOIN r USING (id)",
        "SELECT l.id FROM l JOIN r ON l.v + 1 = r.v * 2",
        "SELECT a.id FROM l AS a JOIN r AS b ON a.id = b.id AND a.ts BETWEEN b.ts AND b.ts + INTERVAL '1' HOUR",
    ],
)
def test_an_inner_join_of_streams_runs_as_a_stage(sql: str, tmp_path: Path) -> None:
    """A checkpoint of Spark's join goes on with that."""
    found = joined(sql, tmp_path)
    streamed = [query for query in found.earlier if query.maintained is None]

    assert found.query.maintained is not None
    assert [stage.name[:4] for stage in found.query.maintained.stages if "join" in stage.name] == [
        "join"
    ]
    assert streamed
    assert (
        as_checkpointed(found, insert_fingerprint(replace(found, query=streamed[0]))).query
        is (streamed[0])
    )


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT l.id FROM l, r AS s, r WHERE l.id = r.id AND s.v = r.v",
        "SELECT l.id FROM l JOIN r ON l.id = r.id AND UPPER(l.v) = 'A'",
        "SELECT l.id FROM l JOIN rates ON l.v > rates.v",
        "SELECT l.id FROM l JOIN (VALUES (1)) AS t (v) ON l.v > t.v",
        "SELECT l.id FROM l JOIN r ON l.id = r.id AND l.pt BETWEEN r.pt - INTERVAL '4' HOUR AND r.pt",
        "SELECT CARDINALITY(r.m) FROM l JOIN r ON l.id = r.id AND l.ts BETWEEN r.ts AND r.ts + INTERVAL '1' HOUR",
    ],
)
def test_a_join_of_streams_with_an_equality_is_not_refused(sql: str, tmp_path: Path) -> None:
    """Nor one with a table that is read as it is; Spark alone keeps a MAP, and ends rows of a join that keep one."""
    assert joined(sql, tmp_path).query.maintained is None


@pytest.mark.parametrize(
    ("sql", "message", "place"),
    [
        (
            "SELECT l.id FROM l {0} JOIN r ON l.id = r.id AND l.pt BETWEEN r.pt - INTERVAL '4' HOUR AND r.pt",
            "a {0} JOIN with an interval of processing time is not supported",
            "l.id = r.id",
        ),
        (
            "SELECT COUNT(*) FROM l GROUP BY SESSION(pt, INTERVAL '5' SECONDS)",
            "SESSION windows of processing time are not supported, and 'pt' is PROCTIME()",
            "SESSION",
        ),
        (
            "SELECT COUNT(*) FROM TABLE(SESSION(TABLE l, DESCRIPTOR(pt), INTERVAL '5' SECONDS)) "
            "GROUP BY window_start, window_end",
            "SESSION windows of processing time are not supported, and 'pt' is PROCTIME()",
            "SESSION",
        ),
    ],
)
@pytest.mark.parametrize("side", ["LEFT", "RIGHT", "FULL"])
def test_what_processing_time_cannot_bound_is_refused_at_its_place(
    sql: str, message: str, place: str, side: str, tmp_path: Path
) -> None:
    """Outer joins and sessions, which Spark refuses when it starts."""
    with pytest.raises(UnsupportedError) as caught:
        joined(sql.format(side), tmp_path)
    span = caught.value.span

    assert caught.value.message == message.format(side)
    assert span is not None
    assert span.line_text[span.column - 1 :].startswith(place)


# --- the order of the tables of an incremental query, which its checkpoint knows them by ---


def query(*numbers: int) -> exp.Expr:
    """The union of queries over tables of these numbers."""
    tree = parse_query(" UNION ALL ".join("SELECT * FROM t" for _ in numbers))
    for number, table in zip(numbers, list(tree.find_all(exp.Table, bfs=False)), strict=True):
        ScanTable.put(table, number)
    return tree


def test_tables_are_numbered_as_spark_finds_them() -> None:
    """A table that is read twice has one number, and one that is not read has none."""
    tree = query(2, 0, 2)

    order = ScanOrder.of(tree)

    assert order.numbers == (2, 0)
    assert order.leaves(["a", "b", "c"]) == ("c", "a")
    assert [node.scan for node in order.query(tree).find_all(ScanTable, bfs=False)] == [0, 1, 0]


def test_the_query_itself_stays_as_it_is() -> None:
    """Its numbers are those of the plan."""
    tree = query(1, 0)

    written = ScanOrder.of(tree).query(tree)

    assert [node.scan for node in tree.find_all(ScanTable, bfs=False)] == [1, 0]
    assert to_text(written) == to_text(tree)
