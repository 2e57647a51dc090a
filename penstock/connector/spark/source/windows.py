"""Flink's windowing table functions on Spark frames: window_start, window_end, window_time for every row.

`window_end` is marked as the event-time column, so Spark closes a window when the watermark reaches its end.
Rows too late for their last window are counted before any aggregation, and left out here: Spark's own count is
taken after partial aggregation and far too low. Late is what is behind the watermark at the start of the batch,
which the offset log fixes, so a replay drops the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import TimestampNTZType

from penstock.connector.expression import ROWS
from penstock.connector.spark.source.columns import WATERMARK_BEFORE
from penstock.connector.spark.source.watermark import mark, unmark

_PANE = "__pane"
_WINDOW = "__window"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tumble:
    """Windows of `size_ms`, one after the other, shifted by `offset_ms`."""

    size_ms: int
    offset_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """Windows of `size_ms` that start every `slide_ms`."""

    size_ms: int
    slide_ms: int
    offset_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cumulate:
    """Windows that grow by `step_ms` up to `size_ms`, a multiple of it, and then start again."""

    size_ms: int
    step_ms: int
    offset_ms: int = 0


WindowFunction = Tumble | Hop | Cumulate


def late_metric(view: str, source: int | None) -> str:
    """Return the name of the observed metric that counts the late rows of the windowed relation `view`.

    `source` is the number of the table that its rows are of; None: they may be of several.
    """
    return f"penstock_late_{view}" if source is None else f"penstock_late_{view}_of_{source}"


def assign_windows(
    frame: DataFrame,
    time_column: str,
    function: WindowFunction,
    *,
    view: str,
    source: int | None = None,
) -> DataFrame:
    """Assign every row its windows. Rows without a rowtime belong to no window; they count as late.

    Groups of rows that tasks made have them all, as their time is the start of a pane, and are late as many rows.
    `view` and `source` name the metric of late rows (`late_metric`).

    The original time column is an ordinary one afterwards, as in Flink.
    """
    rowtime = F.col(f"`{time_column}`")
    ntz = isinstance(frame.schema[time_column].dataType, TimestampNTZType)
    epoch = F.expr(
        "TIMESTAMP_NTZ'1970-01-01 00:00:00'" if ntz else "TIMESTAMP'1970-01-01 00:00:00Z'"
    )
    slide = function.slide_ms if isinstance(function, Hop) else function.size_ms
    # Spark's window() takes rows without a rowtime away unseen; here they stay until they are counted
    pane = F.window(
        F.coalesce(rowtime, epoch), _interval(slide), None, _interval(function.offset_ms)
    )
    paned = frame.withColumn(_PANE, pane)
    if frame.isStreaming:
        too_late = rowtime.isNull()
        # else the operator behind the windows counts those behind the watermark
        if WATERMARK_BEFORE in frame.columns:
            too_late |= _last_end(function) <= F.col(WATERMARK_BEFORE)
        late = F.count(F.when(too_late, 1))
        if ROWS in frame.columns:
            late = F.coalesce(F.sum(F.when(too_late, F.col(ROWS))), F.lit(0))
        paned = paned.observe(late_metric(view, source), late.alias("late"))
    columns = [name for name in frame.columns if name != WATERMARK_BEFORE]
    windowed = _expand(paned.filter(rowtime.isNotNull()), rowtime, function)
    if WATERMARK_BEFORE in frame.columns:
        windowed = windowed.filter(F.col("__end") > F.col(WATERMARK_BEFORE))
    kept = [unmark(F.col(f"`{n}`"), n) if n == time_column else F.col(f"`{n}`") for n in columns]
    return windowed.select(
        *kept,
        F.col("__start").alias("window_start"),
        mark(F.col("__end"), "window_end"),
        (F.col("__end") - F.expr("INTERVAL '0.001' SECOND")).alias("window_time"),
    )


def _expand(frame: DataFrame, rowtime: Column, function: WindowFunction) -> DataFrame:
    """Turn each row's pane into its windows, as `__start` and `__end`."""
    start, end = F.col(f"{_PANE}.start"), F.col(f"{_PANE}.end")
    match function:
        case Tumble():
            return frame.withColumn("__start", start).withColumn("__end", end)
        case Hop():
            size, slide = _interval(function.size_ms), _interval(function.slide_ms)
            hopped = frame.withColumn(
                _WINDOW, F.window(rowtime, size, slide, _interval(function.offset_ms))
            )
            return hopped.withColumn("__start", F.col(f"{_WINDOW}.start")).withColumn(
                "__end", F.col(f"{_WINDOW}.end")
            )
        case Cumulate():
            steps = F.sequence(start + _delta(function.step_ms), end, _delta(function.step_ms))
            grown = frame.withColumn("__start", start).withColumn("__end", F.explode(steps))
            return grown.filter(F.col("__end") > rowtime)
    assert_never(function)


def _last_end(function: WindowFunction) -> Column:
    """Return the end of a row's last window, from its pane."""
    if isinstance(function, Hop):
        return F.col(f"{_PANE}.start") + _delta(function.size_ms)
    return F.col(f"{_PANE}.end")


def _interval(milliseconds: int) -> str:
    return f"{milliseconds} milliseconds"


def _delta(milliseconds: int) -> Column:
    seconds, rest = divmod(milliseconds, 1000)
    return F.expr(f"INTERVAL '{seconds}.{rest:03d}' SECOND")
