"""Which rows stages count in order of arrival, and which of them come in an order that follows from offsets."""

from __future__ import annotations

import pytest

from penstock.connector.changelog import ChangelogMode
from penstock.sql.incremental.stages import (
    Calc,
    StageInput,
    ordered_relations,
    ordered_scans,
    shuffled_relations,
)
from tests.sql.maintain.maintaining import feeds, maintained, parsed, recomputed
from tests.sql.maintain.temporal_tables import JOIN, planned

WINDOWS = (
    "SELECT SUM(n) OVER (ORDER BY t) AS s FROM (SELECT window_time AS t, COUNT(*) AS n FROM TABLE(TUMBLE("
    "TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, window_time)"
)
BOTH = (
    "SELECT id, amount, ts FROM orders WHERE amount > 1 UNION ALL SELECT 1, rate, since FROM quotes"
)
SPLITS = {
    "SELECT id, SUM(amount) OVER (ORDER BY ts) AS s FROM orders": {0},
    f"SELECT SUM(amount) OVER (ORDER BY ts) AS s FROM ({BOTH}) AS o": {0, 1},
    JOIN.format("JOIN rates", "o.ts"): {0, 1},
    "SELECT currency, SUM(rate) AS s FROM untimed GROUP BY currency": {0},
    "SELECT currency, rate, COUNT(*) AS n FROM quotes GROUP BY currency, rate HAVING COUNT(*) > 1": set(),
    WINDOWS: set(),
}


@pytest.mark.parametrize("query", list(SPLITS))
def test_tables_are_read_split_by_split_where_their_own_rows_are_counted(query: str) -> None:
    """Not those of which other rows are made first, nor where nobody counts in order."""
    maintained = planned(query).maintained

    assert (set() if maintained is None else ordered_scans(maintained)) == SPLITS[query]


@pytest.mark.parametrize(
    ("source", "shuffled"),
    [
        ("orders", False),
        (f"({BOTH})", False),
        ("(SELECT * FROM (SELECT id, ts FROM orders WHERE id > 1))", False),
        ("TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE))", False),
        ("(SELECT o.ts FROM orders AS o CROSS JOIN UNNEST(ARRAY[1, 2]) AS u (x))", False),
        (
            "(SELECT o.ts FROM orders AS o JOIN quotes AS q ON o.currency = q.currency "
            "AND o.ts BETWEEN q.since - INTERVAL '4' SECOND AND q.since + INTERVAL '6' SECOND)",
            True,
        ),
        ("resting", True),
    ],
)
def test_rows_come_in_an_order_unless_spark_moves_them(source: str, shuffled: bool) -> None:
    """Those that are not one by one the rows of tables by splits are sorted by their columns."""
    maintained = planned(
        f"SELECT COUNT(*) OVER (ORDER BY PROCTIME()) AS s FROM {source} AS x"
    ).maintained
    assert maintained is not None
    (first, *_) = [name for name in ordered_relations(maintained) if name.startswith("feed")]

    assert (first in shuffled_relations(maintained)) is shuffled


@pytest.mark.parametrize("of_windows", [True, False])
def test_groups_of_windows_come_as_spark_has_made_them(*, of_windows: bool) -> None:
    """Their order is not that of the rows that they are made of."""
    query = parsed("SELECT k, v FROM a")
    found = maintained(
        feeds("a", changes=ChangelogMode.INSERT_ONLY),
        Calc(name="w", inputs=("a",), query=query, of_windows=of_windows),
        recomputed("o", "SELECT k, v FROM w", StageInput(name="w", key=("k",), arrival="n")),
        columns="k v",
    )

    assert ordered_relations(found) == ({"w"} if of_windows else {"w", "a"})
    assert shuffled_relations(found) == ({"w"} if of_windows else set())
