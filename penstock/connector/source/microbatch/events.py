"""The events and effects of a batch planner: plain values, matched exhaustively.

The executor performs an effect and returns its outcome as an event, until a batch is planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.connector.source.split import SplitOffsets
from penstock.connector.source.state import SourceState, SplitState


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequested:
    """The engine wants the next batch. `limit` is in records, None for no limit.

    `now_ms` is a clock that never steps, for durations; `wall_ms` the epoch time, for what outlives the process.
    `run_ends`: the engine reads what is there and stops at the first answer that is no batch. `reported_ms` are the
    highest watermarks (epoch ms) of the rows that the tasks of the last batch have read, by split, as far as tasks
    reported them; `late` counts rows of that batch that were late, in splits that were found later than their first
    record. Both are reported for a batch until another one is completed.
    """

    now_ms: int
    wall_ms: int
    limit: int | None
    run_ends: bool = False
    reported_ms: Mapping[str, int] = field(default_factory=dict)
    late: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOffsetsFetched:
    """What the splits hold now."""

    extents: Mapping[str, SplitOffsets]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEndsFetched:
    """Where logs end for good that ended before a position: also past what can be read yet. Others are absent."""

    ends: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTimesPeeked:
    """The watermark (epoch ms) that the last record of each range gives; splits without one are absent."""

    watermarks_ms: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentGroupFetched:
    """The watermarks of the other tables of the alignment group in this round of planning.

    `lowest_ms` is their lowest watermark (epoch ms): decided where a table is planned already, its potential where it
    comes later; None where none of them holds the group. `silent` names those that have published nothing yet.
    """

    lowest_ms: int | None
    silent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentGroupPublished:
    """What `PublishToAlignmentGroup` said is published."""


Event = (
    PlanRequested
    | SplitOffsetsFetched
    | LogEndsFetched
    | EventTimesPeeked
    | AlignmentGroupFetched
    | AlignmentGroupPublished
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSplitOffsets:
    """Look up what the splits hold."""

    split_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLogEnds:
    """Look for some time whether logs go on up to these positions, which were there once.

    A new leader may not know for a moment how far its log is replicated. `epochs` are positions, and the epoch in which
    each was read, of logs that are in a later one: look whether they were cut below, and have grown again.
    """

    positions: Mapping[str, int]
    epochs: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def read_past_the_end(
    splits: Iterable[SplitState], extents: Mapping[str, SplitOffsets]
) -> dict[str, int]:
    """Return the positions of unfinished splits that are past what can be read of their logs now."""
    return {
        split.split_id: split.end
        for split in splits
        if not split.finished
        and (extent := extents.get(split.split_id)) is not None
        and extent.end < split.end
    }


def read_in_earlier_epochs(
    splits: Iterable[SplitState], extents: Mapping[str, SplitOffsets]
) -> dict[str, tuple[int, int]]:
    """Return the positions in logs that are in a later epoch now, and may be cut below them: with the epoch of each."""
    return {
        split.split_id: (split.end, split.epoch)
        for split in splits
        if split.epoch is not None
        and (extent := extents.get(split.split_id)) is not None
        and split.epoch < (extent.epoch or 0)
        and extent.first <= split.end
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class PeekEventTimes:
    """Find the watermark of the last record in each [from, to)."""

    ranges: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAlignmentGroup:
    """Read what the other tables of the group have published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishToAlignmentGroup:
    """Publish the watermark that the table reaches with this batch, and could reach with the next one.

    Both are the lowest watermark of its active splits, epoch ms; None: it holds back no other.
    """

    reached_ms: int | None
    next_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlanned:
    """The next batch is decided; a batch without new records only moves the watermark."""

    state: SourceState


@dataclass(frozen=True, slots=True, kw_only=True)
class NoNewRecords:
    """There is no reason for a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDataLoss:
    """Records were deleted before they were read, or the log ends before the position, and the table does not tolerate
    that: fail the query.
    """

    split_id: str
    position: int
    extent: SplitOffsets


Effect = (
    FetchSplitOffsets
    | FetchLogEnds
    | PeekEventTimes
    | FetchAlignmentGroup
    | PublishToAlignmentGroup
    | BatchPlanned
    | NoNewRecords
    | ReportDataLoss
)
