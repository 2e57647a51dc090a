"""The tasks of a batch, planned from its end offset alone."""

from __future__ import annotations

import pytest

from penstock.connector.source.state import SourceState, SplitState
from penstock.connector.spark.offsets import plan_partitions
from tests.connector.source.planned_source import Listing

STATE = SourceState(
    splits=(SplitState(split_id="t-0", owner="t", start=0, end=7),), clock_ms=1_000_000
)


@pytest.mark.parametrize(
    ("state", "max_future_ms", "tracks_event_time", "expected"),
    [
        (STATE, 500, True, 1_000_500),
        (STATE, 900, True, 1_000_900),
        (STATE, None, True, None),
        (STATE, 500, False, None),
        (SourceState(splits=STATE.splits), 500, True, None),
    ],
    ids=["bound", "a changed option", "off", "no rowtime", "an offset without a clock"],
)
def test_tasks_get_the_bound_that_the_offset_and_the_option_give(
    state: SourceState, max_future_ms: int | None, *, tracks_event_time: bool, expected: int | None
) -> None:
    """A replay decides alike, and a batch that failed for a record of the future goes on under a changed option."""
    (task,) = plan_partitions(
        state,
        Listing({"t-0": 0}),
        tasks=None,
        tracks_event_time=tracks_event_time,
        max_future_ms=max_future_ms,
    )

    assert task.not_after_ms == expected
