"""Aggregations in update mode, over rows that stay and over changes."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.connector.changelog import ChangelogMode
from penstock.sql.plan.rules.flow import OperatorKind
from tests.sql.plan.changing import plan, spark_sql

SIGN = "CASE WHEN __row_kind IN (0, 2) THEN 1 ELSE -1 END"


def test_a_group_is_updated_by_its_key() -> None:
    """Without HAVING no row is ever deleted, and there is no column of kinds."""
    query = "SELECT k, COUNT(*) AS n FROM events GROUP BY k"
    flow = plan(query).flow

    assert spark_sql(query) == query
    assert (flow.changes, flow.key, flow.kinds) == (ChangelogMode.UPSERT, ("k",), False)
    assert flow.mechanism is not None
    assert (flow.mechanism.way, flow.mechanism.state) == (OperatorKind.AGGREGATE, "COUNT(*)")


def test_a_group_that_no_longer_passes_having_is_deleted() -> None:
    """Its columns are not computed."""
    assert spark_sql(
        "SELECT k, 1 / (COUNT(*) - 1) AS s FROM events GROUP BY k HAVING COUNT(*) > 1"
    ) == (
        "SELECT k, CASE WHEN (COUNT(*) > 1) THEN CAST(1 DIV (COUNT(*) - 1) AS BIGINT) END AS s, "
        "CASE WHEN (COUNT(*) > 1) THEN CAST(2 AS TINYINT) ELSE CAST(3 AS TINYINT) END AS __row_kind "
        "FROM events GROUP BY k"
    )


def test_a_filter_around_an_aggregation_deletes_too() -> None:
    """As HAVING does."""
    assert spark_sql(
        "SELECT k, n FROM (SELECT k, COUNT(*) AS n FROM events GROUP BY k) WHERE n > 1"
    ) == (
        "SELECT k, n, CASE WHEN n > 1 THEN CAST(2 AS TINYINT) ELSE CAST(3 AS TINYINT) END AS __row_kind "
        "FROM (SELECT k, COUNT(*) AS n FROM events GROUP BY k)"
    )


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("COUNT(DISTINCT x)", "CAST(SIZE(COLLECT_SET(x)) AS BIGINT)"),
        (
            "COUNT(DISTINCT x) FILTER (WHERE y > 1)",
            "CAST(SIZE(COLLECT_SET(CASE WHEN y > 1 THEN x END)) AS BIGINT)",
        ),
        (
            "COUNT(DISTINCT x, y)",
            "CAST(SIZE(COLLECT_SET(CASE WHEN NOT (x) IS NULL AND NOT (y) IS NULL THEN STRUCT(x, y) END)) AS BIGINT)",
        ),
        ("MAX(DISTINCT x)", "MAX(x)"),
        (
            "SUM(DISTINCT x)",
            "CASE WHEN NOT CAST(SIZE(COLLECT_SET(x)) AS BIGINT) = 0 "
            "THEN AGGREGATE(COLLECT_SET(x), CAST(0 AS BIGINT), (a, b) -> a + b) END",
        ),
    ],
)
def test_distinct_values_are_kept_as_a_set(value: str, written: str) -> None:
    """Spark has no DISTINCT aggregates in streams."""
    assert spark_sql(f"SELECT k, {value} AS v FROM events GROUP BY k") == (
        f"SELECT k, {written} AS v FROM events GROUP BY k"
    )


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("COUNT(*)", f"SUM({SIGN})"),
        ("COUNT(amount)", f"SUM(CASE WHEN NOT (amount) IS NULL THEN {SIGN} ELSE 0 END)"),
        ("COUNT(*) FILTER (WHERE id > 1)", f"SUM(CASE WHEN id > 1 THEN {SIGN} ELSE 0 END)"),
        (
            "SUM(amount)",
            f"CASE WHEN SUM(CASE WHEN NOT (amount) IS NULL THEN {SIGN} ELSE 0 END) > 0 "
            "THEN SUM(CASE WHEN __row_kind IN (0, 2) THEN amount ELSE 0 - (amount) END) END",
        ),
    ],
)
def test_what_goes_is_subtracted_and_an_empty_group_is_deleted(value: str, written: str) -> None:
    """A value of which only NULLs are left is NULL again."""
    some = f"SUM({SIGN}) > 0"
    guarded = written if written.startswith("SUM") else f"CASE WHEN {some} THEN {written} END"

    assert spark_sql(f"SELECT region, {value} AS v FROM cdc GROUP BY region") == (
        f"SELECT region, {guarded} AS v, CASE WHEN {some} THEN CAST(2 AS TINYINT) ELSE CAST(3 AS TINYINT) END "
        "AS __row_kind FROM cdc GROUP BY region"
    )


@pytest.mark.parametrize("value", ["MIN(amount)", "COUNT(DISTINCT amount)", "ARRAY_AGG(amount)"])
def test_what_cannot_be_subtracted_is_refused(value: str) -> None:
    """It would need every value that ever came."""
    with pytest.raises(UnsupportedError, match="cannot take rows back") as caught:
        plan(f"SELECT region, {value} FROM cdc GROUP BY region")

    assert caught.value.hint is not None
    assert "SUM, COUNT and AVG can" in caught.value.hint


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("SELECT COUNT(*) FROM events GROUP BY k", "the grouping column k is not selected"),
        (
            "SELECT COALESCE(k, 'a') FROM events GROUP BY ROLLUP (k)",
            "the grouping column k is not selected",
        ),
        ("SELECT k, COUNT(*) FROM events GROUP BY ROLLUP(k)", "the grouping set is not selected"),
        ("SELECT k, SUM(DISTINCT id + 0.5) FROM events GROUP BY k", "is not supported in a stream"),
        ("SELECT k, ARRAY_AGG(DISTINCT x) FROM events GROUP BY k", "is not supported in a stream"),
    ],
)
def test_aggregations_that_cannot_be_updated_are_refused(query: str, what: str) -> None:
    """Before anything runs."""
    with pytest.raises(UnsupportedError, match=what):
        plan(query)


KEPT = "CASE WHEN __sets.__set IN (0) THEN k END"


def test_grouping_sets_are_updated_by_their_columns_and_the_set() -> None:
    """Under the names that the result has for them; DISTINCT values are those of the column as it is."""
    query = (
        "SELECT k AS name, COUNT(DISTINCT k) AS n, GROUPING(k) AS g FROM events GROUP BY ROLLUP (k)"
    )
    flow = plan(query).flow
    bit = "CAST(CASE WHEN __sets.__set IN (0) THEN 0 ELSE 1 END AS BIGINT)"

    assert spark_sql(query) == (
        f"SELECT {KEPT} AS name, CAST(SIZE(COLLECT_SET(k)) AS BIGINT) AS n, {bit} AS g FROM events "
        f"CROSS JOIN LATERAL EXPLODE(ARRAY(0, 1)) AS __sets(__set) GROUP BY {KEPT}, {bit}, __sets.__set"
    )
    assert (flow.changes, flow.key, flow.kinds) == (ChangelogMode.UPSERT, ("name", "g"), False)
    assert flow.mechanism is not None
    assert (flow.mechanism.way, flow.mechanism.key) == (OperatorKind.AGGREGATE, ("name", "g"))


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("SELECT k, x, GROUPING_ID(x, k) AS g FROM events GROUP BY CUBE (k, x)", ("k", "x", "g")),
        ("SELECT x, k, GROUPING(k) a, GROUPING(x) b FROM events GROUP BY CUBE (k, x)", ("k", "x", "a", "b")),
        ("SELECT k, GROUP_ID() AS g FROM events GROUP BY GROUPING SETS (k, k)", ("k", "g")),
        ("SELECT k, x FROM events GROUP BY GROUPING SETS ((k, x))", ("k", "x")),
        ("SELECT 1 AS one, GROUPING(1) AS g FROM events GROUP BY ROLLUP (1)", ("g",)),
    ],
)  # fmt: skip
def test_the_key_of_grouping_sets_has_what_tells_the_set(query: str, key: tuple[str, ...]) -> None:
    """A constant tells nothing more."""
    assert plan(query).flow.key == key


def test_grouping_sets_take_rows_back_from_every_set() -> None:
    """What goes is unfolded as what comes."""
    text = spark_sql(
        "SELECT region, GROUPING(region) AS g, SUM(amount) AS s FROM cdc GROUP BY ROLLUP (region)"
    )

    assert "SUM(CASE WHEN __row_kind IN (0, 2) THEN amount ELSE 0 - (amount) END)" in text
    assert "FROM cdc CROSS JOIN LATERAL EXPLODE(ARRAY(0, 1))" in text
    assert text.count("__row_kind IN") == 4


def test_what_tells_the_set_is_named_where_it_is_missing() -> None:
    """With the calls to select."""
    with pytest.raises(UnsupportedError) as caught:
        plan("SELECT k, x FROM events GROUP BY GROUPING SETS ((k, x), (k, x), x, ())")

    assert caught.value.message.startswith("the grouping set is not selected")
    assert caught.value.hint == (
        "select GROUPING_ID(k, x) and GROUP_ID(), and make it part of the target's PRIMARY KEY"
    )
