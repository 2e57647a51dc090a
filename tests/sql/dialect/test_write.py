"""What Spark is written, and what it has no form for."""

from __future__ import annotations

import pytest

from penstock.sql.dialect.access import parse_query
from penstock.sql.dialect.problems import NodeError
from penstock.sql.dialect.write import write_spark


@pytest.mark.parametrize("on", ["ON TRUE", "ON (TRUE)"])
def test_left_join_unnest_is_a_cross_join_of_a_function_that_keeps_rows(on: str) -> None:
    """With ON Spark would aggregate by the array, which no stream can do."""
    written = write_spark(parse_query(f"SELECT u.x FROM t LEFT JOIN UNNEST(t.a) AS u (x) {on}"))

    assert written.endswith("FROM `t` CROSS JOIN LATERAL EXPLODE_OUTER(`t`.`a`) AS `u`(`x`)")


@pytest.mark.parametrize(
    ("join", "what"),
    [
        ("JOIN UNNEST(t.tags) AS u (x) ON u.x > 1", "joined ON TRUE"),
        ("LEFT JOIN UNNEST(t.tags) AS u (x) ON u.x > 1", "joined ON TRUE"),
        ("RIGHT JOIN UNNEST(t.tags) AS u (x) ON TRUE", "not joined by RIGHT JOIN"),
        ("FULL JOIN UNNEST(t.tags) AS u (x) ON TRUE", "not joined by FULL JOIN"),
    ],
)
def test_what_unnest_does_not_do_for_a_join_is_refused(join: str, what: str) -> None:
    """Spark joins by a condition what it has aggregated, which no stream can do."""
    with pytest.raises(NodeError, match=what):
        write_spark(parse_query(f"SELECT t.id, u.x FROM t {join}"))
