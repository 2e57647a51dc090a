"""The shape of logical plans."""

from __future__ import annotations

from typing import TypeVar

import pytest

from penstock.sql.dialect import to_text
from penstock.sql.plan.logical.facts import Arrival, TieBreak
from penstock.sql.plan.logical.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    JoinBound,
    JoinType,
    LookupJoin,
    Operator,
    Over,
    Refused,
    TemporalJoin,
    TopN,
)
from penstock.sql.plan.logical.plan import Plan, walk
from tests.sql.plan.builder.plans import plan_of, shape

TUMBLE = "TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
BEST = "SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS n FROM bid"


Found = TypeVar("Found", bound=Operator)


def only(plan: Plan, kind: type[Found]) -> Found:
    """The one operator of a kind."""
    (found,) = (node for node in walk(plan.root) if isinstance(node, kind))
    return found


@pytest.mark.parametrize(
    ("sql", "written"),
    [
        ("SELECT auction FROM bid WHERE price > 3", "Project(WHERE(Alias bid(Scan 0)))"),
        ("SELECT 1 AS one", "Project(Values)"),
        ("VALUES (1)", "Values"),
        ("SELECT * FROM (VALUES (1)) AS t (a)", "Project(Alias t(Values))"),
        (
            "WITH b AS (SELECT price FROM bid) SELECT x.price FROM b AS x, b AS y WHERE x.price = y.price",
            "Project(WHERE(INNER Join(Alias x(Project(Alias bid(Scan 0))), Alias y(Project(Alias bid(Scan 0))))))",
        ),
        (
            f"SELECT auction, COUNT(*) AS n FROM {TUMBLE} GROUP BY auction, window_start, window_end",
            "Aggregate(Alias (TUMBLE(Scan 0)))",
        ),
        (
            "SELECT auction, tag FROM bid CROSS JOIN UNNEST(tags) AS t (tag)",
            "Project(Unnest t(Alias bid(Scan 0)))",
        ),
        (f"SELECT auction FROM ({BEST}) WHERE n <= 3 AND price > 2", "Project(WHERE(Alias (Top 3(Alias bid(Scan 0)))))"),
        (f"SELECT auction FROM ({BEST})", "Project(Alias (Over(Alias bid(Scan 0))))"),
        ("SELECT DISTINCT price FROM bid ORDER BY 1 LIMIT 3", "Limit(Distinct(Project(Alias bid(Scan 0))))"),
        (
            "SELECT price FROM bid UNION ALL SELECT id FROM auction UNION SELECT seller FROM auction",
            "UNION(UNION(Project(Alias bid(Scan 0)), Project(Alias auction(Scan 1))), Project(Alias auction(Scan 1)))",
        ),
        (
            "SELECT price FROM bid WHERE EXISTS (SELECT 1 FROM auction WHERE id = bid.auction AND seller > 1)",
            "Project(SEMI Join(Alias bid(Scan 0), Project(WHERE(Alias auction(Scan 1)))))",
        ),
        (
            "SELECT price FROM bid WHERE price > 1 AND auction IN (SELECT id FROM auction)",
            "Project(SEMI Join(WHERE(Alias bid(Scan 0)), Project(Alias auction(Scan 1))))",
        ),
        (
            "SELECT price FROM bid WHERE auction NOT IN (SELECT id FROM auction)",
            "Project(WHERE(Alias bid(Scan 0)))",
        ),
    ],
)  # fmt: skip
def test_operators_are_built_from_the_tables_upwards(sql, written) -> None:
    """FROM, WHERE, the SELECT list, DISTINCT, ORDER BY and LIMIT."""
    assert shape(plan_of(sql).root) == written


COUNTS = (
    "SELECT auction, COUNT(*) AS num, window_start AS starttime, window_end AS endtime "
    f"FROM {TUMBLE} GROUP BY auction, window_start, window_end"
)
HIGHEST = f"SELECT MAX(num) AS maxn, starttime FROM ({COUNTS}) GROUP BY starttime, endtime"


def test_q5_of_nexmark_has_windows_in_its_outer_aggregation() -> None:
    """Their bounds are followed to where they have other names."""
    plan = plan_of(HIGHEST)

    inner, outer = (node for node in walk(plan.root) if isinstance(node, Aggregate))
    assert inner.windowed
    assert outer.windowed
    assert plan.follows_windows
    assert not plan_of(COUNTS).follows_windows


def test_bounds_that_are_known_by_their_names_are_not_followed() -> None:
    """As in the versions whose checkpoints go on so."""
    plan = plan_of(HIGHEST, follows_windows=False)

    inner, outer = (node for node in walk(plan.root) if isinstance(node, Aggregate))
    assert inner.windowed
    assert not outer.windowed
    assert not plan.follows_windows


def test_stars_are_written_out_under_unique_names() -> None:
    """The facts keep the names that Spark gives; of a function in FROM Spark's planner knows no columns."""
    joined = plan_of("SELECT * FROM auction AS a JOIN auction AS b ON a.id = b.id").root
    assert joined.facts.names == ("id", "seller", "ts", "id", "seller", "ts")
    assert [name for name, _ in joined.items] == [
        "id", "seller", "ts", "id__2", "seller__2", "ts__2",
    ]  # fmt: skip

    unfolded = plan_of("SELECT * FROM auction CROSS JOIN UNNEST(ARRAY[1]) AS t (x)").root
    assert unfolded.facts.columns is None
    assert [name for name, _ in unfolded.items] == ["id", "seller", "ts", "x"]
    unknown = plan_of("SELECT * FROM auction CROSS JOIN UNNEST(ARRAY[1])").root
    assert [to_text(value) for _, value in unknown.items] == ["*"]


def test_joins_tell_equalities_from_other_conditions() -> None:
    """Each pair with the value of the left side first, whichever side of the equality it stands on."""
    join = only(
        plan_of(
            "SELECT * FROM bid AS b JOIN auction AS a ON a.id = b.auction AND b.price > a.seller"
        ),
        Join,
    )

    assert [[to_text(side) for side in pair] for pair in join.pairs] == [["b.auction", "a.id"]]
    assert [to_text(test) for test in join.rest] == ["b.price > a.seller"]
    assert join.bound is JoinBound.NONE

    timed = "SELECT * FROM bid AS b LEFT JOIN auction AS a ON a.id = b.auction AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR"
    assert only(plan_of(timed), Join).bound is JoinBound.INTERVAL
    assert only(plan_of(timed), Join).kind is JoinType.LEFT
    used = only(plan_of("SELECT seller FROM bid AS b JOIN auction AS a USING (ts)"), Join)
    assert [[to_text(side) for side in pair] for pair in used.pairs] == [["`b`.`ts`", "`a`.`ts`"]]


def test_a_condition_that_names_the_outer_query_becomes_one_of_the_join() -> None:
    """And its values become columns of the inner query."""
    sql = "SELECT price FROM bid WHERE EXISTS (SELECT 1 FROM auction AS a WHERE a.id = bid.auction AND a.seller > 1)"
    join = only(plan_of(sql), Join)

    assert [[to_text(side) for side in pair] for pair in join.pairs] == [
        ["bid.auction", "`__inner`.`id`"]
    ]
    assert to_text(join.right.syntax) == "SELECT a.id AS `id` FROM auction AS a WHERE a.seller > 1"


def test_a_numbering_query_is_top_n_under_the_bound_of_its_reader() -> None:
    """Which loses the bound and is not changed for it."""
    plan = plan_of(f"SELECT auction, price FROM ({BEST}) WHERE n <= 3 AND price > 2")
    best = only(plan, TopN)

    assert (best.limit, best.number, best.shows_number, best.by_arrival) == (3, "n", False, False)
    assert [name for name, _ in best.items] == ["auction", "bidder", "price", "tags", "ts", "n"]
    assert (best.tie, best.by_record) == (TieBreak.FIRST, True)
    assert to_text(only(plan, Filter).condition) == "price > 2"
    assert "n <= 3" in to_text(plan.tree)
    assert only(plan_of(f"SELECT * FROM ({BEST}) WHERE n = 1"), TopN).shows_number
    assert only(plan_of(f"SELECT * FROM ({BEST}) WHERE n = 1", Arrival.OPEN), TopN).tie is None


def test_the_last_row_by_rowtime_wins_ties() -> None:
    """Of no other order; RANK has no ties to break."""
    by_time = "ROW_NUMBER() OVER (PARTITION BY auction ORDER BY ts DESC)"
    sql = "SELECT * FROM (SELECT *, {} AS n FROM bid) WHERE n <= 1"

    assert only(plan_of(sql.format(by_time)), TopN).tie is TieBreak.LAST
    rank = only(plan_of(sql.format(by_time.replace("ROW_NUMBER", "RANK"))), TopN)
    assert rank.ties
    assert rank.tie is None


def test_lookup_and_temporal_joins_have_operators_of_their_own() -> None:
    """One as of a time that is none of the left side's is refused at its place."""
    looked_up = plan_of(
        "SELECT o.id, c.name FROM orders AS o LEFT JOIN countries FOR SYSTEM_TIME AS OF o.pt AS c "
        "ON o.currency = c.code"
    )
    assert only(looked_up, LookupJoin).kind is JoinType.LEFT
    assert looked_up.lookups == {1}

    sql = "SELECT o.id FROM orders AS o JOIN rates FOR SYSTEM_TIME AS OF o.{} AS r ON o.currency = r.currency"
    join = only(plan_of(sql.format("ts")), TemporalJoin)
    assert (join.key, join.time, join.waits_for) == (("currency",), "ts", {0, 1})
    refused = only(plan_of(sql.format("id")), Refused)
    assert refused.stage is not None
    assert refused.stage.message.startswith("o.id is not a rowtime of the rows on the left side")


def test_a_view_of_last_rows_has_versions() -> None:
    """Under the names that it gives, also where a star stands for them."""
    sql = "SELECT o.id FROM orders AS o JOIN {} FOR SYSTEM_TIME AS OF o.ts AS b ON o.id = b.a"

    assert only(plan_of(sql.format("last_bids")), TemporalJoin).key == ("a",)
    refused = only(plan_of(sql.format("first_bids")), Refused)
    assert refused.stage is not None
    assert refused.stage.message.startswith("b is not versioned")


def test_hints_bound_what_reads_the_relation_that_they_name() -> None:
    """They are no part of the block: rows that are read for a hint and without one are the same rows."""
    join = plan_of(
        "SELECT /*+ STATE_TTL('b' = '1 h', 'a' = '2 h') */ a.id FROM bid AS b JOIN auction AS a ON a.id = b.auction"
    )
    assert only(join, Join).state_ttl_ms == (3_600_000, 7_200_000)
    assert all(hint.used for hint in join.hints)
    assert only(join, Join).block.select.args.get("hint") is None
    assert "STATE_TTL" in to_text(join.tree)

    rows = plan_of("SELECT /*+ STATE_TTL('bid' = '1 h') */ price FROM bid")
    assert [hint.used for hint in rows.hints] == [False]
    once = plan_of("SELECT /*+ STATE_TTL('bid' = '1 h') */ DISTINCT price FROM bid")
    assert only(once, Distinct).state_ttl_ms == 3_600_000


def test_over_has_the_calls_of_the_select_list() -> None:
    """Beside GROUP BY they are left to the aggregation, which is refused for them."""
    sql = "SELECT price, SUM(price) OVER (ORDER BY ts) AS s, COUNT(*) OVER (ORDER BY ts) AS c FROM bid"
    assert len(only(plan_of(sql), Over).calls) == 2
    grouped = plan_of(
        "SELECT price, SUM(COUNT(*)) OVER (ORDER BY price) AS s FROM bid GROUP BY price"
    )
    assert shape(grouped.root) == "Aggregate(Alias bid(Scan 0))"


def test_grouping_sets_are_told_by_their_keys() -> None:
    """The key that is made for them is named as the query names it."""
    group = only(
        plan_of("SELECT auction, COUNT(*) AS n FROM bid GROUP BY ROLLUP (auction)"), Aggregate
    )

    assert group.grouping_sets == "(auction), ()"
    assert group.keys[0].text == "auction"
    assert any(key.telling_calls for key in group.keys)


def test_unions_of_hundreds_of_queries_are_built() -> None:
    """Their left side is as deep as they are many."""
    plan = plan_of(" UNION ALL ".join(["SELECT price FROM bid"] * 300))

    assert sum(1 for _ in walk(plan.root)) == 3 * 300 + 299


def test_rows_keep_their_order_of_arrival_as_long_as_each_is_one_record() -> None:
    """Joins, aggregations and unions of a table with itself lose it."""

    def arrives(sql: str) -> bool:
        return plan_of(sql).root.facts.arrival

    assert arrives("SELECT price FROM bid WHERE price > 3")
    assert arrives(f"SELECT price FROM {TUMBLE}")
    assert arrives("SELECT price FROM bid UNION ALL SELECT id FROM auction")
    assert not arrives("SELECT price FROM bid UNION ALL SELECT price FROM bid")
    assert not arrives("SELECT b.price FROM bid AS b JOIN auction AS a ON a.id = b.auction")
    assert not arrives("SELECT p FROM bid AS b (p, b, c, d, e)")
    assert not arrives("SELECT COUNT(*) AS n FROM bid")
    assert not arrives("SELECT price FROM bid LIMIT 3")
    assert not arrives("SELECT name FROM countries")
