"""Whether a table can be gone on with where a checkpoint stands, by what it holds now."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from penstock.catalog.errors import DataLossError, TopicChangedError
from penstock.connector.contract import SplitMetadataClient
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


SPLIT = SplitState(split_id="clicks-0", owner="clicks", start=100, end=150)
STATE = SourceState(splits=(SPLIT,), coordinator={"enumerator": {"topics": {"clicks": "id1"}}})
FOUND = Discovery(owners={"clicks-0": "clicks"}, incarnations={"clicks": "id1"})


def check(
    standing: CheckpointPosition, *, first: int, found: Discovery = FOUND, tolerates: bool = False
) -> None:
    """Check a partition whose log begins at `first`."""
    extents = {"clicks-0": SplitOffsets(first=first, end=200)}
    planner = cast("SplitMetadataClient", Planner())
    check_resumable(planner, standing, found, extents, tolerates_loss=tolerates)


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
    found = replace(FOUND, incarnations={} if now is None else {"clicks": now})

    with pytest.raises(TopicChangedError, match=f"clicks: id1, {now}"):
        check(CheckpointPosition(state=STATE, replays=False), first=0, found=found)
