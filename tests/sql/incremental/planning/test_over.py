"""OVER aggregates batch by batch: what DuckDB gives over the rows that are settled, whatever comes when."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.catalog.errors import UnsupportedError
from penstock.connector.changelog import ChangelogMode, RowKind
from penstock.sql.checkpoint.watermarks import Watermarks
from penstock.sql.dialect import to_spark_query
from penstock.sql.incremental.describe import state_of
from penstock.sql.incremental.stages import (
    INPUT_INDEX,
    INPUT_TIME,
    AccumulatorState,
    OverAggregate,
    RangeState,
    RecomputeOperator,
    RowsState,
    UnboundedState,
    WindowAggregate,
    input_column,
)
from penstock.sql.plan.analysed import AnalysedQuery
from tests.sql.maintain.batches import Batches, epoch_ms
from tests.sql.maintain.temporal_tables import planned
from tests.sql.plan.explained import operator_lines

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

    before: int | None = None
    last: int | None = None

    def give(self, orders: Sequence[Row], watermark: int | None) -> list[Row]:
        """Run a batch up to a watermark, in seconds; all that it gives are inserts, in this order."""
        now = None if watermark is None else ms(watermark)
        span = Watermarks(before_ms=[self.before], now_ms=[now])
        with self.batch(self.frame(orders), span) as changes:
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


DOUBLE = "CASE WHEN amount = 5 THEN 1e16 ELSE amount * 1e-1 END"
"""Values of which a sum has other digits in another order."""
AGGREGATES = {
    "COUNT(*)": "COUNT(*)",
    "COUNT(amount)": "COUNT(amount)",
    "SUM(amount)": "SUM(amount)",
    "SUM(amount) FILTER (WHERE amount > 2)": "SUM(amount) FILTER (WHERE amount > 2)",
    "COUNT(*) FILTER (WHERE amount > 2)": "COUNT(*) FILTER (WHERE amount > 2)",
    "AVG(amount)": "CAST(TRUNC(AVG(amount) OVER {w}) AS INT)",
    "AVG(CAST(amount AS DOUBLE))": "AVG(amount)",
    f"SUM({DOUBLE})": f"list_reduce(list({DOUBLE} {{order}}) FILTER (WHERE amount IS NOT NULL) OVER {{w}}, "
    "lambda a, b: a + b, 0::DOUBLE)",
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
NULLS = {"FIRST_VALUE(amount) RESPECT NULLS": "FIRST_VALUE(amount {order})"}
ROWS = "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"
CASES = [
    (SECONDS, AGGREGATES, {}, False),
    (ROWS, DISTINCT, LAGS, False),
    pytest.param("", AGGREGATES, NUMBER, False, marks=pytest.mark.nightly),
    pytest.param(SECONDS, DISTINCT, LAGS | NUMBER, False, marks=pytest.mark.nightly),
    pytest.param(ROWS, AGGREGATES, NUMBER, False, marks=pytest.mark.nightly),
    pytest.param("ROWS UNBOUNDED PRECEDING", AGGREGATES, LAGS, False, marks=pytest.mark.nightly),
    pytest.param(
        "RANGE UNBOUNDED PRECEDING", DISTINCT, LAGS | NUMBER, False, marks=pytest.mark.nightly
    ),
    (SECONDS, AGGREGATES | DISTINCT, LAGS | NUMBER, True),
    pytest.param(ROWS, AGGREGATES | DISTINCT | NULLS, LAGS, True, marks=pytest.mark.nightly),
    pytest.param("", AGGREGATES, NUMBER, True, marks=pytest.mark.nightly),
    pytest.param("ROWS UNBOUNDED PRECEDING", AGGREGATES, LAGS, True, marks=pytest.mark.nightly),
    pytest.param(
        "RANGE UNBOUNDED PRECEDING",
        DISTINCT | NULLS,
        LAGS | NUMBER,
        True,
        marks=pytest.mark.nightly,
    ),
]


@pytest.mark.parametrize(("frame", "framed", "numbers", "keyed"), CASES)
def test_each_row_comes_when_the_watermark_has_passed_it_with_what_was_before(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    frame: str,
    framed: dict[str, str],
    numbers: dict[str, str],
    keyed: bool,
) -> None:
    """The same when a batch is run again, and from state that was put together; late rows are dropped and counted."""
    monkeypatch.setattr("penstock.sql.incremental.state.state_table.MOST_BATCHES", 2)
    own = [f"{call} OVER w" for call in (*framed, *numbers)]
    running = Running(
        spark,
        tmp_path,
        f"SELECT id, {', '.join(own)} FROM orders WINDOW w AS ({PARTITION} {frame})",
        keyed=keyed,
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
        late += running.late_rows
        if now == 15:
            assert Counter(running.again(batch, now)) == found
        given += found
        orders += [row for row in batch if row[3] and (bound is None or row[3] > at(bound))]
        bound = now

        assert given == settled(", ".join(values), orders, now)
    assert late == 3 * 15 - len(orders) > 3
    assert any(tmp_path.glob("manifests/*.json" if keyed else "*/base=*"))


@pytest.mark.parametrize("keyed", [False, True])
def test_rows_are_given_in_the_order_in_which_they_come(
    spark: SparkSession, tmp_path: Path, keyed: bool
) -> None:
    """By PROCTIME() whatever their times are: totals of all before, and the row before."""
    running = Running(
        spark,
        tmp_path,
        "SELECT id, SUM(amount) OVER w, LAST_VALUE(amount) OVER w, LAG(id, 2) OVER w FROM orders "
        "WINDOW w AS (PARTITION BY currency ORDER BY pt)",
        keyed=keyed,
    )
    draw, orders, given = random.Random(9), list[Row](), Counter[Row]()
    for number in range(3):
        batch = drawn(draw, number * 14, 20, None)
        given += Counter(running.give(batch, None))
        orders += batch
    order = "OVER (PARTITION BY currency ORDER BY n)"
    calls = ["SUM(amount)", "LAST_VALUE(amount IGNORE NULLS)", "LAG(id, 2)"]

    assert given == settled(", ".join(f"{call} {order}" for call in calls), orders, 60)


def test_a_batch_without_rows_releases_those_of_every_bucket(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Keyed operators run where rows wait, also in a new process; another batch passes no time."""
    sql = f"SELECT id, SUM(amount) OVER ({PARTITION}), LAG(id) OVER ({PARTITION}) FROM orders"
    running = Running(spark, tmp_path, sql, keyed=True)
    currencies = "ABCDEFGHIJ"
    rows = [(n, currency, n, at(5 + n % 2)) for n, currency in enumerate(currencies)]
    waiting = running.give(rows, 1)
    still = running.give([], 1)
    running.restart()
    first = running.give([], 5)
    second = running.give([], 9)
    late = running.give([(11, "A", 1, at(2)), (12, "A", 1, at(20))], 10)

    assert [waiting, still, late] == [[], [], []]
    assert running.late_rows == 1
    assert sorted(first) == [(n, n, None) for n in range(0, 10, 2)]
    assert sorted(second) == [(n, n, None) for n in range(1, 10, 2)]


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


@pytest.mark.parametrize("keyed", [True, False])
def test_windows_of_its_rows_come_when_they_are_closed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keyed: bool
) -> None:
    """Each once, with all its rows; the same when a batch is run again, and from state that was put together."""
    monkeypatch.setattr("penstock.sql.incremental.state.state_table.MOST_BATCHES", 2)
    total = f"SUM(amount) OVER ({PARTITION})"
    running = Running(
        spark,
        tmp_path,
        "SELECT window_end, COUNT(*) AS n, MAX(total) AS most FROM TABLE(TUMBLE((SELECT ts, "
        f"{total} AS total FROM orders), DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end",
        keyed=keyed,
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


@pytest.mark.parametrize("keyed", [False, True])
def test_a_table_with_an_end_is_given_at_once(
    spark: SparkSession, tmp_path: Path, keyed: bool
) -> None:
    """Without watermarks all rows are there."""
    sql = f"SELECT id, SUM(amount) OVER ({PARTITION}) FROM orders"
    running = Running(spark, tmp_path, sql, keyed=keyed)
    frame = running.frame([(2, "EUR", 2, at(5)), (1, "EUR", 1, at(0)), (3, "EUR", 3, None)])
    with running.batch(frame) as changes:
        rows = [tuple(row)[:-1] for row in changes.collect()]

    assert rows == [(1, 1), (2, 3)]
    assert running.late_rows == 1


# --- planning of OVER aggregates over streams: what becomes a stage, what it keeps, and what ---


HOUR = "PARTITION BY currency ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW"


def stages(query: AnalysedQuery) -> list[OverAggregate]:
    """Its OVER aggregations, in order."""
    assert query.maintained is not None
    return [stage for stage in query.maintained.stages if isinstance(stage, OverAggregate)]


def sql(stage: OverAggregate) -> str:
    """The SQL of a stage, without quotes."""
    return to_spark_query(stage.query).replace("`", "")


def test_rows_of_the_interval_are_kept_and_inserts_are_given() -> None:
    """Only the columns that are named are read; the rowtime is followed."""
    found = planned(
        f"SELECT id, SUM(amount) OVER ({HOUR}) * 2 AS twice FROM orders WHERE amount > 1"
    )
    (stage,) = stages(found)

    assert (stage.key, stage.time, stage.waits_for) == (("currency",), "ts", (0,))
    assert stage.frame_state == RangeState(micros=3_600_000_000)
    assert "SUM(amount) OVER (PARTITION BY currency ORDER BY ts RANGE BETWEEN INTERVAL" in sql(
        stage
    )
    assert found.changes is ChangelogMode.INSERT_ONLY
    assert [leaf.rowtime and leaf.rowtime.column for leaf in found.leaves] == ["ts"]
    assert found.leaves[0].columns == ("id", "currency", "amount", "ts")


def test_without_a_frame_totals_are_kept_of_each_key() -> None:
    """RANGE UNBOUNDED PRECEDING: rows of one time count together; a number goes by row all the same."""
    (stage,) = stages(
        planned(
            "SELECT COUNT(*) FILTER (WHERE amount > 3) OVER w AS few, AVG(amount) OVER w AS mean, SUM(amount) OVER w "
            "AS total, ROW_NUMBER() OVER w AS n FROM orders AS o WINDOW w AS (PARTITION BY o.currency ORDER BY ts)"
        )
    )
    assert isinstance(stage.frame_state, AccumulatorState)

    assert [(str(one.total), one.by_row) for one in stage.frame_state.running] == [
        ("sum", False),
        ("sum", False),
        ("sum", False),
        ("sum", True),
    ]
    assert "__total1 DIV __total2" in sql(stage)


def test_a_function_that_no_total_gives_keeps_all_rows_and_explain_says_so() -> None:
    """Those beside it use them, too."""
    found = planned(
        "SELECT COUNT(DISTINCT id) OVER w AS d, SUM(amount) OVER w AS s, LAG(id) OVER w AS l FROM orders "
        "WINDOW w AS (PARTITION BY currency ORDER BY ts)"
    )
    (stage,) = stages(found)
    assert found.maintained is not None
    lines = operator_lines(found)

    assert isinstance(stage.frame_state, UnboundedState)
    assert lines[0].endswith("[stage over_0] [I]")
    assert lines[1:3] == [
        "- state: all rows, which COUNT(DISTINCT id) needs, and rows until the watermark has passed their ts",
        "- bound: the watermark of its table; nothing else: all rows stay",
    ]


def test_functions_that_keep_different_rows_are_stages_one_after_the_other() -> None:
    """LAG needs the last rows, the others those of an hour."""
    kept = [
        stage.frame_state
        for stage in stages(
            planned(
                f"SELECT MAX(amount) OVER w, LAG(id, 3) OVER w, LAG(id) OVER w FROM orders WINDOW w AS ({HOUR})"
            )
        )
    ]

    assert kept == [RangeState(micros=3_600_000_000), RowsState(count=3)]


def test_names_of_windows_stand_for_what_they_say() -> None:
    """One may extend another; columns may have the name of their table or not."""
    (stage,) = stages(
        planned(
            "SELECT SUM(amount) OVER (v ROWS 2 PRECEDING), MIN(amount) OVER (PARTITION BY o.currency ORDER BY o.ts ROWS "
            "BETWEEN 2 PRECEDING AND CURRENT ROW) FROM orders AS o WINDOW w AS (PARTITION BY currency), v AS (w ORDER BY ts)"
        )
    )

    assert stage.frame_state == RowsState(count=2)
    assert sql(stage).count("ORDER BY ts, __arrival ROWS BETWEEN 2 PRECEDING AND CURRENT ROW") == 2


@pytest.mark.parametrize("order", ["pt", "PROCTIME()", "o.pt"])
def test_by_processing_time_rows_are_given_as_they_come(order: str) -> None:
    """UNBOUNDED counts row by row, RANGE or not (ProcTimeUnboundedPrecedingFunction)."""
    (stage,) = stages(planned(f"SELECT SUM(amount) OVER (ORDER BY {order}) AS s FROM orders AS o"))
    (near,) = stages(
        planned(
            f"SELECT SUM(amount) OVER (ORDER BY {order} RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND CURRENT ROW) "
            "AS s FROM orders AS o"
        )
    )
    assert isinstance(stage.frame_state, AccumulatorState)

    assert (stage.time, stage.waits_for, stage.key) == (None, (), ())
    assert stage.frame_state.running[0].by_row
    assert "ORDER BY __batch_time RANGE" in sql(near)


@pytest.mark.parametrize(
    ("source", "waits_for"),
    [
        ("(SELECT id, amount, ts FROM orders UNION ALL SELECT 1, rate, since FROM quotes) AS o", (0, 1)),
        ("(SELECT o.*, r.rate FROM orders AS o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.currency = r.currency)",
         (0, 1)),
        ("(SELECT ts, COUNT(*) OVER (ORDER BY ts) AS amount FROM orders)", (0,)),
        ("(SELECT window_time AS ts, amount FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)))",
         (0,)),
        ("(SELECT window_time AS ts, SUM(amount) AS amount FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' "
         "MINUTE)) GROUP BY window_start, window_end, window_time)", ()),
    ],
)  # fmt: skip
def test_a_rowtime_stays_one_up_to_the_over(source: str, waits_for: tuple[int, ...]) -> None:
    """Rows of closed windows come behind the watermark, and wait for nothing."""
    stage = stages(
        planned(f"SELECT SUM(amount) OVER (ORDER BY ts ROWS 3 PRECEDING) AS s FROM {source}")
    )[-1]

    assert (stage.time, stage.waits_for) == ("ts", waits_for)


def test_its_rows_are_filtered_joined_and_aggregated() -> None:
    """They are inserts like any others."""
    found = planned(
        f"SELECT n, MAX(id) AS m FROM (SELECT id, COUNT(*) OVER ({HOUR}) AS n FROM orders) WHERE n > 2 GROUP BY n"
    )
    assert found.maintained is not None

    assert isinstance(found.maintained.stages[-1], RecomputeOperator)
    assert any("WHERE" in line and "> 2" in line for line in state_of(found.maintained))


@pytest.mark.parametrize(
    "source",
    [
        "TABLE(HOP((SELECT ts, SUM(amount) OVER (ORDER BY ts) AS amount FROM orders), DESCRIPTOR(ts), INTERVAL '1' MINUTE, "
        "INTERVAL '2' MINUTE)) AS w WHERE w.amount > 1",
        "TABLE(TUMBLE((SELECT o.* FROM orders AS o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.currency = r.currency), "
        "DESCRIPTOR(ts), INTERVAL '1' MINUTE))",
    ],
)  # fmt: skip
def test_windows_of_its_rows_are_aggregated_when_they_are_closed(source: str) -> None:
    """Once, as windows of a table are: the result is inserts. Those of a temporal join, too."""
    query = f"SELECT window_start, MAX(amount) AS m FROM {source} GROUP BY window_start, window_end"
    found = planned(query)
    assert found.maintained is not None
    stage = found.maintained.stages[-1]
    assert isinstance(stage, WindowAggregate)

    assert (stage.time, found.changes) == ("window_time", ChangelogMode.INSERT_ONLY)
    assert f"[stage {stage.name}] [I]" in operator_lines(found)[0]


@pytest.mark.parametrize(
    ("query", "what", "column"),
    [
        ("SELECT SUM(amount) OVER () FROM orders", "needs an ORDER BY", 8),
        ("SELECT SUM(amount) OVER (ORDER BY amount) FROM orders", "must be defined on a time attribute", 35),
        ("SELECT SUM(amount) OVER (ORDER BY ts, id) FROM orders", "ordered by a single time column", 39),
        ("SELECT ROW_NUMBER() OVER (ORDER BY amount DESC, id) AS n FROM orders", "needs a bound", 8),
        ("SELECT SUM(amount) OVER (ORDER BY ts DESC) FROM orders", "ordered in ASCENDING mode", 35),
        ("SELECT SUM(o.amount) OVER (ORDER BY o.ts) FROM orders AS o JOIN orders AS p ON o.id = p.id",
         "must be defined on a time attribute", 37),
        ("SELECT SUM(amount) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM orders",
         "FOLLOWING is not supported", None),
        ("SELECT SUM(amount) OVER (ORDER BY ts ROWS BETWEEN CURRENT ROW AND CURRENT ROW) FROM orders",
         "begin at a PRECEDING row", None),
        ("SELECT SUM(amount) OVER (ORDER BY ts ROWS amount PRECEDING) FROM orders", "back by a whole number", 43),
        ("SELECT SUM(amount) OVER (ORDER BY ts RANGE INTERVAL '1' MONTH PRECEDING) FROM orders",
         "back by an interval of days to seconds", None),
        ("SELECT SUM(amount) OVER (ORDER BY ts), MAX(id) OVER (ORDER BY ts ROWS 3 PRECEDING) FROM orders",
         "must be computed on the same window", 40),
        ("SELECT SUM(amount) OVER w FROM orders", "no window 'w'", 25),
        ("SELECT SUM(amount) OVER w FROM orders WINDOW w AS (w ORDER BY ts)", "no window 'w'", 52),
        ("SELECT SUM(rate) OVER (ORDER BY since) FROM rates", "consuming update and delete changes", 8),
        ("SELECT LEAD(id) OVER (ORDER BY ts) FROM orders", "LEAD Function is not supported in stream mode", 8),
        ("SELECT NTILE(4) OVER (ORDER BY ts) FROM orders", "NTILE Function is not supported in stream mode", 8),
        ("SELECT RANK() OVER (ORDER BY ts) FROM orders", "OVER a stream without a bound", 8),
        ("SELECT LAG(id, amount) OVER (ORDER BY ts) FROM orders", "by a fixed number of rows", 8),
        ("SELECT AVG(DISTINCT id) OVER (ORDER BY ts) FROM orders", "of DISTINCT values COUNT and SUM are", 8),
        ("SELECT COUNT(DISTINCT id, amount) OVER (ORDER BY ts) FROM orders", "DISTINCT takes one value", 8),
        ("SELECT JSON_ARRAYAGG(id) OVER (ORDER BY ts) FROM orders", "OVER a stream is not supported", None),
        ("SELECT LAST_VALUE(id) RESPECT NULLS FILTER (WHERE id > 1) OVER (ORDER BY ts) FROM orders",
         "with a FILTER is not supported", 8),
        ("SELECT currency, SUM(SUM(amount)) OVER (ORDER BY pt) FROM orders GROUP BY currency, pt", "beside GROUP BY", 18),
        ("SELECT COUNT(*) FROM TABLE(SESSION((SELECT ts, SUM(id) OVER (ORDER BY ts) AS s FROM orders), DESCRIPTOR(ts), "
         "INTERVAL '1' MINUTE)) GROUP BY window_start, window_end", "SESSION over changes, or over the results of OVER", 28),
        ("SELECT COUNT(*) FROM TABLE(TUMBLE((SELECT ts + INTERVAL '1' DAY AS ts, SUM(id) OVER (ORDER BY ts) AS s FROM "
         "orders), DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end",
         "ts is not a rowtime of the rows that TUMBLE reads", 28),
        ("SELECT SUM(id) OVER (ORDER BY ts) AS s, CURRENT_TIMESTAMP AS now FROM orders", "another value each time", None),
    ],
)  # fmt: skip
def test_what_a_stream_cannot_have_is_refused_at_its_place(
    query: str, what: str, column: int | None
) -> None:
    """With what would help."""
    with pytest.raises(UnsupportedError, match=what) as caught:
        planned(query)

    assert caught.value.hint
    assert caught.value.span is not None
    assert column is None or caught.value.span.column == column
