"""Watermarks of peeked records at planning: one query for all splits of a round, future timestamps excluded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.connector.contract import SplitMetadataClient
from penstock.connector.event_time.rowtime import evaluate_watermarks, highest_watermark
from penstock.connector.scan import Rowtime

__all__ = ["WatermarkPeeks"]

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
