"""Joins of changes: with a table that is looked up once a batch, and no other."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import UnsupportedError
from tests.sql.plan.changing import plan, spark_sql


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
