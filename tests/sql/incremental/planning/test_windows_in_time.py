"""Joins of aggregated windows batch by batch: what DuckDB gives over the windows that are closed, of rows not late."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.connector.changelog import RowKind
from penstock.sql.checkpoint.watermarks import Watermarks
from penstock.sql.dialect import to_text
from penstock.sql.incremental.keyed.append_join import AppendJoin
from penstock.sql.incremental.keyed.choose import keyed_operator
from penstock.sql.incremental.keyed.operator import KeyedBatch
from penstock.sql.incremental.stages import (
    INPUT_INDEX,
    INPUT_TIME,
    Calc,
    PaneAggregate,
    RecomputeOperator,
    WindowAggregate,
    input_column,
)
from penstock.sql.plan.stage_runs import StageRunner, stage_runs, typed_relations
from tests.sql.incremental.planning.test_joins_in_time import Row, at, ms
from tests.sql.maintain.batches import Batches
from tests.sql.maintain.temporal_tables import planned

MILLISECOND = timedelta(milliseconds=1)
COUNTED = (
    "SELECT currency, COUNT(*) AS n, window_start AS s, window_end AS e FROM "
    "TABLE(HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND)) "
    "GROUP BY currency, window_start, window_end"
)
MOST = (
    f"SELECT a.currency, a.n, a.s FROM ({COUNTED}) AS a JOIN (SELECT MAX(n) AS m, s, e FROM ({COUNTED}) AS c "
    "GROUP BY s, e) AS b ON a.s = b.s AND a.e = b.e AND a.n >= b.m"
)
MOST_OF_ALL = (
    "WITH counted AS (SELECT currency, COUNT(*) AS n, s, e FROM windows GROUP BY ALL), "
    "highest AS (SELECT MAX(n) AS m, s, e FROM counted GROUP BY s, e) "
    "SELECT a.currency, a.n, a.s FROM counted AS a JOIN highest AS b USING (s, e) WHERE a.n >= b.m"
)
DEAREST = (
    "SELECT o.id, o.amount, o.ts FROM orders AS o JOIN (SELECT MAX(amount) AS m, window_end AS e FROM "
    "TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '6' SECOND)) GROUP BY window_start, window_end) AS w "
    "ON o.amount = w.m WHERE o.ts BETWEEN w.e - INTERVAL '6' SECOND AND w.e"
)
DEAREST_OF_ALL = (
    "WITH highest AS (SELECT MAX(amount) AS m, e FROM windows GROUP BY s, e) SELECT o.id, o.amount, o.ts "
    "FROM orders AS o JOIN highest AS w ON o.amount = w.m WHERE o.ts BETWEEN w.e - INTERVAL 6 SECOND AND w.e"
)


@dataclass
class Windows(Batches):
    """A join of windows over orders (id, currency, amount, ts), batch by batch."""

    keyed: bool = True
    before: int = 0
    last: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        # the batches have the rows that tasks would group
        stages = (
            replace(stage, merges=False) if isinstance(stage, PaneAggregate) else stage
            for stage in self.query.stages
        )
        self.query = replace(self.query, stages=tuple(stages))

    def give(self, orders: Sequence[Row], watermark: int) -> Counter[Row]:
        """Run a batch with the watermark of orders, in seconds."""
        span = Watermarks(before_ms=(ms(self.before),), now_ms=(ms(watermark),))
        with self.batch(self.frame(orders), span) as changes:
            rows = [tuple(row) for row in changes.collect()]
        self.last, self.before, self.batches = self.before, watermark, self.batches + 1
        assert {row[-1] for row in rows} <= {int(RowKind.INSERT)}
        return Counter(row[:-1] for row in rows)

    def again(self, orders: Sequence[Row], watermark: int) -> Counter[Row]:
        """Run the last batch again, in another process."""
        self.restart()
        self.before, self.batches = self.last, self.batches - 1
        return self.give(orders, watermark)

    def frame(self, orders: Sequence[Row]) -> DataFrame:
        """What the streaming query gives: one input, as the table is read once."""
        (feed,) = self.query.feeds
        names = {"id": "INT", "currency": "STRING", "amount": "INT", "ts": "TIMESTAMP_NTZ"}
        places = [list(names).index(name) for name in feed.columns]
        fields = ", ".join(f"{name}: {names[name]}" for name in feed.columns)
        rows = [(0, self.clock, tuple(row[place] for place in places)) for row in orders]
        schema = f"{INPUT_INDEX} INT, {INPUT_TIME} TIMESTAMP, {input_column(0)} STRUCT<{fields}>"
        return self.spark.createDataFrame(rows, schema)


@dataclass
class Orders:
    """Random orders, some late; `slide` and six seconds are their windows, each open or not when an order comes."""

    slide: int
    draw: random.Random
    orders: list[Row] = field(default_factory=list)
    windows: list[Row] = field(default_factory=list)
    late: int = 0

    def batch(self, before: int, upto: int) -> list[Row]:
        """Draw the orders of a batch behind the watermark `before`."""
        rows = [self._order(before, upto) for _ in range(25)]
        for row in rows:
            time: datetime | None = row[3]
            bounds = [] if time is None else self._windows(time)
            still = [(s, e) for s, e in bounds if e - MILLISECOND > at(before)]
            self.windows += [(*bound, *row) for bound in still]
            self.late += not still
            if time is not None and time > at(before):
                self.orders.append(row)
        return rows

    def _order(self, before: int, upto: int) -> Row:
        draw = self.draw
        time = at(draw.randrange(before - 9, upto)) + timedelta(milliseconds=draw.randrange(1000))
        return (
            draw.randrange(10_000),
            draw.choice(["EUR", "USD", "YEN", None]),
            draw.randrange(9),
            None if draw.random() < 0.04 else time,
        )

    def _windows(self, time: datetime) -> list[tuple[datetime, datetime]]:
        seconds = int((time - datetime(1970, 1, 1)).total_seconds()) // self.slide * self.slide
        first = datetime(1970, 1, 1) + timedelta(seconds=seconds)
        starts = [first - timedelta(seconds=n) for n in range(0, 6, self.slide)]
        return [(start, start + timedelta(seconds=6)) for start in starts]

    def answer(self, query: str, watermark: int) -> Counter[Row]:
        """The answer over the windows that the watermark has closed."""
        closed = [row for row in self.windows if row[1] - MILLISECOND <= at(watermark)]
        with duckdb.connect() as connection:
            columns = "id INT, currency TEXT, amount INT, ts TIMESTAMP"
            connection.execute(f"CREATE TABLE orders ({columns})")
            connection.execute(f"CREATE TABLE windows (s TIMESTAMP, e TIMESTAMP, {columns})")
            for table, rows in (("orders", self.orders), ("windows", closed)):
                places = ", ".join("?" * (4 if table == "orders" else 6))
                if rows:
                    connection.executemany(f"INSERT INTO {table} VALUES ({places})", rows)
            return Counter(connection.execute(query).fetchall())


@pytest.mark.parametrize(
    ("sql", "answer", "slide"),
    [
        (MOST, MOST_OF_ALL, 2),
        pytest.param(DEAREST, DEAREST_OF_ALL, 6, marks=pytest.mark.nightly),
    ],
    ids=["most", "dearest"],
)
def test_windows_are_joined_when_they_close(
    spark: SparkSession, tmp_path: Path, sql: str, answer: str, slide: int
) -> None:
    """After each batch: the answer over the closed windows, from one input; the same when a batch is run again."""
    run, world = Windows(spark, tmp_path, sql), Orders(slide=slide, draw=random.Random(slide))
    given, before = Counter[Row](), 0
    for now in (4, 13, 13, 30):
        orders = world.batch(before, now + 6)
        found = run.give(orders, now)
        if now == 30:
            assert run.again(orders, now) == found
        given += found
        before = now

        assert given == world.answer(answer, now)
    given += run.give([], 200)

    assert given == world.answer(answer, 200)
    assert given.total() > 10


def test_late_orders_are_counted_once(spark: SparkSession, tmp_path: Path) -> None:
    """Those of which every window is closed, and those without a time; not once for each window."""
    run, world = Windows(spark, tmp_path, MOST), Orders(slide=2, draw=random.Random(9))
    run.give(world.batch(0, 20), 20)
    late = run.late_rows
    run.give(world.batch(20, 40), 40)

    assert late + run.late_rows == world.late > 1


def test_equal_windows_are_aggregated_once() -> None:
    """By one stage, from groups of the panes of one input; the highest counts are computed without state."""
    query = planned(MOST)
    assert query.maintained is not None
    panes = [one for one in query.maintained.stages if isinstance(one, PaneAggregate)]
    (windows,) = (one for one in query.maintained.stages if isinstance(one, WindowAggregate))
    highest = [one for one in query.maintained.stages if isinstance(one, Calc) and one.of_windows]

    assert [(one.keys, one.panes.pane_ms) for one in panes] == [(("currency",), 2000)]
    assert windows.waits_for == (0,)
    assert len(highest) == 1
    assert {run.by for run in stage_runs(query, 0).values()} == {StageRunner.KEYED}


def test_panes_are_grouped_from_the_rows_that_are_joined() -> None:
    """The windows of q7 read the rows that their highest price is joined with."""
    query = planned(DEAREST)
    assert query.maintained is not None
    (feed,) = query.maintained.feeds
    (panes,) = (one for one in query.maintained.stages if isinstance(one, PaneAggregate))

    assert panes.input == feed.name
    assert set(feed.columns) == {"id", "amount", "ts"}


def test_rows_end_in_the_batch_that_closes_their_windows() -> None:
    """The windows come with it, not a batch later: what lies in front of a later window is needed no more."""
    query = planned(DEAREST)
    assert query.maintained is not None
    (stage,) = (one for one in query.maintained.stages if isinstance(one, RecomputeOperator))
    columns = typed_relations(query, query.maintained)
    inserts = frozenset(one.name for one in stage.inputs)
    join = keyed_operator(stage, columns, 0, inserts)
    assert isinstance(join, AppendJoin)
    rows, windows = (one.name for one in stage.inputs)
    span = Watermarks(before_ms=(ms(10),), now_ms=(ms(40),))

    ended = join.ended(KeyedBatch(batch_id=1, now_ms=0, watermarks=span))

    assert ended == {rows: ms(34) * 1000, windows: ms(40) * 1000}


def test_tasks_that_read_group_what_nothing_else_reads() -> None:
    """The rows of q5; not those of q7, which are joined as they are. What a checkpoint is compared with stays."""
    most, dearest = planned(MOST), planned(DEAREST)
    assert most.combined is not None
    grouped, apart = most.leaves[0].grouped, dearest.leaves[0].grouped

    assert grouped is not None
    assert (grouped.pane_ms, len(grouped.keys), len(grouped.results)) == (2000, 1, 1)
    assert apart is None
    assert "__part0" in to_text(most.combined)
    assert "__part0" not in to_text(most.query)
    assert not most.phases


_OTHERS = {
    "an average": COUNTED.replace("COUNT(*)", "AVG(amount)"),
    "distinct values": COUNTED.replace("COUNT(*)", "COUNT(DISTINCT amount)"),
    "a condition behind the windows": COUNTED.replace(" GROUP BY", " WHERE amount > 1 GROUP BY"),
    "sums of fractions": COUNTED.replace("COUNT(*)", "SUM(amount / CAST(3 AS DOUBLE))"),
}


@pytest.mark.parametrize("name", _OTHERS)
def test_other_aggregates_stay_spark_s(name: str) -> None:
    """Those whose parts do not add up to the bit, and rows that are left out behind the windows."""
    counted = _OTHERS[name]
    query = planned(MOST.replace(COUNTED, counted))

    stages = () if query.maintained is None else query.maintained.stages
    assert not [one for one in stages if isinstance(one, PaneAggregate)]
