"""A model of the outside for the batch planner: splits as lists of event times, and tables that share a group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.connector.source.alignment import Alignment
from penstock.connector.source.microbatch.events import (
    AlignmentGroupFetched,
    AlignmentGroupPublished,
    BatchPlanned,
    Effect,
    Event,
    EventTimesPeeked,
    FetchAlignmentGroup,
    FetchLogEnds,
    FetchSplitOffsets,
    LogEndsFetched,
    PeekEventTimes,
    PlanRequested,
    PublishToAlignmentGroup,
    SplitOffsetsFetched,
)
from penstock.connector.source.microbatch.planner import BatchPlanner, BatchPlannerSettings
from penstock.connector.source.split import Split, SplitOffsets
from penstock.connector.source.state import SourceState

__all__ = ["World", "aligned", "plan", "planned", "planner_of", "ranges", "settings"]


@dataclass
class World:
    """Position i of a split holds a record with watermark times[i]; None is a position without a record.

    `first` are log starts, `stops` ends of bounded splits, `others` what the rest of the group published. `open` are
    positions of an open transaction at the end of a log. `epoch` is that of all logs, `cuts` say where some were cut; `looks` are at positions in epochs.
    """

    times: dict[str, list[int | None]]
    first: dict[str, int] = field(default_factory=dict)
    stops: dict[str, int] = field(default_factory=dict)
    open: dict[str, int] = field(default_factory=dict)
    others: AlignmentGroupFetched = field(
        default_factory=lambda: AlignmentGroupFetched(lowest_ms=None)
    )
    published: list[tuple[int | None, int | None]] = field(default_factory=list)
    rounds: int = 0
    peeks: int = 0
    epoch: int | None = None
    cuts: dict[str, int] = field(default_factory=dict)
    looks: list[dict[str, tuple[int, int]]] = field(default_factory=list)

    def splits(self) -> list[Split]:
        """Give all splits from their first position."""
        return [
            Split(split_id=i, start=self.first.get(i, 0), stop=self.stops.get(i), owner="t")
            for i in sorted(self.times)
        ]

    def watermark(self, split_id: str, start: int, end: int) -> int | None:
        """Give the watermark of the last record in a range."""
        found = [time for time in self.times[split_id][start:end] if time is not None]
        return found[-1] if found else None

    def perform(self, effect: Effect) -> Event | None:
        """Perform an effect; None for one that ends the planning."""
        match effect:
            case FetchSplitOffsets():
                return SplitOffsetsFetched(
                    extents={
                        i: SplitOffsets(
                            first=self.first.get(i, 0),
                            end=len(self.times[i]) - self.open.get(i, 0),
                            epoch=self.epoch,
                        )
                        for i in effect.split_ids
                    }
                )
            case FetchLogEnds():
                if effect.epochs:
                    self.looks.append(dict(effect.epochs))
                cuts = {i: cut for i, cut in self.cuts.items() if i in effect.epochs}
                return LogEndsFetched(ends={i: len(self.times[i]) for i in effect.positions} | cuts)
            case PeekEventTimes():
                self.rounds += 1
                self.peeks += len(effect.ranges)
                found = {i: self.watermark(i, a, b) for i, (a, b) in effect.ranges.items()}
                return EventTimesPeeked(
                    watermarks_ms={i: ms for i, ms in found.items() if ms is not None}
                )
            case FetchAlignmentGroup():
                return self.others
            case PublishToAlignmentGroup():
                self.published.append((effect.reached_ms, effect.next_ms))
                return AlignmentGroupPublished()
        return None


def settings(
    *,
    idle_timeout_ms: int | None = None,
    tolerates_loss: bool = False,
    keeps_finished: bool = True,
    drift_ms: int | None = None,
    shares_group: bool = False,
) -> BatchPlannerSettings:
    """Make settings for a scan that tracks event time; aligned where a drift is given."""
    return BatchPlannerSettings(
        tracks_event_time=True,
        idle_timeout_ms=idle_timeout_ms,
        tolerates_loss=tolerates_loss,
        keeps_finished=keeps_finished,
        alignment=None if drift_ms is None else aligned(drift_ms),
        shares_group=shares_group,
    )


def aligned(drift_ms: int) -> Alignment:
    """Make the options of group g."""
    return Alignment(group="g", max_drift_ms=drift_ms, update_interval_ms=1000)


def planner_of(world: World, chosen: BatchPlannerSettings | None = None) -> BatchPlanner:
    """Make a new planner that has all splits of the world; the last ones where they are bounded."""
    batches = BatchPlanner(chosen or settings())
    batches.add_splits(world.splits())
    if world.stops:
        batches.no_more_splits()
    return batches


def plan(
    batches: BatchPlanner,
    world: World,
    *,
    now: int = 0,
    limit: int | None = None,
    run_ends: bool = False,
) -> Effect:
    """Drive a planner until it has decided."""
    effect = batches.handle(
        PlanRequested(now_ms=now, wall_ms=1_000_000 + now, limit=limit, run_ends=run_ends)
    )
    while (event := world.perform(effect)) is not None:
        effect = batches.handle(event)
    return effect


def planned(effect: Effect) -> SourceState:
    """Take the state of a planned batch."""
    assert isinstance(effect, BatchPlanned)
    return effect.state


def ranges(state: SourceState) -> Mapping[str, tuple[int, int]]:
    """Give the ranges of a batch."""
    return {split.split_id: (split.start, split.end) for split in state.splits}
