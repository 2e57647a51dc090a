"""What a star makes a query read: all columns only where somebody asks for all that it stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlglot import exp

from penstock.connector.changelog import ROW_KIND, ChangelogMode
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.analysis import analyse
from penstock.sql.plan.rules.sink_changelog import SinkTable
from penstock.sql.statements.statement import Select
from penstock.sql.syntax.nodes import SCAN_PARTS, ScanTable
from tests.sql.sql_objects import new_namespace, parse_script

KAFKA = (
    "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'nowhere:1', "
    "'scan.startup.mode' = 'earliest-offset'"
)
TABLES = f"""
CREATE TABLE bids (id BIGINT, item STRING, price INT, note STRING, ts TIMESTAMP(3), twice AS price * 2,
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ({KAFKA}, 'format' = 'json');
CREATE TABLE items (item STRING, name STRING, hue STRING, since TIMESTAMP(3), WATERMARK FOR since AS since)
  WITH ({KAFKA}, 'format' = 'json');
CREATE TABLE versions (item STRING, name STRING, hue STRING, since TIMESTAMP(3), PRIMARY KEY (item) NOT ENFORCED,
  WATERMARK FOR since AS since) WITH ({KAFKA}, 'format' = 'debezium-json');
CREATE TABLE stock (lot INT, shelf INT, amount INT, who STRING, PRIMARY KEY (lot) NOT ENFORCED)
  WITH ('connector' = 'upsert-kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'nowhere:1',
        'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE shelves (shelf INT, room STRING, keeper STRING, PRIMARY KEY (shelf) NOT ENFORCED)
  WITH ('connector' = 'delta', 'path' = 'shelves');
CREATE TABLE visits (visit ROW<page STRING, host ROW<name STRING, port INT>>, more ROW<a INT, b INT>)
  WITH ({KAFKA}, 'format' = 'json');
CREATE VIEW all_bids AS SELECT * FROM bids;
CREATE VIEW renamed (i, j, k, l, m, n) AS SELECT * FROM bids;
CREATE VIEW last_items AS SELECT item, name, since FROM
  (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY since DESC) AS n FROM items) WHERE n = 1;
"""
NAMESPACE = new_namespace(TABLES)
BEST = "(SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY price DESC) AS n FROM bids)"
MINUTES = "TABLE(TUMBLE({data}, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
ALL = "id item price note ts twice"
ROWS = {
    "bids": "SELECT i AS id, 'i' || i % 5 AS item, i * 7 % 40 AS price, 'n' || i % 3 AS note, "
    "TIMESTAMP '2024-01-01 00:00:00' + i * INTERVAL 1 MINUTE AS ts, i * 7 % 40 * 2 AS twice FROM range(40) AS r (i)",
    "items": "SELECT 'i' || i % 6 AS item, 'name' || i AS name, 'n' || i % 4 AS hue, "
    "TIMESTAMP '2024-01-01 00:10:00' + i * INTERVAL 1 MINUTE AS since FROM range(9) AS r (i)",
}
# queries, and what is read of bids; of bids and items
NAMED = [
    (f"SELECT item, id FROM {BEST} WHERE n = 1", "id item price"),
    (f"SELECT b.id FROM {BEST} AS b WHERE b.n <= 3 AND b.twice > 4", "id item price twice"),
    (f"WITH b AS {BEST} SELECT id, n FROM b WHERE n <= 3", "id item price"),
    (f"SELECT note FROM (SELECT x.* FROM {BEST} AS x WHERE n = 1) AS y", "item price note"),
    ("SELECT id FROM all_bids", "id"),
    ("SELECT id FROM (SELECT all_bids.* FROM all_bids) AS b", "id"),
    ("SELECT id FROM (SELECT *, UPPER(note) AS loud FROM bids) AS b", "id note"),
    ("SELECT id FROM (SELECT * FROM bids ORDER BY price DESC LIMIT 3) AS b", "id price"),
    ("SELECT * FROM (SELECT id, item FROM bids) AS b", "id item"),
    ("SELECT * FROM (SELECT id, item FROM bids UNION ALL SELECT 1, note FROM bids) AS b", "id item note"),
    ("SELECT DISTINCT item FROM all_bids", "item"),
    ("SELECT COUNT(*) FROM all_bids", "id"),
    ("SELECT COUNT(*) FROM bids", ""),
    (
        f"SELECT item, SUM(price) FROM (SELECT * FROM {MINUTES.format(data='TABLE bids')}) AS w "
        "GROUP BY item, window_start, window_end",
        "item price ts",
    ),
    (
        "SELECT item, COUNT(*) FROM "
        f"{MINUTES.format(data='(SELECT * FROM bids)')} GROUP BY item, window_start, window_end",
        "item ts",
    ),
]  # fmt: skip
JOINED = [
    ("SELECT b.*, i.name FROM bids AS b JOIN items AS i ON b.item = i.item", ALL, "item name"),
    (
        "SELECT b.id, i.* FROM all_bids AS b JOIN items AS i ON b.item = i.item",
        "id item",
        "item name hue since",
    ),
    (
        "SELECT a.id, a.name FROM (SELECT * FROM bids AS b JOIN items AS i ON b.note = i.hue "
        "AND i.since BETWEEN b.ts AND b.ts + INTERVAL '1' HOUR) AS a",
        "id note ts",
        "name hue since",
    ),
    ("SELECT id FROM bids WHERE EXISTS (SELECT * FROM items AS i WHERE i.item = bids.item)", "id item", "item"),
    ("SELECT id FROM all_bids WHERE item IN (SELECT item FROM items)", "id item", "item"),
    ("SELECT id, name FROM all_bids JOIN (SELECT * FROM items) AS i USING (item)", "id item", "item name"),
    ("SELECT a.id FROM (SELECT * FROM bids CROSS JOIN items) AS a", "id", "item"),
    (
        "SELECT b.id, i.name FROM (SELECT * FROM bids) AS b "
        "JOIN last_items FOR SYSTEM_TIME AS OF b.ts AS i ON b.item = i.item",
        "id item ts",
        "item name since",
    ),
]  # fmt: skip


def analysed(query: str, sink: SinkTable | None = None) -> AnalysedQuery:
    """Analyse a query over the tables above, which is shown or feeds a sink."""
    (statement,) = parse_script(query, "f.sql", NAMESPACE)
    assert isinstance(statement, Select)
    appends = sink is not None
    return analyse(statement.query, NAMESPACE, Path("/nowhere"), appends=appends, sink=sink)


def read(query: AnalysedQuery) -> dict[str, str]:
    """Give the columns that are read of each table, computed ones last."""
    return {
        leaf.table.identifier.name: " ".join(
            [name for name in leaf.columns if name != ROW_KIND] + list(leaf.computed)
        )
        for leaf in query.leaves
    }


@pytest.mark.parametrize(("query", "columns"), NAMED)
def test_a_star_asks_for_nothing_where_its_reader_names_its_columns(
    query: str, columns: str
) -> None:
    """The star stands for what is named anywhere, and for one column at least."""
    assert read(analysed(query)) == {"bids": columns}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM bids",
        "SELECT * FROM all_bids",
        "SELECT b.*, 1 AS one FROM (SELECT *, note AS n FROM bids) AS b",
        f"SELECT * FROM {BEST} WHERE n = 1",
        "SELECT id FROM (SELECT DISTINCT * FROM bids) AS b",
        "SELECT id FROM (SELECT * FROM bids UNION ALL SELECT * FROM bids) AS b",
        "SELECT id FROM (SELECT * FROM bids ORDER BY 4 LIMIT 3) AS b",
        "SELECT i FROM renamed",
        "SELECT i FROM bids AS b (i, j, k, l, m, n)",
        "WITH b (i, j, k, l, m, n) AS (SELECT * FROM bids) SELECT i FROM b",
        "SELECT a.id FROM (SELECT * FROM bids) AS a NATURAL JOIN (SELECT * FROM bids) AS b",
        "SELECT id FROM (SELECT * FROM bids AS a JOIN (SELECT id FROM bids) AS b USING (id)) AS c",
        "SELECT 1 AS one WHERE 2 IN (SELECT * FROM bids)",
    ],
)
def test_a_star_asks_for_all_where_somebody_may_ask_it_for_more(query: str) -> None:
    """Sets, lists of aliases and ORDER BY 4 go by position, DISTINCT and NATURAL JOIN compare every column."""
    assert read(analysed(query)) == {"bids": ALL}


@pytest.mark.parametrize(("query", "bids", "items"), JOINED)
def test_a_star_asks_for_its_own_tables_alone(query: str, bids: str, items: str) -> None:
    """The rowtime and the key of a versioned view are named by it."""
    assert read(analysed(query)) == {"bids": bids, "items": items}


def answer(query: AnalysedQuery, columns: Mapping[str, str]) -> list[tuple[Any, ...]]:
    """Give the rows of a query over tables that have these columns alone."""
    tree = query.query.copy()
    for node in tree.find_all(ScanTable):
        parts = {part: value for part, value in node.args.items() if part not in SCAN_PARTS}
        node.replace(exp.Table(**parts))
    with duckdb.connect() as engine:
        engine.execute("ATTACH ':memory:' AS default_catalog")
        engine.execute("CREATE SCHEMA default_catalog.default_database")
        engine.execute("USE default_catalog.default_database")
        for name, rows in ROWS.items():
            shown = columns.get(name, "").replace(" ", ", ") or "1 AS one"
            engine.execute(f"CREATE TABLE {name} AS SELECT {shown} FROM ({rows})")
        return sorted(engine.execute(tree.sql("duckdb")).fetchall())


@pytest.mark.parametrize(
    "query",
    [case[0] for case in (*NAMED, *JOINED) if not re.search("TUMBLE|SYSTEM_TIME", case[0])],
)
def test_an_answer_does_not_depend_on_columns_that_are_not_read(query: str) -> None:
    """DuckDB gives the same over the whole tables."""
    found = analysed(query)
    whole = answer(found, {"bids": ALL, "items": "item name hue since"})

    assert whole
    assert answer(found, read(found)) == whole


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("SELECT v.visit.host.port FROM (SELECT * FROM visits) AS v", {("host", "port")}),
        ("SELECT page FROM (SELECT visit.*, more.a FROM visits) AS v", None),
        ("SELECT v.visit.page FROM (SELECT DISTINCT * FROM visits) AS v", None),
        ("SELECT v.visit.page, v.visit FROM (SELECT * FROM visits) AS v", None),
    ],
)
def test_the_fields_that_are_named_of_a_star_are_read(
    query: str, fields: set[tuple[str, ...]] | None
) -> None:
    """As those of a table, and the whole row where a star is for its fields."""
    (leaf,) = analysed(query).leaves

    assert leaf.fields.get("visit") == fields


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        (
            "SELECT b.id, v.name FROM all_bids AS b JOIN (SELECT * FROM versions) AS v ON b.item = v.name",
            {"bids": "id item", "versions": "item name"},
        ),
        (
            "SELECT b.id FROM all_bids AS b JOIN versions FOR SYSTEM_TIME AS OF b.ts AS v ON b.item = v.item",
            {"bids": "id item ts", "versions": "item since"},
        ),
        (
            "SELECT shelf, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shelf ORDER BY amount DESC) AS n "
            "FROM stock) WHERE n <= 2",
            {"stock": "lot shelf amount"},
        ),
        ("SELECT lot, amount FROM (SELECT * FROM stock) AS s", {"stock": "lot amount"}),
        (
            "SELECT lot, room FROM (SELECT s.*, x.room FROM stock AS s JOIN shelves AS x ON s.shelf = x.shelf) AS y",
            {"stock": "lot shelf", "shelves": "shelf room"},
        ),
        ("SELECT SUM(amount) AS total FROM (SELECT * FROM stock) AS s", {"stock": "lot amount"}),
    ],
)  # fmt: skip
def test_the_key_of_changes_is_read(query: str, columns: dict[str, str]) -> None:
    """A star passes it on, by which an update finds the row that it replaces."""
    assert read(analysed(query)) == columns


def test_a_star_that_is_written_out_stands_for_the_columns_that_are_read() -> None:
    """Spark keeps rows of these columns for a Top-N."""
    sink = SinkTable(
        name="best", accepts=ChangelogMode.UPSERT, columns=("item", "id"), key=("item",)
    )
    query = analysed(f"SELECT item, id FROM {BEST} WHERE n = 1", sink=sink)
    named = {column.name for column in query.query.find_all(exp.Column)}

    assert query.flow.mechanism is not None
    assert named & set(ALL.split()) == {"id", "item", "price"}
    assert read(query) == {"bids": "id item price"}
