"""Time to live by operator, from SQL: a key that nothing comes for begins again, one that is written to stays.

As Flink's state with StateTtlConfig.UpdateType.OnCreateAndWrite: what is only read is not renewed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.connector.changelog import ChangelogMode
from tests.sql.maintain.driven import AFTER, BEFORE, DELETE, INSERT, Driven, Row, planned
from tests.sql.maintain.maintaining import Change

TTL_MS = 10_000
Step = tuple[int, dict[str, Sequence[Row]], list[Change]]
"""The time of a batch in seconds, its rows, and its changes, sorted."""


def event(number: int, k: str = "a", x: int = 0) -> Row:
    """A row of `events`."""
    return (number, k, x, number)


def change(kind: int, number: int, region: str = "a", amount: int = 0) -> Row:
    """A row of `cdc`, or of `latest`."""
    return (number, region, amount, 0, kind)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A query, and batch by batch what comes and what it makes of that."""

    sql: str
    steps: Sequence[Step]
    waits: bool = False

    def upto(self, rows: dict[str, Sequence[Row]]) -> int | None:
        """The watermark of a batch, which passes all that come in it; None where nothing waits for one."""
        return max(row[3] for of in rows.values() for row in of) if self.waits else None


def numbered(order: str, bound: int = 1, table: str = "events", more: str = "") -> str:
    """The first rows of each `k` by an order."""
    key = "k" if table == "events" else "region"
    numbers = f"ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY {order}) AS n"
    return f"SELECT id, {key}{more} FROM (SELECT *, {numbers} FROM {table}) WHERE n <= {bound}"


def over(frame: str) -> str:
    """A sum over a frame, by processing time."""
    return f"SELECT id, SUM(x) OVER (PARTITION BY k ORDER BY PROCTIME(){frame}) FROM events"


ROWS = " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"
SETS = "SELECT k, x FROM events {} SELECT region, amount FROM cdc"
CASES = {
    # each row renews its key, and a result of inserts has it once
    "DISTINCT": Case(
        sql="SELECT DISTINCT k FROM events",
        steps=[
            (0, {"events": [event(1)]}, [("a", INSERT)]),
            (6, {"events": [event(2), event(3)]}, []),
            (12, {"events": [event(4)]}, []),
            (22, {"events": [event(5)]}, [("a", INSERT)]),
        ],
    ),
    # a row of a key that is there is an update, from which what stands behind learns of it
    "DISTINCT of changes": Case(
        sql="SELECT DISTINCT region FROM cdc",
        steps=[
            (0, {"cdc": [change(INSERT, 1)]}, [("a", INSERT)]),
            (6, {"cdc": [change(INSERT, 2)]}, [("a", BEFORE), ("a", AFTER)]),
            (12, {"cdc": [change(DELETE, 1)]}, [("a", BEFORE), ("a", AFTER)]),
            (23, {"cdc": [change(DELETE, 2)]}, []),
            (24, {"cdc": [change(INSERT, 3)]}, [("a", INSERT)]),
        ],
    ),
    "UNION of inserts": Case(
        sql="SELECT k FROM events WHERE id < 5 UNION SELECT k FROM events WHERE id >= 5",
        steps=[
            (0, {"events": [event(1)]}, [("a", INSERT)]),
            (6, {"events": [event(6)]}, []),
            (12, {"events": [event(7)]}, []),
            (22, {"events": [event(2)]}, [("a", INSERT)]),
        ],
    ),
    "UNION": Case(
        sql="SELECT k FROM events UNION SELECT region FROM cdc",
        steps=[
            (0, {"events": [event(1)]}, [("a", INSERT)]),
            (6, {"cdc": [change(INSERT, 1)]}, [("a", BEFORE), ("a", AFTER)]),
            (12, {"events": [event(2)]}, [("a", BEFORE), ("a", AFTER)]),
            (22, {"cdc": [change(INSERT, 2)]}, [("a", INSERT)]),
        ],
    ),
    # a row of the right side writes the row of the left one that it matches, and not the other way round
    "INTERSECT": Case(
        sql=SETS.format("INTERSECT"),
        steps=[
            (0, {"events": [event(1)]}, []),
            (6, {"cdc": [change(INSERT, 1)]}, [("a", 0, INSERT)]),
            (12, {"cdc": [change(DELETE, 1)]}, [("a", 0, DELETE)]),
            (13, {"cdc": [change(INSERT, 2)]}, [("a", 0, INSERT)]),
            (19, {"events": [event(2)]}, [("a", 0, BEFORE), ("a", 0, AFTER)]),
            (25, {"events": [event(3)]}, []),
            (26, {"cdc": [change(INSERT, 3)]}, [("a", 0, INSERT)]),
            (40, {"cdc": [change(INSERT, 4)]}, []),
        ],
    ),
    "EXCEPT": Case(
        sql=SETS.format("EXCEPT"),
        steps=[
            (0, {"events": [event(1)]}, [("a", 0, INSERT)]),
            (6, {"cdc": [change(INSERT, 1)]}, [("a", 0, DELETE)]),
            (12, {"cdc": [change(DELETE, 1)]}, [("a", 0, INSERT)]),
            (30, {"cdc": [change(INSERT, 2)]}, []),
            (31, {"events": [event(2)]}, []),
            (41, {"events": [event(3)]}, [("a", 0, INSERT)]),
        ],
    ),
    # rows of both sides are counted in one state
    "INTERSECT ALL": Case(
        sql=SETS.format("INTERSECT ALL"),
        steps=[
            (0, {"events": [event(1), event(2)]}, []),
            (6, {"cdc": [change(INSERT, 1)]}, [("a", 0, INSERT)]),
            (12, {"cdc": [change(INSERT, 2)]}, [("a", 0, INSERT)]),
            (21, {"events": [event(3)]}, []),
            (30, {"cdc": [change(INSERT, 3)]}, [("a", 0, INSERT)]),
            (41, {"cdc": [change(INSERT, 4)]}, []),
        ],
    ),
    # the first row is only read when others come
    "the first row that came": Case(
        sql=numbered("PROCTIME()"),
        steps=[
            (0, {"events": [event(1)]}, [(1, "a", INSERT)]),
            (6, {"events": [event(2)]}, []),
            (12, {"events": [event(3)]}, [(3, "a", INSERT)]),
            (13, {"events": [event(4)]}, []),
        ],
    ),
    "the last row that came": Case(
        sql=numbered("PROCTIME() DESC"),
        steps=[
            (0, {"events": [event(1)]}, [(1, "a", INSERT)]),
            (6, {"events": [event(2)]}, [(1, "a", BEFORE), (2, "a", AFTER)]),
            (12, {"events": [event(3)]}, [(2, "a", BEFORE), (3, "a", AFTER)]),
            (22, {"events": [event(4)]}, [(4, "a", INSERT)]),
        ],
    ),
    "the first row by time": Case(
        sql=numbered("ts"),
        steps=[
            (0, {"events": [event(5)]}, [(5, "a", INSERT)]),
            (6, {"events": [event(4)]}, [(4, "a", AFTER), (5, "a", BEFORE)]),
            (12, {"events": [event(3)]}, [(3, "a", AFTER), (4, "a", BEFORE)]),
            (22, {"events": [event(9)]}, [(9, "a", INSERT)]),
        ],
    ),
    # a row that is not among the best is not written
    "Top-N of inserts": Case(
        sql=numbered("x DESC, id", 2),
        steps=[
            (0, {"events": [event(1, x=5), event(2, x=4)]}, [(1, "a", INSERT), (2, "a", INSERT)]),
            (6, {"events": [event(3, x=9)]}, [(2, "a", DELETE), (3, "a", INSERT)]),
            (12, {"events": [event(4, x=1)]}, []),
            (16, {"events": [event(5, x=0)]}, [(5, "a", INSERT)]),
        ],
    ),
    # any change of a key does
    "Top-N of changes": Case(
        sql=numbered("amount DESC, id", 1, "cdc", ", amount"),
        steps=[
            (0, {"cdc": [change(INSERT, 1, amount=5)]}, [(1, "a", 5, INSERT)]),
            (6, {"cdc": [change(INSERT, 2, amount=3)]}, [(1, "a", 5, BEFORE), (1, "a", 5, AFTER)]),
            (12, {"cdc": [change(DELETE, 1, amount=5)]}, [(1, "a", 5, BEFORE), (2, "a", 3, AFTER)]),
            (22, {"cdc": [change(INSERT, 3, amount=1)]}, [(3, "a", 1, INSERT)]),
        ],
    ),
    "OVER, a total": Case(
        sql=over(""),
        steps=[
            (0, {"events": [event(1, x=5)]}, [(1, 5, INSERT)]),
            (6, {"events": [event(2, x=1)]}, [(2, 6, INSERT)]),
            (12, {"events": [event(3, x=1)]}, [(3, 7, INSERT)]),
            (22, {"events": [event(4, x=2)]}, [(4, 2, INSERT)]),
        ],
    ),
    "OVER, rows": Case(
        sql=over(ROWS),
        steps=[
            (0, {"events": [event(1, x=5)]}, [(1, 5, INSERT)]),
            (6, {"events": [event(2, x=1)]}, [(2, 6, INSERT)]),
            (12, {"events": [event(3, x=1)]}, [(3, 2, INSERT)]),
            (22, {"events": [event(4, x=2)]}, [(4, 2, INSERT)]),
        ],
    ),
    "OVER by event time, a total": Case(
        sql="SELECT id, SUM(x) OVER (PARTITION BY k ORDER BY ts) FROM events",
        waits=True,
        steps=[
            (0, {"events": [event(1, x=5)]}, [(1, 5, INSERT)]),
            (6, {"events": [event(2, x=1)]}, [(2, 6, INSERT)]),
            (12, {"events": [event(3, x=1)]}, [(3, 7, INSERT)]),
            (22, {"events": [event(4, x=2)]}, [(4, 2, INSERT)]),
        ],
    ),
    "MIN and MAX": Case(
        sql="SELECT k, MIN(x), MAX(x) FROM events GROUP BY k",
        steps=[
            (0, {"events": [event(1, x=5)]}, [("a", 5, 5, INSERT)]),
            (6, {"events": [event(2, x=5)]}, [("a", 5, 5, BEFORE), ("a", 5, 5, AFTER)]),
            (12, {"events": [event(3, x=7)]}, [("a", 5, 5, BEFORE), ("a", 5, 7, AFTER)]),
            (22, {"events": [event(4, x=6)]}, [("a", 6, 6, INSERT)]),
        ],
    ),
}


BY_SPARK = ("DISTINCT", "INTERSECT", "the first row that came", "Top-N of inserts", "OVER, rows")
"""Cases that `make test` runs by stages of Spark, too."""
RUNS = [
    pytest.param(
        name,
        keyed,
        marks=() if keyed or name in BY_SPARK else pytest.mark.nightly,
        id=f"{name} {'keyed' if keyed else 'recomputed'}",
    )
    for name in CASES
    for keyed in (True, False)
]


@pytest.mark.parametrize(("name", "keyed"), RUNS)
def test_a_key_that_is_silent_begins_again(
    spark: SparkSession, tmp_path: Path, name: str, *, keyed: bool
) -> None:
    """By keyed operators as by stages of Spark; a result of inserts has no other changes."""
    case = CASES[name]
    query = planned(case.sql, TTL_MS)
    driven = Driven(spark, tmp_path, query, ttl_ms=TTL_MS, keyed=keyed)
    found = [
        sorted(driven.give(now_s, upto=case.upto(rows), **rows)) for now_s, rows, _ in case.steps
    ]

    assert found == [sorted(changes) for _, _, changes in case.steps]
    if query.flow.changes is ChangelogMode.INSERT_ONLY:
        assert {row[-1] for step in found for row in step} == {INSERT}
