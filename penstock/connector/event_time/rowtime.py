"""Watermarks of raw and peeked records at planning, before any JVM: the table's expression, evaluated by DuckDB.

One query serves all splits of a round; timestamps in the future are excluded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.connector.arrow import query
from penstock.connector.contract import SplitMetadataClient
from penstock.connector.fragments import evaluate
from penstock.connector.scan import Delayed, DelayedValue, Rowtime
from penstock.connector.source.state import MAX_WATERMARK_MS, MIN_INSTANT_MS

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


def _delayed_us(delayed: Delayed | DelayedValue, batch: pa.RecordBatch) -> int | None:
    """Return the highest in epoch microseconds; None where there is none, or it is beyond the years 1 to 9999.

    None, too, where a record has a value that cannot be computed: the query finds the others'.
    """
    unit_us = None
    if isinstance(delayed, DelayedValue):
        try:
            column = evaluate(delayed.time, batch)
        except pa.ArrowInvalid:
            return None
    else:
        column, unit_us = batch.column(delayed.column), delayed.unit_us
    if unit_us is None:
        # as numbers, which have no time zone and no first or last year
        column = column.cast(_TIMES).cast(pa.int64())
    highest_found: int | None = pc.max(column).as_py()
    if highest_found is None:
        return None
    latest = highest_found * (unit_us or 1)
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


MOST_TIMELESS = 16
"""Records without an event time that a peek steps back over in one split; each takes a look of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkPeeks:
    """Looks for watermarks through a planner; may block on I/O. `time_zone` is the session's."""

    planner: SplitMetadataClient
    rowtime: Rowtime
    time_zone: str

    def look(
        self, ranges: Mapping[str, tuple[int, int]], not_after_ms: int | None
    ) -> dict[str, int]:
        """Return the watermark (epoch ms) of the last record in each [from, to) that has one; absent where none has.

        A record above `not_after_ms` is not delivered, and one whose rowtime is NULL has no watermark: another before
        it counts. What is found there, if anything, may lie further back than it has to: a lower bound of the
        watermark is always safe.
        """
        found: dict[str, int] = {}
        timeless: Counter[str] = Counter()

        def accept(rows: Mapping[str, pa.RecordBatch]) -> Collection[str]:
            known = self._watermarks(rows)
            within = {
                i: ms for i, ms in known.items() if not_after_ms is None or ms <= not_after_ms
            }
            found.update(within)
            timeless.update(rows.keys() - known.keys())
            # where none of many has a watermark the task will tell, which looks at all of them
            given_up = {i for i in rows.keys() - known.keys() if timeless[i] > MOST_TIMELESS}
            return within.keys() | given_up

        last = self.planner.peek(ranges)
        left = last.keys() - set(accept(last))
        if left:
            self.planner.peek({i: ranges[i] for i in ranges if i in left}, accept)
        return found

    def _watermarks(self, rows: Mapping[str, pa.RecordBatch]) -> dict[str, int]:
        if not rows:
            return {}
        if self.rowtime.delayed is not None:
            tops = {
                i: highest_watermark(self.rowtime, batch, self.time_zone)
                for i, batch in rows.items()
            }
            return {i: ms for i, ms in tops.items() if ms is not None}
        # a record may hold several rows (a JSON array)
        owners = [split_id for split_id, batch in rows.items() for _ in range(batch.num_rows)]
        together = pa.concat_batches(list(rows.values()))
        times_ms = evaluate_watermarks(self.rowtime, together, self.time_zone)
        found: dict[str, int] = {}
        for split_id, time_ms in zip(owners, times_ms, strict=True):
            if time_ms is not None:
                found[split_id] = max(time_ms, found.get(split_id, time_ms))
        return found
