"""ROW_NUMBER as an aggregation: the best row of each key, the n best under their numbers."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.sql.plan.rules.flow import OperatorKind
from tests.sql.plan.changing import plan, spark_sql


def ranked(order: str, bound: str, columns: str = "k, rn, id") -> str:
    """Write the pattern over events."""
    over = f"ROW_NUMBER() OVER (PARTITION BY k ORDER BY {order}) AS rn"
    return f"SELECT {columns} FROM (SELECT id, k, x, {over} FROM events) WHERE {bound}"


@pytest.mark.parametrize(
    ("order", "function", "way"),
    [("ts DESC", "MAX_BY", OperatorKind.LAST_ROW), ("ts", "MIN_BY", OperatorKind.FIRST_ROW)],
)
def test_the_first_or_last_row_of_a_key_is_kept_whole(
    order: str, function: str, way: OperatorKind
) -> None:
    """Flink's deduplication."""
    query = ranked(order, "rn = 1", "k, id")
    flow = plan(query).flow

    assert spark_sql(query) == (
        "SELECT k, id FROM (SELECT __best.id AS id, __best.k AS k, __best.x AS x, CAST(1 AS BIGINT) AS rn FROM "
        f"(SELECT __key0, {function}(__row_of_key, __order) AS __best FROM (SELECT k AS __key0, "
        "NAMED_STRUCT('id', id, 'k', k, 'x', x) AS __row_of_key, STRUCT(ts) AS __order FROM events) AS __rows "
        "GROUP BY __key0) AS __keys)"
    )
    assert flow.mechanism is not None
    assert (flow.mechanism.way, flow.key, flow.kinds) == (way, ("k",), False)


def test_the_best_rows_come_under_their_numbers() -> None:
    """Key and number are the key of the result."""
    query = ranked("x DESC", "rn <= 3")

    assert "MAX_BY(__row_of_key, __order, 3)" in spark_sql(query)
    assert "CROSS JOIN LATERAL EXPLODE(__ranked)" in spark_sql(query)
    assert plan(query).flow.key == ("k", "rn")


@pytest.mark.parametrize(
    ("bound", "count", "rest"),
    [
        ("rn < 3", 2, ""),
        ("4 >= rn", 4, ""),
        ("rn = 2", 2, " WHERE rn = 2"),
        ("rn > 1 AND rn <= 3", 3, " WHERE rn > 1"),
    ],
)
def test_the_bound_says_how_many_are_kept(bound: str, count: int, rest: str) -> None:
    """What else it says of the number is a filter by the key."""
    written = spark_sql(ranked("x", bound))

    assert f"MIN_BY(__row_of_key, __order, {count})" in written
    assert written.endswith(f"AS __u(__row_of_key)){rest}")


def test_a_filter_behind_the_bound_deletes() -> None:
    """The row of this number may have passed before."""
    assert (
        "CASE WHEN x > 5 THEN CAST(2 AS TINYINT) ELSE CAST(3 AS TINYINT) END AS __row_kind"
        in spark_sql(ranked("ts", "rn = 1 AND x > 5", "k, x"))
    )


@pytest.mark.parametrize(
    ("order", "written"),
    [
        ("k DESC, x", "STRUCT(k, ~(x))"),
        ("k DESC, y", "STRUCT(k, -(y))"),
        ("x DESC, ts", "STRUCT(x, -UNIX_MICROS(CAST(ts AS TIMESTAMP)))"),
        ("x, y", "STRUCT(x, y)"),
    ],
)
def test_numbers_and_times_are_turned_round_where_directions_mix(order: str, written: str) -> None:
    """~x is the order of -x without its overflow."""
    query = (
        f"SELECT * FROM (SELECT id, k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {order}) AS rn FROM events) "
        "WHERE rn <= 2"
    )

    assert f"{written} AS __order" in spark_sql(query)


@pytest.mark.parametrize(
    ("query", "what"),
    [
        (ranked("x", "x > 1"), "ROW_NUMBER OVER a stream"),
        (ranked("x", "rn <= 20000"), "more than the 10000"),
        (ranked("x", "rn <= 3", "k, id"), "'rn', by which the rows are told apart"),
        (ranked("x, k DESC", "rn <= 3"), "mixes ASC and DESC"),
        (ranked("x NULLS LAST", "rn <= 3"), "NULLS FIRST and NULLS LAST"),
        (ranked("x", "rn = 1").replace("id, k, x, ROW", "id, x, ROW").replace("k, rn, id", "id"), "PARTITION BY k"),
        (ranked("x", "rn = 1").replace("ROW_NUMBER", "RANK"), "RANK.* of a stream"),
        (ranked("amount", "rn = 1", "id").replace("id, k, x,", "id,").replace("k ORDER", "id ORDER").replace(
            "events", "cdc"), "over rows that are updated or deleted"),
    ],
)  # fmt: skip
def test_rankings_that_cannot_be_kept_are_refused(query: str, what: str) -> None:
    """With what would help."""
    with pytest.raises(UnsupportedError, match=what):
        plan(query)
