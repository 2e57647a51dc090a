"""The watermarks that peeks at planning give: one query for all splits of a round, records of the future left out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.connector.contract import SplitPlanner
from penstock.connector.event_times import evaluate
from penstock.connector.rowtime import Rowtime

__all__ = ["WatermarkPeeks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkPeeks:
    """Looks for watermarks through a planner; may block on I/O. `time_zone` is the session's."""

    planner: SplitPlanner
    rowtime: Rowtime
    time_zone: str

    def look(
        self, ranges: Mapping[str, tuple[int, int]], not_after_ms: int | None
    ) -> dict[str, int]:
        """Give the watermark (epoch ms) of the last record in each [from, to); a split without one is absent.

        A record above `not_after_ms` is not delivered either, so another before it counts. What is found there,
        if anything, may lie further back than it has to: a lower bound of the watermark is always safe.
        """
        found = self._watermarks(self.planner.peek(ranges))
        if not_after_ms is None:
            return found
        too_far = [split_id for split_id, ms in found.items() if ms > not_after_ms]
        if not too_far:
            return found

        nearer: dict[str, int] = {}

        def accept(rows: Mapping[str, pa.RecordBatch]) -> Collection[str]:
            within = {i: ms for i, ms in self._watermarks(rows).items() if ms <= not_after_ms}
            nearer.update(within)
            return within.keys()

        self.planner.peek({split_id: ranges[split_id] for split_id in too_far}, accept)
        return {i: ms for i, ms in found.items() if ms <= not_after_ms} | nearer

    def _watermarks(self, rows: Mapping[str, pa.RecordBatch]) -> dict[str, int]:
        if not rows:
            return {}
        # a record may hold several rows (a JSON array)
        owners = [split_id for split_id, batch in rows.items() for _ in range(batch.num_rows)]
        together = pa.concat_batches(list(rows.values()))
        times_ms = evaluate(self.rowtime, together, self.time_zone)
        highest: dict[str, int] = {}
        for split_id, time_ms in zip(owners, times_ms, strict=True):
            if time_ms is not None:
                highest[split_id] = max(time_ms, highest.get(split_id, time_ms))
        return highest
