"""Temporal joins batch by batch: what DuckDB's ASOF JOIN gives over the rows that are settled, whatever comes when."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.checkpoint.watermarks import Watermarks
from penstock.sql.incremental.stages import INPUT_INDEX, INPUT_TIME, input_column
from tests.sql.maintain.batches import Batches, epoch_ms
from tests.sql.maintain.temporal_tables import JOIN

Row = tuple[Any, ...]
START = datetime(2026, 1, 31, 10)
STRUCTS = {
    "ts": "STRUCT<id: INT, currency: STRING, ts: TIMESTAMP_NTZ>",
    "since": f"STRUCT<currency: STRING, rate: INT, since: TIMESTAMP_NTZ, {ROW_KIND}: TINYINT>",
}
INSERT, _, AFTER, DELETE = (int(kind) for kind in RowKind)
CURRENCIES = ("EUR", "USD", "YEN")


def at(seconds: int) -> datetime:
    """A time of the tests."""
    return START + timedelta(seconds=seconds)


def ms(seconds: int) -> int:
    """The same as a watermark."""
    return epoch_ms(at(seconds))


@dataclass
class Join(Batches):
    """A temporal join of orders (id, currency, ts) with rates (currency, rate, since, kind), batch by batch."""

    clock: datetime = datetime(2026, 2, 1, tzinfo=UTC)
    before: tuple[int, ...] = (ms(0), ms(0))
    last: tuple[int, ...] = ()

    def give(
        self, orders: Sequence[Row], rates: Sequence[Row], watermarks: tuple[int, int]
    ) -> Counter[Row]:
        """Run a batch with the watermarks of rates and orders, in seconds; all that it gives are inserts."""
        now = tuple(ms(watermark) for watermark in watermarks)
        span = Watermarks(before_ms=self.before, now_ms=now)
        with self.batch(self.frame(orders, rates), span) as changes:
            rows = [tuple(row) for row in changes.collect()]
        self.last, self.before, self.batches = self.before, now, self.batches + 1
        assert {row[-1] for row in rows} <= {INSERT}
        return Counter(row[:-1] for row in rows)

    def again(
        self, orders: Sequence[Row], rates: Sequence[Row], watermarks: tuple[int, int]
    ) -> Counter[Row]:
        """Run the last batch again, in another process."""
        self.restart()
        self.before, self.batches = self.last, self.batches - 1
        return self.give(orders, rates, watermarks)

    def frame(self, orders: Sequence[Row], rates: Sequence[Row]) -> DataFrame:
        """What the streaming query gives: rates are the first feed, in order."""
        times = [next(t for t in STRUCTS if t in feed.columns) for feed in self.query.feeds]
        given = {"ts": orders, "since": rates}
        rows = [
            (n, self.clock, *(row if i == n else None for i in range(2)))
            for n, time in enumerate(times)
            for row in given[time]
        ]
        columns = [f"{input_column(n)} {STRUCTS[time]}" for n, time in enumerate(times)]
        schema = f"{INPUT_INDEX} INT, {INPUT_TIME} TIMESTAMP, {', '.join(columns)}"
        return self.spark.createDataFrame(rows, schema).coalesce(1)


@dataclass
class World:
    """Random orders and rates: out of order, with ties, deletes and late orders; and what they come to."""

    draw: random.Random
    orders: list[Row] = field(default_factory=list)
    late: int = 0
    versions: dict[tuple[str, datetime], Row] = field(default_factory=dict)

    def batch(self, before: tuple[int, int], now: tuple[int, int]) -> tuple[list[Row], list[Row]]:
        """Draw orders and rates behind the watermarks of the batches before; `now` is what they come up to."""
        orders = list(self._orders(max(now) + 5, min(before)))
        rates = [self._rate(before[0], now[0] + 5) for _ in range(12)]
        return orders, rates

    def _orders(self, upto: int, bound: int) -> Iterator[Row]:
        for _ in range(12):
            time = self.draw.randrange(bound - 3, upto)
            order = (len(self.orders) + self.late, self.draw.choice(CURRENCIES), at(time))
            if time <= bound:
                self.late += 1
            else:
                self.orders.append(order)
            yield order

    def _rate(self, bound: int, upto: int) -> Row:
        time = at(self.draw.randrange(bound + 1, upto))
        currency, gone = self.draw.choice(CURRENCIES), self.draw.random() < 0.25
        rate = None if gone else self.draw.randrange(100)
        self.versions[currency, time] = (currency, rate, time)
        return (currency, rate, time, DELETE if gone else AFTER)

    def settled(self, upto: int) -> Counter[Row]:
        """The orders up to a time, each with the rate that was valid (NULL: none), by another engine."""
        with duckdb.connect() as connection:
            connection.execute("CREATE TABLE orders (id INT, currency TEXT, ts TIMESTAMP)")
            connection.execute("CREATE TABLE rates (currency TEXT, rate INT, since TIMESTAMP)")
            connection.executemany("INSERT INTO orders VALUES (?, ?, ?)", self.orders)
            connection.executemany(
                "INSERT INTO rates VALUES (?, ?, ?)", list(self.versions.values())
            )
            found = connection.execute(
                "SELECT o.id, r.rate FROM orders AS o ASOF LEFT JOIN rates AS r "
                "ON o.currency = r.currency AND o.ts >= r.since WHERE o.ts <= ?",
                [at(upto)],
            )
            return Counter(found.fetchall())


@pytest.mark.parametrize(
    ("kind", "keyed"),
    [
        ("LEFT JOIN", True),
        ("LEFT JOIN", False),
        ("JOIN", True),
        pytest.param("JOIN", False, marks=pytest.mark.nightly),
    ],
)
def test_each_row_gets_the_version_that_was_valid_at_its_time(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, keyed: bool
) -> None:
    """Once both watermarks have passed it; the same when a batch is run again, from state that was put together."""
    monkeypatch.setattr("penstock.sql.incremental.state.state_table.MOST_BATCHES", 2)
    join = Join(spark, tmp_path, JOIN.format(f"{kind} rates", "o.ts"), keyed=keyed)
    world, given = World(draw=random.Random(7)), Counter[Row]()
    before, late = (0, 0), 0
    for now in [(12, 10), (30, 24), (40, 45)]:
        orders, rates = world.batch(before, now)
        found = join.give(orders, rates, now)
        late += join.late_rows
        if now == (30, 24):
            assert join.again(orders, rates, now) == found
        given += found
        before = now

        settled = world.settled(min(now))
        wanted = {row: n for row, n in settled.items() if kind == "LEFT JOIN" or row[1] is not None}
        assert given == Counter(wanted)
    assert late == world.late > 0
    assert keyed or len(list(tmp_path.glob("*/base=*"))) > 1


@pytest.mark.parametrize("keyed", [True, False])
def test_the_end_of_a_version_is_where_the_next_begins(
    spark: SparkSession, tmp_path: Path, keyed: bool
) -> None:
    """Bounds, a tombstone without a time, NULL as key and as time, a delete that a version replaces."""
    join = Join(spark, tmp_path, JOIN.format("LEFT JOIN rates", "o.ts"), keyed=keyed)
    rates = [
        ("EUR", 1, at(10), AFTER),
        ("EUR", 2, at(20), AFTER),
        ("EUR", None, None, DELETE),  # of the version at 20
        ("USD", 3, at(10), AFTER),
        ("USD", None, at(20), DELETE),
        ("USD", 4, at(20), AFTER),
        ("YEN", 5, None, AFTER),  # valid at no time
    ]
    orders = [
        (1, "EUR", at(9)), (2, "EUR", at(10)), (3, "EUR", at(19)), (4, "EUR", at(20)),
        (5, "USD", at(19)), (6, "USD", at(20)), (7, "YEN", at(20)), (8, None, at(20)), (9, "EUR", None),
        (10, "EUR", at(21)),
    ]  # fmt: skip

    found = join.give(orders, rates, (20, 20))

    rate = {1: None, 2: 1, 3: 1, 4: None, 5: 3, 6: 4, 7: None, 8: None}
    assert found == Counter(rate.items())
    assert join.late_rows == 1  # the one without a time; the tenth waits


def test_a_version_that_ended_is_not_kept(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one of each key stays, however old; rows that came out are gone."""
    monkeypatch.setattr("penstock.sql.incremental.state.state_table.MOST_BATCHES", 1)
    join = Join(spark, tmp_path, JOIN.format("JOIN rates", "o.ts"))
    rates = [("EUR", 1, at(1), AFTER), ("EUR", 2, at(2), AFTER), ("USD", 3, at(1), AFTER)]
    waits = (1, "EUR", at(9))
    join.give([waits, (2, "USD", at(1))], rates, (5, 5))
    join.give([], [("USD", 4, at(7), AFTER)], (6, 6))
    found = join.give([(3, "USD", at(9))], [], (9, 9))
    kept = {
        name: spark.read.parquet(str(max((tmp_path / f"temporal_0-{name}").glob("base=*")))).count()
        for name in ("feed_0", "feed_1")
    }

    assert found == Counter([(1, 2), (3, 4)])
    assert kept == {"feed_0": 3, "feed_1": 1}


@pytest.mark.parametrize("keyed", [True, False])
def test_a_time_to_live_forgets_keys_and_no_row_that_waits(
    spark: SparkSession, tmp_path: Path, keyed: bool
) -> None:
    """It counts by the clock from the last change of a key."""
    sql = JOIN.format("LEFT JOIN rates", "o.ts")
    join = Join(spark, tmp_path, sql, time_to_live_ms=10_000, keyed=keyed)
    join.give([(1, "EUR", at(5)), (2, "USD", at(5))], [("EUR", 1, at(1), AFTER)], (2, 2))
    join.clock += timedelta(seconds=11)

    found = join.give([], [("USD", 2, at(4), AFTER)], (9, 9))

    assert found == Counter([(1, None), (2, 2)])


@pytest.mark.parametrize("keyed", [True, False])
def test_a_table_with_an_end_is_joined_at_once(
    spark: SparkSession, tmp_path: Path, keyed: bool
) -> None:
    """Without watermarks all rows are there; no state is left to wait."""
    join = Join(spark, tmp_path, JOIN.format("JOIN rates", "o.ts"), keyed=keyed)
    frame = join.frame([(1, "EUR", at(5)), (2, "EUR", at(0))], [("EUR", 1, at(5), AFTER)])
    with join.batch(frame) as changes:
        rows = [tuple(row)[:-1] for row in changes.collect()]
    shutil.rmtree(tmp_path)

    assert rows == [(1, 1)]
