"""The way to a reader: nothing overtakes the splits that are still being made."""

from __future__ import annotations

from penstock.connector.local.job_master import SubtaskGateway
from penstock.connector.local.messages import ReaderCommand, TakeSnapshot
from penstock.connector.source.coordinator.events import AddSplits, NoMoreSplits, WatermarkAlignment
from penstock.connector.source.split import Split

PLAIN, MADE = (Split(split_id="a", start=0),), (Split(split_id="a", start=0, owner="made"),)


def test_events_wait_for_the_splits_before_them() -> None:
    """Neither the end nor a barrier arrives before splits that were sent earlier."""
    delivered: list[ReaderCommand] = []
    asked: list[tuple[Split, ...]] = []
    gateway = SubtaskGateway(deliver=delivered.append, make_splits=asked.append)
    gateway.send(WatermarkAlignment(limit_ms=1))
    gateway.send(AddSplits(splits=PLAIN))
    gateway.send(TakeSnapshot(checkpoint_id=1))
    gateway.send(AddSplits(splits=PLAIN))
    gateway.send(NoMoreSplits())
    assert delivered == [WatermarkAlignment(limit_ms=1)]
    assert asked == [PLAIN]
    gateway.made(MADE)
    assert delivered[1:] == [AddSplits(splits=MADE), TakeSnapshot(checkpoint_id=1)]
    gateway.made(MADE)

    assert delivered[3:] == [AddSplits(splits=MADE), NoMoreSplits()]
