"""Ties of ROW_NUMBER on Spark, in its update mode's form and in that of maintained queries, against a stable sort."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from penstock.connector.changelog import RowKind
from penstock.connector.scan import ARRIVED, ARRIVED_FIELDS
from penstock.sql.dialect import to_spark_query
from penstock.sql.plan.rules.flow import Arrival
from penstock.sql.syntax.nodes import ScanTable
from tests.sql.maintain import planned
from tests.sql.maintain.maintaining import batch_of, open_run
from tests.sql.plan.changing import plan

START = datetime(2024, 1, 1)
VIEW = "rows_with_ties"
SCHEMA = f"id LONG, k STRING, x INT, ts TIMESTAMP_NTZ, {ARRIVED} STRUCT<{', '.join(f'{n}: LONG' for n in ARRIVED_FIELDS)}>"


class Event(NamedTuple):
    """A row, in the order in which it came."""

    id: int
    k: str
    x: int
    s: int


LETTERS = {letter: number for number, letter in enumerate("abcdzyx")}
"""The first rows of each key come first, which is not the order of their names."""
EVENTS = [
    Event(LETTERS["a"], "1", 10, 10), Event(LETTERS["b"], "1", 10, 10),
    Event(LETTERS["c"], "1", 12, 12), Event(LETTERS["d"], "1", 12, 12),
    Event(LETTERS["z"], "2", 5, 12), Event(LETTERS["y"], "2", 5, 12), Event(LETTERS["x"], "2", 5, 12),
]  # fmt: skip


def ranked(order: str, limit: int) -> str:
    """Write the query."""
    bound = "n = 1" if limit == 1 else f"n <= {limit}"
    over = f"ROW_NUMBER() OVER (PARTITION BY k ORDER BY {order}) AS n"
    return f"SELECT k, id, n FROM (SELECT id, k, {over} FROM events) WHERE {bound}"


def view(spark: SparkSession, rows: Sequence[Event], batch: int = 0) -> None:
    """Show rows as a source does, in any order and in two partitions; arrival is that of ids, split by split."""
    shown: list[Any] = [
        (r.id, r.k, r.x, START + timedelta(seconds=r.s), (batch, 0, r.id // 100, r.id))
        for r in rows
    ]
    random.Random(7).shuffle(shown)
    spark.createDataFrame(shown, SCHEMA).repartition(2).createOrReplaceTempView(VIEW)


def over_view(spark: SparkSession, query: exp.Expr) -> DataFrame:
    """Give what a planned query gives for the rows."""
    tree = query.copy()
    for node in tree.find_all(ScanTable):
        node.set("this", exp.to_identifier(VIEW))
    return spark.sql(to_spark_query(tree))


def model(rows: Sequence[Event], order: str, limit: int) -> set[tuple[str, int, int]]:
    """Number rows by a sort that leaves those of equal order as they came."""
    column, _, direction = order.partition(" ")
    places = {"x": 2, "ts": 3}
    last = order == "ts DESC" and limit == 1
    found: set[tuple[str, int, int]] = set()
    for key, group in groupby(sorted(rows, key=lambda r: (r.k, r.id)), key=lambda r: r.k):
        came = sorted(group, key=lambda r: r.id, reverse=last)
        best = sorted(came, key=lambda r: r[places[column]], reverse=bool(direction))
        found |= {(key, row.id, n) for n, row in enumerate(best[:limit], 1)}
    return found


@pytest.mark.parametrize(
    ("order", "limit", "expected"),
    [
        ("x", 1, "az"),
        ("x DESC", 1, "cz"),
        ("ts", 1, "az"),
        ("ts DESC", 1, "dx"),
        ("x", 2, "abzy"),
        ("ts DESC", 2, "cdzy"),
    ],
)
def test_rows_of_equal_order_are_numbered_as_they_came(
    spark: SparkSession, order: str, limit: int, expected: str
) -> None:
    """What Flink 2.2 gives for seven rows of one file; only the last row by rowtime is the last that came."""
    view(spark, EVENTS)
    rows = over_view(spark, plan(ranked(order, limit), Arrival.RECORD).query).collect()

    assert {row["id"] for row in rows} == {LETTERS[letter] for letter in expected}
    assert {(r["k"], r["id"], r["n"]) for r in rows} == model(EVENTS, order, limit)


def draw(count: int, draws: random.Random) -> list[Event]:
    """Draw rows of few keys, most of them of equal order."""
    return [
        Event(i, f"k{draws.randrange(4)}", draws.randrange(3), draws.randrange(3))
        for i in range(count)
    ]


@pytest.mark.parametrize(("order", "limit"), [("x DESC", 1), ("ts DESC", 1), ("x", 3)])
def test_an_aggregation_gives_what_a_stable_sort_does(
    spark: SparkSession, order: str, limit: int
) -> None:
    """Over three splits, whatever the partitions that Spark makes of them."""
    rows = draw(300, random.Random(limit))
    view(spark, rows)
    found = over_view(spark, plan(ranked(order, limit), Arrival.RECORD).query).collect()

    assert {(r["k"], r["id"], r["n"]) for r in found} == model(rows, order, limit)


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize(("order", "limit"), [("x", 2), ("ts DESC", 1)])
def test_maintained_ranks_are_those_of_a_stable_sort_after_each_batch(
    spark: SparkSession, tmp_path: Path, order: str, limit: int, *, keyed: bool
) -> None:
    """Rows of a later batch come behind all before, also where its split is the first; a batch that runs again too."""
    query = planned.plan(ranked(order, limit), Arrival.RECORD).plan
    rows = draw(40, random.Random(limit))
    view(spark, rows)
    over = over_view(spark, query.query)
    run = open_run(over, query.maintained, f"file:{tmp_path}", keyed=keyed)
    given: Counter[tuple[Any, ...]] = Counter()
    for batch in (0, 1):
        view(spark, rows[batch * 20 : batch * 20 + 20], batch)
        frame = over_view(spark, query.query)
        for again in (False, True):
            with batch_of(run, frame, batch) as changes:
                found = [tuple(row) for row in changes.collect()]
            for *row, kind in () if again else found:
                came = kind in (RowKind.INSERT, RowKind.UPDATE_AFTER)
                given[tuple(row)] += 1 if came else -1

        assert set(+given) == model(rows[: batch * 20 + 20], order, limit), f"batch {batch}"
