"""Spark's view of the source state: offsets of a query, partitions of a batch, and lag for the progress event.

Spark compares offsets as JSON text, asks `initialOffset` several times, and never tells a source its checkpoint
path: so the empty state is every scan's initial offset, and the resolved start travels in the first end offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import InputPartition

from penstock.connector.contract import SplitMetadataClient
from penstock.connector.event_time.reports import ReportFolder
from penstock.connector.source.microbatch.read_limit import SplitRange, gather, pack, spread
from penstock.connector.source.split import Split, TaskSize
from penstock.connector.source.state import SourceState, encode_state

INITIAL_OFFSET: dict[str, Any] = encode_state(SourceState())


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWatermarks:
    """The batch's watermark and the one before it, in epoch ms. Spark's own begins at 0, so none is lower."""

    now_ms: int
    before_ms: int

    @classmethod
    def of(cls, state: SourceState) -> BatchWatermarks:
        """Collect the watermarks of a planned batch."""
        return cls(
            now_ms=max(0, state.watermark_ms or 0), before_ms=max(0, state.watermark_before_ms or 0)
        )


@dataclass
class TaskPartition(InputPartition):
    """What one task reads: ranges of splits, and whether it sends the batch's heartbeat row.

    Records whose watermark is above `not_after_ms` (epoch ms) are bad records; None is no bound. `batch_positions` are
    the positions of all ranges of the batch, which its records cannot exceed; None where a range has no end. `reports`
    says where the task reports event times above `known_ms`, the watermark that planning gave each split, and of late
    rows in the splits `counts_late`. `numbers` are the places of its ranges in the batch. `slot` is the number of the
    task where each has whole splits.
    """

    splits: tuple[Split, ...]
    watermarks: BatchWatermarks | None
    heartbeat: bool
    not_after_ms: int | None = None
    batch_positions: int | None = None
    reports: ReportFolder | None = None
    known_ms: tuple[tuple[str, int], ...] = ()
    counts_late: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    slot: int | None = None


def plan_partitions(
    state: SourceState,
    planner: SplitMetadataClient,
    *,
    tasks: int | None,
    tracks_event_time: bool,
    max_future_ms: int | None = None,
    reports: ReportFolder | None = None,
    slots: int | None = None,
    size: TaskSize | None = None,
) -> Sequence[TaskPartition]:
    """Plan a batch's tasks from its end offset alone, so that a replay reads the same.

    How far in the future a record may be is counted from the clock that the offset has, by the option as it is now: a
    batch that failed for such a record continues once the option is changed. A batch that moves the watermark sends
    one heartbeat row, as its ranges may hold nothing but gaps. `reports` is where its tasks report event times.
    With `slots` there are so many tasks, each with whole splits or none; where neither those nor `tasks` say how many,
    small splits share a task up to `size`.
    """
    ranges = [
        SplitRange(split_id=s.split_id, start=s.start, stop=s.end)
        for s in state.splits
        if s.end > s.start
    ]
    watermarks = BatchWatermarks.of(state) if tracks_event_time else None
    heartbeat = tracks_event_time and state.watermark_ms != state.watermark_before_ms
    packed = pack(ranges, tasks) if slots is None else spread(ranges, slots)
    known_ms = {s.split_id: s.watermark_ms for s in state.splits if s.watermark_ms is not None}
    # nothing is late before there is a watermark
    behind = set() if state.watermark_before_ms is None else set(_behind_its_discovery(state))
    task_splits = [tuple(planner.split(r.split_id, r.start, r.stop) for r in t) for t in packed]
    if tasks is None and slots is None:
        task_splits = gather([split for (split,) in task_splits], size)
    if heartbeat and not task_splits:
        task_splits = [()]
    numbers = _numbers(state, [split for task in task_splits for split in task])
    return [
        TaskPartition(
            splits=splits,
            watermarks=watermarks,
            heartbeat=heartbeat and index == 0,
            not_after_ms=state.not_after_ms(max_future_ms) if tracks_event_time else None,
            batch_positions=_positions([split for task in task_splits for split in task]),
            reports=reports if tracks_event_time else None,
            known_ms=tuple((i, known_ms[i]) for s in splits if (i := s.split_id) in known_ms),
            counts_late=tuple(s.split_id for s in splits if s.split_id in behind),
            numbers=tuple(numbers[s.split_id, s.start] for s in splits),
            slot=None if slots is None else index,
        )
        for index, splits in enumerate(task_splits)
    ]


def _numbers(state: SourceState, ranges: Sequence[Split]) -> Mapping[tuple[str, int], int]:
    """Number ranges by their splits, as they are in the offset, and by where they start."""
    number_of = {split.split_id: number for number, split in enumerate(state.splits)}
    ordered = sorted((number_of[one.split_id], one.start, one.split_id) for one in ranges)
    return {(split_id, start): number for number, (_, start, split_id) in enumerate(ordered)}


def _behind_its_discovery(state: SourceState) -> Iterator[str]:
    """Name the splits that were found later than their first record, while they are read up to where they were then."""
    for split in state.splits:
        if split.found is not None and split.start < split.found.until:
            yield split.split_id


def _positions(splits: Sequence[Split]) -> int | None:
    """Add up ranges as readers see them: to a planner a compressed file is one position wide."""
    positions = 0
    for split in splits:
        if split.stop is None:
            return None
        positions += split.stop - split.start
    return positions
