"""Graphs of catalogs and statements, and how they are written."""

from __future__ import annotations

import json

from penstock.sql.lineage.build import LineageBuilder
from penstock.sql.lineage.text import lineage_document, mermaid_lines, tree_lines, trees_of_all
from tests.sql.sql_objects import new_namespace, run

ORDERS = """
CREATE TABLE orders (
  id BIGINT, amount DECIMAL(10, 2), at_ms BIGINT, part INT METADATA FROM 'partition' VIRTUAL,
  ts AS TO_TIMESTAMP_LTZ(at_ms, 3), day_of AS CAST(TO_TIMESTAMP_LTZ(at_ms, 3) AS DATE)
) WITH ('connector' = 'kafka');
CREATE TABLE totals (id BIGINT, total DECIMAL(20, 2)) WITH ('connector' = 'delta', 'path' = 'totals');
CREATE VIEW large AS SELECT id, amount * 2 AS twice FROM orders WHERE amount > 100;
CREATE VIEW larger AS SELECT id, twice FROM large;
"""
INSERT = "INSERT INTO totals SELECT id, SUM(twice) FROM larger GROUP BY id;"


def built(sql):
    """Give the graph of definitions and INSERTs, and the namespace."""
    namespace = new_namespace()
    builder = LineageBuilder()
    for statement in run(sql, namespace):
        builder.add_statement(statement, namespace)
    catalog = namespace.catalog
    builder.add_objects((*catalog.tables(), *catalog.views()), namespace)
    return builder.graph(), namespace


def found(graph, namespace, name):
    """Give an object's identifier."""
    return namespace.resolve((name,))


def test_views_over_views_and_inserts_are_one_chain():
    """Upstream of the sink, columns and all."""
    graph, namespace = built(ORDERS + INSERT)
    lines = tree_lines(graph, found(graph, namespace, "totals"), ["upstream"], columns=True)

    assert lines == [
        "totals (delta)",
        "└─ made of",
        "   └─ larger (view)  INSERT test.sql:9",
        "      │    id ← id",
        "      │    total ← twice  (SUM(larger.twice))",
        "      └─ large (view)  VIEW",
        "         │    id ← id",
        "         │    twice ← twice",
        "         └─ orders (kafka)  VIEW",
        "                 id ← id",
        "                 twice ← amount  (orders.amount * 2)",
    ]


def test_downstream_ends_where_nothing_reads():
    """And says so."""
    graph, namespace = built(ORDERS + INSERT)
    whole = tree_lines(graph, found(graph, namespace, "large"), ["downstream"], columns=False)
    end = tree_lines(graph, found(graph, namespace, "totals"), ["downstream"], columns=False)

    assert whole[2:] == [
        "   └─ larger (view)  VIEW",
        "      └─ totals (delta)  INSERT test.sql:9",
    ]
    assert end == ["totals (delta)", "└─ goes into nothing"]


def test_computed_columns_lead_to_what_records_hold():
    """Physical and metadata columns have no columns behind them."""
    graph, namespace = built(ORDERS)
    node = graph.nodes[found(graph, namespace, "orders")]

    assert {each.name: (each.kind, each.sources) for each in node.columns[3:]} == {
        "part": ("metadata", ()),
        "ts": ("computed", ("at_ms",)),
        "day_of": ("computed", ("at_ms",)),
    }


def test_a_materialized_table_is_made_of_its_query():
    """Once, though the statement that makes it is read too."""
    graph, namespace = built(
        ORDERS + "CREATE MATERIALIZED TABLE kept WITH ('connector' = 'delta', 'path' = 'kept') "
        "FRESHNESS = INTERVAL '1' MINUTE AS SELECT id, twice FROM large;"
    )
    flows = graph.into(found(graph, namespace, "kept"))

    assert [flow.by for flow in flows] == ["MATERIALIZED TABLE"]
    assert [each.column for each in flows[0].columns] == ["id", "twice"]


def test_a_table_that_feeds_itself_ends():
    """In a circle of two, and by itself."""
    graph, namespace = built(
        ORDERS
        + "CREATE TABLE other (id BIGINT, total DECIMAL(20, 2)) WITH ('connector' = 'delta', 'path' = 'o');"
        "INSERT INTO other SELECT * FROM totals; INSERT INTO totals SELECT * FROM other;"
        "INSERT INTO totals SELECT id, total FROM totals;"
    )
    start = found(graph, namespace, "totals")
    lines = tree_lines(graph, start, ["upstream", "downstream"], columns=False)

    assert any(line.endswith("see above") for line in lines)
    assert len(lines) < 20
    assert any(line.startswith("other (delta)") for line in trees_of_all(graph, columns=False))


def test_columns_of_a_partition_and_of_a_list_go_where_the_statement_says():
    """INSERT with a list of columns fills those."""
    graph, namespace = built(
        ORDERS + "INSERT INTO totals (total, id) SELECT amount, id FROM orders;"
    )
    (flow,) = graph.into(found(graph, namespace, "totals"))

    assert [(each.column, each.expression) for each in flow.columns] == [
        ("total", "orders.amount"),
        ("id", "orders.id"),
    ]


def test_the_document_has_nodes_and_edges():
    """With columns and expressions; it is JSON."""
    graph, _ = built(ORDERS)
    document = lineage_document(graph, columns=True)

    assert json.loads(json.dumps(document)) == document
    assert document["edges"][0] == {
        "from": "default_catalog.default_database.orders",
        "to": "default_catalog.default_database.large",
        "by": "VIEW",
        "place": None,
        "columns": [
            {"column": "id", "expression": "orders.id", "from": ["id"]},
            {"column": "twice", "expression": "orders.amount * 2", "from": ["amount"]},
        ],
    }
    assert {node["name"].rpartition(".")[2]: node["kind"] for node in document["nodes"]} == {
        "large": "VIEW",
        "larger": "VIEW",
        "orders": "TABLE",
        "totals": "TABLE",
    }
    assert "columns" not in lineage_document(graph, columns=False)["edges"][0]


def test_mermaid_joins_objects_or_their_columns():
    """Names are written so that Mermaid takes them for text."""
    graph, _ = built(
        "CREATE TABLE `a\"<b>` (id BIGINT) WITH ('connector' = 'kafka');"
        'CREATE VIEW v AS SELECT id AS x FROM `a"<b>`;'
    )

    assert mermaid_lines(graph, columns=False) == [
        "flowchart LR",
        '  n0[("`a#quot;#lt;b#gt;`<br/>kafka")]',
        '  n1(["v<br/>view"])',
        "  n0 -->|VIEW| n1",
    ]
    assert "  n0c0 --> n1c0" in mermaid_lines(graph, columns=True)


def test_what_is_not_there_any_more_is_named_and_its_columns_are_left_open():
    """A view outlives its table; the rest is shown all the same."""
    graph, namespace = built(
        "CREATE TABLE gone (id BIGINT) WITH ('connector' = 'kafka'); CREATE VIEW v AS SELECT id FROM gone;"
    )
    namespace.catalog.drop(found(graph, namespace, "gone"), kind="table")
    builder = LineageBuilder()
    builder.add_objects(namespace.catalog.views(), namespace)
    (flow,) = builder.graph().flows

    assert flow.columns is None
    assert "there is no table or view" in builder.notes[0]
    assert len(builder.graph().nodes) == 2
