"""Grouping sets become a plain GROUP BY over rows that are unfolded: the tree that comes of each, and its keys."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot.errors import UnsupportedError as SqlglotUnsupportedError

from penstock.catalog.errors import InputError
from penstock.sql.dialect import Flink, flink_to_spark, parse_query, to_text
from penstock.sql.dialect.rewrites.unfold_grouping_sets import (
    described_sets,
    is_determined,
    key_text,
    unfold_group_ids,
    unfold_grouping_sets,
)
from penstock.sql.syntax.positions import Source, attach


def unfolded(sql: str) -> str:
    """The text of a query that was rewritten, without the quotes and names of what is made."""
    query = parse_query(sql)
    unfold_grouping_sets(query)
    return to_text(query).replace("`__sets`.`__set`", "s").replace("`", "")


def keys(sql: str) -> list[str]:
    """The keys of a query that was rewritten; those that the others determine in parentheses."""
    query = parse_query(sql)
    unfold_grouping_sets(query)
    found = query.args["group"].expressions
    return [f"({key_text(key)})" if is_determined(key) else key_text(key) for key in found]


OF_TWO = "FROM t CROSS JOIN UNNEST(ARRAY[0, 1]) AS __sets(__set)"
A = "CASE WHEN s IN (0) THEN a END"
BIT = "CAST(CASE WHEN s IN (0) THEN 0 ELSE 1 END AS BIGINT)"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "SELECT a, SUM(b) AS n FROM t WHERE b > 1 GROUP BY ROLLUP (a)",
            f"SELECT {A} AS a, SUM(b) AS n {OF_TWO} WHERE b > 1 GROUP BY {A}, s",
        ),
        (
            # aggregates read the column as it is, everything else as the set keeps it
            "SELECT COALESCE(t.a, 'all') AS x, COUNT(DISTINCT a) FILTER (WHERE a > 1), LISTAGG(b) WITHIN GROUP "
            "(ORDER BY a) FROM t GROUP BY ROLLUP (a) HAVING MAX(a) > 1 AND a > 2",
            f"SELECT COALESCE({A}, 'all') AS x, COUNT(DISTINCT a) FILTER(WHERE a > 1), LISTAGG(b) WITHIN GROUP "
            f"(ORDER BY a) {OF_TWO} GROUP BY {A}, s HAVING MAX(a) > 1 AND {A} > 2",
        ),
        (
            # what every set keeps stays as it is
            "SELECT window_start, a FROM t GROUP BY window_start, window_end, GROUPING SETS ((a), ())",
            f"SELECT window_start, {A} AS a {OF_TWO} GROUP BY window_start, window_end, {A}, s",
        ),
        (
            "SELECT UPPER(a), UPPER(a) || a AS x, GROUPING(UPPER(a)) FROM t GROUP BY ROLLUP (UPPER(a)), a",
            f"SELECT {A.replace('a END', 'UPPER(a) END')} AS UPPER(a), {A.replace('a END', 'UPPER(a) END')} || a AS x, "
            f"{BIT} AS GROUPING(UPPER(a)) {OF_TWO} GROUP BY a, {A.replace('a END', 'UPPER(a) END')}, {BIT}, s",
        ),
        (
            "SELECT 1 AS one, ROUND(b, 1) AS r FROM t GROUP BY ROLLUP (1), ROUND(b, 1)",
            f"SELECT {A.replace('a END', '1 END')} AS one, ROUND(b, 1) AS r {OF_TWO} "
            f"GROUP BY ROUND(b, 1), {A.replace('a END', '1 END')}, s",
        ),
        (
            "SELECT a AS b, SUM(COUNT(a)) OVER (PARTITION BY a) AS n FROM t GROUP BY ROLLUP (a) ORDER BY b, t.a",
            f"SELECT {A} AS b, SUM(COUNT(a)) OVER (PARTITION BY {A}) AS n {OF_TWO} GROUP BY {A}, s ORDER BY b, {A}",
        ),
        (
            "SELECT a, GROUPING(a) AS g, GROUPING_ID(a, b) AS h, GROUP_ID() AS i FROM t GROUP BY a, b",
            "SELECT a, CAST(0 AS BIGINT) AS g, CAST(0 AS BIGINT) AS h, CAST(0 AS BIGINT) AS i FROM t GROUP BY a, b",
        ),
        ("SELECT COUNT(*) FROM t GROUP BY GROUPING SETS (())", "SELECT COUNT(*) FROM t"),
        ("SELECT a FROM t GROUP BY GROUPING SETS ((a, b))", "SELECT a FROM t GROUP BY a, b"),
        (
            "SELECT GROUP_ID() AS g, n FROM (SELECT a AS n FROM t GROUP BY ROLLUP (a)) GROUP BY n",
            f"SELECT CAST(0 AS BIGINT) AS g, n FROM (SELECT {A} AS n {OF_TWO} GROUP BY {A}, s) GROUP BY n",
        ),
    ],
)
def test_rows_are_unfolded_and_grouped_by_what_a_set_keeps(sql: str, expected: str) -> None:
    """Columns of the result keep their names."""
    assert unfolded(sql) == expected


def test_other_queries_stay_as_they_are() -> None:
    """A plain GROUP BY, and none."""
    sql = "SELECT a, COUNT(*) FROM (SELECT a FROM t) GROUP BY a, (b)"

    assert unfolded(sql) == to_text(parse_query(sql))


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ("a, b", ["a", "b", "the grouping set"]),
        ("a, b, GROUPING_ID(a, b) AS g", ["a", "b", "GROUPING_ID(a, b)", "(the grouping set)"]),
        ("GROUPING(a) AS g, GROUPING(b)", ["a", "b", "GROUPING(a)", "GROUPING(b)", "(the grouping set)"]),
        # one of them would do
        ("GROUPING(a) AS g, GROUPING_ID(a, b)", ["a", "b", "GROUPING_ID(a, b)", "(the grouping set)"]),
        ("GROUPING(a) AS g", ["a", "b", "the grouping set"]),
        ("GROUPING_ID(a, b) + 1 AS g", ["a", "b", "the grouping set"]),
    ],
)  # fmt: skip
def test_the_set_is_a_key_that_selected_calls_may_tell(items: str, expected: list[str]) -> None:
    """So that the key of the result is known where GROUPING_ID, or all of GROUPING, are selected."""
    assert keys(f"SELECT {items}, COUNT(*) FROM t GROUP BY CUBE (a, b)") == expected


def test_the_same_set_twice_is_told_apart_by_group_id() -> None:
    """GROUPING_ID says the same of both. A constant tells nothing that its set does not."""
    sql = "SELECT {}, COUNT(*) FROM t GROUP BY GROUPING SETS ((a, 1), (a, 1), ())"

    assert keys(sql.format("GROUPING_ID(a)")) == ["a", "(1)", "the grouping set"]
    assert keys(sql.format("GROUPING_ID(a), GROUP_ID()")) == [
        "a", "(1)", "GROUPING_ID(a)", "GROUP_ID()", "(the grouping set)",
    ]  # fmt: skip


def test_the_sets_are_told_in_the_words_of_the_query() -> None:
    """For EXPLAIN, without the columns that all of them have."""
    query = parse_query("SELECT 1 FROM t GROUP BY t.a, CUBE (UPPER(b))")
    unfold_grouping_sets(query)

    assert described_sets(query) == ["(UPPER(b)), ()"]


@pytest.mark.parametrize(
    ("sql", "words", "at"),
    [
        (
            "SELECT GROUPING(c) FROM t GROUP BY ROLLUP (a, b)",
            "GROUPING takes what is in GROUP BY",
            "c)",
        ),
        ("SELECT a FROM t GROUP BY a HAVING GROUPING_ID(a, c) > 1", "GROUPING_ID takes what", "c)"),
        ("SELECT GROUP_ID() FROM t", "needs a GROUP BY", "GROUP_ID"),
        ("SELECT COUNT(*), GROUPING(a) FROM t", "needs a GROUP BY", "GROUPING"),
    ],
)
def test_a_call_that_fits_no_group_is_refused_at_its_place(sql: str, words: str, at: str) -> None:
    """With what it takes."""
    query = attach(sqlglot.parse_one(sql, read=Flink), Source(file="a.sql", text=sql))
    with pytest.raises(InputError, match=words) as caught:
        unfold_grouping_sets(query)

    assert caught.value.hint
    assert caught.value.span is not None
    assert sql[caught.value.span.column - 1 :].startswith(at)


def test_for_spark_only_what_it_has_not_is_unfolded() -> None:
    """GROUP_ID is Flink's; GROUPING SETS are Spark's own."""
    plain = "SELECT a, COUNT(*) AS n FROM t GROUP BY ROLLUP (a)"
    query = parse_query(plain)
    unfold_group_ids(query)
    spark = flink_to_spark(plain)
    unfolded_too = flink_to_spark("SELECT GROUP_ID() AS g FROM t GROUP BY GROUPING SETS ((), ())")

    assert to_text(query) == plain
    assert spark == "SELECT `a`, COUNT(*) AS `n` FROM `t` GROUP BY ROLLUP (`a`)"
    assert "LATERAL EXPLODE(ARRAY(0, 1))" in unfolded_too
    with pytest.raises(SqlglotUnsupportedError, match="GROUPING takes what is in GROUP BY"):
        flink_to_spark("SELECT GROUP_ID(), GROUPING(b) FROM t GROUP BY a")
