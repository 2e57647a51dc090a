"""Perform the effects of the batch planner until a batch is decided: offsets by the metadata client, event times
of peeked and reported records, watermarks exchanged with the other tables of an alignment group.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import assert_never

from penstock.catalog.secrets.private_folder import make_private_folder
from penstock.connector.commits import CommitsOffsets, OffsetCommits
from penstock.connector.contract import ReadRequest, SplitMetadataClient, SplitSource
from penstock.connector.event_time.future_timestamps import check_dead_letter_path
from penstock.connector.event_time.reports import EventTimes, EventTimesReader, ReportFolder
from penstock.connector.event_time.rowtime import WatermarkPeeks
from penstock.connector.scan import GroupMember, Scan
from penstock.connector.source.coordinator.coordinator import known_source_ids
from penstock.connector.source.microbatch.events import (
    AlignmentGroupFetched,
    AlignmentGroupPublished,
    BatchPlanned,
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
)
from penstock.connector.source.microbatch.planner import BatchPlanner, BatchPlannerSettings
from penstock.connector.source.microbatch.planning_clock import PlanningClock
from penstock.connector.source.microbatch.watermark import check_goes_on
from penstock.connector.source.segments import SegmentFiles
from penstock.connector.source.split import AwaitsStops, ChecksEpochs, ChecksLogEnds, SplitOffsets
from penstock.connector.source.state import SourceState, highest_allowed_ms
from penstock.connector.spark.source.coordinator_driver import CoordinatorDriver
from penstock.connector.spark.source.segment_folder import open_segment_folder

log = logging.getLogger(__name__)

SHORTER_LOG_S, SHORTER_LOG_PAUSE_S = 10.0, 0.5
"""How long, and how often, planning looks for records that a log had and has not, before they count as lost."""

STOP_WAIT_S, STOP_PAUSE_S = 60.0, 1.0
"""How long, and how often, planning looks for records up to a stop: as long as a task waits for those of its range."""


class AlignmentExchange:
    """The board as one member sees it. Driver side; small local files, hardly blocking."""

    def __init__(self, member: GroupMember) -> None:
        self._directory = Path(member.directory)
        self._name = member.name
        self._others = dict(member.others)

    def publish(self, planning_round: int, reached_ms: int | None, next_ms: int | None) -> None:
        """Publish the watermark that the table reaches in this round, and could reach in the next;
        see PublishToAlignmentGroup.
        """
        make_private_folder(self._directory)
        value = {"round": planning_round, "reached_ms": reached_ms, "next_ms": next_ms}
        temporary = self._path(f"{self._name}.new")
        temporary.write_text(json.dumps(value), encoding="utf-8")
        temporary.replace(self._path(self._name))

    def look(self, planning_round: int) -> AlignmentGroupFetched:
        """Read what the others get to in this round: Spark asks each table once a round, always in one order."""
        silent: list[str] = []
        lows: list[int] = []
        for name, table in sorted(self._others.items()):
            try:
                published = json.loads(self._path(name).read_text(encoding="utf-8"))
            except FileNotFoundError:
                silent.append(table)
                continue
            had_its_turn = published["round"] >= planning_round
            low_ms = published["reached_ms"] if had_its_turn else published["next_ms"]
            if low_ms is not None:
                lows.append(low_ms)
        return AlignmentGroupFetched(lowest_ms=min(lows, default=None), silent=tuple(silent))

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.json"


class PlanningExecutor:
    """Drives coordinator and batch planner against one split planner. Driver side of a query, one thread; may block.

    What it holds belongs to the batch planned last; a start from another offset begins again with that offset alone.
    """

    def __init__(self, scan: Scan, source: SplitSource) -> None:
        """Open nothing yet. Raises ConfigError or SinkError for a place that cannot hold dead letters."""
        check_dead_letter_path(scan, source.watermark)
        self._scan = scan
        self._source = source
        self._planner: SplitMetadataClient | None = None
        self._coordination: CoordinatorDriver | None = None
        self._batches = BatchPlanner(BatchPlannerSettings(tracks_event_time=False))
        self._last = SourceState()
        self._board = AlignmentExchange(scan.member) if scan.member is not None else None
        self._ceiling: Mapping[str, int] | None = None
        self._run_ends = False
        self._round = 0
        self._clock_ms: int | None = None
        self._clock = PlanningClock()
        self._reported_of: SourceState | None = None
        self._reports: Mapping[str, EventTimes] = {}
        reported = scan.rowtime is not None and not scan.rowtime.of_clock
        self._event_times = EventTimesReader(
            scan.event_times if reported else None, access=scan.access
        )
        self._commits: OffsetCommits | None = None
        self.extents: Mapping[str, SplitOffsets] = {}

    @property
    def planner(self) -> SplitMetadataClient:
        """The planner, opened at first use: a task's copy of the reader never needs one."""
        if self._planner is None:
            peeked = ReadRequest(columns=self._peeked, time_zone=self._scan.time_zone)
            self._planner = self._source.open_planner(peeked)
        return self._planner

    @property
    def _peeked(self) -> tuple[str, ...]:
        """The columns that peeks decode: the inputs of the watermark.

        Where bad records are left out it is all that the tasks decode: a record that they leave out must not move the
        watermark, however good its time is.
        """
        if self._scan.rowtime is None:
            return ()
        inputs = self._scan.rowtime.inputs
        if not self._source.skips_bad_records:
            return inputs
        return (*self._scan.columns, *(i for i in inputs if i not in self._scan.columns))

    def close(self) -> None:
        """Close the planner, its last commit sent; another is opened when it is needed again."""
        self._leave()
        planner, self._planner = self._planner, None
        if planner is not None:
            planner.close()
            self._commits = _sum(self._commits, _commits_of(planner))

    @property
    def offset_commits(self) -> OffsetCommits | None:
        """How commits of the consumer group ended so far; None where the source commits none."""
        return _sum(self._commits, _commits_of(self._planner))

    def commit_owed(self) -> None:
        """Commit to the consumer group what it did not take so far; opens nothing."""
        committing = _committing(self._planner)
        if committing is not None:
            committing.commit_owed()

    def freeze_ends(self) -> None:
        """Plan nothing beyond the present ends (Trigger.AvailableNow). A bounded scan has its stops already."""
        self._run_ends = True
        if self._source.bounded:
            return
        split_ids = sorted(self.planner.list_splits().owners)
        self._ceiling = {split_id: e.end for split_id, e in self.planner.extents(split_ids).items()}

    def plan(self, after: SourceState, limit: int | None) -> SourceState | None:
        """Plan the batch that follows `after`, which is completed; None when there is no reason for one.

        Raises DataLossError, TopicChangedError, StateMismatchError, BrokerUnavailableError; after the last it may be
        called again.
        """
        now_ms = time.monotonic_ns() // 1_000_000
        coordination = self._coordination_after(after, now_ms)
        coordination.complete(self._batches, now_ms)
        coordination.run_due(self._batches, now_ms)
        coordination.pull(self._batches, limit, now_ms)
        wall_ms = time.time_ns() // 1_000_000
        self._clock_ms = self._clock_after(after, wall_ms)
        reported = self._reported(after)
        request = PlanRequested(
            now_ms=now_ms,
            wall_ms=wall_ms,
            limit=limit,
            run_ends=self._run_ends,
            reported_ms={i: t.highest_ms for i, t in reported.items() if t.highest_ms is not None},
            late={i: t.late for i, t in reported.items() if t.late},
        )
        try:
            planned = self._decide(request)
        except Exception:
            # half a plan must not be gone on with: another attempt begins with what `after` says
            self._leave()
            raise
        # not for an attempt that failed: the others count one round for it
        self._round += 1
        if planned is not None:
            self._last = replace(
                planned, coordinator=coordination.checkpoint(now_ms), clock_ms=self._clock_ms
            )
            return self._last
        return None

    def wait_for_stops(self) -> Iterator[None]:
        """Yield now and then while nothing can be read of a bounded table that has not come to its stops.

        The caller plans again each time. Raises BrokerUnavailableError where that takes too long: the run would end
        without the last rows, and with windows that are open.
        """
        give_up_ns = time.monotonic_ns() + int(STOP_WAIT_S * 1e9)
        while isinstance(self.planner, AwaitsStops) and (short := self._batches.short_of_stops):
            first = short[0]
            assert first.stop is not None, "it is short of one"
            if time.monotonic_ns() >= give_up_ns:
                extent = self.extents[first.split_id]
                raise self.planner.unreadable(first.split_id, first.end, first.stop, extent)
            log.info("%s: waiting at %d for its stop, %d", first.split_id, first.end, first.stop)
            threading.Event().wait(STOP_PAUSE_S)
            yield

    def complete(self, end: SourceState) -> None:
        """Know that the batch up to `end` is completed; an earlier one than the last says nothing new."""
        if self._coordination is not None and end == self._last:
            self._coordination.complete(self._batches, time.monotonic_ns() // 1_000_000)

    def report_folder(self, state: SourceState) -> ReportFolder | None:
        """Return where the tasks of a planned batch report event times. Raises SinkError."""
        return self._event_times.report_folder(state, replayed=state != self._last)

    def _reported(self, after: SourceState) -> Mapping[str, EventTimes]:
        """Return what the tasks of the last completed batch reported of event times, by split."""
        if after != self._reported_of:
            self._reports = self._event_times.after(after)
            self._reported_of = after
        return self._reports

    def _decide(self, request: PlanRequested) -> SourceState | None:
        event: Event = request
        while True:
            effect = self._batches.handle(event)
            match effect:
                case FetchSplitOffsets():
                    self.extents = self.planner.extents(effect.split_ids)
                    event = SplitOffsetsFetched(extents=self.extents)
                case FetchLogEnds():
                    ends = self._log_ends(effect.positions) if effect.positions else {}
                    event = LogEndsFetched(ends={**ends, **self._cuts(effect.epochs)})
                case PeekEventTimes():
                    event = EventTimesPeeked(watermarks_ms=self._peek(effect.ranges))
                case FetchAlignmentGroup():
                    event = self._group.look(self._round)
                case PublishToAlignmentGroup():
                    self._group.publish(self._round, effect.reached_ms, effect.next_ms)
                    event = AlignmentGroupPublished()
                case BatchPlanned():
                    return effect.state
                case NoNewRecords():
                    return None
                case ReportDataLoss():
                    raise self.planner.lost(effect.split_id, effect.position, effect.extent)
                case _:
                    assert_never(effect)

    def _log_ends(self, positions: Mapping[str, int]) -> Mapping[str, int]:
        """Look where logs end that ended before a position, until they do not, or for good."""
        planner, give_up_s = self.planner, time.monotonic() + SHORTER_LOG_S
        if not isinstance(planner, ChecksLogEnds):
            return {}
        while True:
            ends = planner.log_ends(sorted(positions))
            shorter = [i for i, position in sorted(positions.items()) if ends[i] < position]
            if not shorter:
                return ends
            if time.monotonic() >= give_up_s:
                for i in shorter:
                    log.warning(
                        "%s: the log ends at %d, and was read to %d", i, ends[i], positions[i]
                    )
                return ends
            threading.Event().wait(SHORTER_LOG_PAUSE_S)

    def _cuts(self, epochs: Mapping[str, tuple[int, int]]) -> Mapping[str, int]:
        """Look where logs were cut below what was read of them; those that were not are absent."""
        planner = self.planner
        if not epochs or not isinstance(planner, ChecksEpochs):
            return {}
        cuts = planner.cuts(epochs)
        for i, cut in sorted(cuts.items()):
            log.warning("%s: the log was cut at %d, and was read to %d", i, cut, epochs[i][0])
        return cuts

    def check_planned(self, state: SourceState) -> None:
        """Check that a batch is read from the topics that it was planned for: an earlier process may have planned it.

        And, where a loss is an error, that their logs were not cut below it since.
        Raises TopicChangedError, DataLossError.
        """
        if state == self._last:
            return
        known = known_source_ids(self._source.enumerator_type, state.coordinator)
        if known:
            for change in self.planner.list_splits().changes_since(known):
                raise self.planner.changed(*change)
        if not self._source.tolerates_loss:
            self._refuse_cut(state)

    def _refuse_cut(self, state: SourceState) -> None:
        """Raise the error for a log that was cut below a range since that was planned.

        Records of the range itself that are others now are no loss: the batch was not committed.
        """
        read = [s for s in state.splits if s.epoch is not None and s.end > s.start]
        extents = self.planner.extents([split.split_id for split in read]) if read else {}
        cuts = self._cuts(read_in_earlier_epochs(read, extents))
        for split in state.splits:
            cut = cuts.get(split.split_id, split.start)
            if cut < split.start:
                extent = replace(extents[split.split_id], end=cut)
                raise self.planner.lost(split.split_id, split.start, extent)

    def _clock_after(self, after: SourceState, wall_ms: int) -> int | None:
        """Return the clock for future timestamps; a replayed batch has it in its offset."""
        if self._scan.rowtime is None or self._source.watermark.max_future_ms is None:
            return None
        return self._clock.read(wall_ms=wall_ms, steady_ms=_boot_ms(), logged_ms=after.clock_ms)

    def _coordination_after(self, after: SourceState, now_ms: int) -> CoordinatorDriver:
        if self._coordination is not None and after == self._last:
            return self._coordination
        if self._scan.rowtime is not None and self._last == SourceState():
            # what another run planned: it may have been bounded
            table = str(self._scan.table.identifier)
            check_goes_on(table, after, bounded=self._source.bounded)
        self._leave()
        coordination = CoordinatorDriver(
            self._source, self.planner, after.coordinator, self._open_segment_files
        )
        coordination.start(now_ms)
        settings = BatchPlannerSettings(
            tracks_event_time=self._scan.rowtime is not None,
            idle_timeout_ms=self._source.watermark.idle_timeout_ms,
            tolerates_loss=self._source.tolerates_loss,
            keeps_finished=not coordination.gives_on_request,
            alignment=self._source.watermark.alignment,
            shares_group=self._board is not None,
        )
        self._batches = BatchPlanner(settings, self._without_lifted_stops(after, coordination))
        if self._ceiling is not None:
            self._batches.limit_to(self._ceiling)
        coordination.register(self._batches, now_ms)
        self._coordination, self._last = coordination, after
        return coordination

    def _open_segment_files(self) -> SegmentFiles | None:
        """Open the folder beside the checkpoint, where a source that is pulled keeps what it has seen."""
        if self._scan.seen_files is None:
            return None
        return open_segment_folder(self._scan.seen_files, self._scan.access)

    def _without_lifted_stops(
        self, after: SourceState, coordination: CoordinatorDriver
    ) -> SourceState:
        """Resume a table that is no longer bounded from where it stopped."""
        if self._source.bounded or after.coordinator is None:
            return after
        if not coordination.is_bounded(after.coordinator):
            return after
        return replace(after, splits=tuple(replace(split, stop=None) for split in after.splits))

    def _leave(self) -> None:
        coordination, self._coordination = self._coordination, None
        if coordination is not None:
            coordination.close()

    @property
    def _group(self) -> AlignmentExchange:
        assert self._board is not None, "only a member of a group looks at it"
        return self._board

    def _peek(self, ranges: Mapping[str, tuple[int, int]]) -> dict[str, int]:
        assert self._scan.rowtime is not None, "a scan without rowtime peeks at nothing"
        peeks = WatermarkPeeks(
            planner=self.planner, rowtime=self._scan.rowtime, time_zone=self._scan.time_zone
        )
        max_future_ms = self._source.watermark.max_future_ms
        return peeks.look(ranges, highest_allowed_ms(self._clock_ms, max_future_ms))


def _committing(planner: object) -> CommitsOffsets | None:
    return planner if isinstance(planner, CommitsOffsets) else None


def _commits_of(planner: SplitMetadataClient | None) -> OffsetCommits | None:
    committing = _committing(planner)
    return None if committing is None else committing.offset_commits


def _sum(one: OffsetCommits | None, other: OffsetCommits | None) -> OffsetCommits | None:
    return one or other if one is None or other is None else one + other


def _boot_ms() -> int:
    """Return the time since the machine's boot, where the system includes its sleep: a wake-up is no step."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    ns = time.monotonic_ns() if clock is None else time.clock_gettime_ns(clock)
    return ns // 1_000_000
