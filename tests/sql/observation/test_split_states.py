"""The state that a split is shown in, and which splits hold the watermark of their table."""

from __future__ import annotations

import pytest

from penstock.connector.source.state import SourceState
from penstock.sql.observation.split_states import SplitPhase, holders, phase_of
from tests.sql.metrics.metered import split


@pytest.mark.parametrize(
    ("more", "lag", "phase"),
    [
        ({}, 5, SplitPhase.READING),
        ({}, 0, SplitPhase.CAUGHT_UP),
        ({"idle": True}, 0, SplitPhase.IDLE),
        ({"paused": "the group waits"}, 5, SplitPhase.PAUSED),
        ({"stop": 10, "paused": "the group waits"}, 0, SplitPhase.FINISHED),
    ],
)
def test_the_state_of_a_split(more, lag, phase):
    """A pause outweighs what is left to read, the end outweighs a pause."""
    assert phase_of(split(0, 10, 1_000, **more), lag) is phase


def test_splits_without_a_watermark_hold_back_those_that_have_one():
    """The table has none before each active split has one."""
    splits = (split(0, 1, None), split(1, 1, 5_000), split(2, 1, None, idle=True))

    assert holders(SourceState(splits=splits)) == {"orders-0"}


def test_the_lowest_active_splits_hold_the_watermark():
    """Two may hold it together; a finished one holds nothing."""
    splits = (split(0, 1, 5_000), split(1, 1, 5_000), split(2, 1, 9_000), split(3, 1, 10, stop=1))

    assert holders(SourceState(splits=splits, watermark_ms=5_000)) == {"orders-0", "orders-1"}


def test_a_table_without_event_time_is_held_by_nothing():
    """None of its splits has a watermark, nor is there one to hold."""
    assert holders(SourceState(splits=(split(0, 1, None),))) == frozenset()
