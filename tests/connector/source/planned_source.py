"""A split planner over a fixed listing, and enumerators that look at the world through it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from penstock.catalog.errors import BrokerUnavailableError
from penstock.connector.contract import Accept
from penstock.connector.source.coordinator.discovery import DiscoveringEnumerator
from penstock.connector.source.coordinator.pull import PullingEnumerator
from penstock.connector.source.enumerator import MakeEnumerator
from penstock.connector.source.split import Discovery, Split, SplitOffsets

__all__ = ["Listing", "pulled", "pushed"]


@dataclass
class Listing:
    """A SplitPlanner: splits with their starts, in reading order.

    `failures` are raised by listings, one a call, first; `failing_peeks` are the numbers of peeks that fail.
    `stops` are ends of bounded splits; `ends` where the logs end now; `times` the watermark before a position.
    """

    starts: dict[str, int]
    topic_id: str = "id-1"
    stops: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    failures: list[Exception] = field(default_factory=list)
    failing_peeks: set[int] = field(default_factory=set)
    later_ends: list[dict[str, int]] = field(default_factory=list)
    looks: int = 0
    listings: int = 0
    peeks: int = 0
    resolved: list[tuple[tuple[str, ...], bool]] = field(default_factory=list)
    committed: list[Mapping[str, int]] = field(default_factory=list)

    def list_splits(self) -> Discovery:
        """List what is there now."""
        self.listings += 1
        if self.failures:
            raise self.failures.pop(0)
        return Discovery(owners=dict.fromkeys(self.starts, "t"), source_ids={"t": self.topic_id})

    def start_positions(
        self, split_ids: Sequence[str], *, first_listing: bool
    ) -> Mapping[str, int]:
        """Give the starts of a first listing, 0 for what is found later."""
        self.resolved.append((tuple(split_ids), first_listing))
        return {i: self.starts[i] if first_listing else 0 for i in split_ids}

    def stop_positions(self, split_ids: Sequence[str]) -> Mapping[str, int]:
        """Give the stops."""
        return {i: self.stops[i] for i in split_ids if i in self.stops}

    def extents(self, split_ids: Sequence[str]) -> Mapping[str, SplitOffsets]:
        """Give what the splits hold."""
        return {
            i: SplitOffsets(first=0, end=self.ends.get(i, self.stops.get(i, 0))) for i in split_ids
        }

    def log_ends(self, split_ids: Sequence[str]) -> Mapping[str, int]:
        """Give where logs end, by one of `later_ends` a call, then as now."""
        self.looks += 1
        ends = self.later_ends.pop(0) if self.later_ends else self.ends
        return {i: ends[i] for i in split_ids}

    def peek(
        self,
        ranges: Mapping[str, tuple[int, int]],
        accept: Accept | None = None,
    ) -> Mapping[str, pa.RecordBatch]:
        """Give the last record of each range: its position, as seconds of event time."""
        self.peeks += 1
        if self.peeks in self.failing_peeks:
            raise BrokerUnavailableError("away")
        return {
            i: pa.record_batch({"ts": pa.array([(end - 1) * 1_000_000], pa.timestamp("us"))})
            for i, (start, end) in ranges.items()
            if end > start
        }

    def split(self, split_id: str, start: int, stop: int | None) -> Split:
        """Make a split for a task."""
        return Split(split_id=split_id, start=start, stop=stop, owner="t")

    def lost(self, split_id: str, position: int, extent: SplitOffsets) -> Exception:
        """Make the error for deleted records."""
        return LookupError(split_id, position, extent)

    def changed(self, owner: str, known: str, found: str | None) -> Exception:
        """Make the error for a topic made again."""
        return KeyError(owner, known, found)

    def commit(self, positions: Mapping[str, int]) -> None:
        """Note the positions."""
        self.committed.append(positions)

    def close(self) -> None:
        """Nothing to give back."""


def pushed(planner: Listing, *, bounded: bool = False, interval_ms: int = 0) -> MakeEnumerator:
    """Make the enumerator of a source like Kafka's."""
    return partial(
        DiscoveringEnumerator,
        planner=planner,
        bounded=bounded,
        discovery_interval_ms=interval_ms,
        owner=lambda _split, _readers: 0,
    )


def pulled(planner: Listing, *, interval_ms: int | None = None) -> MakeEnumerator:
    """Make the enumerator of a source like a folder of files."""
    return partial(PullingEnumerator, planner=planner, interval_ms=interval_ms)
