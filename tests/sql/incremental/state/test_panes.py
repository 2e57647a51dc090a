"""Groups of panes: what Spark makes of the rows of a batch, and of groups that tasks have made of them."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from penstock.sql.incremental.stages import PANE, PANE_ROWS, PaneAggregate
from penstock.sql.incremental.state.panes import grouped_by_pane
from tests.sql.maintain.temporal_tables import planned

START = datetime(2026, 3, 1, 12)
COUNTED = (
    "SELECT currency, COUNT(*) AS n, COUNT(amount) AS c, SUM(amount) AS t, MIN(amount) AS l, "
    "MAX(amount) FILTER (WHERE amount < 5) AS h, window_start AS s, window_end AS e FROM "
    "TABLE(HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND)) "
    "GROUP BY currency, window_start, window_end"
)
SQL = f"SELECT a.n, a.c, a.t, a.l, a.h FROM ({COUNTED}) AS a JOIN ({COUNTED}) AS b ON a.s = b.s AND a.e = b.e"


def panes() -> PaneAggregate:
    """The stage that groups orders."""
    query = planned(SQL).maintained
    assert query is not None
    (stage,) = (one for one in query.stages if isinstance(one, PaneAggregate))
    return replace(stage, merges=False)


def orders(spark: SparkSession, seed: int) -> DataFrame:
    """Random orders, some without a time."""
    draw = random.Random(seed)
    rows = [
        (
            draw.choice(["EUR", "USD", None]),
            draw.choice([None, 1, 4, 7, -3]),
            None if draw.random() < 0.1 else START + timedelta(milliseconds=draw.randrange(9000)),
        )
        for _ in range(60)
    ]
    return spark.createDataFrame(rows, "currency STRING, amount INT, ts TIMESTAMP_NTZ")


def test_rows_of_a_pane_are_one_group(spark: SparkSession) -> None:
    """By its start, which is a multiple of the slide; those without a time are one without a pane."""
    rows = orders(spark, 1)
    groups = grouped_by_pane(panes(), rows)
    found = {(row["currency"], row[PANE]): row for row in groups.collect()}
    wanted = Counter(
        (
            row["currency"],
            None
            if row["ts"] is None
            else row["ts"].replace(second=row["ts"].second // 2 * 2, microsecond=0),
        )
        for row in rows.collect()
    )

    assert {key: row[PANE_ROWS] for key, row in found.items()} == wanted
    assert any(start is None for _, start in wanted)
    assert groups.columns == list(panes().columns)


def test_groups_of_groups_are_those_of_all_rows(spark: SparkSession) -> None:
    """So it does not matter which rows a task has grouped together."""
    stage = panes()
    parts = [orders(spark, seed) for seed in range(3)]
    rows = parts[0].unionAll(parts[1]).unionAll(parts[2])
    made = [grouped_by_pane(stage, part) for part in parts]
    of_tasks = made[0].unionAll(made[1]).unionAll(made[2]).withColumnRenamed(PANE, stage.time)

    merged = grouped_by_pane(replace(stage, merges=True), of_tasks)

    assert Counter(merged.collect()) == Counter(grouped_by_pane(stage, rows).collect())
    assert merged.schema.simpleString() == grouped_by_pane(stage, rows).schema.simpleString()


def test_each_part_is_computed_once() -> None:
    """Whatever names the query gives it."""
    calls = [part.call for part in panes().parts]

    assert len(calls) == 5
    assert [type(call) for call in calls] == [exp.Count, exp.Count, exp.Sum, exp.Min, exp.Filter]
