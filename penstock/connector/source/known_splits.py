"""The enumerator: which splits a scan has, what a new listing adds, and when the next listing is due.

Rules of Flink's KafkaSourceEnumerator: splits of the first listing start by the startup mode, splits found later
start at their earliest record (FLINK-32019), splits that vanish are kept. Unlike Flink a topic that was deleted
or made again is reported, never read on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.connector.source.batch_events import ReportChanged, ResolvePositions
from penstock.connector.source.split import Discovery
from penstock.connector.source.state import SplitState

__all__ = ["KnownSplits"]


@dataclass(slots=True)
class KnownSplits:
    """The splits known so far. `discovery_interval_ms` <= 0 lists once and never again."""

    discovery_interval_ms: int
    bounded: bool
    splits: dict[str, SplitState]
    incarnations: dict[str, str]
    listed_at_ms: int | None = None

    def is_due(self, now_ms: int) -> bool:
        """Tell whether the splits are to be listed now: at the first call after a start, then every interval."""
        if self.listed_at_ms is None:
            return True
        return (
            self.discovery_interval_ms > 0
            and now_ms - self.listed_at_ms >= self.discovery_interval_ms
        )

    def changed(self, discovery: Discovery) -> ReportChanged | None:
        """Find a topic that is no longer the one whose records were read."""
        for owner, known in sorted(self.incarnations.items()):
            found = discovery.incarnations.get(owner)
            if found != known:
                return ReportChanged(owner=owner, known=known, found=found)
        return None

    def found(self, discovery: Discovery) -> ResolvePositions | None:
        """Find the splits that a listing adds, and those of a bounded scan that have no stop yet.

        The latter come from a checkpoint of the same query over the unbounded table.
        """
        new = tuple(sorted(set(discovery.owners) - set(self.splits)))
        endless = {split_id for split_id, split in self.splits.items() if split.stop is None}
        stops = tuple(sorted({*new, *endless})) if self.bounded else ()
        if not new and not stops:
            return None
        return ResolvePositions(split_ids=new, stop_ids=stops, first_listing=not self.splits)

    def add(
        self, discovery: Discovery, starts: Mapping[str, int], stops: Mapping[str, int]
    ) -> None:
        """Take on the splits of a listing at their resolved positions."""
        for split_id, start in starts.items():
            stop = stops.get(split_id)
            # a bounded split may have nothing to read: its stop lies before its start
            position = start if stop is None else min(start, stop)
            self.splits[split_id] = SplitState(
                split_id=split_id,
                owner=discovery.owners[split_id],
                start=position,
                end=position,
                stop=stop,
            )
        for split_id in stops.keys() - starts.keys():
            self.splits[split_id] = replace(self.splits[split_id], stop=stops[split_id])
        self.incarnations.update(discovery.incarnations)
