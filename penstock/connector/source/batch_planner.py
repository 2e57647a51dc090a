"""The coordinator: decides one batch after the other, from what the executor tells it of the world.

A state machine without I/O and without a clock: `handle(event)` answers with the effects that the executor is
to perform next. Its state is the last planned batch, so a start from a checkpoint and a running scan are alike.

    PlanRequested ──► ListSplits ──► SplitsListed ──► ResolvePositions ──► PositionsResolved ─┐
         │ (not due)                      │ (nothing new)                                     │
         └────────────────────────────────┴──────────► FetchExtents ◄─────────────────────────┘
                                                            │
    NothingNew ◄── (no split moved, watermark stays) ── ExtentsFetched ──► PeekEventTimes ──► EventTimesPeeked
                                                            │ (no rowtime)                        │
                                                            └────────► BatchPlanned ◄─────────────┘
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from penstock.connector.source.batch_events import (
    BatchPlanned,
    Effect,
    Event,
    EventTimesPeeked,
    ExtentsFetched,
    FetchExtents,
    ListSplits,
    NothingNew,
    PeekEventTimes,
    PlanRequested,
    PositionsResolved,
    ReportLost,
    SplitsListed,
)
from penstock.connector.source.known_splits import KnownSplits
from penstock.connector.source.rate import share
from penstock.connector.source.split import Discovery, Extent
from penstock.connector.source.state import SourceState, SplitState
from penstock.connector.source.watermark import combined_watermark, is_idle

__all__ = ["BatchPlanner", "BatchPlannerSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlannerSettings:
    """What a table's options say to the coordinator. Durations in ms; see SplitSource."""

    tracks_event_time: bool
    bounded: bool
    discovery_interval_ms: int
    idle_timeout_ms: int | None
    tolerates_loss: bool


class BatchPlanner:
    """Plans the batches of one scan. Driver only, one thread; see the module's drawing."""

    def __init__(self, settings: BatchPlannerSettings, state: SourceState | None = None) -> None:
        self._settings = settings
        self._state = state or SourceState()
        self._enumerator = KnownSplits(
            discovery_interval_ms=settings.discovery_interval_ms,
            bounded=settings.bounded,
            # a table that is no longer bounded goes on where it stopped
            splits={
                split.split_id: split if settings.bounded else replace(split, stop=None)
                for split in self._state.splits
            },
            incarnations=dict(self._state.incarnations),
        )
        self._quiet_since: dict[str, int] | None = None  # split id -> steady clock, ms
        self._ceiling: Mapping[str, int] | None = None
        self._request: PlanRequested | None = None
        self._discovery: Discovery | None = None
        self._moved: dict[str, SplitState] = {}

    @property
    def state(self) -> SourceState:
        """The last planned batch; before the first, the empty state."""
        return self._state

    @property
    def split_ids(self) -> tuple[str, ...]:
        """The splits known now, sorted."""
        return tuple(sorted(self._enumerator.splits))

    def limit_to(self, ends: Mapping[str, int]) -> None:
        """Plan nothing past `ends` (split id -> exclusive position), nor any split that is not named there."""
        self._ceiling = dict(ends)

    def handle(self, event: Event) -> Effect:
        """Take one event and say what is to be done next."""
        match event:
            case PlanRequested():
                self._request = event
                self._restore_quiet(event)
                return (
                    ListSplits() if self._enumerator.is_due(event.now_ms) else self._fetch_extents()
                )
            case SplitsListed():
                return self._listed(event.discovery)
            case PositionsResolved():
                assert self._discovery is not None, "positions came without a listing"
                self._enumerator.add(self._discovery, event.starts, event.stops)
                return self._fetch_extents()
            case ExtentsFetched():
                return self._extents_fetched(event.extents)
            case EventTimesPeeked():
                return self._planned(event.watermarks_ms)
        assert_never(event)

    def _listed(self, discovery: Discovery) -> Effect:
        assert self._request is not None, "a listing came without a request"
        changed = self._enumerator.changed(discovery)
        if changed is not None:
            return changed
        self._enumerator.listed_at_ms = self._request.now_ms
        self._discovery = discovery
        return self._enumerator.found(discovery) or self._fetch_extents()

    def _fetch_extents(self) -> FetchExtents:
        return FetchExtents(split_ids=self.split_ids)

    def _extents_fetched(self, extents: Mapping[str, Extent]) -> Effect:
        assert self._request is not None, "extents came without a request"
        self._moved = {}
        backlog: dict[str, int] = {}
        for split_id, known in sorted(self._enumerator.splits.items()):
            extent = extents[split_id]
            lost = not known.finished and known.end < extent.first
            if lost and not self._settings.tolerates_loss:
                return ReportLost(split_id=split_id, position=known.end, extent=extent)
            split = _skip_lost(known, extent.first) if lost else known
            self._moved[split_id] = replace(split, start=split.end)
            self._watch_quiet(split, extent)
            backlog[split_id] = self._readable(split, extent)
        for split_id, size in share(self._request.limit, backlog).items():
            split = self._moved[split_id]
            self._moved[split_id] = replace(split, end=split.end + size)
        ranges = {i: (s.start, s.end) for i, s in self._moved.items() if s.end > s.start}
        if ranges and self._settings.tracks_event_time:
            return PeekEventTimes(ranges=ranges)
        return self._planned({})

    def _readable(self, split: SplitState, extent: Extent) -> int:
        """Count the positions of `split` that a batch may take now."""
        end = extent.end if split.stop is None else min(extent.end, split.stop)
        if self._ceiling is not None:
            end = min(end, self._ceiling.get(split.split_id, split.end))
        return max(0, end - split.end)

    def _restore_quiet(self, request: PlanRequested) -> None:
        if self._quiet_since is not None:
            return
        # what was quiet before the restart has been quiet since, whatever the steady clock shows
        self._quiet_since = {
            split.split_id: request.now_ms - max(0, request.wall_ms - split.quiet_since_ms)
            for split in self._state.splits
            if split.quiet_since_ms is not None
        }

    def _watch_quiet(self, split: SplitState, extent: Extent) -> None:
        assert self._request is not None
        assert self._quiet_since is not None
        if extent.end > split.end:
            self._quiet_since.pop(split.split_id, None)
        else:
            self._quiet_since.setdefault(split.split_id, self._request.now_ms)

    def _planned(self, watermarks_ms: Mapping[str, int]) -> Effect:
        splits = tuple(
            self._advance(split, watermarks_ms) for _, split in sorted(self._moved.items())
        )
        before = self._state.watermark_ms
        watermark = combined_watermark(splits, before) if self._settings.tracks_event_time else None
        moved = any(split.end > split.start for split in splits)
        # a resolved start is kept by the batch that follows it, or a restart would resolve another one
        new = {split.split_id for split in splits} != set(self._state.positions)
        lost = sum(split.lost for split in splits) != sum(
            split.lost for split in self._state.splits
        )
        if not (moved or new or lost) and watermark == before:
            return NothingNew()
        self._state = SourceState(
            splits=splits,
            incarnations=tuple(sorted(self._enumerator.incarnations.items())),
            watermark_ms=watermark,
            watermark_before_ms=before,
        )
        self._enumerator.splits = {split.split_id: split for split in splits}
        return BatchPlanned(state=self._state)

    def _advance(self, split: SplitState, watermarks_ms: Mapping[str, int]) -> SplitState:
        """Give the split with its new watermark and its idleness."""
        assert self._request is not None
        assert self._quiet_since is not None
        seen = [w for w in (split.watermark_ms, watermarks_ms.get(split.split_id)) if w is not None]
        quiet = self._quiet_since.get(split.split_id)
        return replace(
            split,
            watermark_ms=max(seen, default=None),
            idle=is_idle(quiet, self._request.now_ms, self._settings.idle_timeout_ms),
            quiet_since_ms=None
            if quiet is None
            else self._request.wall_ms - (self._request.now_ms - quiet),
        )


def _skip_lost(split: SplitState, first: int) -> SplitState:
    target = first if split.stop is None else min(first, split.stop)
    return replace(split, start=target, end=target, lost=split.lost + target - split.end)
