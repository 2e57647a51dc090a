"""Push with periodic discovery (Kafka): splits are found, get their positions, and go to the reader that owns them.

    subscribed ──► changed ──► initialised ──► pending ──► assigned
    list_splits    a listing   start and stop  its owner   AddSplits
    (worker)       compared    (worker)        not there

Rules of Flink's KafkaSourceEnumerator: splits of the first listing start by the startup mode, splits found later
at their earliest record (FLINK-32019), splits that vanish are kept. Unlike Flink a topic that was deleted or made
again is reported, never read on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from penstock.connector.source.enumerator import (
    EnumeratorState,
    SplitEnumeratorContext,
    check_snapshot,
    decode_split,
    encode_split,
)
from penstock.connector.source.split import Discovery, Split

if TYPE_CHECKING:
    from penstock.connector.contract import SplitMetadataClient


KIND = "discovering"
VERSION = 1
KEYS = ("bounded", "discovered", "topics", "assigned", "unassigned", "stops")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitStops:
    """To every reader: splits that were assigned without an end have one now, exclusive, by split id.

    Sent when a scan is bounded that was not when its checkpoint was taken, and again to each reader that registers;
    a reader takes what concerns its splits, and ends those that are past their stop.
    """

    stops: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Positions:
    """Resolved positions by split id; `stops` is empty for a scan without an end."""

    starts: Mapping[str, int]
    stops: Mapping[str, int]


def _first_reader(_split: Split, _readers: int) -> int:
    return 0


class DiscoveringEnumerator:
    """A SplitEnumerator for sources whose parts appear and vanish while they are read.

    `discovery_interval_ms` <= 0 lists once, and so does a bounded scan: only then has a reader a last split. `owner`
    returns the reader of a split, from the number of readers; without it the first reader has all. Nothing is assigned
    before the first listing of this run has shown that the topics are still the ones of the checkpoint.
    """

    pulls: ClassVar[bool] = False

    def __init__(
        self,
        context: SplitEnumeratorContext,
        state: EnumeratorState | None = None,
        *,
        planner: SplitMetadataClient,
        bounded: bool,
        discovery_interval_ms: int,
        owner: Callable[[Split, int], int] = _first_reader,
    ) -> None:
        """Make it new or from a snapshot. Raises StateMismatchError for an unknown one."""
        self._context = context
        self._planner = planner
        self._bounded = bounded
        self._discovery_interval_ms = discovery_interval_ms
        self._owner = owner
        self._topics: dict[str, str] = {}
        self._assigned: set[str] = set()
        self._unassigned: dict[str, Split] = {}
        self._endless: set[str] = set()  # assigned without a stop, which a bounded scan has to find
        self._stops: dict[str, int] = {}  # of splits that were endless
        self._discovered = False  # the first listing ever has its positions
        self._listed = False  # the first listing of this run has
        self._resolving = False
        if state is not None:
            self._restore(state)

    def start(self) -> None:
        """List the splits, now and then at the interval."""
        periodic = self._discovery_interval_ms > 0 and not self._bounded
        self._context.call_async(
            self._planner.list_splits,
            self._splits_listed,
            every_ms=self._discovery_interval_ms if periodic else None,
        )

    def handle_split_request(self, reader: int, location: str | None) -> None:
        """Nothing: splits are pushed."""

    def add_splits_back(self, splits: Sequence[Split], reader: int) -> None:  # noqa: ARG002  of the contract
        """Assign splits of a failed reader again, at the positions they had."""
        for split in splits:
            self._assigned.discard(split.split_id)
            self._unassigned[split.split_id] = split
        self._assign()

    def add_reader(self, reader: int) -> None:
        """Assign to a reader the splits that waited for it."""
        if self._stops:
            self._context.send_event(reader, SplitStops(stops=dict(self._stops)))
        self._assign()

    def snapshot_state(self, checkpoint_id: int) -> EnumeratorState:  # noqa: ARG002  of the contract
        """Return topics, assigned ids, and unassigned splits with their positions (FLINK-38453)."""
        return {
            "kind": KIND,
            "version": VERSION,
            "bounded": self._bounded and not self._endless,
            "discovered": self._discovered,
            "topics": dict(sorted(self._topics.items())),
            "assigned": sorted(self._assigned),
            "unassigned": [encode_split(split) for _, split in sorted(self._unassigned.items())],
            "stops": dict(sorted(self._stops.items())),
        }

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Nothing: progress is published by positions, not by splits."""

    def handle_source_event(self, reader: int, event: object) -> None:
        """Nothing: readers send none."""

    def close(self) -> None:
        """Nothing: the planner is its opener's."""

    @classmethod
    def source_ids(cls, state: EnumeratorState) -> Mapping[str, str]:
        """Return the topics with their ids, as of the last listing."""
        check_snapshot(state, kind=KIND, version=VERSION, keys=KEYS)
        topics: Mapping[str, str] = state["topics"]
        return topics

    @classmethod
    def is_bounded(cls, state: EnumeratorState) -> bool:
        """Return whether the scan was bounded, and all of its splits had their stops."""
        check_snapshot(state, kind=KIND, version=VERSION, keys=KEYS)
        return bool(state["bounded"])

    def _restore(self, state: EnumeratorState) -> None:
        check_snapshot(state, kind=KIND, version=VERSION, keys=KEYS)
        self._topics = dict(state["topics"])
        self._discovered = state["discovered"]
        self._assigned = set(state["assigned"])
        splits = [decode_split(value) for value in state["unassigned"]]
        if self._bounded:
            self._stops = dict(state["stops"])
            self._endless = set() if state["bounded"] else set(self._assigned)
        else:
            # a scan that is no longer bounded goes on
            splits = [replace(split, stop=None) for split in splits]
        self._unassigned = {split.split_id: split for split in splits}

    # --- subscribed, changed ---

    def _splits_listed(self, discovery: Discovery | None, error: Exception | None) -> None:
        if error is not None:
            raise error
        assert discovery is not None, "a listing without a result"
        self._refuse_changed(discovery)
        if self._resolving:
            return  # what is new is found again by the next listing
        new = tuple(sorted(discovery.owners.keys() - self._assigned - self._unassigned.keys()))
        stops = (*new, *sorted(self._without_stop())) if self._bounded else ()
        if not new and not stops:
            self._add(discovery, _Positions(starts={}, stops={}))
            return
        self._resolving = True
        self._context.call_async(
            partial(_resolve, self._planner, new, stops, first_listing=not self._discovered),
            partial(self._positions_resolved, discovery, stops),
        )

    def _refuse_changed(self, discovery: Discovery) -> None:
        """Raise for a topic that was deleted or made again since its records were read."""
        for change in discovery.changes_since(self._topics):
            raise self._planner.changed(*change)

    def _without_stop(self) -> set[str]:
        """Find the splits from a checkpoint of the same query over the unbounded table."""
        waiting = {split_id for split_id, split in self._unassigned.items() if split.stop is None}
        return waiting | self._endless

    # --- initialised ---

    def _positions_resolved(
        self,
        discovery: Discovery,
        wanted: Sequence[str],
        positions: _Positions | None,
        error: Exception | None,
    ) -> None:
        self._resolving = False
        if error is not None:
            raise error
        assert positions is not None, "positions without a result"
        missing = set(wanted) - positions.stops.keys()
        assert not missing, f"a bounded scan has no stop for {sorted(missing)}"
        self._add(discovery, positions)

    def _add(self, discovery: Discovery, positions: _Positions) -> None:
        """Add the splits of a listing at their resolved positions, and the stops of those known before."""
        for split_id in self._endless:
            self._stops[split_id] = positions.stops[split_id]
        for split_id in self._without_stop() - self._endless if self._bounded else ():
            split = self._unassigned[split_id]
            self._unassigned[split_id] = replace(split, stop=positions.stops[split_id])
        for split_id, start in positions.starts.items():
            stop = positions.stops.get(split_id)
            self._unassigned[split_id] = Split(
                split_id=split_id,
                # a bounded split may have nothing to read: its stop lies before its start
                start=start if stop is None else min(start, stop),
                stop=stop,
                owner=discovery.owners[split_id],
            )
        if self._endless:
            self._endless.clear()
            for reader in self._context.registered_readers:
                self._context.send_event(reader, SplitStops(stops=dict(self._stops)))
        self._topics.update(discovery.source_ids)
        self._discovered = self._listed = True
        self._assign()

    # --- pending, assigned ---

    def _assign(self) -> None:
        """Assign to each registered reader the splits that it owns, and signal the end where no more can come."""
        if not self._listed:
            return
        readers = self._context.registered_readers
        assignment: dict[int, list[Split]] = {}
        for split in sorted(self._unassigned.values(), key=_by_id):
            reader = self._owner(split, self._context.parallelism)
            if reader in readers:
                assignment.setdefault(reader, []).append(split)
        for splits in assignment.values():
            for split in splits:
                del self._unassigned[split.split_id]
                self._assigned.add(split.split_id)
        self._context.assign_splits(assignment)
        if self._bounded:
            for reader in readers:
                self._context.signal_no_more_splits(reader)


def _resolve(
    planner: SplitMetadataClient, new: Sequence[str], stops: Sequence[str], *, first_listing: bool
) -> _Positions:
    """Resolve positions; runs on the executor's worker, so it touches nothing of the enumerator."""
    return _Positions(
        starts=planner.start_positions(new, first_listing=first_listing) if new else {},
        stops=planner.stop_positions(stops) if stops else {},
    )


def _by_id(split: Split) -> str:
    return split.split_id
