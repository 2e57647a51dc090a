"""The state as text: round trips byte for byte, earlier versions are read, others refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalog.errors import StateMismatchError
from penstock.connector.source.coordinator.coordinator import CoordinatorSettings, SourceCoordinator
from penstock.connector.source.state import (
    MAX_WATERMARK_MS,
    SourceState,
    SplitState,
    decode_state,
    encode_state,
)
from tests.connector.source.planned_source import Listing, pushed

instants = st.none() | st.integers(-1_000_000, MAX_WATERMARK_MS)
splits = st.builds(
    SplitState,
    split_id=st.text(min_size=1, max_size=5),
    owner=st.text(max_size=3),
    start=st.integers(0, 9),
    end=st.integers(9, 99),
    stop=st.none() | st.integers(0, 99),
    watermark_ms=instants,
    idle=st.booleans(),
    quiet_since_ms=instants,
    lost=st.integers(0, 9),
    paused=st.none() | st.text(),
    epoch=st.none() | st.integers(0, 9),
)

VERSION_1 = """{
  "version": 1, "watermark": "2024-03-01T00:00:05.000Z", "watermark_before": null, "topics": {"t": "id-1"},
  "splits": {
    "t-0": {"owner": "t", "from": 0, "to": 7, "stop": null, "watermark": "2024-03-01T00:00:05.000Z",
            "idle": false, "quiet_since": null, "lost": 0},
    "t-1": {"owner": "t", "from": 2, "to": 2, "stop": null, "watermark": null,
            "idle": true, "quiet_since": "2024-03-01T00:00:00.000Z", "lost": 3}
  }
}"""


@given(
    found=st.lists(splits, max_size=4, unique_by=lambda split: split.split_id),
    watermark=instants,
    limit=instants,
    held=st.integers(0, 3),
    clock=instants,
)
def test_a_state_comes_back_as_it_was_and_as_the_same_text(
    found: list[SplitState],
    watermark: int | None,
    limit: int | None,
    held: int,
    clock: int | None,
) -> None:
    """Spark compares offsets as text."""
    state = SourceState(
        splits=tuple(sorted(found, key=lambda split: split.split_id)),
        watermark_ms=watermark,
        limit_ms=limit,
        held=held,
        coordinator={"version": 1, "enumerator": {"kind": "x"}},
        clock_ms=clock,
    )
    text = json.dumps(encode_state(state))
    back = decode_state(json.loads(text))

    assert back == state
    assert json.dumps(encode_state(back)) == text


def test_version_1_is_read() -> None:
    """A checkpoint of the Penstock before alignment: positions, watermarks and idleness are kept."""
    state = decode_state(json.loads(VERSION_1))
    first, second = state.splits

    assert state.positions == {"t-0": 7, "t-1": 2}
    assert state.watermark_ms == first.watermark_ms == 1_709_251_205_000
    assert (second.idle, second.lost, second.paused) == (True, 3, None)
    assert (state.limit_ms, state.held) == (None, 0)
    assert state.not_after_ms(1) is None


def test_the_clock_is_in_the_offset_only_where_it_is_needed() -> None:
    """A version 2 without it is read, and what it did not bound is not bound now."""
    without = encode_state(SourceState())
    with_it = encode_state(SourceState(clock_ms=1_700_000_000_000))

    assert "clock" not in without
    assert with_it["clock"] == "2023-11-14T22:13:20.000Z"
    assert decode_state(without).not_after_ms(1) is None
    assert decode_state(with_it).not_after_ms(5) == 1_700_000_000_005
    assert decode_state(with_it).not_after_ms(None) is None


def test_a_coordinator_goes_on_from_version_1() -> None:
    """Its topics and splits are known to the enumerator: nothing is assigned again, a topic made anew is found."""
    state = decode_state(json.loads(VERSION_1))
    make = pushed(Listing(starts={"t-0": 0, "t-1": 0}, topic_id="id-1"))
    coordinator = SourceCoordinator(CoordinatorSettings(parallelism=1), make, state.coordinator)

    assert state.coordinator is not None
    assert state.coordinator["assigned"] == ["t-0", "t-1"]
    assert state.coordinator["topics"] == {"t": "id-1"}
    assert len(coordinator.start()) == 1


def test_an_unknown_version_is_refused() -> None:
    """A checkpoint of a later Penstock is not guessed at."""
    with pytest.raises(StateMismatchError, match="version 3"):
        decode_state({"version": 3})


def test_an_offset_without_an_epoch_is_read_and_has_the_same_text() -> None:
    """Those of earlier versions, and of sources that have none; 0 is an epoch."""
    split = SplitState(split_id="t-0", owner="t", start=0, end=7)
    text = encode_state(SourceState(splits=(split,)))
    known = encode_state(SourceState(splits=(replace(split, epoch=0),)))

    assert "epoch" not in text["splits"]["t-0"]
    assert decode_state(text).splits == (split,)
    assert known["splits"]["t-0"]["epoch"] == 0
