"""The combined watermark: a minimum over active splits that never goes back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalog.errors import StateMismatchError
from penstock.connector.source.microbatch.watermark import (
    check_goes_on,
    combined_watermark,
    is_idle,
)
from penstock.connector.source.state import MAX_WATERMARK_MS, SourceState, SplitState


def split(
    name: str, watermark_ms: int | None, *, idle: bool = False, stop: int | None = None
) -> SplitState:
    """Make a split that has read ten records."""
    return SplitState(
        split_id=name, owner="t", start=0, end=10, watermark_ms=watermark_ms, idle=idle, stop=stop
    )


def combine(splits: list[SplitState], before: int | None, *, complete: bool = False) -> int | None:
    """Combine the watermarks of splits; `complete`: there are no more of them."""
    return combined_watermark(splits, before, no_more_splits=complete)


def test_the_slowest_split_holds_the_watermark() -> None:
    """The minimum over splits, Flink's definition."""
    assert combine([split("a", 500), split("b", 300)], None) == 300


def test_a_split_without_records_holds_everything_back() -> None:
    """A new split starts at the minimum until it has a record."""
    assert combine([split("a", 500), split("b", None)], None) is None
    assert combine([split("a", 500), split("b", None)], 200) == 200


def test_an_idle_split_does_not_count() -> None:
    """An idle split leaves the minimum, one that never had a record too."""
    assert combine([split("a", 500), split("b", None, idle=True)], None) == 500


def test_when_all_splits_are_idle_the_watermark_stays() -> None:
    """No clock decides which rows are late."""
    assert combine([split("a", 500, idle=True), split("b", 300, idle=True)], 250) == 250


def test_a_finished_split_leaves_the_minimum() -> None:
    """A finished split's last watermark holds nothing back (FLINK-35157)."""
    assert combine([split("a", 100, stop=10), split("b", 300)], None) == 300


def test_the_end_of_a_bounded_scan_is_the_maximum() -> None:
    """When every split is read to its stop, every window closes."""
    done = [split("a", 100, stop=10), split("b", None, stop=10)]

    assert combine(done, 50, complete=True) == MAX_WATERMARK_MS
    assert combine([], None, complete=True) == MAX_WATERMARK_MS


def test_finished_splits_are_not_the_end_while_more_may_be_found() -> None:
    """A folder that is watched, or a listing that has not come: the watermark stays."""
    ended_before = replace(split("a", 100, stop=10), start=10)

    assert combine([ended_before], 50) == 50
    assert combine([], None) is None


def test_files_that_end_within_their_batch_move_the_watermark() -> None:
    """They were active while they were read; the slowest of them counts, and nobody else needs to be there."""
    files = [split("a", 100, stop=10), split("b", 70, stop=10), split("empty", None, stop=10)]

    assert combine(files, 50) == 70
    assert combine([*files, split("still read", 60)], 50) == 60


@given(
    before=st.none() | st.integers(-1000, 1000),
    splits=st.lists(
        st.builds(
            split,
            st.text(min_size=1),
            st.none() | st.integers(-1000, 1000),
            idle=st.booleans(),
            stop=st.just(None),
        )
    ),
)
def test_the_watermark_never_goes_back(before: int | None, splits: list[SplitState]) -> None:
    """Whatever the splits say, the watermark is at least the one before."""
    after = combine(splits, before)

    assert before is None or (after is not None and after >= before)


def test_idleness_needs_the_timeout_to_pass() -> None:
    """Strictly more quiet time than the timeout; no timeout, no idleness."""
    assert not is_idle(1000, 2000, 1000)
    assert is_idle(1000, 2001, 1000)
    assert not is_idle(None, 9999, 1000)
    assert not is_idle(0, 9999, None)
    assert not is_idle(0, 9999, 0)


def test_a_record_at_the_maximum_is_not_taken_for_the_end() -> None:
    """An unbounded table with such a record resumes; the split that had it knows."""
    record = SourceState(splits=(split("a", MAX_WATERMARK_MS),), watermark_ms=MAX_WATERMARK_MS)
    ended = replace(record, splits=(split("a", 9),))
    check_goes_on("t", record, bounded=False)
    check_goes_on("t", ended, bounded=True)
    check_goes_on("t", replace(ended, watermark_ms=9), bounded=False)

    with pytest.raises(StateMismatchError, match="has read t to its end"):
        check_goes_on("t", ended, bounded=False)
