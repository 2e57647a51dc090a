"""Whether a table can be gone on with where a checkpoint stands, by what it holds now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, cast

import pytest

from penstock.catalog.errors import DataLossError, StateMismatchError, TopicChangedError
from penstock.connector.contract import SplitMetadataClient, SplitSource
from penstock.connector.source.coordinator.discovery import DiscoveringEnumerator
from penstock.connector.source.enumerator import SplitEnumerator
from penstock.connector.source.split import Discovery, SplitOffsets
from penstock.connector.source.state import SourceState, SplitState
from penstock.sql.check.source_status import CheckpointPosition, check_resumable


class Planner:
    """A planner of which only the errors are asked for."""

    def lost(self, split_id: str, position: int, extent: SplitOffsets) -> Exception:
        """Name the place."""
        return DataLossError(f"{split_id} at {position}, first {extent.first}")

    def changed(self, owner: str, known: str, found: str | None) -> Exception:
        """Name both."""
        return TopicChangedError(f"{owner}: {known}, {found}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source of which only what it tolerates and its enumerator's snapshots are asked for."""

    tolerates_loss: bool
    enumerator_type: ClassVar[type[SplitEnumerator]] = DiscoveringEnumerator


SPLIT = SplitState(split_id="clicks-0", owner="clicks", start=100, end=150)
ENUMERATOR = {
    "kind": "discovering",
    "version": 1,
    "bounded": False,
    "discovered": True,
    "topics": {"clicks": "id1"},
    "assigned": ["clicks-0"],
    "unassigned": [],
    "stops": {},
}
STATE = SourceState(splits=(SPLIT,), coordinator={"version": 1, "enumerator": ENUMERATOR})
FOUND = Discovery(owners={"clicks-0": "clicks"}, source_ids={"clicks": "id1"})


def check(
    standing: CheckpointPosition, *, first: int, found: Discovery = FOUND, tolerates: bool = False
) -> None:
    """Check a partition whose log begins at `first`."""
    extents = {"clicks-0": SplitOffsets(first=first, end=200)}
    planner = cast("SplitMetadataClient", Planner())
    source = cast("SplitSource", Source(tolerates_loss=tolerates))
    check_resumable(source, planner, standing, found, extents)


def test_records_that_are_gone_unread_are_told() -> None:
    """A batch that is run again needs those from its start, a new one those behind the last."""
    onward, again = (CheckpointPosition(state=STATE, replays=replays) for replays in (False, True))
    check(onward, first=150)
    check(again, first=100)

    with pytest.raises(DataLossError, match="clicks-0 at 150, first 151"):
        check(onward, first=151)
    with pytest.raises(DataLossError, match="clicks-0 at 100, first 101"):
        check(again, first=101)


def test_what_is_not_read_any_more_may_be_gone() -> None:
    """Of a table that takes losses, and of a split that is read to its stop."""
    done = replace(STATE, splits=(replace(SPLIT, stop=150),))
    check(CheckpointPosition(state=STATE, replays=False), first=180, tolerates=True)
    check(CheckpointPosition(state=done, replays=False), first=180)

    with pytest.raises(DataLossError):
        check(CheckpointPosition(state=STATE, replays=False), first=180)


@pytest.mark.parametrize("now", ["id2", None])
def test_a_topic_that_was_made_again_is_told(now: str | None) -> None:
    """Its offsets mean other records."""
    found = replace(FOUND, source_ids={} if now is None else {"clicks": now})

    with pytest.raises(TopicChangedError, match=f"clicks: id1, {now}"):
        check(CheckpointPosition(state=STATE, replays=False), first=0, found=found)


def test_a_checkpoint_of_another_kind_of_source_is_refused() -> None:
    """Its snapshot holds no topics; before the first listing there is no snapshot either."""
    pulled = {"version": 1, "enumerator": {**ENUMERATOR, "kind": "pulling"}}
    check(CheckpointPosition(state=replace(STATE, coordinator=None), replays=False), first=0)

    with pytest.raises(StateMismatchError, match="'pulling' enumerator"):
        check(CheckpointPosition(state=replace(STATE, coordinator=pulled), replays=False), first=0)
