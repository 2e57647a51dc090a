"""The batch planner: decides one micro-batch after the other, from the events that the executor sends.

It is the reader side of micro-batches: splits come from the coordinator (`add_splits`). A state machine without I/O
and without a clock: `handle(event)` answers with the effect to perform next.

    PlanRequested ─► FetchSplitOffsets ─► SplitOffsetsFetched [─► FetchLogEnds ─► LogEndsFetched]
      ─► PeekEventTimes (how far would each split get) ─► EventTimesPeeked
      ─► FetchAlignmentGroup ─► AlignmentGroupFetched
      ─► PeekEventTimes (where have some to stop) ─► EventTimesPeeked ...
      ─► PeekEventTimes (how far would each get next) ─► EventTimesPeeked
      ─► PublishToAlignmentGroup ─► AlignmentGroupPublished
      ─► BatchPlanned or NoNewRecords
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import assert_never

from penstock.connector.source.alignment import Alignment, alignment_limit
from penstock.connector.source.microbatch.batch_plan import (
    BatchPlan,
    Peeked,
    SplitPlan,
    split_quotas,
)
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
    NoNewRecords,
    PeekEventTimes,
    PlanRequested,
    PublishToAlignmentGroup,
    ReportDataLoss,
    SplitOffsetsFetched,
    read_in_earlier_epochs,
    read_past_the_end,
)
from penstock.connector.source.microbatch.read_limit import share
from penstock.connector.source.microbatch.watermark import (
    IdlenessTimers,
    combined_watermark,
    is_idle,
)
from penstock.connector.source.split import Split, SplitOffsets
from penstock.connector.source.state import (
    DiscoveredSplit,
    SourceState,
    SplitState,
    instant_text,
)


class _Phase(Enum):
    """What peeks are for: the ends that the read limit allows, those that the group allows, or the next batch's."""

    CAPS = auto()
    CUTS = auto()
    NEXT = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlannerSettings:
    """The table's options for the planner. Durations in ms; see SplitSource.

    `alignment` is followed where event time is tracked; `shares_group` says that the query reads other tables of the
    group. `keeps_finished`: a split that is read to its stop stays in the state; not where splits are pulled, as their
    number would grow without bound.
    """

    tracks_event_time: bool
    idle_timeout_ms: int | None = None
    tolerates_loss: bool = False
    keeps_finished: bool = True
    alignment: Alignment | None = None
    shares_group: bool = False


class BatchPlanner:
    """Plans the batches of one scan. Driver only, one thread; see the module's drawing.

    Its state is the last planned batch, so a start from a checkpoint and a running scan are alike.
    """

    def __init__(self, settings: BatchPlannerSettings, state: SourceState | None = None) -> None:
        self._settings = settings
        self._state = state or SourceState()
        self._splits = {split.split_id: split for split in self._state.splits}
        self._no_more_splits = False
        self._quiet = IdlenessTimers()
        self._ceiling: Mapping[str, int] | None = None
        self._remembered: dict[str, Peeked] = {}
        self._waits = False  # the last answer was no batch
        self._request: PlanRequested | None = None
        self._extents: Mapping[str, SplitOffsets] = {}
        self._earlier: Mapping[str, tuple[int, int]] = {}  # see FetchLogEnds
        self._pending: BatchPlan | None = None
        self._backlog: dict[str, int] = {}
        self._phase = _Phase.CAPS
        self._answer: BatchPlanned | NoNewRecords = NoNewRecords()
        self._reached_ms: int | None = None
        self._reached_before_ms: int | None = None

    @property
    def state(self) -> SourceState:
        """The last planned batch; before the first, the empty state."""
        return self._state

    @property
    def has_all_splits(self) -> bool:
        """Whether the last split was signalled."""
        return self._no_more_splits

    @property
    def ahead(self) -> int:
        """Count the positions left to read in splits that have a stop."""
        return sum(max(0, s.stop - s.end) for s in self._splits.values() if s.stop is not None)

    @property
    def short_of_stops(self) -> Sequence[SplitState]:
        """The splits that have not come to their stop, and of which nothing more could be read at the last planning."""
        return [
            split
            for split in self._splits.values()
            if split.stop is not None
            and not split.finished
            and (extent := self._extents.get(split.split_id)) is not None
            and extent.end <= split.end
        ]

    def add_splits(self, splits: Sequence[Split]) -> None:
        """Add splits at their starts; they are part of the next batch, records or not."""
        for split in splits:
            assert split.split_id not in self._splits, f"split {split.split_id} was assigned before"
            self._splits[split.split_id] = SplitState(
                split_id=split.split_id,
                owner=split.owner,
                start=split.start,
                end=split.start,
                stop=split.stop,
            )

    def no_more_splits(self) -> None:
        """Note that no more splits will be added: when all are finished, so is the scan."""
        self._no_more_splits = True

    def set_stops(self, stops: Mapping[str, int]) -> None:
        """Set the end of splits without one: the scan is bounded now."""
        for split_id in stops.keys() & self._splits.keys():
            self._splits[split_id] = replace(self._splits[split_id], stop=stops[split_id])

    def limit_to(self, ends: Mapping[str, int]) -> None:
        """Plan nothing past `ends` (split id -> exclusive position), nor any split that is not named there."""
        self._ceiling = dict(ends)

    def handle(self, event: Event) -> Effect:
        """Handle one event and return the next effects."""
        match event:
            case PlanRequested():
                return self._requested(event)
            case SplitOffsetsFetched():
                return self._extents_fetched(event.extents)
            case LogEndsFetched():
                self._note_epochs(event.ends)
                return self._bounds_known(self._extents, event.ends)
            case EventTimesPeeked():
                return self._peeked(event.watermarks_ms)
            case AlignmentGroupFetched():
                return self._align(event)
            case AlignmentGroupPublished():
                return self._answer
        assert_never(event)

    def _requested(self, request: PlanRequested) -> Effect:
        self._request = request
        self._learn(request.reported_ms)
        self._count_late(request.late)
        self._quiet.restore(self._state.splits, now_ms=request.now_ms, wall_ms=request.wall_ms)
        if not self._settings.keeps_finished:
            done = [split.split_id for split in self._state.splits if split.finished]
            for split_id in done:
                self._splits.pop(split_id, None)
        return FetchSplitOffsets(split_ids=tuple(sorted(self._splits)))

    def _learn(self, reported_ms: Mapping[str, int]) -> None:
        """Apply the watermarks of the last batch's rows: a peek knows one record of each range, its task all of them.

        The watermark behind all of those rows is kept apart: splits that end with their batch are in no other.
        """
        read = [_raised(split, reported_ms) for split in self._state.splits]
        before_ms = self._state.watermark_ms
        self._reached_before_ms = combined_watermark(read, before_ms, no_more_splits=False)
        for split_id in reported_ms.keys() & self._splits.keys():
            self._splits[split_id] = _raised(self._splits[split_id], reported_ms)

    def _count_late(self, late: Mapping[str, int]) -> None:
        """Add the late rows of the last batch to what its offset says."""
        for split in self._state.splits:
            if late.get(split.split_id) and split.found is not None:
                found = replace(split.found, late=split.found.late + late[split.split_id])
                known = self._splits[split.split_id]
                self._splits[split.split_id] = replace(known, found=found)

    def _extents_fetched(self, extents: Mapping[str, SplitOffsets]) -> Effect:
        self._extents = extents
        # where splits are pulled, ends are from the listing (`_shrank`)
        is_log = self._settings.keeps_finished
        shorter = read_past_the_end(self._splits.values(), extents) if is_log else {}
        whole = (s for s in self._splits.values() if not s.finished and s.split_id not in shorter)
        self._earlier = read_in_earlier_epochs(whole, extents)
        if shorter or self._earlier:
            return FetchLogEnds(positions=shorter, epochs=self._earlier)
        return self._bounds_known(extents, {})

    def _note_epochs(self, ends: Mapping[str, int]) -> None:
        """Give positions in logs that were not cut the epoch of now: nothing needs to look at those again."""
        for split_id in self._earlier.keys() - ends.keys():
            epoch = self._extents[split_id].epoch
            self._splits[split_id] = replace(self._splits[split_id], epoch=epoch)

    def _bounds_known(self, extents: Mapping[str, SplitOffsets], ends: Mapping[str, int]) -> Effect:
        """Plan by what the splits hold. `ends`: where logs end that cannot be read up to their positions."""
        assert self._request is not None, "extents came without a request"
        splits: dict[str, SplitState] = {}
        backlog: dict[str, int] = {}
        new = self._splits.keys() - self._state.positions.keys() if self._found_later else set()
        for split_id, known in sorted(self._splits.items()):
            extent = extents[split_id]
            at = min(known.end, ends.get(split_id, known.end))
            lost = at < known.end or (not known.finished and at < extent.first)
            if (lost and not self._settings.tolerates_loss) or self._shrank(known, extent):
                held = extent if at == known.end else replace(extent, end=at)
                return ReportDataLoss(split_id=split_id, position=known.end, extent=held)
            noted = self._noted(known, extent) if split_id in new else known
            split = splits[split_id] = self._at_position(noted, extent, at)
            backlog[split_id] = self._readable(split, extent)
        self._backlog, self._phase = backlog, _Phase.CAPS
        self._pending = self._pending_plan(splits, backlog)
        ranges = self._pending.caps_to_peek(aligned=self._settings.alignment is not None)
        if ranges and self._settings.tracks_event_time:
            return PeekEventTimes(ranges=ranges)
        return self._caps_known(self._pending)

    @property
    def _found_later(self) -> bool:
        """Whether splits that are new were found while others were read; where they are pulled all are."""
        return self._settings.keeps_finished and bool(self._state.splits)

    def _noted(self, split: SplitState, extent: SplitOffsets) -> SplitState:
        """Note that a split was found with records in it, while others were read."""
        assert self._request is not None
        if split.found is not None or extent.end <= split.start:
            return split
        found = DiscoveredSplit(at_ms=self._request.wall_ms, until=extent.end)
        return replace(split, found=found)

    def _pending_plan(
        self, splits: Mapping[str, SplitState], backlog: Mapping[str, int]
    ) -> BatchPlan:
        assert self._request is not None
        limit = self._request.limit
        wanted = split_quotas(
            splits, backlog, self._remembered, last=self._state.splits, limit=limit
        )
        if self._waits:
            # what was peeked at, so that a table that waits does not peek again and again
            for split_id, peeked in self._remembered.items():
                wanted[split_id] = min(wanted[split_id], max(peeked) - splits[split_id].end)
        shares = share(limit, wanted)
        plans = {
            split_id: SplitPlan(
                split=split,
                cap=split.end + shares[split_id],
                waiting=backlog[split_id] > 0,
                known=self._remembered.get(split_id, {}),
                epoch=self._extents[split_id].epoch,
            )
            for split_id, split in splits.items()
        }
        return BatchPlan(plans=plans, run_ends=self._request.run_ends)

    def _shrank(self, split: SplitState, extent: SplitOffsets) -> bool:
        """Return whether a split that is pulled, and so has its end from the listing, can no longer come there."""
        pulled = not self._settings.keeps_finished
        return pulled and split.stop is not None and not split.finished and extent.end < split.stop

    def _readable(self, split: SplitState, extent: SplitOffsets) -> int:
        """Count the positions of `split` that a batch may take now."""
        end = extent.end if split.stop is None else min(extent.end, split.stop)
        if self._ceiling is not None:
            end = min(end, self._ceiling.get(split.split_id, split.end))
        return max(0, end - split.end)

    def _at_position(self, known: SplitState, extent: SplitOffsets, at: int) -> SplitState:
        """Return the split at its next position, past what was lost, with its idleness.

        `at` is where it was read to, or the end of a log that is shorter now: what comes there is new. One that has
        records to read is not idle, whatever holds it.
        """
        assert self._request is not None
        now_ms = self._request.now_ms
        if not known.finished and at < extent.first:
            at = extent.first if known.stop is None else min(extent.first, known.stop)
        since_ms = self._quiet.watch(known.split_id, quiet=extent.end <= at, now_ms=now_ms)
        wall_ms = None if since_ms is None else self._request.wall_ms - (now_ms - since_ms)
        idle = is_idle(since_ms, now_ms, self._settings.idle_timeout_ms)
        # a copy costs more than all the rest of planning a split that is quiet
        if (known.start, at, known.idle, known.quiet_since_ms, known.paused) == (
            known.end,
            known.end,
            idle,
            wall_ms,
            None,
        ):
            return known
        return replace(
            known,
            start=at,
            end=at,
            lost=known.lost + max(0, at - known.end),
            epoch=known.epoch if at == known.end else None,
            idle=idle,
            quiet_since_ms=wall_ms,
            paused=None,
        )

    def _peeked(self, watermarks_ms: Mapping[str, int]) -> Effect:
        assert self._pending is not None, "event times came without a pending plan"
        match self._phase:
            case _Phase.CAPS:
                self._pending.learn_caps(watermarks_ms)
                return self._caps_known(self._pending)
            case _Phase.CUTS:
                self._pending.learn_ranges(watermarks_ms)
                return self._search(self._pending)
            case _Phase.NEXT:
                self._pending.learn_caps(watermarks_ms)
                return self._share(self._pending)
        assert_never(self._phase)

    def _caps_known(self, pending: BatchPlan) -> Effect:
        if self._settings.alignment is None or not self._settings.tracks_event_time:
            return self._planned(pending)
        if self._settings.shares_group:
            return FetchAlignmentGroup()
        return self._align(AlignmentGroupFetched(lowest_ms=None))

    def _align(self, group: AlignmentGroupFetched) -> Effect:
        pending, alignment = self._pending, self._settings.alignment
        assert pending is not None, "the group was seen without a pending plan"
        assert alignment is not None, "only an aligned table looks at a group"
        if group.silent:
            names = ", ".join(group.silent)
            pending.hold_all(f"group '{alignment.group}' waits for the first records of {names}")
            return self._planned(pending)
        lows = [ms for ms in (pending.potential_ms(), group.lowest_ms) if ms is not None]
        if not lows:
            return self._planned(pending)
        limit_ms = alignment_limit(min(lows), alignment.max_drift_ms)
        reason = f"ahead of group '{alignment.group}', which may go to {instant_text(limit_ms)}"
        pending.hold(limit_ms, alignment.max_drift_ms, reason)
        return self._search(pending)

    def _search(self, pending: BatchPlan) -> Effect:
        self._phase = _Phase.CUTS
        ranges = pending.ranges_to_peek()
        return PeekEventTimes(ranges=ranges) if ranges else self._planned(pending)

    def _planned(self, pending: BatchPlan) -> Effect:
        assert self._request is not None
        splits = pending.decided()
        self._remembered = pending.remembered()
        before = self._state.watermark_ms
        moved = any(split.end > split.start for split in splits)
        # a resolved start is kept by the batch that follows it, or a restart would resolve another one
        new = not self._splits.keys() <= self._state.positions.keys()
        watermark = self._watermark(splits, new=new)
        lost = any(split.lost != self._splits[split.split_id].lost for split in splits)
        # the run is not over: its group lets this table go on once the others' potentials are known anew
        held = self._request.run_ends and not moved and any(split.paused for split in splits)
        late = any(self._request.late.values())
        # the position at the end of a log that became shorter is kept, or each plan would look for its end
        back = any(split.end < self._splits[split.split_id].end for split in splits)
        self._waits = not (moved or new or lost or back or held or late) and watermark == before
        if self._waits:
            return self._answered(NoNewRecords(), pending, splits)
        self._state = SourceState(
            splits=splits,
            watermark_ms=watermark,
            watermark_before_ms=before,
            limit_ms=pending.limit_ms,
            held=self._state.held + 1 if held else 0,
        )
        self._splits = {split.split_id: split for split in splits}
        return self._answered(BatchPlanned(state=self._state), pending, splits)

    def _answered(
        self, answer: BatchPlanned | NoNewRecords, pending: BatchPlan, splits: Sequence[SplitState]
    ) -> Effect:
        """Return the answer, after reporting to the group how far the table gets and could get next.

        The next potential is published ahead, as tables that are planned before this one in the next round would else
        be held by what this one has long read.
        """
        if self._settings.alignment is None or not self._settings.shares_group:
            return answer
        self._answer, self._reached_ms = answer, pending.reached_ms()
        left = {s.split_id: max(0, self._backlog[s.split_id] + s.start - s.end) for s in splits}
        self._pending = self._pending_plan(
            {s.split_id: replace(s, start=s.end) for s in splits}, left
        )
        self._phase = _Phase.NEXT
        ranges = self._pending.caps_to_peek(aligned=True)
        return PeekEventTimes(ranges=ranges) if ranges else self._share(self._pending)

    def _share(self, ahead: BatchPlan) -> PublishToAlignmentGroup:
        for split_id, plan in ahead.plans.items():
            known = self._remembered.get(split_id, {})
            if plan.reads and plan.reach_ms is not None:
                self._remembered[split_id] = {**known, plan.cap: plan.reach_ms}
            elif not plan.reads and plan.known:
                self._remembered[split_id] = {**known, **plan.known}
        return PublishToAlignmentGroup(reached_ms=self._reached_ms, next_ms=ahead.potential_ms())

    def _watermark(self, splits: Sequence[SplitState], *, new: bool) -> int | None:
        """Add the table's watermark to the batch.

        It starts at the watermark behind the rows of the last one. A split that was discovered since holds it at its
        logged value: its rows are not late yet.
        """
        if not self._settings.tracks_event_time:
            return None
        waits = new and self._settings.keeps_finished
        before_ms = self._state.watermark_ms if waits else self._reached_before_ms
        return combined_watermark(splits, before_ms, no_more_splits=self._no_more_splits)


def _raised(split: SplitState, reported_ms: Mapping[str, int]) -> SplitState:
    """Raise a split's watermark to the one that its tasks reported, where that is higher."""
    new_ms, known_ms = reported_ms.get(split.split_id), split.watermark_ms
    if new_ms is None or (known_ms is not None and new_ms <= known_ms):
        return split
    return replace(split, watermark_ms=new_ms)
