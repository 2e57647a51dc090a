"""Whether a table can be gone on with where a checkpoint stands, by what it holds now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, cast

import pytest

from penstock.catalog.errors import DataLossError, StateMismatchError, TopicChangedError
from penstock.catalog.model.table import Table
from penstock.connector.contract import SplitMetadataClient, SplitSource
from penstock.connector.source.coordinator.discovery import DiscoveringEnumerator
from penstock.connector.source.enumerator import SplitEnumerator
from penstock.connector.source.split import Discovery, SplitOffsets
from penstock.connector.source.state import MAX_WATERMARK_MS, SourceState, SplitState
from penstock.sql.check.source_status import CheckpointPosition, ask, check_resumable
from penstock.sql.expressions.rowtime import rowtime_of
from penstock.sql.plan.analysed import TableScan
from tests.sql.sql_objects import define


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """A planner of which only the errors are asked for, and where logs end past what can be read, or were cut."""

    log_end: int = 200
    cut: int | None = None

    def log_ends(self, split_ids: Sequence[str]) -> Mapping[str, int]:
        """Return it."""
        return dict.fromkeys(split_ids, self.log_end)

    def cuts(self, positions: Mapping[str, tuple[int, int]]) -> Mapping[str, int]:
        """Return it."""
        return {} if self.cut is None else dict.fromkeys(positions, self.cut)

    def lost(self, split_id: str, position: int, extent: SplitOffsets) -> Exception:
        """Name the place."""
        return DataLossError(f"{split_id} at {position}, first {extent.first}, end {extent.end}")

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
    standing: CheckpointPosition,
    *,
    first: int,
    end: int = 200,
    log_end: int = 200,
    cut: int | None = None,
    epoch: int | None = None,
    found: Discovery = FOUND,
    tolerates: bool = False,
) -> None:
    """Check a partition whose log begins at `first`, can be read to `end` and ends at `log_end`."""
    extents = {"clicks-0": SplitOffsets(first=first, end=end, epoch=epoch)}
    planner = cast("SplitMetadataClient", Planner(log_end=log_end, cut=cut))
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


def test_a_log_that_ends_before_what_was_read_of_it_is_refused() -> None:
    """An open transaction may hide the last records of one that does not."""
    standing = CheckpointPosition(state=STATE, replays=False)
    check(standing, first=0, end=140, log_end=150)
    check(standing, first=0, end=140, log_end=140, tolerates=True)

    with pytest.raises(DataLossError, match="clicks-0 at 150, first 0, end 140"):
        check(standing, first=0, end=130, log_end=140)


def test_a_log_that_was_cut_below_what_was_read_of_it_is_refused() -> None:
    """It has grown again in a later epoch. A batch that is run again needs what is before its start alone."""
    state = replace(STATE, splits=(replace(SPLIT, epoch=3),))
    onward, again = (CheckpointPosition(state=state, replays=replays) for replays in (False, True))
    check(onward, first=0, cut=120, epoch=3)
    check(onward, first=0, epoch=4)
    check(onward, first=0, cut=120, epoch=4, tolerates=True)
    check(again, first=0, cut=120, epoch=4)

    with pytest.raises(DataLossError, match="clicks-0 at 150, first 0, end 120"):
        check(onward, first=0, cut=120, epoch=4)
    with pytest.raises(DataLossError, match="clicks-0 at 100, first 0, end 90"):
        check(again, first=0, cut=90, epoch=4)


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


@pytest.mark.parametrize("follows", [True, False])
def test_a_table_that_was_read_to_its_end_and_has_no_end_now_is_refused(
    tmp_path: Path, follows: bool
) -> None:
    """Where a query follows its watermark: all of its windows are closed."""
    (tmp_path / "in").mkdir()
    table = define(
        "CREATE TABLE clicks (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', "
        f"'path' = '{tmp_path}/in', 'format' = 'json', 'source.monitor-interval' = '1 s')"
    )
    assert isinstance(table, Table)
    scan = TableScan(table=table, columns=("ts",), rowtime=rowtime_of(table) if follows else None)
    state = SourceState(splits=(), watermark_ms=MAX_WATERMARK_MS)
    status = ask(scan, tmp_path, CheckpointPosition(state=state, replays=False))

    assert isinstance(status.refusal, StateMismatchError) is follows
    assert not follows or "clicks to its end" in str(status.refusal)
