"""The changes of a query that is followed on the screen."""

from __future__ import annotations

import pytest
import sqlglot

from penstock.sql.dialect.unfolded_sets import unfold_grouping_sets
from penstock.sql.run.live_select import Changes, result_key


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        ("SELECT COUNT(*) AS n, a FROM t GROUP BY a", (1,)),
        ("SELECT b AS x, a, COUNT(*) FROM t GROUP BY a, b", (1, 0)),
        ("SELECT a + 1 AS k, COUNT(*) FROM t GROUP BY a + 1", (0,)),
        ("SELECT COUNT(*), a + 1 FROM t GROUP BY a + 1", (1,)),
        ("SELECT COUNT(*), GROUPING_ID(a, b), b, a FROM t GROUP BY CUBE (a, b)", (3, 2, 1)),
        ("SELECT COUNT(*), b, a FROM t GROUP BY CUBE (a, b)", None),
        ("SELECT COUNT(*) FROM t", ()),
        ("SELECT COUNT(*) FROM t GROUP BY a", None),
        ("SELECT 1 UNION ALL SELECT 2", None),
    ],
)
def test_rows_are_told_apart_by_the_columns_that_group_them(
    sql: str, key: tuple[int, ...] | None
) -> None:
    """Where all of them are selected."""
    query = sqlglot.parse_one(sql, read="flink")
    unfold_grouping_sets(query)

    assert result_key(query) == key


def test_a_row_replaces_the_one_of_its_key() -> None:
    """The first is an insert, later ones say what they replace, as in Flink's client."""
    changes = Changes(key=(0,))

    assert changes.of(("a", 1)) == [("+I", "a", 1)]
    assert changes.of(("b", 1)) == [("+I", "b", 1)]
    assert changes.of(("a", 2)) == [("-U", "a", 1), ("+U", "a", 2)]


def test_rows_without_their_key_are_updates() -> None:
    """What they replace is not known."""
    assert Changes(key=None).of((3,)) == [("+U", 3)]
