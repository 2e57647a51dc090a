"""The windowing functions on a real topic: results equal to plain arithmetic, late rows counted one by one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from tests.kafka_server import KafkaServer

BASE = datetime(2024, 3, 1)
Bounds = tuple[datetime, datetime]


def at(second: float) -> datetime:
    """Give a moment by seconds since the base."""
    return BASE + timedelta(seconds=second)


def run(
    spark: SparkSession,
    kafka: KafkaServer,
    batches: Sequence[Sequence[tuple[int, float | None]]],
    query: str,
    *,
    disorder: int = 0,
    extra: str = "",
) -> tuple[dict[tuple[Any, ...], int], Any]:
    """Put (partition, second) records into a topic and run the query to its end, a batch of records at a time.

    Each inner sequence is read in one micro-batch. Gives counts by the query's other columns, and the progress.
    """
    topic = kafka.create_topic(partitions=2)
    with penstock.connect(spark) as session:
        session.sql(f"""
            CREATE TEMPORARY TABLE ticks (part INT, ts TIMESTAMP(3), {extra}
              WATERMARK FOR ts AS ts - INTERVAL '{disorder}' SECOND)
            WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = 'json',
                  'properties.bootstrap.servers' = '{kafka.bootstrap}',
                  'scan.startup.mode' = 'earliest-offset')""")
        session.sql("""
            CREATE TEMPORARY TABLE result (part INT, window_start TIMESTAMP(3), window_end TIMESTAMP(3), n BIGINT)
            WITH ('connector' = 'delta', 'path' = 'result')""")
        script = Path.cwd() / "windows.sql"
        script.write_text(query, encoding="utf-8")
        dropped = 0
        for index, records in enumerate(batches):
            for partition in range(2):
                rows = [
                    {
                        "part": partition,
                        "ts": None if s is None else at(s).isoformat(" ", "milliseconds"),
                    }
                    for p, s in records
                    if p == partition
                ]
                kafka.produce_json(topic, rows, partition=partition)
            last = index == len(batches) - 1
            hint = "/*+ OPTIONS('scan.bounded.mode' = 'latest-offset') */"
            script.write_text(
                query.replace("ticks", f"ticks {hint}") if last else query, encoding="utf-8"
            )
            (job,) = session.run_file(script, available_now=True)
            assert job.exception is None
            dropped += job.progress.rows_dropped
        rows = spark.read.format("delta").load(str(Path.cwd() / "result")).collect()
    found = {tuple(row)[:-1]: row.n for row in rows}
    assert len(found) == len(rows), "each row comes once"
    return found, dropped


def records_of(seed: int, count: int = 400) -> list[tuple[int, float]]:
    """Draw records out of order by up to three seconds, the second partition an hour ahead."""
    draw = random.Random(seed)
    return [(p, 3600 * p + i / 2 + draw.uniform(-3, 0)) for i in range(count) for p in range(2)]


def tumble(second: float, size: int) -> Iterable[Bounds]:
    """Give the one window of a second."""
    start = second // size * size
    return [(at(start), at(start + size))]


def hop(second: float, slide: int, size: int) -> Iterable[Bounds]:
    """Give the windows of a second that start every `slide`."""
    last = int(second // slide * slide)
    starts = range(last, last - size, -slide)
    return [(at(start), at(start + size)) for start in starts if start <= second < start + size]


def cumulate(second: float, step: int, size: int) -> Iterable[Bounds]:
    """Give the growing windows of a second."""
    start = int(second // size * size)
    return [
        (at(start), at(start + end))
        for end in range(step, size + step, step)
        if second < start + end
    ]


QUERY = """INSERT INTO result SELECT part, window_start, window_end, COUNT(*)
FROM TABLE({function}) GROUP BY part, window_start, window_end"""


@pytest.mark.parametrize(
    ("function", "windows"),
    [
        ("TUMBLE(TABLE ticks, DESCRIPTOR(ts), INTERVAL '10' SECOND)", lambda s: tumble(s, 10)),
        pytest.param(
            "HOP(TABLE ticks, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
            lambda s: hop(s, 5, 10),
            marks=pytest.mark.nightly,
        ),
        (
            "CUMULATE(TABLE ticks, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)",
            lambda s: cumulate(s, 5, 20),
        ),
    ],
)
def test_windows_hold_every_row(
    spark: SparkSession, kafka: KafkaServer, project: Path, function: str, windows: Any
) -> None:
    """Each function, over skewed and disordered partitions and two runs, gives the batch answer."""
    records = records_of(seed=3)
    half = len(records) // 2
    counts, dropped = run(
        spark, kafka, [records[:half], records[half:]], QUERY.format(function=function), disorder=4
    )
    expected = Counter((p, *bounds) for p, s in records for bounds in windows(s))

    assert counts == expected
    assert dropped == 0


def test_sessions_are_split_by_gaps(spark: SparkSession, kafka: KafkaServer, project: Path) -> None:
    """Rows nearer than the gap make one session per key; it ends a gap after its last row."""
    records = [
        (p, 100 * p + start + i) for p in range(2) for start in (0, 30, 60) for i in range(5)
    ]
    function = "SESSION(TABLE ticks PARTITION BY part, DESCRIPTOR(ts), INTERVAL '10' SECOND)"
    counts, _ = run(spark, kafka, [records], QUERY.format(function=function), disorder=1)

    assert counts == {
        (p, at(100 * p + start), at(100 * p + start + 14)): 5
        for p in range(2)
        for start in (0, 30, 60)
    }


def test_late_rows_are_counted_one_by_one(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """Rows behind the watermark at the start of their batch are dropped and counted before any aggregation."""
    first = [(p, float(s)) for p in range(2) for s in range(100)]
    late = [(0, 5.0)] * 7 + [(1, 12.0)] * 5  # windows that closed with the first batch
    still_open = [(0, 92.0)] * 3  # behind the watermark too, but their window has not closed
    without_time = [(0, None)] * 2  # belong to no window
    later = [(p, 150.0) for p in range(2)]
    function = "TUMBLE(TABLE ticks, DESCRIPTOR(ts), INTERVAL '10' SECOND)"
    counts, dropped = run(
        spark,
        kafka,
        [first, [*late, *still_open, *without_time], later],
        QUERY.format(function=function),
    )

    assert dropped == len(late) + len(without_time)
    assert counts[0, at(90), at(100)] == 13
    assert counts[0, at(0), at(10)] == 10


def test_rows_without_a_time_are_counted_behind_a_query_in_from(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """They belong to no window, and no operator behind the windows would see them."""
    records = [(p, float(s)) for p in range(2) for s in range(20)]
    function = "TUMBLE(TABLE positive, DESCRIPTOR(ts), INTERVAL '10' SECOND)"
    query = QUERY.format(function=function).replace(
        "INSERT INTO result ",
        "INSERT INTO result WITH positive AS (SELECT part, ts FROM ticks WHERE part >= 0) ",
    )
    counts, dropped = run(spark, kafka, [[*records, *[(0, None)] * 3]], query)

    assert "positive AS" in query
    assert dropped == 3
    assert counts == {(p, at(s), at(s + 10)): 10 for p in range(2) for s in (0, 10)}


@pytest.mark.nightly
def test_windows_of_windows(spark: SparkSession, kafka: KafkaServer, project: Path) -> None:
    """A group window over the results of a windowing function, by its window_time."""
    records = [(p, float(s)) for p in range(2) for s in range(120)]
    query = """
        INSERT INTO result SELECT part, TUMBLE_START(rowtime, INTERVAL '60' SECOND),
          TUMBLE_END(rowtime, INTERVAL '60' SECOND), SUM(n)
        FROM per_ten GROUP BY part, TUMBLE(rowtime, INTERVAL '60' SECOND)"""
    view = """
        CREATE TEMPORARY VIEW per_ten AS
        SELECT part, window_time AS rowtime, COUNT(*) AS n
        FROM TABLE(TUMBLE(TABLE ticks, DESCRIPTOR(ts), INTERVAL '10' SECOND))
        GROUP BY part, window_start, window_end, window_time;"""
    counts, dropped = run(spark, kafka, [records], view + query)

    assert counts == {(p, at(start), at(start + 60)): 60 for p in range(2) for start in (0, 60)}
    assert dropped == 0


@pytest.mark.parametrize(
    "query",
    [
        "SELECT part, window_start, window_end, COUNT(*) FROM "
        "TABLE(TUMBLE(TABLE ticks, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
        "GROUP BY window_start, window_end, GROUPING SETS ((part), ())",
        pytest.param(
            "SELECT part, TUMBLE_START(ts, INTERVAL '10' SECOND), TUMBLE_END(ts, INTERVAL '10' SECOND), COUNT(*) "
            "FROM ticks GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), ROLLUP (part)",
            marks=pytest.mark.nightly,
        ),
    ],
    ids=["function", "group window"],
)
def test_grouping_sets_of_a_window_come_when_it_closes(
    spark: SparkSession, kafka: KafkaServer, project: Path, query: str
) -> None:
    """Each window has a row for each set, and never another one; a late row is dropped and counted once."""
    first = [(p, float(s)) for p in range(2) for s in range(100)]
    late = [(0, 5.0)] * 7 + [(1, 12.0)] * 5
    later = [(p, float(s)) for p in range(2) for s in range(100, 150)]
    counts, dropped = run(
        spark, kafka, [first, [*late, *later]], f"INSERT INTO result {query}", disorder=1
    )
    single = Counter((p, *bounds) for p, s in [*first, *later] for bounds in tumble(s, 10))
    whole = Counter((None, *bounds) for _, s in [*first, *later] for bounds in tumble(s, 10))

    assert counts == single | whole
    assert dropped == len(late)


@pytest.mark.parametrize(
    "function", ["TUMBLE(TABLE ticks,", "SESSION(TABLE ticks PARTITION BY part,"]
)
def test_distinct_values_of_a_window_are_counted_once(
    spark: SparkSession, kafka: KafkaServer, project: Path, function: str
) -> None:
    """Over batches, too: the window keeps the set of values until it closes."""
    seconds = [(p, float(s)) for p, step in enumerate((1, 3)) for s in range(0, 90, step)]
    query = f"""INSERT INTO result SELECT part, window_start, window_end,
        COUNT(DISTINCT MOD(SECOND(ts), 3)) * 100 + SUM(DISTINCT MOD(SECOND(ts), 3)) + COUNT(DISTINCT ts)
          FILTER (WHERE SECOND(ts) < 0)
      FROM TABLE({function} DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY part, window_start, window_end"""
    sums, dropped = run(spark, kafka, [seconds[::2], seconds], query, disorder=100)

    assert set(sums.values()) == {303, 100}
    assert all(n == (303, 100)[part] for (part, *_), n in sums.items())
    assert len(sums) == (2 if "SESSION" in function else 18)
    assert dropped == 0


PER_PART = """(SELECT part, window_start AS starttime, window_end AS endtime, COUNT(*) AS num
  FROM TABLE(HOP(TABLE ticks, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND))
  GROUP BY part, window_start, window_end)"""
ROWS = """(SELECT part, window_start AS starttime, window_end AS endtime
  FROM TABLE(HOP(TABLE ticks, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) {where})"""


def uneven_records(seed: int) -> list[tuple[int, float]]:
    """Draw records out of order, now more of one partition, now of the other, and at times as many."""
    draw = random.Random(seed)
    found = []
    for second in range(120):
        counts = ((1, 2), (2, 1), (1, 1))[second // 20 % 3]
        found += [(p, second + draw.uniform(-2, 0)) for p in range(2) for _ in range(counts[p])]
    return found


def test_q5_of_nexmark_gives_the_busiest_of_each_window_once(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """As published: two windowed aggregates joined by bounds under other names; the sink takes inserts only.

    The second run resumes the checkpoint of the first, in the middle of the windows of both aggregates and the join.
    """
    records = uneven_records(seed=5)
    half = len(records) // 2
    query = f"""INSERT INTO result SELECT Counts.part, Counts.starttime, Counts.endtime, Counts.num
      FROM {PER_PART} AS Counts
      JOIN (SELECT MAX(Inner_.num) AS maxn, Inner_.starttime, Inner_.endtime FROM {PER_PART} AS Inner_
            GROUP BY Inner_.starttime, Inner_.endtime) AS Highest
      ON Counts.starttime = Highest.starttime AND Counts.endtime = Highest.endtime AND Counts.num >= Highest.maxn"""
    busiest, dropped = run(spark, kafka, [records[:half], records[half:]], query, disorder=3)
    counts = Counter((p, *bounds) for p, s in records for bounds in hop(s, 5, 10))
    highest = {
        bounds: max(n for (_, *own), n in counts.items() if tuple(own) == bounds)
        for bounds in {(start, end) for _, start, end in counts}
    }

    assert busiest == {key: n for key, n in counts.items() if n == highest[key[1:]]}
    assert {part for part, *_ in busiest} == {0, 1}
    edge = {bounds for _, s in records[:half] for bounds in hop(s, 5, 10)} & {
        bounds for _, s in records[half:] for bounds in hop(s, 5, 10)
    }
    assert len(edge) > 1  # windows with rows of both runs
    assert len(busiest) > len(highest)  # there are windows with as many of both
    assert dropped == 0


@pytest.mark.parametrize(
    ("query", "number"),
    [
        pytest.param(
            f"SELECT part, starttime, endtime, COUNT(*) FROM ({ROWS.format(where='WHERE part = 0')} UNION ALL "
            f"{ROWS.format(where='WHERE part = 1')}) GROUP BY part, starttime, endtime",
            lambda n: n,
            id="group by over union all",
        ),
        pytest.param(
            f"SELECT DISTINCT part, starttime, endtime, CAST(1 AS BIGINT) FROM {ROWS.format(where='')}",
            lambda _: 1,
            id="distinct",
        ),
        pytest.param(
            "SELECT a.part, b.starttime, b.endtime, SUM(b.num) "
            f"FROM {PER_PART} AS a JOIN {PER_PART} AS b ON a.part = b.part "
            "AND a.starttime = b.starttime AND a.endtime = b.endtime GROUP BY a.part, b.starttime, b.endtime",
            lambda n: n,
            id="group by over a window join",
        ),
        pytest.param(
            f"SELECT part, starttime, endtime, COUNT(DISTINCT part) FROM {ROWS.format(where='')} "
            "GROUP BY part, starttime, endtime",
            lambda _: 1,
            id="distinct values",
        ),
    ],
)
def test_windows_close_under_other_names(
    spark: SparkSession, kafka: KafkaServer, project: Path, query: str, number: Any
) -> None:
    """Spark runs a chain of operators over their bounds in append mode; each row comes once, over two runs."""
    records = uneven_records(seed=6)
    half = len(records) // 2
    rows, dropped = run(
        spark, kafka, [records[:half], records[half:]], f"INSERT INTO result {query}", disorder=3
    )
    counts = Counter((p, *bounds) for p, s in records for bounds in hop(s, 5, 10))

    assert rows == {key: number(n) for key, n in counts.items()}
    assert dropped == 0


FEW, MANY = "HAVING COUNT(*) < 13", "HAVING COUNT(*) > 11"


def counted(part: int, having: str) -> str:
    """Count the rows of a partition in each window, whose bounds have other names."""
    return f"""(SELECT part, window_start AS starttime, window_end AS endtime, COUNT(*) AS num
      FROM TABLE(HOP(TABLE ticks, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND))
      WHERE part = {part} GROUP BY part, window_start, window_end {having})"""


@pytest.mark.parametrize("side", ["LEFT", pytest.param("FULL", marks=pytest.mark.nightly)])
def test_outer_joins_of_windows_fill_what_a_closed_window_lacks(
    spark: SparkSession, kafka: KafkaServer, project: Path, side: str
) -> None:
    """A row without a match comes once, with NULLs, when the watermark closes its window; over two runs."""
    records = uneven_records(seed=7)
    half = len(records) // 2
    query = f"""INSERT INTO result SELECT COALESCE(a.part, 9), COALESCE(a.starttime, b.starttime),
      COALESCE(a.endtime, b.endtime), 1000 * COALESCE(a.num, 0) + COALESCE(b.num, 0)
      FROM {counted(0, FEW)} AS a {side} JOIN {counted(1, MANY)} AS b
      ON a.starttime = b.starttime AND a.endtime = b.endtime"""
    joined, dropped = run(spark, kafka, [records[:half], records[half:]], query, disorder=3)
    counts = Counter((p, *bounds) for p, s in records for bounds in hop(s, 5, 10))
    few = {tuple(own): n for (p, *own), n in counts.items() if p == 0 and n < 13}
    many = {tuple(own): n for (p, *own), n in counts.items() if p == 1 and n > 11}
    expected = {(0, *own): 1000 * n + many.get(own, 0) for own, n in few.items()}
    if side == "FULL":
        expected |= {(9, *own): n for own, n in many.items() if own not in few}

    assert joined == expected
    assert few.keys() & many.keys()
    assert few.keys() - many.keys()
    assert many.keys() - few.keys()
    assert dropped == 0
