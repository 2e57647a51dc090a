"""Aggregates and OVER stand where Flink takes them, and beside them only what has one value in a group."""

from __future__ import annotations

import pytest

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import DefinitionError
from penstock.sql.binding.binder import Bound, bind_query
from penstock.sql.dialect import Flink
from penstock.sql.syntax.positions import Source, attach
from tests.sql.sql_objects import TABLES, new_namespace

WINDOWS = "TABLE(TUMBLE(TABLE auctions, DESCRIPTOR(ts), INTERVAL '1' DAY))"


@pytest.fixture(scope="module")
def namespace() -> Namespace:
    """A few tables and a view, and a function that may be an aggregate."""
    return new_namespace(TABLES)


def bind(sql: str, namespace: Namespace) -> Bound:
    """A query that stands in a file."""
    tree = Flink().parse(sql)[0]
    assert tree is not None
    return bind_query(attach(tree, Source(file="a.sql", text=sql)), namespace)


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT auction, COUNT(*) FROM bids", {"auction": 8}),
        ("SELECT auction, COUNT(*) FROM bids GROUP BY bidder", {"auction": 8}),
        ("SELECT price, price + 1, bidder FROM bids GROUP BY bidder", {"price": 8}),
        ("SELECT bidder FROM bids GROUP BY bidder HAVING price > 1", {"price": 48}),
        ("SELECT bidder FROM bids GROUP BY bidder ORDER BY price", {"price": 50}),
        ("SELECT price FROM bids HAVING price > 1", {"price": 8}),
        ("SELECT price + 2 FROM bids GROUP BY price + 1", {"price": 8}),
        ("SELECT price FROM bids GROUP BY price + 1", {"price": 8}),
        ("SELECT UPPER(extra), SPLIT_INDEX(extra, ',', 1) FROM bids GROUP BY d", {"extra": 14}),
        ("SELECT r.a FROM bids GROUP BY auction", {"r.a": 8}),
        ("SELECT a.ts, COUNT(*) FROM auctions AS a, bids AS b GROUP BY b.ts", {"a.ts": 8}),
        ("SELECT SUM(price) OVER (ORDER BY ts), COUNT(*) FROM bids", {"price": 12, "ts": 34}),
        ("SELECT x.n FROM (SELECT auction, COUNT(*) AS n FROM bids) AS x", {"auction": 25}),
        ("WITH q AS (SELECT auction, MAX(d) FROM bids) SELECT * FROM q", {"auction": 19}),
        ("SELECT id FROM auctions UNION ALL SELECT price FROM bids GROUP BY d", {"price": 42}),
        ("SELECT auction FROM bids GROUP BY GROUPING SETS ((bidder), ())", {"auction": 8}),
        ("SELECT auction FROM bids GROUP BY ROLLUP (bidder, price)", {"auction": 8}),
        (f"SELECT window_start, id FROM {WINDOWS} GROUP BY window_start, window_end", {"id": 22}),
        ("SELECT id FROM auctions GROUP BY TUMBLE(ts, INTERVAL '1' DAY)", {"id": 8}),
        ("SELECT 1 FROM auctions WHERE id IN (SELECT price FROM bids GROUP BY d)", {"price": 44}),
    ],
)
def test_a_column_is_grouped_or_aggregated(
    sql: str, columns: dict[str, int], namespace: Namespace
) -> None:
    """Flink: Expression 'x' is not being grouped. Each column is told once, at its place."""
    errors = bind(sql, namespace).errors

    assert {
        error.message.split("'")[1]: error.span and error.span.column for error in errors
    } == columns
    assert all("is neither grouped nor aggregated" in error.message for error in errors)


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELECT d, COUNT(*) FROM bids", "GROUP BY d, or take one value of each group: MAX(d)"),
        (
            "SELECT b.d FROM bids AS b GROUP BY b.ok",
            "add b.d to GROUP BY, or take one value of each group: MAX(b.d)",
        ),
    ],
)
def test_the_hint_says_how_a_column_gets_one_value(
    sql: str, hint: str, namespace: Namespace
) -> None:
    """With a GROUP BY or without."""
    (error,) = bind(sql, namespace).errors

    assert error.hint == hint


@pytest.mark.parametrize(
    ("sql", "missing"),
    [
        ("SELECT *, COUNT(*) FROM auctions", "'id', 'seller', 'ts' are neither"),
        ("SELECT * FROM auctions AS a GROUP BY a.id, ts", "'seller' is neither"),
    ],
)
def test_a_star_beside_groups_has_grouped_columns_only(
    sql: str, missing: str, namespace: Namespace
) -> None:
    """The columns of the table that are missing in GROUP BY are named."""
    (error,) = bind(sql, namespace).errors

    assert missing in error.message


@pytest.mark.parametrize(
    ("sql", "column", "message"),
    [
        (
            "SELECT d FROM bids WHERE SUM(price) > 1",
            26,
            "WHERE cannot have the aggregate SUM(price)",
        ),
        (
            "SELECT d FROM bids WHERE ok AND COUNT(*) FILTER (WHERE ok) > 1",
            33,
            "WHERE cannot have the aggregate COUNT(*) FILTER",
        ),
        (
            "SELECT d FROM bids AS b JOIN auctions AS a ON MAX(b.auction) = a.id",
            47,
            "ON cannot have the aggregate MAX(b.auction)",
        ),
        ("SELECT 1 FROM bids GROUP BY SUM(d)", 29, "GROUP BY cannot have the aggregate SUM(d)"),
        (
            "SELECT 1 FROM bids GROUP BY ROLLUP (SUM(d))",
            37,
            "GROUP BY cannot have the aggregate SUM(d)",
        ),
        ("SELECT COUNT(SUM(d)) FROM bids", 14, "an aggregate cannot have SUM(d) inside it"),
        (
            "SELECT SUM(d) FILTER (WHERE MAX(d) > 1) FROM bids",
            29,
            "an aggregate cannot have MAX(d) inside it",
        ),
        (
            "SELECT SUM(SUM(MAX(d))) OVER () FROM bids",
            16,
            "an aggregate cannot have MAX(d) inside it",
        ),
        (
            "SELECT SUM(RANK() OVER (ORDER BY ts)) FROM bids",
            12,
            "an aggregate cannot have RANK() OVER inside it",
        ),
        (
            "SELECT d FROM bids WHERE ROW_NUMBER() OVER (ORDER BY ts) = 1",
            26,
            "WHERE cannot have ROW_NUMBER() OVER",
        ),
        (
            "SELECT d FROM bids GROUP BY d HAVING SUM(d) OVER (ORDER BY d) = 1",
            38,
            "HAVING cannot have SUM(d) OVER",
        ),
        (
            "SELECT 1 FROM auctions AS a WHERE EXISTS (SELECT 1 FROM bids AS b WHERE SUM(b.d) > a.id)",
            73,
            "WHERE cannot have the aggregate SUM(b.d)",
        ),
    ],
)
def test_aggregates_and_over_are_refused_where_single_rows_are_seen(
    sql: str, column: int, message: str, namespace: Namespace
) -> None:
    """Flink: Aggregate expression is illegal in WHERE clause, Aggregate expressions cannot be nested."""
    (error,) = bind(sql, namespace).errors

    assert isinstance(error, DefinitionError)
    assert error.message.startswith(message)
    assert error.span is not None
    assert error.span.column == column
    assert error.hint


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT r.a, r.b.c, bids.r.a FROM bids GROUP BY r",
        "SELECT r.a, b.r.a, COUNT(*) FROM bids AS b GROUP BY b.r.a",
        "SELECT b.auction, `auction` FROM bids AS b GROUP BY auction",
        "SELECT (auction + 1) * 2, 1 + auction FROM bids GROUP BY auction + 1",
        "SELECT EXTRACT(YEAR FROM ts) + 1 FROM bids GROUP BY YEAR(ts)",
        "SELECT CASE WHEN d > 1 THEN 'a' ELSE 'b' END FROM bids GROUP BY CASE WHEN d > 1 THEN 'a' ELSE 'b' END",
        "SELECT arr[1].x, arr[1] FROM bids GROUP BY arr[1]",
        "SELECT SUM(SUM(d)) OVER (PARTITION BY ok ORDER BY MAX(ts)) FROM bids GROUP BY ok",
        "SELECT SUM(d) OVER w, LAG(price) OVER w FROM bids WINDOW w AS (PARTITION BY ok ORDER BY ts)",
        "SELECT my_function(price), COUNT(*) FROM bids",
        "SELECT percentile_approx(price, 0.5), ok FROM bids GROUP BY ok",
        "SELECT auction AS k, COUNT(*) AS n FROM bids GROUP BY k HAVING k > 1 ORDER BY n",
        "SELECT auction, COUNT(*) FROM bids GROUP BY 1",
        "SELECT auction, price, GROUPING(price), GROUP_ID() FROM bids GROUP BY CUBE (auction, price)",
        "SELECT auction, price FROM bids GROUP BY GROUPING SETS ((auction, price), (auction), ())",
        "SELECT auction, price FROM bids GROUP BY (auction, price)",
        f"SELECT window_start, window_time, COUNT(*) FROM {WINDOWS} GROUP BY window_start, window_end",
        "SELECT id, TUMBLE_START(ts, INTERVAL '1' DAY) FROM auctions GROUP BY id, TUMBLE(ts, INTERVAL '1' DAY)",
        "SELECT COUNT(*), LISTAGG(extra) WITHIN GROUP (ORDER BY ts) FROM bids",
        "SELECT ARRAY_AGG(DISTINCT extra), 'x', CURRENT_DATE, NOW() FROM bids",
        "SELECT FIRST_VALUE(d IGNORE NULLS), JSON_OBJECTAGG(KEY extra VALUE d) FROM bids",
        "SELECT COUNT(*) FILTER (WHERE d > 1) FROM bids",
        "SELECT GROUPING(price), GROUPING_ID(price, auction) FROM bids GROUP BY CUBE (price, auction)",
        f"SELECT w.window_end, MAX(w.id) FROM {WINDOWS} AS w GROUP BY w.window_start, w.window_end",
        "SELECT * FROM auctions GROUP BY id, seller, ts",
        "SELECT d FROM bids WHERE price = (SELECT MAX(price) FROM bids)",
        "SELECT d FROM bids QUALIFY ROW_NUMBER() OVER (PARTITION BY auction ORDER BY ts) = 1",
        "SELECT x, COUNT(*) FROM bids CROSS JOIN UNNEST(arr) AS u (x, y) GROUP BY x",
        "SELECT (SELECT MAX(b.d + a.id) FROM bids AS b), (SELECT a.id + COUNT(*) FROM bids) FROM auctions AS a",
        "SELECT seller FROM auctions AS a GROUP BY seller HAVING EXISTS (SELECT 1 FROM bids AS b WHERE MAX(a.id) > b.d)",
        "SELECT id, ts, COUNT(*) FROM auctions JOIN bids USING (ts) GROUP BY auctions.ts, id",
        "SELECT price AS p, p + 1 AS q FROM bids GROUP BY price",
    ],
)
def test_what_has_one_value_in_a_group_is_taken(sql: str, namespace: Namespace) -> None:
    """So is what is not certain: a false alarm is worse than none, as Spark looks again."""
    assert bind(sql, namespace).errors == ()
