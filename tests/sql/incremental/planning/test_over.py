"""OVER aggregates batch by batch: what DuckDB gives over the rows that are settled, whatever comes when."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.connector.changelog import RowKind
from penstock.sql.checkpoint.watermarks import Watermarks
from penstock.sql.incremental.stages import INPUT_INDEX, INPUT_TIME, input_column
from tests.sql.maintain.batches import Batches, epoch_ms

Row = tuple[Any, ...]
START = datetime(2026, 3, 29, 0, 59, 30)  # in Europe clocks jump half a minute later
TYPES = {"id": "INT", "currency": "STRING", "amount": "INT", "ts": "TIMESTAMP_NTZ"}
PARTITION = "PARTITION BY currency ORDER BY ts"


def at(seconds: int) -> datetime:
    """A time of the tests."""
    return START + timedelta(seconds=seconds)


def ms(seconds: int) -> int:
    """The same as a watermark."""
    return epoch_ms(at(seconds))


@dataclass
class Running(Batches):
    """A query over orders (id, currency, amount, ts), batch by batch."""

    clock: datetime = datetime(2026, 4, 1, tzinfo=UTC)
    before: int | None = None
    last: int | None = None

    def give(self, orders: Sequence[Row], watermark: int | None) -> list[Row]:
        """Run a batch up to a watermark, in seconds; all that it gives are inserts, in this order."""
        now = None if watermark is None else ms(watermark)
        span = Watermarks(before_ms=[self.before], now_ms=[now])
        with self.run.batch(self.frame(orders), self.batches, span) as changes:
            rows = [tuple(row) for row in changes.collect()]
        self.last, self.before, self.batches = self.before, now, self.batches + 1
        assert {row[-1] for row in rows} <= {int(RowKind.INSERT)}
        return [row[:-1] for row in rows]

    def again(self, orders: Sequence[Row], watermark: int | None) -> list[Row]:
        """Run the last batch again, in another process."""
        self.restart()
        self.before, self.batches = self.last, self.batches - 1
        return self.give(orders, watermark)

    def frame(self, orders: Sequence[Row]) -> DataFrame:
        """What the streaming query gives."""
        (feed,) = self.query.feeds
        places = [list(TYPES).index(name) for name in feed.columns]
        rows = [(0, self.clock, tuple(row[place] for place in places)) for row in orders]
        columns = ", ".join(f"{name}: {TYPES[name]}" for name in feed.columns)
        schema = f"{INPUT_INDEX} INT, {INPUT_TIME} TIMESTAMP, {input_column(0)} STRUCT<{columns}>"
        return self.spark.createDataFrame(rows, schema).coalesce(1)


def drawn(draw: random.Random, first: int, upto: int, bound: int | None) -> list[Row]:
    """Orders out of order, many at one time, with NULLs, some behind the watermark."""
    return [
        (
            first + n,
            draw.choice(["EUR", "USD", None]),
            draw.choice([None, *range(6)]),
            at(draw.randrange(0 if bound is None else bound - 3, upto)),
        )
        for n in range(14)
    ]


def settled(values: str, orders: Sequence[Row], upto: int) -> Counter[Row]:
    """What a query gives for the orders up to a time, by another engine; `orders` in the order of arrival."""
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE orders (id INT, currency TEXT, amount INT, ts TIMESTAMP, n INT)"
        )
        rows = [(*row, n) for n, row in enumerate(orders)]
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", rows)
        connection.execute(f"CREATE TABLE found AS SELECT id, {values}, ts FROM orders")
        return Counter(
            connection.execute(
                "SELECT * EXCLUDE (ts) FROM found WHERE ts <= ?", [at(upto)]
            ).fetchall()
        )


AGGREGATES = {
    "COUNT(*)": "COUNT(*)",
    "COUNT(amount)": "COUNT(amount)",
    "SUM(amount)": "SUM(amount)",
    "SUM(amount) FILTER (WHERE amount > 2)": "SUM(amount) FILTER (WHERE amount > 2)",
    "COUNT(*) FILTER (WHERE amount > 2)": "COUNT(*) FILTER (WHERE amount > 2)",
    "AVG(amount)": "CAST(TRUNC(AVG(amount) OVER {w}) AS INT)",
    "AVG(CAST(amount AS DOUBLE))": "AVG(amount)",
    "MIN(amount)": "MIN(amount)",
    "MAX(amount)": "MAX(amount)",
    "FIRST_VALUE(amount)": "FIRST_VALUE(amount {order} IGNORE NULLS)",
    "LAST_VALUE(amount)": "LAST_VALUE(amount {order} IGNORE NULLS)",
}
DISTINCT = {
    "COUNT(DISTINCT amount)": "COUNT(DISTINCT amount)",
    "SUM(DISTINCT amount)": "SUM(DISTINCT amount)",
    "MAX(DISTINCT amount)": "MAX(amount)",
    "COUNT(DISTINCT amount) FILTER (WHERE amount > 2)": "COUNT(DISTINCT amount) FILTER (WHERE amount > 2)",
    "LISTAGG(CAST(amount AS STRING), '-')": "STRING_AGG(CAST(amount AS TEXT), '-' {order})",
}
SECONDS = "RANGE BETWEEN INTERVAL '7' SECOND PRECEDING AND CURRENT ROW"
LAGS = {call: call for call in ("LAG(amount)", "LAG(id, 3, -1)")}
NUMBER = {"ROW_NUMBER()": "ROW_NUMBER()"}
CASES = [
    (SECONDS, AGGREGATES, {}),
    ("ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", DISTINCT, LAGS),
    pytest.param("", AGGREGATES, NUMBER, marks=pytest.mark.nightly),
    pytest.param(SECONDS, DISTINCT, LAGS | NUMBER, marks=pytest.mark.nightly),
    pytest.param(
        "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", AGGREGATES, NUMBER, marks=pytest.mark.nightly
    ),
    pytest.param("ROWS UNBOUNDED PRECEDING", AGGREGATES, LAGS, marks=pytest.mark.nightly),
    pytest.param("RANGE UNBOUNDED PRECEDING", DISTINCT, LAGS | NUMBER, marks=pytest.mark.nightly),
]


@pytest.mark.parametrize(("frame", "framed", "numbers"), CASES)
def test_each_row_comes_when_the_watermark_has_passed_it_with_what_was_before(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    frame: str,
    framed: dict[str, str],
    numbers: dict[str, str],
) -> None:
    """The same when a batch is run again, and from state that was put together; late rows are dropped and counted."""
    monkeypatch.setattr("penstock.sql.incremental.state.state_table.MOST_BATCHES", 2)
    own = [f"{call} OVER w" for call in (*framed, *numbers)]
    running = Running(
        spark,
        tmp_path,
        f"SELECT id, {', '.join(own)} FROM orders WINDOW w AS ({PARTITION} {frame})",
    )
    by_row, draw, orders = "ROWS" in frame, random.Random(5), list[Row]()
    order = "ORDER BY ts, n"
    window = f"(PARTITION BY currency ORDER BY ts{', n' if by_row else ''} {frame})"
    calls = [call if "{w}" in call else call + " OVER {w}" for call in framed.values()]
    values = [call.format(order=order, w=window) for call in calls]
    values += [f"{call} OVER (PARTITION BY currency {order})" for call in numbers.values()]
    bound, given, late = None, Counter[Row](), 0
    for number, now in enumerate([8, 15, 30]):
        batch = [*drawn(draw, number * 14, now + 6, bound), (-1, "EUR", 1, None)]
        found = Counter(running.give(batch, now))
        late += running.run.late_rows
        if now == 15:
            assert Counter(running.again(batch, now)) == found
        given += found
        orders += [row for row in batch if row[3] and (bound is None or row[3] > at(bound))]
        bound = now

        assert given == settled(", ".join(values), orders, now)
    assert late == 3 * 15 - len(orders) > 3
    assert len(list(tmp_path.glob("*/base=*"))) > 0


def test_rows_are_given_in_the_order_in_which_they_come(
    spark: SparkSession, tmp_path: Path
) -> None:
    """By PROCTIME() whatever their times are: totals of all before, and the row before."""
    running = Running(
        spark,
        tmp_path,
        "SELECT id, SUM(amount) OVER w, LAST_VALUE(amount) OVER w, LAG(id, 2) OVER w FROM orders "
        "WINDOW w AS (PARTITION BY currency ORDER BY pt)",
    )
    draw, orders, given = random.Random(9), list[Row](), Counter[Row]()
    for number in range(3):
        batch = drawn(draw, number * 14, 20, None)
        given += Counter(running.give(batch, None))
        orders += batch
    order = "OVER (PARTITION BY currency ORDER BY n)"
    calls = ["SUM(amount)", "LAST_VALUE(amount IGNORE NULLS)", "LAG(id, 2)"]

    assert given == settled(", ".join(f"{call} {order}" for call in calls), orders, 60)


def test_rows_of_a_batch_come_at_one_processing_time(spark: SparkSession, tmp_path: Path) -> None:
    """An interval of it counts them together, and what came up to so long before."""
    running = Running(
        spark,
        tmp_path,
        "SELECT id, SUM(amount) OVER (ORDER BY PROCTIME() RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW) "
        "FROM orders",
    )
    first = running.give([(1, None, 1, at(0)), (2, None, 2, at(0))], None)
    running.clock += timedelta(seconds=10)
    second = running.give([(3, None, 4, at(0))], None)
    running.clock += timedelta(seconds=1)
    third = running.give([(4, None, 8, at(0))], None)

    assert [first, second, third] == [[(1, 3), (2, 3)], [(3, 7)], [(4, 12)]]


def test_a_key_that_no_row_came_to_begins_anew(spark: SparkSession, tmp_path: Path) -> None:
    """By the clock, and for good; rows that wait are not forgotten."""
    running = Running(
        spark,
        tmp_path,
        f"SELECT id, SUM(amount) OVER w, LAG(id) OVER w FROM orders WINDOW w AS ({PARTITION})",
        time_to_live_ms=10_000,
    )
    running.give([(1, "EUR", 1, at(1)), (2, "USD", 1, at(1)), (3, "YEN", 1, at(30))], 2)
    running.clock += timedelta(seconds=6)
    kept = running.give([(4, "EUR", 2, at(3))], 4)
    running.clock += timedelta(seconds=6)
    recreated = running.give([(5, "EUR", 4, at(5)), (6, "USD", 2, at(5))], 6)
    running.clock += timedelta(seconds=1)
    later = running.give([(7, "USD", 4, at(7))], 30)

    assert kept == [(4, 3, 1)]
    assert Counter(recreated) == Counter([(5, 7, 4), (6, 2, None)])
    assert Counter(later) == Counter([(7, 6, 6), (3, 1, None)])


@pytest.mark.slow
def test_closed_windows_wait_for_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark gives them behind the watermark, those of a window before the next one's; old ones are not kept."""
    monkeypatch.setattr("penstock.sql.incremental.state.state_table.MOST_BATCHES", 1)
    running = Running(
        spark,
        tmp_path,
        "SELECT id, SUM(amount) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '60' SECOND PRECEDING AND CURRENT ROW) FROM "
        "(SELECT window_time AS ts, MAX(id) AS id, MAX(amount) AS amount FROM TABLE(TUMBLE(TABLE orders, "
        "DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, window_time)",
    )
    first = running.give([(2, None, 2, at(120)), (1, None, 1, at(60))], 500)
    second = running.give([(3, None, 4, at(180))], 600)
    third = running.give([(4, None, 8, at(300))], 700)
    last = running.give([(5, None, 16, at(360))], 800)
    newest = max(
        tmp_path.glob("over_0-feed_0/base=*"), key=lambda path: int(path.name.partition("=")[2])
    )

    assert [first, second, third, last] == [[(1, 1), (2, 3)], [(3, 6)], [(4, 8)], [(5, 24)]]
    assert spark.read.parquet(str(newest)).count() == 1


def test_windows_of_its_rows_come_when_they_are_closed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once, with all its rows; the same when a batch is run again, and from state that was put together."""
    monkeypatch.setattr("penstock.sql.incremental.state.state_table.MOST_BATCHES", 2)
    total = f"SUM(amount) OVER ({PARTITION})"
    running = Running(
        spark,
        tmp_path,
        "SELECT window_end, COUNT(*) AS n, MAX(total) AS most FROM TABLE(TUMBLE((SELECT ts, "
        f"{total} AS total FROM orders), DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end",
    )
    draw, orders, given, bound = random.Random(3), list[Row](), Counter[Row](), None
    for number, now in enumerate([8, 13, 29]):
        batch = drawn(draw, number * 14, now + 6, bound)
        found = Counter(running.give(batch, now))
        if now == 29:
            assert Counter(running.again(batch, now)) == found
        given += found
        orders += [row for row in batch if bound is None or row[3] > at(bound)]
        bound = now
    ends = "time_bucket(INTERVAL '10 seconds', ts) + INTERVAL '10 seconds'"
    rows = settled(f"{ends}, {total}", orders, 29)
    totals: dict[datetime, list[int | None]] = {}
    for (_, end, value), count in rows.items():
        totals.setdefault(end, []).extend([value] * count)
    closed = [end for end in totals if end <= at(29)]

    assert given == Counter(
        (end, len(totals[end]), max(v for v in totals[end] if v is not None)) for end in closed
    )
    assert len(closed) == 2


def test_a_table_with_an_end_is_given_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """Without watermarks all rows are there."""
    running = Running(spark, tmp_path, f"SELECT id, SUM(amount) OVER ({PARTITION}) FROM orders")
    frame = running.frame([(2, "EUR", 2, at(5)), (1, "EUR", 1, at(0)), (3, "EUR", 3, None)])
    with running.run.batch(frame, 0) as changes:
        rows = [tuple(row)[:-1] for row in changes.collect()]

    assert rows == [(1, 1), (2, 3)]
    assert running.run.late_rows == 1
