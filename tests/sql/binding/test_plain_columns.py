"""What is found out about plain queries without sqlglot's qualifier is what it finds out, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlglot import exp

from penstock.sql.binding import columns
from penstock.sql.binding.binder import bind_query, schema_columns
from penstock.sql.binding.checked_query import CheckedQuery
from penstock.sql.binding.plain_columns import check_plain_columns
from penstock.sql.dialect import parse_query, to_text
from penstock.sql.syntax.traversal import all_nodes
from tests.sql.sql_objects import TABLES, new_namespace

if TYPE_CHECKING:
    from penstock.catalog.definitions.resolver import Namespace

WINDOW = "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
PLAIN = (
    "SELECT auction, price * 2 AS twice, UPPER(extra) FROM bids WHERE price > 1 AND NOT ok",
    "SELECT b.price, a.id FROM bids AS b LEFT JOIN auctions AS a ON a.id = b.auction AND a.ts = b.ts",
    "SELECT CAST(price AS DECIMAL(10, 2)), CASE WHEN ok THEN 1 ELSE d END FROM bids",
    "SELECT bidder, COUNT(*), MAX(price) AS top FROM bids GROUP BY bidder HAVING COUNT(*) > 1",
    f"SELECT auction, SUM(price), window_end FROM {WINDOW} GROUP BY auction, window_start, window_end",
    f"SELECT * FROM {WINDOW}",
    "SELECT n, n + 1 FROM (SELECT auction + 1 AS n, extra FROM bids) AS inside",
    "SELECT h.a, ts FROM halves AS h CROSS JOIN auctions",
    "SELECT ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price) AS n, arr[1] FROM bids",
    "SELECT TIMESTAMPDIFF(DAY, ts, ts), l, m['x'], COALESCE(extra, 'none') FROM bids",
)
NOT_PLAIN = (
    "SELECT nothing FROM bids",
    "SELECT ts FROM bids, auctions",
    "SELECT nobody.price FROM bids",
    "SELECT r.a FROM bids",
    "SELECT price + 1 AS price FROM bids WHERE price > 1",
    "SELECT price AS p FROM bids GROUP BY p",
    "SELECT price FROM bids ORDER BY 1",
    "SELECT price FROM bids WHERE price IN (SELECT id FROM auctions)",
    "WITH x AS (SELECT price FROM bids) SELECT price FROM x",
    "SELECT price FROM bids UNION ALL SELECT id FROM auctions",
    "SELECT id FROM bids NATURAL JOIN auctions",
    "SELECT y FROM bids CROSS JOIN UNNEST(arr) AS u (x, y)",
    "SELECT * FROM bids, auctions",
    "SELECT auction FROM bids GROUP BY 1",
)


@pytest.fixture(scope="module")
def namespace() -> Namespace:
    """A few tables and a view."""
    return new_namespace(TABLES)


def known(query: str, namespace: Namespace) -> tuple[object, list[str | None]]:
    """The columns of a query, and the types of its nodes."""
    tree = parse_query(query)
    bound = bind_query(tree, namespace)
    assert bound.output is not None
    output = [(name, kind and to_text(kind)) for name, kind in bound.output]
    return output, [None if n.type is None else to_text(n.type) for n in all_nodes(tree)]


@pytest.mark.parametrize("query", PLAIN)
def test_both_ways_agree(query: str, namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, types and the type of every node are those that the qualifier gives."""
    asked: list[exp.Expr] = []

    def check(stand_in: exp.Expr, checking: CheckedQuery) -> object:
        asked.append(stand_in)
        found = check_plain_columns(stand_in, checking)
        assert found is not None, "the query is plain"
        return found

    monkeypatch.setattr(columns, "check_plain_columns", check)
    plain = known(query, namespace)
    monkeypatch.setattr(columns, "check_plain_columns", lambda *_: None)

    assert asked
    assert plain == known(query, namespace)


@pytest.mark.parametrize("query", NOT_PLAIN)
def test_what_is_not_sure_is_left_to_the_qualifier(query: str, namespace: Namespace) -> None:
    """Errors have one source, and so has whatever a name may mean in two ways; nothing is changed for it."""
    tree = parse_query(query)
    checking = CheckedQuery(namespace)
    stand_in = checking.copy(tree)
    for table in stand_in.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and table.name in ("bids", "auctions"):
            schema = namespace.lookup(namespace.resolve((table.name,))).schema
            checking.relations[table.name] = schema_columns(schema)
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
    before = to_text(stand_in)

    assert check_plain_columns(stand_in, checking) is None
    assert to_text(stand_in) == before
    assert all(node._type is None for node in all_nodes(stand_in) if not isinstance(node, exp.Cast))
