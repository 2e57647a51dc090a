"""Performs the coordinator's effects: asks the planner, evaluates event times, until a batch is decided."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import assert_never

from penstock.connector.contract import ReadRequest, SplitPlanner, SplitSource
from penstock.connector.rowtime import evaluate
from penstock.connector.scan import Scan
from penstock.connector.source.batch_events import (
    BatchPlanned,
    Event,
    EventTimesPeeked,
    ExtentsFetched,
    FetchExtents,
    ListSplits,
    NothingNew,
    PeekEventTimes,
    PlanRequested,
    PositionsResolved,
    ReportChanged,
    ReportLost,
    ResolvePositions,
    SplitsListed,
)
from penstock.connector.source.batch_planner import BatchPlanner, BatchPlannerSettings
from penstock.connector.source.split import Extent
from penstock.connector.source.state import SourceState

__all__ = ["PlanningExecutor"]


class PlanningExecutor:
    """Drives one coordinator against one planner. Driver side of a query, one thread; calls may block on I/O."""

    def __init__(self, scan: Scan, source: SplitSource) -> None:
        self._scan = scan
        self._source = source
        self._planner: SplitPlanner | None = None
        self._coordinator: BatchPlanner | None = None
        self._ceiling: Mapping[str, int] | None = None
        self.extents: Mapping[str, Extent] = {}

    @property
    def planner(self) -> SplitPlanner:
        """The planner, opened at first use: a task's copy of the reader never needs one."""
        if self._planner is None:
            peeked = self._scan.rowtime.inputs if self._scan.rowtime is not None else ()
            self._planner = self._source.open_planner(ReadRequest(columns=peeked))
        return self._planner

    def close(self) -> None:
        """Close the planner, its last commit sent; another is opened when it is needed again."""
        planner, self._planner = self._planner, None
        if planner is not None:
            planner.close()

    def freeze_ends(self) -> None:
        """Plan nothing beyond what is there now (Trigger.AvailableNow). A bounded scan has its stops already."""
        if self._source.bounded:
            return
        split_ids = sorted(self.planner.list_splits().owners)
        self._ceiling = {split_id: e.end for split_id, e in self.planner.extents(split_ids).items()}

    def plan(self, after: SourceState, limit: int | None) -> SourceState | None:
        """Plan the batch that follows `after`; None when there is no reason for one.

        Raises DataLossError, TopicChangedError, BrokerUnavailableError.
        """
        coordinator = self._coordinator_at(after)
        event: Event = PlanRequested(
            now_ms=time.monotonic_ns() // 1_000_000,
            wall_ms=time.time_ns() // 1_000_000,
            limit=limit,
        )
        while True:
            effect = coordinator.handle(event)
            match effect:
                case ListSplits():
                    event = SplitsListed(discovery=self.planner.list_splits())
                case ResolvePositions():
                    event = self._resolve(effect)
                case FetchExtents():
                    self.extents = self.planner.extents(effect.split_ids)
                    event = ExtentsFetched(extents=self.extents)
                case PeekEventTimes():
                    event = EventTimesPeeked(watermarks_ms=self._peek(effect.ranges))
                case BatchPlanned():
                    return effect.state
                case NothingNew():
                    return None
                case ReportLost():
                    raise self.planner.lost(effect.split_id, effect.position, effect.extent)
                case ReportChanged():
                    raise self.planner.changed(effect.owner, effect.known, effect.found)
                case _:
                    assert_never(effect)

    def _coordinator_at(self, after: SourceState) -> BatchPlanner:
        if self._coordinator is None or self._coordinator.state != after:
            source = self._source
            settings = BatchPlannerSettings(
                tracks_event_time=self._scan.rowtime is not None,
                bounded=source.bounded,
                discovery_interval_ms=source.discovery_interval_ms,
                idle_timeout_ms=source.watermark.idle_timeout_ms,
                tolerates_loss=source.tolerates_loss,
            )
            self._coordinator = BatchPlanner(settings, after)
            if self._ceiling is not None:
                self._coordinator.limit_to(self._ceiling)
        return self._coordinator

    def _resolve(self, wanted: ResolvePositions) -> PositionsResolved:
        starts = self.planner.start_positions(wanted.split_ids, first_listing=wanted.first_listing)
        stops = self.planner.stop_positions(wanted.stop_ids) if wanted.stop_ids else {}
        return PositionsResolved(starts=starts, stops=stops)

    def _peek(self, ranges: Mapping[str, tuple[int, int]]) -> dict[str, int]:
        assert self._scan.rowtime is not None, "a scan without rowtime peeks at nothing"
        watermarks: dict[str, int] = {}
        for split_id, record in self.planner.peek(ranges).items():
            # one record may hold several rows (a JSON array)
            found = evaluate(self._scan.rowtime, record, self._scan.time_zone)
            known = [watermark_ms for watermark_ms in found if watermark_ms is not None]
            if known:
                watermarks[split_id] = max(known)
        return watermarks
