"""Planning of maintained queries: the feeds, the stages, the keys of what they give, and what stays refused."""

from __future__ import annotations

import re

import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.connector.changelog import ChangelogMode
from penstock.sql.dialect import to_spark_query
from penstock.sql.dialect.spark.writer import write_spark
from penstock.sql.incremental.describe import state_of
from penstock.sql.incremental.stages import RecomputeOperator
from penstock.sql.plan.explain.stages import state_of_stages
from tests.sql.maintain.planned import plan
from tests.sql.plan.changing import plan as plan_in_update_mode

BEST = (
    "(SELECT id, k, x, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x DESC) AS n FROM {table}) AS b"
)
PER_REGION = "(SELECT region, SUM(amount) AS s FROM cdc GROUP BY region) AS r"


def test_a_chain_of_aggregations_is_a_stage_for_each() -> None:
    """Sums are kept in the place of rows; the key of the last one is the query's."""
    planned = plan(
        "SELECT n, COUNT(*) AS c FROM (SELECT k, COUNT(*) AS n FROM events GROUP BY k) GROUP BY n"
    )

    assert planned.stages == [
        "group_0 = feed_0 by (k) as 1 sums: SELECT k AS k, __m0 AS n FROM feed_0",
        "group_1 = group_0 by (n) as 1 sums: SELECT n AS n, __m0 AS c FROM group_0",
    ]
    assert planned.plan.flow.key == ("n",)
    assert planned.plan.flow.changes is ChangelogMode.ALL


def test_the_streaming_query_gives_the_rows_of_each_feed_as_a_struct() -> None:
    """With the number of the feed and the time of the batch; the same table is read once under each shape."""
    planned = plan("SELECT e.id FROM events AS e JOIN cdc AS c ON e.id = c.id WHERE e.x > 1")

    assert to_spark_query(planned.plan.query).replace("`", "") == (
        "SELECT CAST(0 AS INT) AS __feed, current_timestamp() AS __time, "
        "NAMED_STRUCT('id', id, '__row_kind', __row_kind) AS __feed0, NULL AS __feed1 "
        "FROM (SELECT id, __row_kind FROM cdc) AS feed_0 UNION ALL "
        "SELECT CAST(1 AS INT) AS __feed, current_timestamp() AS __time, NULL AS __feed0, "
        "NAMED_STRUCT('id', id, 'x', x) AS __feed1 FROM (SELECT e.id AS id, e.x AS x "
        "FROM (SELECT id AS id, x AS x FROM events) AS e WHERE e.x > 1) AS feed_1"
    )


@pytest.mark.parametrize(
    ("sql", "bounds"),
    [
        (
            "SELECT /*+ STATE_TTL('e' = '1 d') */ k, COUNT(*) FROM events AS e GROUP BY k",
            ["STATE_TTL, 86400 s after the last change"],
        ),
        (
            "SELECT /*+ STATE_TTL('events' = '1 s', 'events' = '2 s') */ DISTINCT k FROM events",
            ["STATE_TTL, 2 s after the last change"],
        ),
        (
            "SELECT /*+ STATE_TTL('a' = '1 s', 'b' = '0 s') */ a.k FROM events AS a JOIN events AS b ON a.id = b.x",
            ["of the left side STATE_TTL, 1 s after the last change; of the right side none"],
        ),
        (
            "SELECT /*+ STATE_TTL('b' = '1 s', 'c' = '2 s'), STATE_TTL('c' = '3 s') */ c.id, COUNT(*) FROM events AS a "
            "JOIN cdc AS b ON a.id = b.id JOIN cdc AS c ON c.id = b.id GROUP BY c.id",
            [
                "of the left side {ttl}; of the right side STATE_TTL, 1 s after the last change",
                "of the left side {ttl}; of the right side STATE_TTL, 3 s after the last change",
                "{ttl}",
            ],
        ),
        (
            "WITH q AS (SELECT /*+ STATE_TTL('cdc' = '3 s') */ region, COUNT(*) AS n FROM cdc GROUP BY region) "
            "SELECT /*+ STATE_TTL('y' = '4 s') */ x.n FROM q AS x JOIN q AS y ON x.n = y.n",
            [
                "STATE_TTL, 3 s after the last change",
                "of the left side {ttl}; of the right side STATE_TTL, 4 s after the last change",
            ],
        ),
    ],
)
def test_a_hint_bounds_what_is_kept_of_the_relation_that_it_names(
    sql: str, bounds: list[str]
) -> None:
    """In its own SELECT, the last value of a relation; all else has the setting. What is kept is the same."""
    ttl = "table.exec.state.ttl, 60 s after the last change"
    found = plan(sql).plan.maintained
    told = [state_of_stages([stage], 60_000) for stage in found.stages]
    without = plan(re.sub(r"/\*\+.*?\*/", "", sql)).plan.maintained

    assert [state.bound or "none" for state in told if state is not None] == [
        bound.replace("{ttl}", ttl) for bound in bounds
    ]
    assert state_of(found) == state_of(without)


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT /*+ STATE_TTL('c' = '1 d') */ id FROM cdc AS c", "c"),
        (
            "SELECT /*+ STATE_TTL('c' = '1 d') */ id, n FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY region "
            "ORDER BY amount) AS n FROM cdc) AS c WHERE n <= 2",
            "c",
        ),
        (
            "SELECT /*+ STATE_TTL('w' = '1 d') */ COUNT(*) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), "
            "INTERVAL '1' HOUR)) AS w GROUP BY window_start, window_end",
            "w",
        ),
        (
            "SELECT /*+ STATE_TTL('a' = '1 d') */ a.k FROM events AS a JOIN events AS b ON a.id = b.id "
            "AND a.ts BETWEEN b.ts AND b.ts + INTERVAL '1' HOUR",
            "a",
        ),
    ],
)
def test_a_hint_that_bounds_nothing_is_refused(sql: str, name: str) -> None:
    """At its place: what it names keeps nothing, or is bounded by the watermark."""
    with pytest.raises(UnsupportedError, match=f"none of these keeps rows of '{name}'") as caught:
        plan(sql)

    assert caught.value.span is not None
    assert caught.value.span.column == sql.index("STATE_TTL(") + len("STATE_TTL(") + 1


def test_aggregates_that_are_no_sums_keep_the_rows() -> None:
    """Only the columns that they read."""
    planned = plan("SELECT region, MAX(amount) AS m, SUM(price) AS s FROM cdc GROUP BY region")

    assert planned.stages == [
        "group_0 = feed_0 by (region) rows: "
        "SELECT region AS region, MAX(amount) AS m, SUM(price) AS s FROM feed_0 GROUP BY region"
    ]
    assert planned.plan.maintained.feeds[0].columns == ("region", "amount", "price")


def test_sums_are_null_without_values() -> None:
    """As SUM and AVG are, and COUNT is not."""
    planned = plan(
        "SELECT region, SUM(amount) AS s, AVG(amount) AS a, COUNT(*) FILTER (WHERE id > 1) AS c FROM cdc "
        "GROUP BY region HAVING COUNT(*) > 2"
    )
    (stage,) = planned.plan.maintained.stages
    assert isinstance(stage, RecomputeOperator)
    (given,) = stage.inputs

    assert [write_spark(measure.value).replace("`", "") for measure in given.measures] == [
        "amount",
        "CASE WHEN NOT (amount) IS NULL THEN CAST(1 AS BIGINT) END",
        "CASE WHEN (id > 1) THEN CAST(1 AS BIGINT) END",
        "CAST(1 AS BIGINT)",
    ]
    assert planned.stages[0].endswith(
        "SELECT region AS region, CASE WHEN __m1 > 0 THEN __m0 END AS s, "
        "CASE WHEN __m1 > 0 THEN CAST(__m0 DIV __m1 AS BIGINT) END AS a, __m2 AS c FROM feed_0 WHERE __m3 > 2"
    )


def test_a_grouping_expression_is_computed_in_front_of_the_stage() -> None:
    """It is the stage's key."""
    planned = plan("SELECT amount % 3 AS r, MIN(id) AS i FROM cdc GROUP BY amount % 3")

    assert planned.stages == [
        "rows_0 = SELECT feed_0.amount % 3 AS __group0, feed_0.id AS id, feed_0.__row_kind FROM feed_0",
        "group_1 = rows_0 by (__group0) rows: SELECT __group0 AS r, MIN(id) AS i FROM rows_0 GROUP BY __group0",
    ]
    assert planned.plan.flow.key == ("r",)


def test_upserts_become_changes_first() -> None:
    """Their key is read, whether the query names it or not."""
    planned = plan("SELECT region, COUNT(*) AS n FROM latest GROUP BY region")

    assert planned.stages[0] == "normalize_0 = feed_0 by id"
    assert planned.plan.maintained.feeds[0].columns == ("id", "region")


def test_the_best_rows_of_inserts_are_all_that_is_kept() -> None:
    """Whole; rows of equal order are told apart by their other columns, and numbers that nobody reads are not given."""
    planned = plan(f"SELECT k, id FROM {BEST.format(table='events')} WHERE n <= 3")

    assert planned.stages[0] == (
        "ranks_0 = feed_0 by (k) result: SELECT id AS id, k AS k, x AS x FROM (SELECT id, k, x, "
        "ROW_NUMBER() OVER (PARTITION BY k ORDER BY x DESC, id, k) AS n FROM feed_0) AS __numbered WHERE n <= 3"
    )
    assert planned.plan.flow.key is None


@pytest.mark.parametrize(
    ("query", "key"),
    [
        (f"SELECT k, n, id FROM {BEST.format(table='events')} WHERE n <= 3", ("k", "n")),
        (f"SELECT k, id FROM {BEST.format(table='events')} WHERE n = 1", ("k",)),
        (
            "SELECT id, region FROM (SELECT id, region, RANK() OVER (PARTITION BY region ORDER BY amount) AS n "
            "FROM cdc) AS b WHERE n <= 3",
            ("id",),
        ),
        ("SELECT c.id, l.amount FROM cdc AS c LEFT JOIN latest AS l ON c.id = l.id", ("id",)),
        ("SELECT c.id AS a, l.id AS b FROM cdc AS c JOIN latest AS l ON c.region = l.region", ("a", "b")),
        ("SELECT e.x, c.id FROM events AS e JOIN cdc AS c ON e.id = c.id", None),
        (f"SELECT c.id, r.s FROM cdc AS c JOIN {PER_REGION} ON c.region = r.region", ("id",)),
        ("SELECT id FROM cdc WHERE region IN (SELECT k FROM events)", ("id",)),
        ("SELECT amount FROM cdc UNION SELECT x FROM events", ("amount",)),
        ("SELECT COUNT(*) AS n FROM cdc", ()),
        ("SELECT c.id, t.n FROM cdc AS c CROSS JOIN (SELECT COUNT(*) AS n FROM events) AS t", ("id",)),
        ("SELECT MAX(amount) AS m FROM cdc GROUP BY region", None),
    ],
)  # fmt: skip
def test_the_key_of_the_result_is_known(query: str, key: tuple[str, ...] | None) -> None:
    """Or is known not to be."""
    assert plan(query).plan.flow.key == key


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT k FROM events",
        "SELECT a.id FROM events AS a JOIN events AS b ON a.id = b.x",
        "SELECT id FROM events WHERE k IN (SELECT code FROM countries)",
        "SELECT k, id FROM (SELECT k, id, ROW_NUMBER() OVER (PARTITION BY k ORDER BY PROCTIME()) AS n FROM events) "
        "AS b WHERE n = 1",
    ],
)
def test_rows_that_stay_once_they_are_there_are_inserts(query: str) -> None:
    """Any table takes them."""
    assert plan(query).plan.flow.changes is ChangelogMode.INSERT_ONLY


def test_the_order_of_arrival_is_a_column_of_the_stage() -> None:
    """The last row that came replaces the one before."""
    planned = plan(
        "SELECT k, id FROM (SELECT k, id, ROW_NUMBER() OVER (PARTITION BY k ORDER BY PROCTIME() DESC) AS n "
        "FROM events) AS b WHERE n = 1"
    )
    (stage,) = planned.plan.maintained.stages
    assert isinstance(stage, RecomputeOperator)

    assert stage.inputs[0].arrival == "__arrival"
    assert "ORDER BY __arrival DESC" in planned.stages[0]
    assert planned.plan.flow.changes is ChangelogMode.ALL


def test_equalities_of_where_join_and_its_other_conditions_filter_first() -> None:
    """A comma is a join."""
    planned = plan("SELECT c.id, l.amount FROM cdc c, latest l WHERE c.id = l.id AND c.amount > 3")

    assert planned.stages[1:3] == [
        "rows_1 = SELECT feed_0.id AS id, feed_0.amount AS amount, feed_0.__row_kind FROM feed_0 "
        "WHERE feed_0.amount > 3",
        "join_2 = rows_1 by (id) rows, normalize_0 by (id) rows: SELECT rows_1.id AS id, rows_1.amount AS amount, "
        "normalize_0.id AS id__2, normalize_0.amount AS amount__2 FROM rows_1 JOIN normalize_0 "
        "ON rows_1.id = normalize_0.id",
    ]


def test_exists_is_a_semi_join_by_its_conditions() -> None:
    """NOT EXISTS an ANTI one."""
    planned = plan(
        "SELECT id FROM latest AS l WHERE NOT EXISTS (SELECT 1 FROM cdc WHERE cdc.id = l.id AND cdc.amount > l.amount)"
    )

    assert planned.stages[1] == (
        "join_1 = normalize_0 by (id) rows, feed_1 by (id) rows: SELECT normalize_0.id AS id, "
        "normalize_0.amount AS amount FROM normalize_0 LEFT ANTI JOIN feed_1 "
        "ON normalize_0.id = feed_1.id AND (feed_1.amount > normalize_0.amount)"
    )


def test_a_table_joined_with_itself_is_read_once() -> None:
    """The stage knows its two inputs by different names."""
    planned = plan("SELECT a.id, b.id AS other FROM cdc AS a JOIN cdc AS b ON a.region = b.region")

    assert len(planned.plan.maintained.feeds) == 1
    assert planned.stages[0] == "rows_0 = SELECT id, region, __row_kind FROM feed_0"


def test_a_query_that_is_named_twice_is_kept_once() -> None:
    """Both places read what it gives."""
    planned = plan(
        "WITH r AS (SELECT region, COUNT(*) AS n FROM cdc GROUP BY region) "
        "SELECT a.region, b.region AS other FROM r AS a JOIN r AS b ON a.n = b.n"
    )

    assert [stage.name for stage in planned.plan.maintained.stages[:3]] == [
        "group_0",
        "rows_1",
        "join_2",
    ]


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
def test_a_join_with_a_bound_in_time_is_a_stage(kind: str) -> None:
    """An outer one, too; it needs the watermark of the table, and does not wait for what Spark closes."""
    planned = plan(
        f"SELECT k, COUNT(*) AS n FROM (SELECT a.k FROM events AS a {kind} events AS b ON a.id = b.id "
        "AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' MINUTE) GROUP BY k"
    )

    names = [stage.name for stage in planned.plan.maintained.stages]
    assert names == ["rows_0", "join_1", "group_2"]
    assert planned.plan.waiting == frozenset()
    assert planned.plan.timed == {0}


def test_a_table_function_is_called_for_each_change() -> None:
    """For a row that is taken away, too: it gives the rows that go with it."""
    planned = plan(
        f"SELECT p, SUM(s) AS s FROM {PER_REGION}, LATERAL TABLE(parts(region)) AS t (p) GROUP BY p"
    )

    assert (
        "rows_1 = SELECT t.p AS p, group_0.s AS s, group_0.__row_kind FROM group_0, "
        "LATERAL PARTS(group_0.region) AS t(p)" in planned.stages
    )


def test_a_windowed_aggregation_is_left_to_spark() -> None:
    """What is aggregated over it is not."""
    planned = plan(
        "SELECT n, COUNT(*) AS c FROM (SELECT window_start, window_end, k, COUNT(*) AS n FROM TABLE(TUMBLE("
        "TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, k) GROUP BY n"
    )

    assert [stage.name for stage in planned.plan.maintained.stages] == ["group_0"]
    assert planned.plan.waiting == {0}


def test_grouping_sets_are_unfolded_where_the_rows_are_streamed() -> None:
    """No watermark is waited for; the key is known where what is selected tells the set."""
    sql = "SELECT k, {} AS g, COUNT(*) AS n FROM events GROUP BY ROLLUP (k)"
    planned, other = plan(sql.format("GROUPING(k)")), plan(sql.format("1"))
    (stage,) = planned.plan.maintained.stages

    assert planned.plan.maintained.key == ("k", "g")
    assert other.plan.maintained.key is None
    assert isinstance(stage, RecomputeOperator)
    assert stage.mechanism.key == ("k", "GROUPING(k)", "the grouping set")
    assert "LATERAL EXPLODE(ARRAY(0, 1))" in to_spark_query(planned.plan.query)
    assert planned.plan.waiting == frozenset()


@pytest.mark.parametrize(
    ("query", "what", "column"),
    [
        ("SELECT id, SUM(x) OVER (ORDER BY x) FROM events", "must be defined on a time attribute", 34),
        ("SELECT id FROM cdc LIMIT 3", "LIMIT of a stream", 26),
        ("SELECT id FROM cdc ORDER BY id", "ORDER BY of a stream", None),
        ("SELECT c.id FROM cdc c FULL JOIN latest l ON c.amount > l.amount", "without an equality", None),
        ("SELECT c.id FROM cdc c CROSS JOIN latest l", "without an equality", None),
        ("SELECT id FROM cdc NATURAL JOIN latest", "NATURAL JOIN", 20),
        ("SELECT id, CURRENT_TIMESTAMP FROM latest", "another value each time", 8),
        ("SELECT k, FIRST_VALUE(x) FROM events GROUP BY k", "depends on the order", 11),
        ("SELECT id FROM cdc WHERE id NOT IN (SELECT id FROM events)", "NOT IN", 26),
        ("SELECT id FROM cdc WHERE id = 1 OR id IN (SELECT id FROM events)", "this query inside a WHERE", None),
        ("SELECT id, (SELECT MAX(x) FROM events) FROM cdc", "a query inside an expression", None),
        (f"SELECT k, id FROM {BEST.format(table='events')}", "needs a bound", None),
        (
            "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE cdc, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
            "GROUP BY window_start, window_end",
            "ts is not a rowtime of the rows that TUMBLE reads",
            28,
        ),
        (f"SELECT s FROM {PER_REGION}, TABLE(parts('a')) AS t (p)", r"TABLE\(parts\(...\)\) is not supported", None),
        (f"SELECT s FROM {PER_REGION}, LATERAL TABLE(parts(region)) AS t", "that LATERAL gives have no names", None),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_up_to_date_is_refused_at_its_place(
    query: str, what: str, column: int | None
) -> None:
    """With what would help."""
    with pytest.raises(UnsupportedError, match=what) as caught:
        plan(query)

    assert caught.value.hint
    assert column is None or (caught.value.span is not None and caught.value.span.column == column)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT k FROM events",
        "SELECT e.id FROM events AS e LEFT JOIN events AS f ON e.id = f.id",
        "SELECT id FROM events WHERE k IN (SELECT code FROM countries)",
        "SELECT id FROM events UNION SELECT id FROM events",
        "SELECT k, id FROM (SELECT k, id, ROW_NUMBER() OVER (PARTITION BY k ORDER BY PROCTIME()) AS n FROM events) "
        "AS b WHERE n = 1",
    ],
)
def test_what_sparks_append_mode_cannot_do_is_not_tried_there(query: str) -> None:
    """Planning goes on to maintain it."""
    with pytest.raises(UnsupportedError):
        plan_in_update_mode(query)

    assert plan(query).stages
