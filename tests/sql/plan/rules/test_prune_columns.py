"""The fields of rows that a query needs: named ones alone, and all of them where there is any doubt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlglot import exp

from penstock.catalog.model.table import PhysicalColumn, Schema
from penstock.catalog.model.type_parser import parse_type
from penstock.catalog.options.option import resolve
from penstock.connector.changelog import ROW_KIND, ChangelogMode
from penstock.connector.formats import find_format
from penstock.sql.dialect import parse_query, to_text
from penstock.sql.plan.analysed import AnalysedQuery, TableScan
from penstock.sql.plan.analysis import analyse
from penstock.sql.plan.rules.field_paths import field_paths, narrowed, row_paths
from penstock.sql.plan.rules.prune_columns import prune_projections
from penstock.sql.plan.rules.sink_changelog import SinkTable
from penstock.sql.plan.statement_set import SharedRead, share
from penstock.sql.statements.statement import Select
from penstock.sql.syntax.nodes import SCAN_PARTS, ScanTable
from tests.sql.sql_objects import new_namespace, parse_script

ITEM = "ROW<sku STRING, price DECIMAL(10, 2), size ROW<w INT, h INT>, tags ARRAY<ROW<k STRING, v STRING>>>"
SCHEMA = Schema(
    columns=(
        PhysicalColumn(name="id", type=parse_type("BIGINT")),
        PhysicalColumn(name="item", type=parse_type(ITEM)),
    )
)
TABLE = f"""
CREATE TABLE t (
  id BIGINT, item {ITEM}, meta ROW<at TIMESTAMP(3), host STRING>, at AS meta.`at`,
  WATERMARK FOR `at` AS `at` - INTERVAL '1' SECOND
) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'nowhere:1',
        'scan.startup.mode' = 'earliest-offset', 'format' = 'json' {{more}});
"""


def leaf_of(query: str, more: str = "") -> TableScan:
    """What `query` reads of the table t."""
    namespace = new_namespace(TABLE.format(more=more))
    (statement,) = parse_script(query, "f.sql", namespace)
    assert isinstance(statement, Select)
    return analyse(statement.query, namespace, Path("/nowhere"), appends=False).leaves[0]


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("SELECT item.price FROM t", "ROW<price DECIMAL(10, 2)>"),
        ("SELECT t.item.size.h, x.item.sku FROM t AS x", "ROW<sku STRING, size ROW<h INT>>"),
        (
            "SELECT (item).size.w FROM t WHERE item.price > 1",
            "ROW<price DECIMAL(10, 2), size ROW<w INT>>",
        ),
        ("SELECT item.size, item.size.w FROM t", "ROW<size ROW<w INT, h INT>>"),
        ("SELECT item.tags[1].k FROM t", "ROW<tags ARRAY<ROW<k STRING, v STRING>>>"),
        ("SELECT i.size.w FROM (SELECT item AS i FROM t) AS s", ITEM),
        ("SELECT item.price, item FROM t", ITEM),
        ("SELECT item.nothing FROM t", ITEM),
    ],
)
def test_a_row_is_narrowed_to_the_fields_that_are_named(query: str, kind: str) -> None:
    """In the order of the table; a column that is named by itself, under another name too, is read whole."""
    paths = row_paths(SCHEMA, ("id", "item"), field_paths([parse_query(query)]))

    assert narrowed(SCHEMA, paths).column("item").type == parse_type(kind)


def test_what_the_table_itself_computes_is_read_too() -> None:
    """The watermark stands on a computed column, which reads a field of a row."""
    leaf = leaf_of("SELECT id, item.price FROM t WHERE meta.host = 'a'")

    assert leaf.fields == {
        "item": frozenset({("price",)}),
        "meta": frozenset({("host",), ("at",)}),
    }
    assert leaf.read_table.schema.column("meta").type == leaf.table.schema.column("meta").type


def test_the_format_decodes_the_narrowed_row() -> None:
    """Fields that were not asked for are passed over, one of another type among them; NULL stays NULL."""
    read = leaf_of("SELECT item.size.h, item.price FROM t").read_table.schema
    source = find_format("json")
    resolved = resolve({}, source.options(), owner="t")
    decoder = source.decoder([("item", read.column("item").type)], resolved)
    values = [
        b'{"id": 1, "item": {"sku": {"x": 1}, "price": 1.5, "size": {"w": "wide", "h": 2}, "more": []}}',
        b'{"item": {"size": null}}',
        b'{"item": null}',
    ]
    rows = decoder.decode(values, str).batch.column(0).to_pylist()

    assert rows == [
        {"price": Decimal("1.50"), "size": {"h": 2}},
        {"price": None, "size": None},
        None,
    ]


@pytest.mark.parametrize(
    ("query", "more"),
    [
        ("SELECT item.price FROM t", ", 'json.fail-on-missing-field' = 'true'"),
        ("SELECT *, item.price FROM t", ""),
    ],
)
def test_rows_are_read_whole_where_all_fields_count(query: str, more: str) -> None:
    """A star asks for all; a missing field can only be an error where it is looked for."""
    assert leaf_of(query, more).fields == {}


def test_a_shared_read_has_the_fields_of_all_inserts() -> None:
    """What one INSERT of a set reads whole is read whole."""
    namespace = new_namespace(TABLE.format(more=""))
    texts = ("SELECT item.price FROM t", "SELECT item.size.w FROM t", "SELECT item FROM t")
    statements = [parse_script(text, "f.sql", namespace)[0] for text in texts]
    queries = [
        analyse(one.query, namespace, Path("/nowhere"), appends=True)
        for one in statements
        if isinstance(one, Select)
    ]
    both, whole = share(queries[:2], Path("/nowhere")), share(queries, Path("/nowhere"))

    assert isinstance(both, SharedRead)
    assert isinstance(whole, SharedRead)
    assert both.leaf.fields == {"item": frozenset({("price",), ("size", "w")})}
    assert whole.leaf.fields == {}


# --- columns of inner queries that nobody names are not read ---


@pytest.mark.parametrize(
    ("query", "pruned"),
    [
        ("SELECT a FROM (SELECT a, b, c FROM t) AS v", "SELECT a FROM (SELECT a FROM t) AS v"),
        ("SELECT x FROM (SELECT a, b FROM t) AS v(x, y)", "SELECT x FROM (SELECT a FROM t) AS v(x)"),
        (
            "SELECT a FROM (SELECT a, b FROM (SELECT a, b, c FROM t) AS u) AS v",
            "SELECT a FROM (SELECT a FROM (SELECT a FROM t) AS u) AS v",
        ),
        (
            "SELECT v.a, w.d FROM (SELECT a, b FROM t) AS v JOIN (SELECT b, d, e FROM s) AS w ON v.a = w.b",
            "SELECT v.a, w.d FROM (SELECT a, b FROM t) AS v JOIN (SELECT b, d FROM s) AS w ON v.a = w.b",
        ),
        (
            "SELECT a FROM (SELECT a, b AS c FROM t WHERE b > 1) AS v",
            "SELECT a FROM (SELECT a FROM t WHERE b > 1) AS v",
        ),
        ("SELECT COUNT(*) FROM (SELECT a, b FROM t) AS v", "SELECT COUNT(*) FROM (SELECT a FROM t) AS v"),
    ],
)  # fmt: skip
def test_a_column_that_no_outer_query_names_is_pruned(query: str, pruned: str) -> None:
    """In nested queries too; a condition of the inner query keeps what it reads itself."""
    tree = parse_query(query)

    assert to_text(prune_projections(tree)) == to_text(parse_query(pruned))
    assert to_text(tree) == to_text(parse_query(query))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM (SELECT a, b FROM t) AS v",
        "SELECT v.* FROM (SELECT a, b FROM t) AS v",
        "SELECT a FROM (SELECT DISTINCT a, b FROM t) AS v",
        "SELECT a FROM (SELECT a, COUNT(*) AS n FROM t GROUP BY a) AS v",
        "SELECT a FROM (SELECT a, RAND() AS r FROM t) AS v",
        "SELECT a FROM (SELECT a, b FROM t UNION ALL SELECT a, b FROM s) AS v",
        "SELECT a FROM (SELECT a, b FROM t) AS v NATURAL JOIN s",
        "SELECT d FROM (SELECT a AS c, b + 1 AS e, e * 2 AS d FROM t WHERE c > 1) AS v",
    ],
)
def test_a_column_that_may_count_is_kept(query: str) -> None:
    """By its position, for the number of rows, for what it does, or under a name that Spark knows beside it."""
    tree = parse_query(query)

    assert to_text(prune_projections(tree)) == to_text(tree)


# --- what a star makes a query read: all columns only where somebody asks for all that it ---


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
