"""Changelog modes of whole queries: what is refused, at which operator, and what is left as it is."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.connector.changelog import ChangelogMode
from penstock.sql.dialect import to_text
from penstock.sql.plan.rules.flow import OperatorKind
from tests.sql.plan.changing import plan, spark_sql

RANKED = "(SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS rn FROM events)"
WINDOWED = "TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, x FROM events WHERE x > 1",
        "WITH e AS (SELECT * FROM events) SELECT id FROM e",
        f"SELECT window_start, window_end, COUNT(*) FROM {WINDOWED} GROUP BY window_start, window_end",
        "SELECT e.id FROM events AS e JOIN countries AS c ON e.k = c.code",
        "SELECT id FROM events UNION ALL SELECT id FROM events",
    ],
)
def test_a_query_whose_rows_stay_is_left_as_it_is(query: str) -> None:
    """Its checkpoint goes on to fit."""
    planned = plan(query)

    assert planned.flow.changes is ChangelogMode.INSERT_ONLY
    assert to_text(planned.query) == to_text(plan(query).query)
    assert "__row_kind" not in to_text(planned.query)


@pytest.mark.parametrize(
    ("query", "what", "column"),
    [
        (
            "SELECT n, COUNT(*) FROM (SELECT k, COUNT(*) AS n FROM events GROUP BY k) GROUP BY n",
            "an aggregation over the results of an aggregation",
            83,
        ),
        (
            f"SELECT x, COUNT(*) FROM {RANKED} WHERE rn = 1 GROUP BY x",
            "results of a deduplication",
            124,
        ),
        ("SELECT region, COUNT(*) FROM latest GROUP BY region", "over upserts", 46),
        (
            "SELECT e.k, COUNT(*) FROM events AS e JOIN countries AS c ON e.k = c.code GROUP BY e.k",
            "a join of streams",
            84,
        ),
        (
            "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE cdc, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
            "GROUP BY window_start, window_end",
            "TUMBLE over rows that are updated",
            28,
        ),
        ("SELECT DISTINCT id FROM cdc", "DISTINCT over rows that are updated", 17),
        ("SELECT id FROM cdc LIMIT 3", "LIMIT over rows that are updated", 26),
        ("SELECT id FROM cdc WHERE id IN (SELECT id FROM events)", "a query inside the WHERE", 40),
        ("SELECT id FROM cdc UNION SELECT id FROM events", "UNION of rows that are updated", 8),
        ("SELECT id FROM cdc UNION ALL SELECT id FROM latest", "upserts with changes that have", 8),
        ("SELECT id, SUM(x) OVER (ORDER BY ts) FROM events", "SUM OVER a stream", 12),
        (
            "SELECT k, COUNT(*) FROM events GROUP BY k UNION ALL SELECT k, COUNT(*) FROM events GROUP BY k",
            "this UNION ALL has two",
            8,
        ),
    ],
)
def test_an_operator_that_cannot_take_changes_is_refused_at_its_place(
    query: str, what: str, column: int
) -> None:
    """The message names it, the caret stands under it, and there is a way on."""
    with pytest.raises(UnsupportedError, match=what) as caught:
        plan(query)

    assert caught.value.hint
    assert caught.value.span is not None
    assert caught.value.span.column == column


def test_a_union_carries_the_kinds_of_each_part() -> None:
    """Rows of a part without changes are inserts; no key holds for all rows."""
    query = "SELECT id, region FROM cdc UNION ALL SELECT id, k FROM events"

    assert spark_sql(query) == (
        "SELECT id, region, __row_kind AS __row_kind FROM cdc UNION ALL "
        "SELECT id, k, CAST(0 AS TINYINT) AS __row_kind FROM events"
    )
    assert plan(query).flow.key is None


def test_changes_go_through_with_and_views_of_other_column_names() -> None:
    """What is named in WITH is written out; a list of names gets the hidden one too."""
    query = "WITH c (a, b) AS (SELECT id, amount FROM latest) SELECT a FROM c WHERE a > 1"

    assert spark_sql(query) == (
        "SELECT a, __row_kind AS __row_kind FROM (SELECT id, amount, __row_kind AS __row_kind FROM latest) "
        "AS c(a, b, __row_kind) WHERE a > 1"
    )
    assert plan(query).flow.key == ("a",)


def test_a_chain_in_with_is_followed() -> None:
    """A name may stand for a query over another name."""
    flow = plan(
        "WITH a AS (SELECT id, amount FROM cdc), b AS (SELECT id, SUM(amount) AS s FROM a GROUP BY id) "
        "SELECT * FROM b WHERE s > 3"
    ).flow

    assert flow.mechanism is not None
    assert flow.mechanism.way is OperatorKind.RETRACTING_AGGREGATE
    assert (flow.columns, flow.key, flow.kinds) == (("id", "s"), ("id",), True)


# --- joins of changes: with a table that is looked up once a batch, and no other ---


def test_changes_are_joined_with_a_table_that_is_looked_up() -> None:
    """It is broadcast, so that changes of a key stay in order."""
    query = "SELECT c.id, d.name FROM cdc AS c JOIN countries AS d ON c.region = d.code"
    planned = plan(query)

    assert spark_sql(query) == (
        "SELECT /*+ BROADCAST(d) */ c.id, d.name, __row_kind AS __row_kind "
        "FROM cdc AS c JOIN countries AS d ON c.region = d.code"
    )
    assert (planned.flow.key, planned.looked_up) == (("id",), {1})


def test_an_upsert_without_a_match_deletes_its_key() -> None:
    """The row that it replaces may have had one."""
    assert spark_sql(
        "SELECT c.id, d.name FROM latest AS c JOIN countries AS d ON c.region = d.code"
    ) == (
        "SELECT /*+ BROADCAST(d) */ c.id, d.name, CASE WHEN NOT d.code IS NULL AND NOT __row_kind IN (3) "
        "THEN __row_kind ELSE CAST(3 AS TINYINT) END AS __row_kind "
        "FROM latest AS c LEFT JOIN countries AS d ON c.region = d.code"
    )


def test_a_row_with_several_matches_loses_its_key() -> None:
    """The table has no PRIMARY KEY that the join compares."""
    assert (
        plan("SELECT c.id, d.note FROM cdc AS c JOIN notes AS d ON c.region = d.code").flow.key
        is None
    )
    assert plan("SELECT id, v FROM cdc CROSS JOIN UNNEST(arr) AS t (v)").flow.key is None
    assert plan("SELECT id, v FROM cdc, LATERAL TABLE(parts(region)) AS t (v)").flow.key is None


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("SELECT c.id FROM cdc AS c JOIN events AS e ON c.id = e.id", "with a stream"),
        ("SELECT c.id FROM cdc AS c JOIN latest AS l ON c.id = l.id", "or both are"),
        (
            "SELECT c.id FROM countries AS d JOIN cdc AS c ON c.region = d.code",
            "second table is updated",
        ),
        ("SELECT c.id FROM cdc AS c FULL JOIN countries AS d ON c.region = d.code", "a FULL join"),
        ("SELECT id, v FROM latest, LATERAL TABLE(parts(region)) AS t (v)", "LATERAL of upserts"),
        (
            "SELECT c.id FROM latest AS c JOIN notes AS d ON c.region = d.code",
            "several rows for one upsert",
        ),
        (
            "SELECT t.k FROM (SELECT k, COUNT(*) AS n FROM events GROUP BY k) AS t JOIN countries AS d ON t.k = d.code",
            "the results of an aggregation",
        ),
    ],
)
def test_other_joins_of_changes_are_refused(query: str, what: str) -> None:
    """With what would help."""
    with pytest.raises(UnsupportedError, match=what) as caught:
        plan(query)

    assert caught.value.hint
