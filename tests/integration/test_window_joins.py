"""Joins of windows that the watermark has closed, with each other and with rows as they come: the batch answer."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

import penstock

START = datetime(2026, 5, 1, 12)
SOURCE = "'connector' = 'filesystem', 'format' = 'json', 'source.monitor-interval' = '1 s'"
SCRIPT = f"""
SET 'parallelism.default' = '1';
CREATE TEMPORARY TABLE bids (auction BIGINT, price BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
  WITH ({SOURCE}, 'path' = 'bids');
CREATE TEMPORARY TABLE auctions (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
  WITH ({SOURCE}, 'path' = 'auctions');
CREATE TEMPORARY TABLE most (auction BIGINT, num BIGINT, e TIMESTAMP(3)) WITH ('connector' = 'delta', 'path' = 'most');
CREATE TEMPORARY TABLE highest (auction BIGINT, price BIGINT, ts TIMESTAMP(3))
  WITH ('connector' = 'delta', 'path' = 'highest');
CREATE TEMPORARY TABLE opened (id BIGINT, num BIGINT, e TIMESTAMP(3))
  WITH ('connector' = 'delta', 'path' = 'opened');
CREATE TEMPORARY TABLE beside (id BIGINT, price BIGINT, e TIMESTAMP(3))
  WITH ('connector' = 'delta', 'path' = 'beside');
CREATE TEMPORARY VIEW counts AS
  SELECT auction, COUNT(*) AS num, window_start AS s, window_end AS e
  FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND))
  GROUP BY auction, window_start, window_end;
INSERT INTO most SELECT c.auction, c.num, c.e FROM counts AS c
  JOIN (SELECT MAX(num) AS num, s, e FROM counts GROUP BY s, e) AS m ON c.s = m.s AND c.e = m.e AND c.num >= m.num;
INSERT INTO highest SELECT b.auction, b.price, b.ts FROM bids AS b
  JOIN (SELECT MAX(price) AS price, window_end AS e FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND))
    GROUP BY window_start, window_end) AS m ON b.price = m.price
  WHERE b.ts BETWEEN m.e - INTERVAL '10' SECOND AND m.e;
INSERT INTO opened SELECT a.id, b.num, a.e FROM (
    SELECT id, window_start AS s, window_end AS e FROM TABLE(TUMBLE(TABLE auctions, DESCRIPTOR(ts), INTERVAL '10' SECOND))
    GROUP BY id, window_start, window_end) AS a
  JOIN (SELECT auction, COUNT(*) AS num, window_start AS s, window_end AS e
    FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY auction, window_start, window_end) AS b
  ON a.id = b.auction AND a.s = b.s AND a.e = b.e;
INSERT INTO beside SELECT a.id, b.price, a.window_end
  FROM (SELECT * FROM TABLE(TUMBLE(TABLE auctions, DESCRIPTOR(ts), INTERVAL '10' SECOND))) AS a
  JOIN (SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND))) AS b
  ON a.id = b.auction AND a.window_start = b.window_start AND a.window_end = b.window_end;
"""
WINDOW = "time_bucket(INTERVAL '10 seconds', ts, TIMESTAMP '2000-01-01') + INTERVAL '10 seconds'"
COUNTS = f"""
counts AS (SELECT auction, COUNT(*) AS num, e FROM (SELECT auction, {WINDOW} AS e FROM bids UNION ALL
  SELECT auction, time_bucket(INTERVAL '10 seconds', ts - INTERVAL '5 seconds', TIMESTAMP '2000-01-01')
    + INTERVAL '15 seconds' FROM bids) GROUP BY auction, e)
"""
WANTED = {
    "most": f"WITH {COUNTS} SELECT auction, num, e FROM counts QUALIFY num = MAX(num) OVER (PARTITION BY e)",
    "highest": f"""SELECT b.auction, b.price, b.ts, m.e FROM bids AS b JOIN
        (SELECT MAX(price) AS price, {WINDOW} AS e FROM bids GROUP BY e) AS m
        ON b.price = m.price AND b.ts BETWEEN m.e - INTERVAL '10 seconds' AND m.e""",
    "opened": f"""SELECT id, num, e FROM (SELECT DISTINCT id, {WINDOW} AS e FROM auctions) JOIN
        (SELECT auction AS id, COUNT(*) AS num, {WINDOW} AS e FROM bids GROUP BY auction, e) USING (id, e)""",
    "beside": f"""SELECT id, price, e FROM (SELECT id, {WINDOW} AS e FROM auctions) JOIN
        (SELECT auction AS id, price, {WINDOW} AS e FROM bids) USING (id, e)""",
}
"""The queries by another engine; `e` is the end of the window that has to be closed."""

Row = tuple[Any, ...]


def drawn(draw: random.Random, upto: int, rows: int) -> tuple[list[Row], list[Row]]:
    """Bids and auctions up to a time, in seconds, none of them more than three seconds behind another."""
    times = sorted(draw.randrange(max(upto - 25, 0), upto) for _ in range(rows))
    times = [max(time - draw.randrange(3), 0) for time in times]
    bids = [(draw.randrange(4), draw.randrange(1000), at(time)) for time in times]
    auctions = [(draw.randrange(4), at(time)) for time in times[:: rows // 20]]
    return [*bids, (9, 0, at(upto))], [*auctions, (8, at(upto))]


def at(seconds: int) -> datetime:
    """A time of the tests."""
    return START + timedelta(seconds=seconds)


def write(project: Path, number: int, **tables: Sequence[Row]) -> None:
    """Write a file of each table."""
    names = {"bids": ("auction", "price", "ts"), "auctions": ("id", "ts")}
    for table, rows in tables.items():
        path = project / table / f"{number}.json"
        path.parent.mkdir(exist_ok=True)
        lines = [json.dumps(dict(zip(names[table], map(_text, row), strict=True))) for row in rows]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _text(value: object) -> object:
    return str(value) if isinstance(value, datetime) else value


@pytest.mark.nightly
@pytest.mark.slow
def test_windows_that_are_closed_are_joined(spark: SparkSession, project: Path) -> None:
    """Each once, whichever batch closes them, over restarts; rows of raw windows are joined as they come."""
    script = project / "joins.sql"
    script.write_text(SCRIPT, encoding="utf-8")
    draw = random.Random(11)
    bids: list[Row] = []
    auctions: list[Row] = []
    for number, upto in enumerate((24, 47, 70)):
        more = drawn(draw, upto, 120)
        write(project, number, bids=more[0], auctions=more[1])
        bids, auctions = [*bids, *more[0]], [*auctions, *more[1]]
        with penstock.connect(spark) as session:
            jobs = session.run_file(script, available_now=True)
            assert [job.exception for job in jobs] == [None] * 4
        for name, query in WANTED.items():
            found = spark.read.format("delta").load(str(project / name)).collect()
            closed = None if name == "beside" else at(upto - 3)

            assert Counter(map(tuple, found)) == wanted(query, bids, auctions, closed), (name, upto)
            assert list((project / ".penstock").rglob("keyed/manifests/*.json"))


def wanted(
    query: str, bids: Sequence[Row], auctions: Sequence[Row], closed: datetime | None
) -> Counter[Row]:
    """The batch answer over windows that have ended by a time."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE bids (auction BIGINT, price BIGINT, ts TIMESTAMP)")
        connection.execute("CREATE TABLE auctions (id BIGINT, ts TIMESTAMP)")
        connection.executemany("INSERT INTO bids VALUES (?, ?, ?)", bids)
        connection.executemany("INSERT INTO auctions VALUES (?, ?)", auctions)
        rows = connection.execute(f"SELECT * FROM ({query})").fetchall()
    return Counter(row[:3] for row in rows if closed is None or row[-1] <= closed)
