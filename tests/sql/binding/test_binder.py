"""What is known of a query before Spark sees it: its columns, their types, and nothing by guessing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlglot import exp

from penstock.sql.binding.binder import Bound, annotate, bind_query
from penstock.sql.dialect import Flink, parse_query, to_spark_query, to_text
from penstock.sql.dialect.flink.trees import named_tables
from penstock.sql.syntax.positions import Source, attach
from tests.sql.sql_objects import TABLES, new_namespace

if TYPE_CHECKING:
    from penstock.catalog.definitions.resolver import Namespace


@pytest.fixture(scope="module")
def namespace() -> Namespace:
    """A few tables and a view."""
    return new_namespace(TABLES)


def bind(sql: str, namespace: Namespace) -> Bound:
    """A query that stands in a file."""
    tree = Flink().parse(sql)[0]
    assert tree is not None
    return bind_query(attach(tree, Source(file="a.sql", text=sql)), namespace)


def columns(sql: str, namespace: Namespace) -> list[tuple[str, str | None]] | None:
    """Names and types of a query's columns."""
    bound = bind(sql, namespace)
    assert bound.errors == ()
    if bound.output is None:
        return None
    return [(name, None if kind is None else to_text(kind)) for name, kind in bound.output]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT price AS p, extra FROM bids", [("p", "BIGINT"), ("extra", "STRING")]),
        (
            "SELECT b.* FROM auctions AS b",
            [("id", "BIGINT"), ("seller", "BIGINT"), ("ts", "TIMESTAMP(3)")],
        ),
        ("SELECT * FROM halves", [("a", "BIGINT"), ("h", "BIGINT")]),
        ("SELECT x.p FROM (SELECT price AS p FROM bids) AS x", [("p", "BIGINT")]),
        ("WITH q AS (SELECT d FROM bids) SELECT * FROM q", [("d", "DOUBLE")]),
        ("SELECT price FROM bids UNION ALL SELECT id FROM auctions", [("price", "BIGINT")]),
        (
            "SELECT CAST(r.b.c AS INT) AS x, m[1] AS y, arr[1].x AS z FROM bids",
            [("x", "INT"), ("y", "STRING"), ("z", "INT")],
        ),
        (
            "SELECT COUNT(*) AS n, AVG(price) AS a, MAX(ts) AS t FROM bids",
            [("n", "BIGINT"), ("a", "BIGINT"), ("t", "TIMESTAMP(3)")],
        ),
        (
            "SELECT TO_TIMESTAMP(extra) AS t, my_function(price) AS f FROM bids",
            [("t", "TIMESTAMP(3)"), ("f", None)],
        ),
        (
            "SELECT u.x, u.y FROM bids CROSS JOIN UNNEST(arr) AS u (x, y)",
            [("x", "INT"), ("y", "STRING")],
        ),
        (
            "SELECT p, q, n FROM bids LEFT JOIN UNNEST(arr) WITH ORDINALITY AS u (p, q, n) ON TRUE",
            [("p", "INT"), ("q", "STRING"), ("n", "INT")],
        ),
        (
            "SELECT u.* FROM bids, UNNEST(m) WITH ORDINALITY AS u (k, v, n)",
            [("k", "INT"), ("v", "STRING"), ("n", "INT")],
        ),
        (
            "SELECT chunk, chunk.chunk AS c FROM bids CROSS JOIN UNNEST(ARRAY[extra]) AS chunk",
            [("chunk", "STRING"), ("c", "STRING")],
        ),
        (
            "SELECT p.j FROM (SELECT j FROM bids LEFT JOIN UNNEST(ARRAY[ARRAY[price]]) AS i ON TRUE, UNNEST(i) AS j) p",
            [("j", "BIGINT")],
        ),
    ],
)
def test_the_columns_of_a_query_are_known(
    sql: str, expected: list[tuple[str, str | None]], namespace: Namespace
) -> None:
    """Through subqueries, WITH, views, UNION; a type only where it is sure."""
    assert columns(sql, namespace) == expected


def test_a_windowing_function_adds_its_columns(namespace: Namespace) -> None:
    """window_time is a time attribute of the kind of the time column."""
    sql = "SELECT window_start, window_end, window_time, id FROM TABLE(TUMBLE(TABLE auctions, DESCRIPTOR(ts), INTERVAL '1' DAY))"

    assert columns(sql, namespace) == [
        ("window_start", "TIMESTAMP"),
        ("window_end", "TIMESTAMP"),
        ("window_time", "TIMESTAMP(3)"),
        ("id", "BIGINT"),
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT price AS p FROM bids ORDER BY p",
        "SELECT price + 1 AS p, COUNT(*) FROM bids GROUP BY p HAVING p > 1",
        "SELECT auction FROM bids WHERE EXISTS (SELECT 1 FROM auctions WHERE id = bids.auction AND seller = bidder)",
        "SELECT a.id FROM bids AS b JOIN auctions AS a USING (ts) WHERE ts IS NOT NULL",
        "SELECT default_database.bids.price FROM default_database.bids",
        "SELECT bids.r.b.c, r.a FROM bids",
        "SELECT t.rn FROM (SELECT ROW_NUMBER() OVER (PARTITION BY auction ORDER BY ts) AS rn FROM bids) AS t WHERE rn = 1",
        "SELECT b.price FROM bids AS b, halves AS h WHERE b.auction = h.a",
        "SELECT 1 AS one",
        "SELECT price FROM bids WHERE price IN (SELECT id FROM auctions)",
        "SELECT SUM(price) OVER w FROM bids WINDOW w AS (PARTITION BY auction)",
        "SELECT k, v FROM bids CROSS JOIN UNNEST(m) AS u (k, v)",
        "SELECT x FROM (VALUES (1), (2)) AS t (x)",
    ],
)
def test_what_is_right_is_not_complained_about(sql: str, namespace: Namespace) -> None:
    """A false alarm is worse than none: Spark looks again."""
    assert bind(sql, namespace).errors == ()


def test_the_element_of_an_unnest_is_named_after_its_alias_only(namespace: Namespace) -> None:
    """As in Calcite: EXPR$0 is not its name then; in the tree AS t is AS t (t), rows and ordinality are as they were."""
    (error,) = bind(
        "SELECT c.`EXPR$0` FROM bids CROSS JOIN UNNEST(ARRAY[price]) AS c", namespace
    ).errors
    written = {}
    for value in ("ARRAY[price]", "arr", "m", "ARRAY[price]) WITH ORDINALITY"):
        end = "" if "ORDINALITY" in value else ")"
        query = parse_query(f"SELECT auction FROM bids CROSS JOIN UNNEST({value}{end} AS c")
        assert bind_query(query, namespace).errors == ()
        written[value] = to_text(query).rpartition(" AS ")[2]

    assert error.message == "'c' has no column 'EXPR$0'"
    assert written == {
        "ARRAY[price]": "c(c)",
        "arr": "c",
        "m": "c",
        "ARRAY[price]) WITH ORDINALITY": "c",
    }


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT q.prise FROM (SELECT prise FROM bids) AS q",
        "WITH q AS (SELECT prise FROM bids) SELECT prise FROM q",
        "SELECT q.prise FROM (SELECT prise FROM bids UNION ALL SELECT id FROM auctions) AS q",
        "SELECT 1 FROM auctions WHERE EXISTS (SELECT 1 FROM (SELECT prise FROM bids WHERE bidder = id) AS q)",
    ],
)
def test_a_query_in_from_does_not_see_itself(sql: str, namespace: Namespace) -> None:
    """Its own columns are no columns of what it reads; those of a query around its own are."""
    (error,) = bind(sql, namespace).errors

    assert error.message == "there is no column 'prise'"


def test_types_are_put_on_the_tree_that_was_given(namespace: Namespace) -> None:
    """So that a planner's copies of it are written with them."""
    tree = parse_query("SELECT price / 2 FROM bids")

    annotate(tree, namespace)

    assert (
        to_spark_query(tree.copy()) == "SELECT CAST(`price` DIV 2 AS BIGINT) FROM `bids` AS `bids`"
    )


def test_tables_get_their_name_as_alias(namespace: Namespace) -> None:
    """Then a planner may give them any other name; a table function's argument takes none."""
    tree = parse_query(
        "SELECT * FROM bids, TABLE(TUMBLE(TABLE auctions, DESCRIPTOR(ts), INTERVAL '1' DAY))"
    )

    bind_query(tree, namespace)

    assert [(table.name, table.alias) for table in named_tables(tree)] == [
        ("bids", "bids"),
        ("auctions", ""),
    ]


def test_the_tables_of_a_query_are_those_of_the_catalog() -> None:
    """Names of WITH hide them from where they are defined on, and only there."""
    sql = "WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM a, b, c, db.a, (SELECT * FROM d) AS x"

    assert [
        to_text(exp.to_table(t.name, db=t.db or None)) for t in named_tables(parse_query(sql))
    ] == [
        "b",
        "c",
        "db.a",
        "d",
    ]
