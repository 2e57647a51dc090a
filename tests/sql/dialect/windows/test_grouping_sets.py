"""GROUP BY as sets of keys: multiplied out as SQL:1999 says, and what GROUPING and its like say of each."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from penstock.catalog.errors import InputError
from penstock.sql.dialect import Flink, parse_query, to_text
from penstock.sql.dialect.windows.grouping_sets import MOST_SETS, GroupingSets, grouping_sets_of
from penstock.sql.syntax.positions import Source, attach


def sets_of(sql: str) -> GroupingSets:
    """The sets of a query."""
    query = parse_query(sql)
    assert isinstance(query, exp.Select)
    return grouping_sets_of(query)


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("a, b", "ab"),
        ("GROUPING SETS ((a), (a, b), (), b)", "a ab - b"),
        ("ROLLUP (a, b, c)", "abc ab a -"),
        ("ROLLUP ((a, b), c)", "abc ab -"),
        ("CUBE (a, b)", "ab a b -"),
        ("CUBE ((a, b), c)", "abc ab c -"),
        ("GROUPING SETS (ROLLUP (a), CUBE (b), c)", "a - b - c"),
        ("GROUPING SETS (GROUPING SETS (a, b), ())", "a b -"),
        ("a, ROLLUP (b)", "ab a"),
        ("ROLLUP (a), ROLLUP (b)", "ab a b -"),
        ("GROUPING SETS (a, a)", "a a"),
        ("ROLLUP (a, a)", "a a -"),
        ("(a, b), ()", "ab"),
        ("t.a, GROUPING SETS (a, b)", "a ab"),
    ],
)
def test_items_are_multiplied_out(group: str, expected: str) -> None:
    """In the order of the text; a column that may leave out its table is one key."""
    found = sets_of(f"SELECT COUNT(*) FROM t GROUP BY {group}")
    names = [key.name for key in found.keys]
    shown = ["".join(names[n] for n in sorted(kept)) or "-" for kept in found.sets]

    assert " ".join(shown) == expected


def test_grouping_says_what_a_set_leaves_out() -> None:
    """As DuckDB says it of the same sets; GROUP_ID counts those that stand again (Calcite: CALCITE-1824)."""
    group = "GROUPING SETS ((a, b), (a), (b), (a), ())"
    sets = sets_of(f"SELECT COUNT(*) FROM t GROUP BY {group}")
    calls = ["GROUPING(a)", "GROUPING(b)", "GROUPING_ID(a, b)", "GROUPING_ID(b, a)"]
    nodes = [parse_query(f"SELECT {call}").expressions[0] for call in (*calls, "GROUP_ID()")]
    values = list(zip(*(sets.values(node) for node in nodes), strict=True))
    rows = duckdb.sql(f"SELECT {', '.join(calls)} FROM (SELECT 1 AS a, 2 AS b) GROUP BY {group}")

    assert sorted(row[:-1] for row in values) == sorted(rows.fetchall())
    assert [row[-1] for row in values] == [0, 0, 0, 1, 0]


@pytest.mark.parametrize(
    ("group", "words", "at"),
    [
        (f"CUBE ({', '.join(f'c{n}' for n in range(13))})", "8192 sets, and 4096 are", "c0"),
        ("ROLLUP (a), " + ", ".join(["CUBE (a, b, c, d)"] * 3), "8192 sets, and 4096 are", "a, b"),
        (", ".join(f"c{n}" for n in range(64)), "64 columns, and 63 are", "c0"),
    ],
)
def test_too_many_are_refused_at_their_place(group: str, words: str, at: str) -> None:
    """Every row counts once in each set."""
    sql = f"SELECT COUNT(*) FROM t GROUP BY {group}"
    query = attach(sqlglot.parse_one(sql, read=Flink), Source(file="a.sql", text=sql))
    assert isinstance(query, exp.Select)
    with pytest.raises(InputError, match=words) as caught:
        grouping_sets_of(query)

    assert caught.value.hint is not None
    assert caught.value.span is not None
    assert sql[caught.value.span.column - 1 :].startswith(at)


def test_as_many_as_the_limit_are_taken() -> None:
    """CUBE of twelve columns."""
    sets = sets_of(f"SELECT 1 FROM t GROUP BY CUBE ({', '.join(f'c{n}' for n in range(12))})")

    assert len(sets.sets) == len(set(sets.sets)) == MOST_SETS
    assert to_text(sets.keys[11]) == "c11"
