"""Which aggregations have a first phase in the reading tasks, and what Spark runs behind it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.sql.convert.statement import parse_statement
from penstock.sql.plan.analysed import AnalysedInsert
from penstock.sql.plan.analyzer import Analyzer
from penstock.sql.plan.explain.statements import explain_insert
from penstock.sql.plan.query_location import as_checkpointed, insert_fingerprint
from penstock.sql.plan.spark_text.second_phase import write_second_phase
from penstock.sql.script.splitter import split
from penstock.sql.statements.dml import InsertInto
from tests.sql.sql_objects import new_namespace

KAFKA = """'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'nowhere:1', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset'"""
TABLES = f"""
CREATE TABLE bids (id BIGINT, k STRING, price DECIMAL(10, 2), wide DECIMAL(30, 2), at TIMESTAMP(3), a ARRAY<INT>,
  c CHAR(3), same AS k, later AS at + INTERVAL '1' SECOND, WATERMARK FOR at AS at) WITH ({KAFKA});
CREATE TABLE numbered (k STRING, ms BIGINT, at AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR at AS at) WITH ({KAFKA});
CREATE TABLE zoned (ms BIGINT, at AS CAST(TO_TIMESTAMP_LTZ(ms, 3) AS TIMESTAMP(3)), WATERMARK FOR at AS at)
  WITH ({KAFKA});
CREATE TABLE aligned (k STRING, at TIMESTAMP(3), WATERMARK FOR at AS at)
  WITH ({KAFKA}, 'scan.watermark.alignment.group' = 'g', 'scan.watermark.alignment.max-drift' = '1 min');
CREATE TABLE counts (ws TIMESTAMP(3), n BIGINT) WITH ('connector' = 'print');
CREATE TABLE keyed (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'delta', 'path' = 'k');
CREATE VIEW dear AS SELECT at AS t, k AS name, price FROM bids WHERE price > 100;
"""
TUMBLE = "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at), INTERVAL '10' SECOND))"
GROUPED = f"FROM {TUMBLE} GROUP BY window_start, window_end"


def analysed(query: str, into: str = "counts") -> AnalysedInsert:
    """Check an INSERT of a query."""
    namespace = new_namespace(TABLES)
    text = f"INSERT INTO {into} {query};"
    (statement,) = (parse_statement(one, namespace) for one in split(text, "f.sql"))
    assert isinstance(statement, InsertInto)
    return Analyzer(namespace=namespace, project=Path("/nowhere")).analyse_insert(statement)


def second(query: str, into: str = "counts") -> str:
    """Return what Spark runs, but for its windowing functions."""
    found = analysed(query, into).query
    tree = found.executed
    for index, leaf in enumerate(found.leaves):
        if leaf.two_phases is not None and leaf.in_two_phases:
            write_second_phase(tree, index, leaf.two_phases)
    return tree.sql("flink")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (f"SELECT window_start, COUNT(*) {GROUPED}",
         "SELECT window_start AS `window_start`, coalesce(sum(`__part_0`), 0) AS `COUNT(*)` FROM TABLE(TUMBLE(TABLE "
         "bids, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY window_start, window_end"),
        ("SELECT window_start, COUNT(*) FILTER (WHERE name = 'x') AS n FROM TABLE(TUMBLE(TABLE dear, DESCRIPTOR(t), "
         "INTERVAL '10' SECOND)) AS w WHERE w.price < 200 GROUP BY window_start, window_end, w.name",
         "SELECT window_start AS `window_start`, coalesce(sum(`__part_0`), 0) AS n FROM TABLE(TUMBLE(TABLE "
         "`default_catalog`.`default_database`.`bids`, DESCRIPTOR(t), INTERVAL '10' SECOND)) AS w WHERE `__counted` "
         "GROUP BY window_start, window_end, `__key_0`"),
    ],
)  # fmt: skip
def test_spark_puts_groups_together(query: str, text: str) -> None:
    """A view over the table is written out by the tasks."""
    assert second(query) == text


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("SELECT k, COUNT(*) FROM bids GROUP BY k",
         "SELECT `__key_0` AS `k`, coalesce(sum(`__part_0`), 0) AS `COUNT(*)` FROM bids GROUP BY `__key_0`"),
        ("SELECT UPPER(name), COUNT(*) FILTER (WHERE name = 'x') FROM dear AS d WHERE d.price < 200 GROUP BY UPPER(name)",
         "SELECT `__key_0` AS `UPPER(name)`, coalesce(sum(`__part_0`), 0) AS `COUNT(*) FILTER(WHERE name = 'x')` "
         "FROM `default_catalog`.`default_database`.`bids` GROUP BY `__key_0`"),
        ("SELECT x, n + 1 FROM (SELECT k AS x, COUNT(*) AS n FROM bids WHERE id > 3 GROUP BY k) WHERE n > 3",
         "SELECT x, CASE WHEN n > 3 THEN n + 1 END, CASE WHEN n > 3 THEN CAST(2 AS TINYINT) ELSE CAST(3 AS TINYINT) END AS "
         "`__row_kind` FROM (SELECT `__key_0` AS x, coalesce(sum(`__part_0`), 0) AS n FROM bids GROUP BY `__key_0`)"),
        ("SELECT k, COUNT(*) FROM bids GROUP BY k HAVING COUNT(*) > 3",
         "SELECT `__key_0` AS `k`, coalesce(sum(`__part_0`), 0) AS `COUNT(*)`, CASE WHEN (coalesce(sum(`__part_0`), 0) > 3) "
         "THEN CAST(2 AS TINYINT) ELSE CAST(3 AS TINYINT) END AS `__row_kind` FROM bids GROUP BY `__key_0`"),
    ],
)  # fmt: skip
def test_results_that_are_updated_are_of_groups_too(query: str, text: str) -> None:
    """Conditions below are checked before the rows are grouped; a result that is not shown is still a delete."""
    found = second(query, "keyed")

    assert found.replace(" AS `bids`", "") == text


def test_rowtimes_that_tasks_compute_have_panes() -> None:
    """As the instants of numbers."""
    query = "SELECT CAST(window_start AS TIMESTAMP(3)), COUNT(*) FROM TABLE(HOP(TABLE numbered, DESCRIPTOR(at), INTERVAL '5' SECOND, "
    query += "INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
    (leaf,) = analysed(query).query.leaves

    assert leaf.grouped is not None
    assert leaf.grouped.pane_ms == 5_000
    assert leaf.columns == ("ms",)


def test_spark_computes_rowtimes_of_the_session_s_time_zone() -> None:
    """Tasks do not know it: their panes would be hours beside the watermark."""
    query = "SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE zoned, DESCRIPTOR(at), INTERVAL '10' SECOND)) "
    query += "GROUP BY window_start, window_end"
    (leaf,) = analysed(query).query.leaves

    assert leaf.grouped is None
    assert leaf.two_phases is not None, "a checkpoint in two phases goes on"


def test_averages_of_whole_numbers_sum_no_fractions() -> None:
    """Those might differ in a replay, so that exactly-once sinks would keep each batch."""
    text = second(f"SELECT window_start, AVG(CAST(id AS INT)) {GROUPED}")

    assert (
        "CAST((sum(CAST(`__part_0` AS DECIMAL(38, 0))) DIV nullif(sum(`__part_1`), 0)) AS INT)"
        in text
    )


def test_results_that_several_aggregates_need_are_computed_once() -> None:
    """AVG is of the sum and the count that the query has, too."""
    query = f"SELECT window_start, SUM(id) + AVG(id) + COUNT(id) + COUNT(*) {GROUPED}"
    found = analysed(query).query.leaves[0].grouped

    assert found is not None
    assert sorted(result.function for result in found.results) == ["count", "count", "sum"]


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT window_start, COUNT(DISTINCT id) {GROUPED}",
        f"SELECT window_start, CARDINALITY(ARRAY_AGG(id)) {GROUPED}",
        f"SELECT window_start, CAST(AVG(wide) AS BIGINT) {GROUPED}",
        f"SELECT window_start, CAST(SUM(wide) AS BIGINT) {GROUPED}",
        f"SELECT window_start, COUNT(*) FILTER (WHERE MD5(k) = 'A') {GROUPED}",
        f"SELECT window_start, SUM(id * 2) {GROUPED}",
        f"SELECT window_start, COUNT(*) {GROUPED}, MD5(k)",
        f"SELECT window_start, COUNT(*) {GROUPED}, c",
        f"SELECT window_start, COUNT(*) {GROUPED}, GROUPING SETS ((k), (same))",
        f"SELECT window_start, COUNT(*) FROM {TUMBLE} WHERE MD5(k) = 'A' GROUP BY window_start, window_end",
        f"SELECT window_start, COUNT(*) FROM {TUMBLE} WHERE window_start > at GROUP BY window_start, window_end",
        "SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(later), INTERVAL '10' SECOND)) "
        "GROUP BY window_start, window_end",
        "SELECT window_start, COUNT(*) FROM TABLE(SESSION(TABLE bids, DESCRIPTOR(at), INTERVAL '10' SECOND)) "
        "GROUP BY window_start, window_end",
        f"SELECT window_start, COUNT(*) FROM {TUMBLE} AS w CROSS JOIN UNNEST(ARRAY[w.id]) AS u (x) "
        "GROUP BY window_start, window_end",
        f"SELECT window_start, COUNT(*) {GROUPED} UNION ALL SELECT window_start, COUNT(*) {GROUPED}",
    ],
)  # fmt: skip
def test_other_aggregations_are_spark_s_alone(query: str) -> None:
    """What tasks do not compute as Spark does, over a table that is read once by its rowtime."""
    assert not any(leaf.in_two_phases for leaf in analysed(query).query.leaves)


@pytest.mark.parametrize(
    ("query", "able"),
    [
        ("SELECT 'all', COUNT(*) FROM bids", False),
        ("SELECT k, COUNT(DISTINCT id) FROM bids GROUP BY k", False),
        ("SELECT k, SUM(id * 2) FROM bids GROUP BY k", False),
        ("SELECT k, COUNT(*) FROM bids WHERE MD5(k) = 'A' GROUP BY k", True),
        ("SELECT k, COUNT(*) FROM aligned GROUP BY k", True),
        ("SELECT k, CAST(LAST_VALUE(id) AS BIGINT) FROM bids GROUP BY k", False),
        ("SELECT x, COUNT(*) FROM (SELECT MAX(k) AS x, id FROM bids GROUP BY id) GROUP BY x", False),
        ("SELECT b.k, COUNT(*) FROM bids AS b JOIN numbered AS n ON b.k = n.k GROUP BY b.k", False),
        ("SELECT k, COUNT(*) FROM (SELECT k FROM bids UNION ALL SELECT k FROM bids) GROUP BY k", False),
    ],
)  # fmt: skip
def test_other_groups_are_spark_s_alone(query: str, able: bool) -> None:
    """A checkpoint in two phases goes on where only a condition, or the alignment, is not one of tasks."""
    (*leaves,) = analysed(query, "keyed").query.leaves

    assert not any(leaf.in_two_phases for leaf in leaves)
    assert any(leaf.two_phases is not None for leaf in leaves) is able


def test_checkpoints_of_updated_results_go_on_in_the_phases_of_their_state() -> None:
    """As those of windows."""
    select = "SELECT k, COUNT(*) FROM bids {} GROUP BY k"
    new = analysed(select.format(""), "keyed")
    outside = analysed(select.format("WHERE MD5(k) = 'A'"), "keyed")
    one, two = (
        insert_fingerprint(replace(new, query=new.query.in_one_phase())),
        insert_fingerprint(new),
    )

    assert two.state == (*one.state, "TWO PHASES OVER default_catalog.default_database.bids")
    assert as_checkpointed(new, one).query.leaves[0].grouped is None
    assert insert_fingerprint(as_checkpointed(new, one)) == one
    assert insert_fingerprint(as_checkpointed(outside, two)) == two
    assert as_checkpointed(outside, two).query.leaves[0].grouped is None


def test_checkpoints_go_on_in_the_phases_of_their_state() -> None:
    """Those of versions before in one; those in two, too, where a condition became one of Spark's."""
    select = f"SELECT window_start, COUNT(*) FROM {TUMBLE} {{}} GROUP BY window_start, window_end"
    new, outside = analysed(select.format("")), analysed(select.format("WHERE MD5(k) = 'A'"))
    alone = replace(new, query=new.query.in_one_phase())
    one, two = insert_fingerprint(alone), insert_fingerprint(new)

    assert two.state == (*one.state, "TWO PHASES OVER default_catalog.default_database.bids")
    assert as_checkpointed(new, None) is new
    assert as_checkpointed(new, one).query.leaves[0].grouped is None
    assert insert_fingerprint(as_checkpointed(new, one)) == one
    assert insert_fingerprint(outside) == one
    by_spark = as_checkpointed(outside, two)
    assert insert_fingerprint(by_spark) == two
    assert by_spark.query.leaves[0].grouped is None


def test_explain_says_where_the_first_phase_runs() -> None:
    """On the aggregation, as text and as JSON."""
    for query, said in ((f"SELECT window_start, COUNT(*) {GROUPED}", True),
                        (f"SELECT window_start, COUNT(DISTINCT k) {GROUPED}", False)):  # fmt: skip
        found = explain_insert(
            analysed(query), Path("/nowhere"), title="", table="counts", state_ttl_ms=0
        )

        assert any("- first phase in the reading tasks" in line for line in found.lines(keys=False)) is said  # fmt: skip
        assert ('"first_phase": "in the reading tasks"' in json.dumps(found.document)) is said
