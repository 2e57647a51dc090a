"""Watermarks of raw records at planning, before any JVM: the table's expression, evaluated by DuckDB.

Does not know Flink SQL: the expression is DuckDB SQL (`Rowtime` in `scan.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from penstock.connector.arrow.duckdb_engine import query
from penstock.connector.scan import Delayed, Rowtime
from penstock.connector.source.state import MAX_WATERMARK_MS, MIN_INSTANT_MS

__all__ = ["count_late", "evaluate_watermarks", "highest_watermark", "rows_above"]

_MICROSECONDS_IN_MS = 1000
_TIMES = pa.timestamp("us")
_FIRST_US = MIN_INSTANT_MS * _MICROSECONDS_IN_MS
_LAST_US = MAX_WATERMARK_MS * _MICROSECONDS_IN_MS


def evaluate_watermarks(
    rowtime: Rowtime, batch: pa.RecordBatch, time_zone: str
) -> list[int | None]:
    """Return the watermark of each row in epoch ms, rounded down; None where it is NULL or cannot be computed.

    A TIMESTAMP, which has no time zone, counts as UTC, as in Spark's state operators. `time_zone` is the
    session's, for conversions between the two. May block; called on the driver. Raises UnsupportedError for a
    time zone that is not known.
    """
    instants = _microseconds(rowtime, batch, time_zone)
    return [None if us is None else us // _MICROSECONDS_IN_MS for us in instants.to_pylist()]


def highest_watermark(rowtime: Rowtime, batch: pa.RecordBatch, time_zone: str) -> int | None:
    """Return the highest watermark in a batch, as `evaluate_watermarks` would, without a Python value for each row."""
    us: int | None = None if rowtime.delayed is None else _delayed_us(rowtime.delayed, batch)
    if us is None:
        found = query(
            f"SELECT max(us) AS us FROM ({_instants(rowtime)})",  # noqa: S608  as above
            pa.Table.from_batches([batch]),
            time_zone=time_zone,
        ).column("us")
        us = found[0].as_py()
    return None if us is None else us // _MICROSECONDS_IN_MS


def rows_above(
    rowtime: Rowtime, batch: pa.RecordBatch, time_zone: str, bound_ms: int
) -> Mapping[int, int]:
    """Return the rows whose watermark is above `bound_ms`, by their index, each with it (epoch ms)."""
    instants = _microseconds(rowtime, batch, time_zone)
    least = pa.scalar((bound_ms + 1) * _MICROSECONDS_IN_MS, pa.int64())  # as they are rounded down
    rows = pc.indices_nonzero(pc.greater_equal(instants, least))
    found = instants.take(rows)
    return {
        row: us // _MICROSECONDS_IN_MS
        for row, us in zip(rows.to_pylist(), found.to_pylist(), strict=True)
    }


def count_late(rowtime: Rowtime, batch: pa.RecordBatch, time_zone: str, watermark_ms: int) -> int:
    """Count the rows whose time is not after the table's watermark `watermark_ms`; 0 where the bound is not known."""
    if rowtime.bound_us is None:
        return 0
    instants = _microseconds(rowtime, batch, time_zone)
    most = pa.scalar(watermark_ms * _MICROSECONDS_IN_MS - rowtime.bound_us, pa.int64())
    return int(pc.sum(pc.less_equal(instants, most)).as_py() or 0)


def _delayed_us(delayed: Delayed, batch: pa.RecordBatch) -> int | None:
    """Return the highest in epoch microseconds; None where there is none, or it is beyond the years 1 to 9999."""
    column = batch.column(delayed.column)
    if delayed.unit_us is None:
        # as numbers, which have no time zone and no first or last year
        column = column.cast(_TIMES).cast(pa.int64())
    highest_found: int | None = pc.max(column).as_py()
    if highest_found is None:
        return None
    latest = highest_found * (delayed.unit_us or 1)
    return latest - delayed.delay_us if _FIRST_US <= latest <= _LAST_US else None


def _microseconds(rowtime: Rowtime, batch: pa.RecordBatch, time_zone: str) -> pa.ChunkedArray:
    return query(
        f"SELECT us FROM ({_instants(rowtime)})",  # noqa: S608  checked by who wrote it
        pa.Table.from_batches([batch]),
        time_zone=time_zone,
    ).column("us")


def _instants(rowtime: Rowtime) -> str:
    kind = "TIMESTAMPTZ" if rowtime.instant else "TIMESTAMP"
    # TRY: one record that fails must not take the others' watermarks; an infinity is no time to Spark
    return (
        f"SELECT CASE WHEN isfinite(moment) THEN epoch_us(moment) END AS us "  # noqa: S608  as above
        f"FROM (SELECT TRY(CAST(({rowtime.expression}) AS {kind})) AS moment FROM records)"
    )
