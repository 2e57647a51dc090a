"""What happens to a coordinator (events) and what it asks for (effects): plain values, matched exhaustively.

The executor performs an effect and hands the outcome back as an event, until a batch is planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.connector.source.split import Discovery, Extent
from penstock.connector.source.state import SourceState

__all__ = [
    "BatchPlanned",
    "Effect",
    "Event",
    "EventTimesPeeked",
    "ExtentsFetched",
    "FetchExtents",
    "ListSplits",
    "NothingNew",
    "PeekEventTimes",
    "PlanRequested",
    "PositionsResolved",
    "ReportChanged",
    "ReportLost",
    "ResolvePositions",
    "SplitsListed",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequested:
    """The engine wants the next batch. `limit` is in records, None for no limit.

    `now_ms` is a clock that never steps, for durations; `wall_ms` the epoch time, for what outlives the process.
    """

    now_ms: int
    wall_ms: int
    limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsListed:
    """The listing that `ListSplits` asked for."""

    discovery: Discovery


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionsResolved:
    """Where the new splits start (inclusive) and, for a bounded scan, stop (exclusive)."""

    starts: Mapping[str, int]
    stops: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtentsFetched:
    """What the splits hold now."""

    extents: Mapping[str, Extent]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTimesPeeked:
    """The watermark (epoch ms) that the last record of each range gives; splits without one are absent."""

    watermarks_ms: Mapping[str, int]


Event = PlanRequested | SplitsListed | PositionsResolved | ExtentsFetched | EventTimesPeeked


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSplits:
    """List the splits that exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvePositions:
    """Resolve the starts of new splits and the stops of those that have none.

    `first_listing` says that the startup mode applies to the new ones; `stop_ids` is empty for an unbounded scan.
    """

    split_ids: tuple[str, ...]
    stop_ids: tuple[str, ...]
    first_listing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchExtents:
    """Look up what the splits hold."""

    split_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeekEventTimes:
    """Find the watermark of the last record in each [from, to)."""

    ranges: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlanned:
    """The next batch is decided; a batch without new records only moves the watermark."""

    state: SourceState


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingNew:
    """There is no reason for a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLost:
    """Records were deleted before they were read, and the table does not tolerate that: fail the query."""

    split_id: str
    position: int
    extent: Extent


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportChanged:
    """A topic is gone (`found` is None) or was made again with another id: fail the query."""

    owner: str
    known: str
    found: str | None


Effect = (
    ListSplits
    | ResolvePositions
    | FetchExtents
    | PeekEventTimes
    | BatchPlanned
    | NothingNew
    | ReportLost
    | ReportChanged
)
