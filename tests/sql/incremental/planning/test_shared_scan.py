"""A table is read once for several inputs of stages, and gives the rows of each of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession
from sqlglot import exp

from penstock.sql.dialect import to_spark_query, to_text
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.plan.rules.field_paths import scan_paths
from penstock.sql.statements.dml import InsertInto
from penstock.sql.syntax.nodes import ScanTable
from tests.sql.sql_objects import new_namespace, run

KAFKA = "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'json'"
TABLES = f"""
CREATE TABLE events (kind INT, id BIGINT, name STRING, item ROW<price BIGINT, size ROW<w INT, h INT>>)
  WITH ({KAFKA}, 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE others (id BIGINT, name STRING) WITH ({KAFKA}, 'scan.startup.mode' = 'earliest-offset');
CREATE VIEW sellers AS SELECT id, name, item.price AS price FROM events WHERE kind = 0;
CREATE VIEW bids AS SELECT e.id, item.size AS size, name FROM events AS e WHERE kind = 1 AND id > 0;
CREATE TABLE target (a BIGINT, b STRING) WITH ('connector' = 'blackhole')
"""
JOIN = "SELECT s.id, {} FROM sellers AS s JOIN {} ON s.id = b.id"
APART = JOIN.format("b.name", "bids AS b")
ROWS = [
    Row(kind=kind, id=number, name=name, item=Row(price=number, size=Row(w=1, h=number)))
    for number in range(-2, 3)
    for kind in (0, 1, 2, None)
    for name in ("a", None)
]


def analysed(select: str, project: Path) -> AnalysedQuery:
    """Analyse an INSERT over the tables above."""
    namespace = new_namespace(TABLES)
    (statement,) = run(f"INSERT INTO target {select}", namespace)
    assert isinstance(statement, InsertInto)
    planner = Planner(namespace=namespace, project=project, settings={})
    return planner.analyse_insert(statement).query


def scans(query: exp.Expr) -> Counter[str]:
    """Count the scans of each table."""
    return Counter(node.name for node in query.find_all(ScanTable))


@pytest.mark.parametrize(
    ("select", "tables"),
    [
        (APART, {"events": 1}),
        (JOIN.format("b.name", "(SELECT * FROM bids WHERE name = 'a') AS b"), {"events": 1}),
        (JOIN.format("b.name", "events AS b"), {"events": 1}),
        (JOIN.format("b.name", "others AS b"), {"events": 1, "others": 1}),
        (JOIN.format("b.name", "(SELECT id, UPPER(name) AS name FROM events) AS b"), {"events": 1}),
        (
            JOIN.format(
                "CAST(b.r AS STRING)", "(SELECT id, RAND() AS r FROM events WHERE kind = 1) AS b"
            ),
            {"events": 2},
        ),
    ],
)
def test_a_table_is_read_once(select: str, tables: dict[str, int], tmp_path: Path) -> None:
    """Unless a value varies; the query of the checkpoint stays one of an input each."""
    query = analysed(select, tmp_path)

    assert query.combined is not None
    assert scans(query.combined) == tables
    assert scans(query.query).total() == 2
    assert [leaf.table.identifier.name for leaf in query.leaves] == list(tables)


@pytest.mark.parametrize(
    ("select", "checked"),
    [
        (APART, "kind = 0 OR kind = 1 AND id > 0"),
        (JOIN.format("b.name", "events AS b"), None),
        (JOIN.format("b.name", "(SELECT id, name FROM events WHERE RAND() < 1) AS b"), None),
    ],
)
def test_tasks_that_read_check_what_all_inputs_ask(
    select: str, checked: str | None, tmp_path: Path
) -> None:
    """A row that is of no input stays in its task; where one takes any row, all come."""
    leaf = analysed(select, tmp_path).leaves[0]

    parts = () if leaf.fragment is None else leaf.fragment.parts
    assert " ".join(map(to_text, parts)).replace("(", "").replace(")", "") == (checked or "")


@pytest.mark.parametrize(
    "select",
    [
        APART,
        JOIN.format("b.name", "events AS b"),
        JOIN.format("b.name", "(SELECT id, size.h + 1 AS h, name FROM bids WHERE size.w = 1) AS b"),
        JOIN.format("s.name", "(SELECT id FROM events WHERE kind = 1 OR name = 'a') AS b"),
        JOIN.format("s.name", "(SELECT id FROM events WHERE kind = 00) AS b"),
        JOIN.format("s.name", "(SELECT id FROM events WHERE kind = '+0') AS b"),
        JOIN.format("s.name", "(SELECT id FROM events WHERE kind = 0.0) AS b"),
    ],
)
def test_each_input_has_its_rows(select: str, spark: SparkSession, tmp_path: Path) -> None:
    """Those of the query that reads the table for each of them."""
    query = analysed(select, tmp_path)
    schema = (
        "kind INT, id BIGINT, name STRING, item STRUCT<price: BIGINT, size: STRUCT<w: INT, h: INT>>"
    )
    spark.createDataFrame(ROWS, schema).createOrReplaceTempView("shared_scan_events")
    found = []
    for tree in (query.query.copy(), query.executed):
        for node in list(tree.find_all(ScanTable)):
            alias = exp.TableAlias(this=exp.to_identifier(node.alias_or_name))
            node.replace(exp.Table(this=exp.to_identifier("shared_scan_events"), alias=alias))
        frame = spark.sql(to_spark_query(tree)).drop("__time")
        found.append(Counter(map(str, frame.collect())))

    assert found[0] == found[1]
    assert found[0]


def test_fields_are_those_that_the_readers_name(tmp_path: Path) -> None:
    """Whatever others have the name."""
    query = analysed(APART, tmp_path)

    assert query.leaves[0].columns == ("kind", "id", "name")
    query = analysed(JOIN.format("CAST(b.size.h AS STRING)", "bids AS b"), tmp_path)
    assert query.leaves[0].fields == {"item": frozenset({("size",)})}


def test_a_table_beside_another_has_no_known_reader(tmp_path: Path) -> None:
    """Its columns may be named by either."""
    query = analysed("SELECT id, name FROM events UNION ALL SELECT * FROM others", tmp_path)

    assert set(scan_paths(query.executed)) <= {0, 1}
