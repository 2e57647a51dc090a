"""Joins that end with the watermark batch by batch: what DuckDB gives over all rows that were not late."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.connector.changelog import RowKind
from penstock.sql.checkpoint.watermarks import Watermarks
from penstock.sql.incremental.keyed.files.manifest_folder import Manifests
from penstock.sql.incremental.stages import (
    INPUT_INDEX,
    INPUT_TIME,
    InputState,
    RecomputeOperator,
    SideTime,
    input_column,
)
from penstock.sql.plan.stage_runs import stage_runs
from tests.sql.maintain.batches import Batches, epoch_ms
from tests.sql.maintain.maintaining import ADDED
from tests.sql.maintain.temporal_tables import planned

Row = tuple[Any, ...]
START = datetime(2026, 1, 31, 10)
TYPES = {
    "id": "INT", "currency": "STRING", "amount": "INT", "ts": "TIMESTAMP_NTZ", "rate": "INT",
    "since": "TIMESTAMP_NTZ",
}  # fmt: skip
ORDERS, QUOTES = ("id", "currency", "amount", "ts"), ("currency", "rate", "since")
JOIN = "SELECT o.id, q.rate FROM orders AS o JOIN quotes AS q ON {0}"
COMMA = "SELECT o.id, q.rate FROM orders AS o, quotes AS q WHERE {0}"
WITHIN = "o.currency = q.currency AND o.ts BETWEEN q.since - INTERVAL '4' SECOND AND q.since + INTERVAL '6' SECOND"
BEHIND = "o.currency = q.currency AND o.ts > q.since AND q.since + INTERVAL '7' SECOND >= o.ts AND o.amount <> q.rate"
HIGHEST = f"SELECT o.currency, o.id, MAX(q.rate) AS r FROM orders AS o JOIN quotes AS q ON {WITHIN} GROUP BY o.currency, o.id"
AVERAGE = f"SELECT r, COUNT(*) AS n FROM ({HIGHEST}) AS t GROUP BY r"
BEST = (
    "SELECT currency, rate FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY currency ORDER BY rate DESC) AS n FROM "
    f"(SELECT o.currency, q.rate FROM orders AS o, quotes AS q WHERE {WITHIN}) AS t) AS u WHERE n = 1"
)
TWICE = f"SELECT a.id, b.n FROM ({JOIN.format(WITHIN)}) AS a JOIN (SELECT id, COUNT(*) AS n FROM ({JOIN.format(WITHIN)}) AS j GROUP BY id) AS b ON a.id = b.id"
AT_ONE_TIME = "o.ts = q.since AND q.since - INTERVAL '1' SECOND < o.ts AND o.amount >= q.rate"


def at(seconds: int) -> datetime:
    """A time of the tests."""
    return START + timedelta(seconds=seconds)


def ms(seconds: int) -> int:
    """The same as a watermark."""
    return epoch_ms(at(seconds))


@dataclass
class Join(Batches):
    """A join of orders (id, currency, amount, ts) with quotes (currency, rate, since), batch by batch."""

    keyed: bool = True
    before: tuple[int, ...] = (ms(0), ms(0))
    last: tuple[int, ...] = ()
    kinds: set[RowKind] = field(default_factory=set)

    def give(
        self, orders: Sequence[Row], quotes: Sequence[Row], watermarks: tuple[int, int]
    ) -> Counter[Row]:
        """Run a batch with the watermarks of orders and quotes, in seconds; a row that it takes back counts -1."""
        now = tuple(ms(watermark) for watermark in watermarks)
        span = Watermarks(before_ms=self.before, now_ms=now)
        with self.batch(self.frame(orders, quotes), span) as changes:
            rows = [tuple(row) for row in changes.collect()]
        self.last, self.before, self.batches = self.before, now, self.batches + 1
        self.kinds |= {RowKind(row[-1]) for row in rows}
        found = Counter[Row]()
        for *row, kind in rows:
            found[tuple(row)] += 1 if RowKind(kind) in ADDED else -1
        return found

    def again(
        self, orders: Sequence[Row], quotes: Sequence[Row], watermarks: tuple[int, int]
    ) -> Counter[Row]:
        """Run the last batch again, in another process."""
        self.restart()
        self.before, self.batches = self.last, self.batches - 1
        return self.give(orders, quotes, watermarks)

    def frame(self, orders: Sequence[Row], quotes: Sequence[Row]) -> DataFrame:
        """What the streaming query gives."""
        rows: list[Row] = []
        columns = []
        for n, feed in enumerate(self.query.feeds):
            names, given = (ORDERS, orders) if "ts" in feed.columns else (QUOTES, quotes)
            places = [names.index(name) for name in feed.columns]
            for row in given:
                own = tuple(row[place] for place in places)
                rows.append((n, self.clock, *(own if i == n else None for i in range(2))))
            fields = ", ".join(f"{name}: {TYPES[name]}" for name in feed.columns)
            columns.append(f"{input_column(n)} STRUCT<{fields}>")
        schema = f"{INPUT_INDEX} INT, {INPUT_TIME} TIMESTAMP, {', '.join(columns)}"
        return self.spark.createDataFrame(rows, schema)

    def stored(self) -> dict[str, int]:
        """The rows that the state has after the last batch, by input."""
        manifest = Manifests(self.spark, f"file:{self.folder}").read(self.batches - 1)
        assert manifest is not None
        found = {feed.name: 0 for feed in self.query.feeds}
        for bucket, of in manifest.files.items():
            found[bucket.input] += of.rows
        return found


@dataclass
class World:
    """Random orders and quotes: out of order, equal ones, with NULLs, some of them late."""

    draw: random.Random
    orders: list[Row] = field(default_factory=list)
    quotes: list[Row] = field(default_factory=list)
    late: int = 0

    def batch(
        self, before: tuple[int, int], now: tuple[int, int], rows: int = 14
    ) -> tuple[list[Row], list[Row]]:
        """Draw rows behind the lowest watermark before the batch, up to some seconds behind `now`."""
        bound = min(before)
        orders = [
            (self.draw.randrange(1000), self._currency(), self.draw.randrange(6), time)
            for time in self._times(bound, now[0] + 5, rows)
        ]
        quotes = [
            (self._currency(), self.draw.randrange(6), time)
            for time in self._times(bound, now[1] + 5, rows)
        ]
        for given, kept in ((orders, self.orders), (quotes, self.quotes)):
            known = [row for row in given if row[-1] is None or row[-1] > at(bound)]
            self.late += len(given) - len(known)
            kept += known
        return orders, quotes

    def _currency(self) -> str | None:
        return self.draw.choice(["EUR", "USD", "YEN", None])

    def _times(self, bound: int, upto: int, rows: int) -> Iterator[datetime | None]:
        for _ in range(rows):
            time = self.draw.randrange(bound - 3, upto)
            yield None if self.draw.random() < 0.05 else at(time)

    def answer(self, query: str) -> Counter[Row]:
        """The batch answer over all rows that were not late, by another engine."""
        with duckdb.connect() as connection:
            connection.execute(
                "CREATE TABLE orders (id INT, currency TEXT, amount INT, ts TIMESTAMP)"
            )
            connection.execute("CREATE TABLE quotes (currency TEXT, rate INT, since TIMESTAMP)")
            connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", self.orders)
            connection.executemany("INSERT INTO quotes VALUES (?, ?, ?)", self.quotes)
            return Counter(connection.execute(query).fetchall())


@pytest.mark.parametrize(
    ("sql", "condition"),
    [
        (JOIN, WITHIN),
        pytest.param(COMMA, BEHIND, marks=pytest.mark.nightly),
        pytest.param(JOIN, AT_ONE_TIME, marks=pytest.mark.nightly),
    ],
    ids=["within", "behind", "at-one-time"],
)
def test_rows_match_once_whenever_they_come(
    spark: SparkSession, tmp_path: Path, sql: str, condition: str
) -> None:
    """After each batch: the batch answer over all rows but late ones; the same when a batch is run again."""
    join, world, given = (
        Join(spark, tmp_path, sql.format(condition)),
        World(random.Random(3)),
        Counter[Row](),
    )
    before, late = (0, 0), 0
    for now in [(12, 10), (12, 10), (30, 24), (40, 45), (41, 45)]:
        orders, quotes = world.batch(before, now)
        found = join.give(orders, quotes, now)
        late += join.late_rows
        if now[0] in (30, 40):
            assert join.again(orders, quotes, now) == found
        given += found
        before = now

        assert +given == world.answer(JOIN.format(condition))
    assert late == world.late > 0
    assert join.kinds == {RowKind.INSERT}


@pytest.mark.parametrize(
    "kind",
    ["FULL", *(pytest.param(kind, marks=pytest.mark.nightly) for kind in ("LEFT", "RIGHT"))],
)
def test_rows_without_a_match_come_when_they_end(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """Once all have ended it is the batch answer over all rows but late ones; also where a batch is run again."""
    sql = JOIN.format(WITHIN).replace("JOIN", f"{kind} JOIN")
    join, world, given = Join(spark, tmp_path, sql), World(random.Random(4)), Counter[Row]()
    before = (0, 0)
    for now in [(12, 10), (12, 10), (40, 45)]:
        orders, quotes = world.batch(before, now)
        found = join.give(orders, quotes, now)
        if now == (40, 45):
            assert join.again(orders, quotes, now) == found
        given += found
        before = now
    waiting = world.answer(sql) - given
    given += join.give([], [], (200, 200))

    assert kind != "FULL" or waiting
    assert any(None in row for row in given)
    assert given == world.answer(sql)
    assert join.kinds == {RowKind.INSERT}
    assert set(join.stored().values()) == {0}


def test_rows_that_end_in_a_batch_match_its_rows_where_many_are_stored(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A cache that is folded as it is opened leaves out what was not needed behind the batch before."""
    join = Join(spark, tmp_path, JOIN.format(f"{WITHIN} AND o.amount < q.rate"))
    many = [(n, "EUR", 9, at(15)) for n in range(100_001)]
    join.give([*many, (-1, "EUR", 1, at(15))], [], (12, 12))

    assert join.give([], [("EUR", 5, at(18))], (30, 30)) == Counter([(-1, 5)])


@pytest.mark.nightly
@pytest.mark.parametrize(
    "sql", [HIGHEST, AVERAGE, BEST, TWICE], ids=["max", "avg", "best", "twice"]
)
def test_what_stands_on_a_join_is_the_batch_answer(
    spark: SparkSession, tmp_path: Path, sql: str
) -> None:
    """Extremes keep a row of each group, and run in the task of the join as far as its key goes."""
    join, world, given = Join(spark, tmp_path, sql), World(random.Random(8)), Counter[Row]()
    before = (0, 0)
    for now in [(12, 10), (30, 24), (40, 45)]:
        orders, quotes = world.batch(before, now)
        found = join.give(orders, quotes, now)
        if now == (30, 24):
            assert join.again(orders, quotes, now) == found
        given.update(found)
        before = now

        assert +given == world.answer(sql)
    assert RowKind.UPDATE_BEFORE in join.kinds or RowKind.DELETE in join.kinds


def test_an_extreme_of_a_join_runs_in_its_task_over_a_row_of_each_group() -> None:
    """By a key with more columns than the join's, from which its bucket follows."""
    query = planned(HIGHEST)
    assert query.maintained is not None
    join, group = (one for one in query.maintained.stages if isinstance(one, RecomputeOperator))

    assert [one.keeps for one in group.inputs] == [InputState.RESULT]
    assert group.inputs[0].key == ("currency", "id")
    assert {run.shares for run in stage_runs(query, 0).values()} == {(join.name,), (group.name,)}


def test_rows_that_match_no_later_one_are_gone(spark: SparkSession, tmp_path: Path) -> None:
    """They are not written where they have ended already, and their files go with the watermark, unread."""
    join = Join(spark, tmp_path, JOIN.format(WITHIN))
    world = World(random.Random(5))
    assert join.query.feeds[0].columns[0] == "id"

    # an order matches quotes of up to four seconds later
    join.give([(1, "EUR", 1, at(15)), (2, "EUR", 1, at(16)), (3, "EUR", 1, at(17))], [], (20, 20))
    assert join.stored() == {"feed_0": 1, "feed_1": 0}
    assert join.give([], [("EUR", 7, at(21))], (20, 20)) == Counter([(3, 7)])
    for second in range(21, 90, 4):
        join.give(
            *world.batch((second - 4, second - 4), (second, second), rows=4), (second, second)
        )
    stored = join.stored()
    assert 0 < stored["feed_0"] < 40
    assert 0 < stored["feed_1"] < 50
    join.give([], [], (200, 200))
    assert join.stored() == {"feed_0": 0, "feed_1": 0}
    assert join.give([(9, "EUR", 1, at(300))], [("EUR", 8, at(301))], (200, 200)) == Counter(
        [(9, 8)]
    )


def test_when_rows_end_is_told_by_the_conditions() -> None:
    """By the time of each side that is compared with the rowtime of the other."""
    found = planned(JOIN.format(WITHIN)).maintained
    assert found is not None
    (stage,) = (one for one in found.stages if isinstance(one, RecomputeOperator))
    assert stage.times is not None
    assert stage.times.waits_for == (0, 1)
    assert stage.times.sides == (
        SideTime(ends="ts", micros=4_000_000, rowtime="ts"),
        SideTime(ends="since", micros=6_000_000, rowtime="since"),
    )
