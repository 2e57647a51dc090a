"""Lineage of one query, column by column."""

from __future__ import annotations

import pytest

from penstock.sql.dialect import parse_query
from penstock.sql.lineage.query import lineage_of_query
from tests.sql.sql_objects import TABLES, new_namespace

NAMESPACE = new_namespace(TABLES)


def traced(query):
    """Give each column's name, and `table.column` of what it is made of."""
    found = lineage_of_query(parse_query(query), NAMESPACE)
    assert found.columns is not None, "it can be followed"
    return [
        (each.column, " ".join(f"{s.table.name}.{s.column}" for s in each.sources))
        for each in found.columns
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "SELECT auction, price * 2 AS p FROM bids",
            [("auction", "bids.auction"), ("p", "bids.price")],
        ),
        (
            "SELECT b.price + b.bidder AS x, 1 AS one FROM bids AS b",
            [("x", "bids.bidder bids.price"), ("one", "")],
        ),
        (
            "SELECT * FROM auctions",
            [("id", "auctions.id"), ("seller", "auctions.seller"), ("ts", "auctions.ts")],
        ),
        ("SELECT h FROM halves", [("h", "halves.h")]),
        (
            "SELECT default_database.bids.price AS p FROM default_database.bids",
            [("p", "bids.price")],
        ),
        (
            "SELECT a.seller, b.price FROM bids b JOIN auctions a ON a.id = b.auction",
            [("seller", "auctions.seller"), ("price", "bids.price")],
        ),
        (
            "SELECT auction AS x FROM bids UNION ALL SELECT id FROM auctions",
            [("x", "auctions.id bids.auction")],
        ),
        (
            "WITH c AS (SELECT auction AS x, SUM(price) AS s FROM bids GROUP BY auction) SELECT s, x FROM c",
            [("s", "bids.price"), ("x", "bids.auction")],
        ),
        (
            "SELECT x FROM (SELECT price AS x FROM (SELECT price FROM bids))",
            [("x", "bids.price")],
        ),
        ("SELECT r.b.c AS c, m[1] AS m FROM bids", [("c", "bids.r"), ("m", "bids.m")]),
        (
            "SELECT window_start, window_end, COUNT(*) AS n, MAX(price) AS p FROM TABLE("
            "TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end",
            [
                ("window_start", "bids.ts"),
                ("window_end", "bids.ts"),
                ("n", ""),
                ("p", "bids.price"),
            ],
        ),
        (
            "SELECT L.price, R.seller FROM (SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE))) L "
            "JOIN (SELECT * FROM TABLE(TUMBLE(TABLE auctions, DESCRIPTOR(ts), INTERVAL '1' MINUTE))) R "
            "ON L.auction = R.id AND L.window_start = R.window_start",
            [("price", "bids.price"), ("seller", "auctions.seller")],
        ),
        (
            "SELECT auction, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY ts) AS n FROM bids) "
            "WHERE n = 1",
            [("auction", "bids.auction"), ("price", "bids.price")],
        ),
        (
            "SELECT CASE WHEN ok THEN price ELSE (SELECT MAX(seller) FROM auctions) END AS v FROM bids",
            [("v", "auctions.seller bids.ok bids.price")],
        ),
        ("SELECT price AS p, bidder AS p FROM bids", [("p", "bids.price"), ("p", "bids.bidder")]),
        (
            "SELECT b.auction, u.y FROM bids b CROSS JOIN UNNEST(b.arr) AS u (x, y)",
            [("auction", "bids.auction"), ("y", "bids.arr")],
        ),
        (
            "SELECT u.y, u.n FROM bids b CROSS JOIN UNNEST(b.arr) WITH ORDINALITY AS u (x, y, n)",
            [("y", "bids.arr"), ("n", "bids.arr")],
        ),
        (
            "SELECT auction, w FROM bids, LATERAL TABLE(words(extra)) AS x (w)",
            [("auction", "bids.auction"), ("w", "bids.extra")],
        ),
    ],
)
def test_a_column_is_traced_to_the_columns_of_the_tables_that_are_named(query, expected):
    """Through joins, unions, subqueries, windows; a view is an object of its own."""
    assert traced(query) == expected


def test_the_expression_is_told_in_flink_sql():
    """As the query writes it, its tables by their names."""
    found = lineage_of_query(parse_query("SELECT UPPER(extra) AS e FROM bids"), NAMESPACE)

    assert [each.expression for each in found.columns] == ["UPPER(bids.extra)"]


def test_tables_are_named_once_in_order_also_where_columns_cannot_be_told():
    """Rows of VALUES come of nothing."""
    found = lineage_of_query(parse_query("SELECT b.price FROM bids b, auctions, bids c"), NAMESPACE)
    values = lineage_of_query(parse_query("VALUES (1, 2)"), NAMESPACE)
    unnamed = lineage_of_query(
        parse_query("SELECT w FROM bids, LATERAL TABLE(words(extra)) AS x"), NAMESPACE
    )

    assert [each.name for each in found.tables] == ["bids", "auctions"]
    assert ([each.name for each in unnamed.tables], unnamed.columns) == (["bids"], None)
    assert (values.tables, values.columns) == ((), None)


def test_the_query_is_left_as_it_was():
    """It is run afterwards."""
    query = parse_query("SELECT h FROM halves")
    before = query.sql()
    lineage_of_query(query, NAMESPACE)

    assert query.sql() == before
