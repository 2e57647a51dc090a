"""Pull on request (files): a reader that has nothing to read asks, and gets the next split or waits for one.

Flink's StaticFileSplitEnumerator, which lists once and ends, and its ContinuousFileSplitEnumerator, which lists
at an interval and never ends, are one enumerator here. A split is seen once: what vanishes or changes after it was
found is the reader's to notice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from penstock.catalog.errors import StateMismatchError
from penstock.connector.source.enumerator import EnumeratorState, SplitEnumeratorContext
from penstock.connector.source.seen import SeenSplits
from penstock.connector.source.snapshot import HINT, check_snapshot, decode_split, encode_split
from penstock.connector.source.split import Discovery, Split

if TYPE_CHECKING:
    from penstock.connector.contract import SplitPlanner

__all__ = ["PullingEnumerator", "WaitingReaders"]

KIND = "pulling"
VERSION = 3
WITH_ALL_NAMES = 1
"""Snapshots of older versions: every name ever seen."""
WITH_A_DIGEST = 2
"""Snapshots of versions in between: the newest names, and a digest of the others where there were many."""

KEYS = ("listed", "seen", "unassigned")


class WaitingReaders:
    """Readers that asked for a split and have no answer yet, in the order in which they asked.

    One that failed meanwhile waits no longer: what it was before it registered again asked, not what it is now.
    """

    def __init__(self, context: SplitEnumeratorContext) -> None:
        self._context = context
        self._asked: dict[int, None] = {}

    def add(self, reader: int) -> None:
        """A reader asks; asking again changes nothing."""
        self._asked[reader] = None

    def forget(self, reader: int) -> None:
        """A reader's request, if there is one, no longer counts."""
        self._asked.pop(reader, None)

    def take(self) -> int | None:
        """Take the reader that waits longest; None where nobody does."""
        registered = self._context.registered_readers
        while self._asked:
            reader = next(iter(self._asked))
            del self._asked[reader]
            if reader in registered:
                return reader
        return None


class PullingEnumerator:
    """A SplitEnumerator that answers requests, one split each, in the order in which `planner` lists them.

    `interval_ms` is the time between listings; None lists once, and tells a reader that asks when nothing is left.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext,
        state: EnumeratorState | None = None,
        *,
        planner: SplitPlanner,
        interval_ms: int | None,
    ) -> None:
        """Make it new or from a snapshot. Raises StateMismatchError for one that is not known here."""
        self._context = context
        self._planner = planner
        self._interval_ms = interval_ms
        self._waiting = WaitingReaders(context)
        self._seen = SeenSplits()
        self._unassigned: deque[Split] = deque()
        self._listed = False
        self._resolving = False
        if state is not None:
            self._seen = _seen(state)
            self._unassigned.extend(decode_split(value) for value in state["unassigned"])
            self._listed = state["listed"]

    def start(self) -> None:
        """List the splits; a static source whose listing is in its checkpoint has them already."""
        if self._interval_ms is not None or not self._listed:
            self._context.call_async(
                self._planner.list_splits, self._splits_listed, every_ms=self._interval_ms
            )

    def handle_split_request(self, reader: int, location: str | None) -> None:  # noqa: ARG002  of the contract
        """Answer with the next split, with the end, or later."""
        self._waiting.add(reader)
        self._serve()

    def add_splits_back(self, splits: Sequence[Split], reader: int) -> None:  # noqa: ARG002  of the contract
        """Splits of a failed reader come before all others."""
        self._unassigned.extendleft(reversed(splits))
        self._serve()

    def add_reader(self, reader: int) -> None:
        """Wait until it asks."""
        self._waiting.forget(reader)

    def snapshot_state(self, checkpoint_id: int) -> EnumeratorState:  # noqa: ARG002  of the contract
        """Give what was seen, and the splits that nobody has, in reading order."""
        return {
            "kind": KIND,
            "version": VERSION,
            "listed": self._listed,
            "seen": self._seen.snapshot(),
            "unassigned": [encode_split(split) for split in self._unassigned],
        }

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Nothing: what was read stays where it is."""

    def handle_source_event(self, reader: int, event: object) -> None:
        """Nothing: readers send none."""

    def close(self) -> None:
        """Nothing: the planner is its opener's."""

    def _splits_listed(self, discovery: Discovery | None, error: Exception | None) -> None:
        if error is not None:
            raise error
        assert discovery is not None, "a listing without a result"
        if self._resolving:
            return  # what is new is found again by the next listing
        new = self._seen.new_in(discovery.owners)
        if not new:
            self._add(())
            return
        self._resolving = True
        owners = {split_id: discovery.owners[split_id] for split_id in new}
        self._context.call_async(
            partial(_resolve, self._planner, owners, first_listing=not self._listed),
            self._splits_resolved,
        )

    def _splits_resolved(self, splits: Sequence[Split] | None, error: Exception | None) -> None:
        self._resolving = False
        if error is not None:
            raise error
        assert splits is not None, "positions without a result"
        self._add(splits)

    def _add(self, splits: Sequence[Split]) -> None:
        self._seen.add([split.split_id for split in splits])
        self._unassigned.extend(splits)
        self._listed = True
        self._serve()

    def _serve(self) -> None:
        """Answer those who wait, as far as there are splits, or the end."""
        while self._unassigned and (reader := self._waiting.take()) is not None:
            self._context.assign_splits({reader: [self._unassigned.popleft()]})
        if self._listed and self._interval_ms is None and not self._unassigned:
            while (reader := self._waiting.take()) is not None:
                self._context.signal_no_more_splits(reader)


def _seen(state: EnumeratorState) -> SeenSplits:
    """Read what a snapshot of this version or an older one says was seen. Raises StateMismatchError."""
    version = state.get("version")
    if version == WITH_ALL_NAMES:
        check_snapshot(state, kind=KIND, version=WITH_ALL_NAMES, keys=KEYS)
        return SeenSplits.of(state["seen"])
    if version == WITH_A_DIGEST:
        check_snapshot(state, kind=KIND, version=version, keys=(*KEYS, "floor", "forgotten"))
        if state["floor"] is not None:
            raise StateMismatchError(
                "the checkpoint does not hold all names of the files that were read",
                hint=HINT,
            )
        return SeenSplits.of(state["seen"])
    check_snapshot(state, kind=KIND, version=VERSION, keys=KEYS)
    return SeenSplits.restored(state["seen"])


def _resolve(
    planner: SplitPlanner, owners: dict[str, str], *, first_listing: bool
) -> tuple[Split, ...]:
    """Resolve positions; runs on the executor's worker, so it touches nothing of the enumerator."""
    starts = planner.start_positions(tuple(owners), first_listing=first_listing)
    stops = planner.stop_positions(tuple(owners))
    return tuple(
        Split(split_id=split_id, start=starts[split_id], stop=stops.get(split_id), owner=owner)
        for split_id, owner in owners.items()
        if split_id in starts
    )
