"""How long after its events a row of a result is out, where the events are written by a schedule: for `paced`.

An event is due when the schedule has it written, not when it was: a producer or a broker that waits counts. A row is
out at the broker's LogAppendTime. Which event a row is of is in its columns: rows that are only appended have a time; a
row that is kept up to date is compared with the events of its key, each of which is out with the first row that has it
or a later one. So each event counts once, whether an engine writes a row for each change or one for all of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.nexmark.topic import CHUNK
from penstock.connector.nexmark.connector import NexmarkRows

WATERMARK_MS = 4_000
"""What the watermark of `queries/tables.sql` is behind: the row of a window can be out then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfRows:
    """Each row is of the moment `due`, an expression over a record: event time, epoch ms. `what` is for the page."""

    what: str
    due: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OfKeys:
    """Each event of `events` (key, step, due) is out with the first row of its key that has its step or more."""

    what: str
    key: str
    step: str
    events: str


Measure = OfRows | OfKeys


def _text(name: str) -> str:
    return f"json_extract_string(value, '$.{name}')"


def _number(name: str) -> str:
    return f"CAST({_text(name)} AS BIGINT)"


def _time(name: str) -> str:
    # times without a zone are of UTC
    return f"epoch_ms(CAST(replace({_text(name)}, 'Z', '') AS TIMESTAMP))"


_MATCHED = """
  FROM bids AS b JOIN auctions AS a ON a.id = b.auction AND b.time_ms BETWEEN a.time_ms AND a.expires_ms
"""
"""The bids of an auction while it is open."""

_FIRST_BIDS = f"""
SELECT CAST(category AS VARCHAR) AS key, due, row_number() OVER (PARTITION BY category ORDER BY due, id) AS step
FROM (SELECT a.id, a.category, min(b.time_ms) AS due {_MATCHED} GROUP BY a.id, a.category)
"""
_HIGHEST_BIDS = f"""
SELECT CAST(auction AS VARCHAR) AS key, price AS step, due
FROM (
  SELECT b.auction, b.price, b.time_ms AS due, max(b.price) OVER (
    PARTITION BY b.auction ORDER BY b.time_ms, b.n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS highest
  {_MATCHED}
)
WHERE highest IS NULL OR price > highest
"""
_BIDS_OF_CHANNELS = """
SELECT channel || ' ' || day AS key, time_ms AS due,
  row_number() OVER (PARTITION BY channel, day ORDER BY time_ms, n) AS step
FROM (SELECT *, strftime(epoch_ms(time_ms), '%Y-%m-%d') AS day FROM bids)
"""
_BIDS_OF_BIDDERS = """
SELECT concat(auction, ' ', bidder) AS key, time_ms AS step, time_ms AS due FROM bids
"""

_TEN_S = 10_000

MEASURES: Mapping[str, Measure] = {
    "q0": OfRows(what="each bid, by its row", due=_time("dateTime")),
    "q4": OfKeys(
        what="the first bid of each auction, by the first row of its category with so many auctions",
        key=_text("category"),
        step=_number("auctions"),
        events=_FIRST_BIDS,
    ),
    "q5": OfRows(
        what="each row, since its window's end and the watermark's delay",
        due=f"{_time('endtime')} + {WATERMARK_MS}",
    ),
    "q7": OfRows(
        what="each row, since its window's end and the watermark's delay",
        due=f"({_time('dateTime')} // {_TEN_S} + 1) * {_TEN_S} + {WATERMARK_MS}",
    ),
    "q8": OfRows(
        what="each row, since its window's end and the watermark's delay",
        due=f"{_time('starttime')} + {_TEN_S} + {WATERMARK_MS}",
    ),
    "q9": OfKeys(
        what="each bid that is the highest of its auction so far, by the first row with its price or a higher one",
        key=_text("id"),
        step=_number("price"),
        events=_HIGHEST_BIDS,
    ),
    "q11": OfRows(
        what="each row, since its session's end and the watermark's delay",
        due=f"{_time('endtime')} + {WATERMARK_MS}",
    ),
    "q16": OfKeys(
        what="each bid, by the first row of its channel that counts so many",
        key=f"{_text('channel')} || ' ' || {_text('day')}",
        step=_number("total_bids"),
        events=_BIDS_OF_CHANNELS,
    ),
    "q18": OfKeys(
        what="each bid, by the first row of its bidder and auction with its time or a later one",
        key=f"{_text('auction')} || ' ' || {_text('bidder')}",
        step=_time("dateTime"),
        events=_BIDS_OF_BIDDERS,
    ),
    "q20": OfRows(
        what="the later one of the bid and the auction of each row",
        due=f"greatest({_time('bid_dateTime')}, {_time('auction_dateTime')})",
    ),
}
"""The queries of which it is measured, and how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When events are due: one of the time `base_ms` at `start_ms` of the clock, the others as much later as they are.

    Those of [`begin_ms`, `end_ms`) after the first one count.
    """

    base_ms: int
    start_ms: int
    begin_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """The latencies of what counts, in ms; `missing` are events that never were out."""

    of: np.ndarray
    missing: int


def load_events(rows: NexmarkRows, events: int) -> duckdb.DuckDBPyConnection:
    """Open a database with the auctions and bids of the recorded events, and a place for a result."""
    connection = duckdb.connect(config={"enable_external_access": False})
    connection.execute(
        "CREATE TABLE auctions (id BIGINT, category BIGINT, time_ms BIGINT, expires_ms BIGINT)"
    )
    connection.execute(
        "CREATE TABLE bids "
        "(n BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, time_ms BIGINT)"
    )
    maker = rows.maker(["auction", "bid"])
    for start in range(0, events, CHUNK):
        stop = min(start + CHUNK, events)
        made = pa.Table.from_batches([maker.make(start, stop)])
        chunk = made.append_column("n", pa.array(range(start, stop), pa.int64()))
        connection.register("chunk", chunk)
        connection.execute(
            "INSERT INTO auctions SELECT auction.id, auction.category, "
            "epoch_ms(CAST(auction.dateTime AS TIMESTAMP)), epoch_ms(CAST(auction.expires AS TIMESTAMP)) "
            "FROM chunk WHERE auction IS NOT NULL"
        )
        connection.execute(
            "INSERT INTO bids SELECT n, bid.auction, bid.bidder, bid.price, bid.channel, "
            "epoch_ms(CAST(bid.dateTime AS TIMESTAMP)) FROM chunk WHERE bid IS NOT NULL"
        )
        connection.unregister("chunk")
    return connection


def measure_latency(
    database: duckdb.DuckDBPyConnection,
    measure: Measure,
    records: Iterable[tuple[bytes | None, bytes | None, int]],
    schedule: Schedule,
) -> Latencies:
    """Compare a result with the schedule: `records` are its keys, values and times in ms, in their order."""
    kept = [(value.decode(), emitted_ms) for _, value, emitted_ms in records if value is not None]
    table = pa.table(
        {
            "number": pa.array(range(len(kept)), pa.int64()),
            "value": pa.array([value for value, _ in kept], pa.string()),
            "emitted_ms": pa.array([emitted_ms for _, emitted_ms in kept], pa.int64()),
        }
    )
    due, emitted = _due_and_emitted(database, measure, table)
    after_ms = due - schedule.base_ms
    counts = (after_ms >= schedule.begin_ms) & (after_ms < schedule.end_ms)
    found = emitted[counts] - (after_ms[counts] + schedule.start_ms)
    out = ~np.isnan(found)
    return Latencies(of=found[out], missing=int((~out).sum()))


def _due_and_emitted(
    database: duckdb.DuckDBPyConnection, measure: Measure, records: pa.Table
) -> tuple[Any, Any]:
    """Return of each row or event when it was due, in event time, and when it was out, NaN where it never was."""
    match measure:
        case OfRows():
            query = f"SELECT {measure.due} AS due, emitted_ms FROM records"
        case OfKeys():
            # rows of a key may be behind one that was out before: partitions are read side by side
            query = f"""
            WITH written AS (
              SELECT {measure.key} AS key, {measure.step} AS step, number, emitted_ms FROM records
            ), newest AS (
              SELECT key, max(step) OVER (PARTITION BY key ORDER BY number) AS step, emitted_ms FROM written
            ), shown AS (
              SELECT key, step, min(emitted_ms) AS emitted_ms FROM newest GROUP BY key, step
            ), made AS ({measure.events})
            SELECT made.due AS due, shown.emitted_ms AS emitted_ms
            FROM made ASOF LEFT JOIN shown ON made.key = shown.key AND made.step <= shown.step
            """
        case _:
            assert_never(measure)
    database.register("records", records)
    found = database.sql(query).to_arrow_table()
    database.unregister("records")
    emitted = found["emitted_ms"].cast(pa.float64()).to_numpy()
    return found["due"].cast(pa.int64()).to_numpy(), emitted
