"""The search for the last record within a limit: bounded, and true to what it has seen."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.connector.source.microbatch.batch_plan import MOST_ROUNDS, OffsetSearch

times_of_a_split = st.lists(st.none() | st.integers(0, 5_000), min_size=1, max_size=60)


def last(times: Sequence[int | None], start: int, end: int) -> int | None:
    """Give the watermark of the last record in a range."""
    found = [time for time in times[start:end] if time is not None]
    return found[-1] if found else None


def search_in(
    times: Sequence[int | None], limit_ms: int, *, near_ms: int = 0, known_ms: int | None = None
) -> tuple[OffsetSearch, list[tuple[int, int | None]]]:
    """Search to the end; gives the search and what was found before which position."""
    high_ms = last(times, 0, len(times))
    assert high_ms is not None, "the end to begin with is the end of a record"
    search = OffsetSearch(
        low=0,
        low_ms=known_ms,
        high=len(times),
        high_ms=high_ms,
        limit_ms=limit_ms,
        enough_ms=limit_ms - near_ms,
    )
    seen = []
    while not search.settled:
        start, end = search.next_range()
        seen.append((end, last(times, start, end)))
        search.learn(seen[-1][1])
    return search, seen


@given(times=times_of_a_split, limit=st.integers(0, 5_000), near=st.integers(0, 500))
def test_nothing_peeked_at_below_the_cut_is_above_the_limit(
    times: list[int | None], limit: int, near: int
) -> None:
    """Whatever the order of the records: the record before the cut and all others that were seen are within it."""
    assume((last(times, 0, len(times)) or 0) > limit)
    search, seen = search_in(times, limit, near_ms=near)
    below = [time for end, time in seen if end <= search.low and time is not None]

    assert all(time <= limit for time in below)
    assert search.low_ms == max(below, default=None)
    assert (last(times, 0, search.low) or 0) <= limit
    assert search.low < len(times)


@given(
    times=st.lists(st.integers(0, 100_000), min_size=1, max_size=3_000), limit=st.integers(0, 99)
)
def test_a_search_ends_within_its_rounds_and_finds_the_last_record_of_ordered_ones(
    times: list[int], limit: int
) -> None:
    """In order of event time, without a tolerance, the cut is exact unless the rounds are used up."""
    ordered = sorted(times)
    assume(ordered[-1] > limit)
    search, seen = search_in(ordered, limit)

    assert len(seen) <= MOST_ROUNDS
    assert len(seen) == MOST_ROUNDS or search.low == sum(time <= limit for time in ordered)


def test_a_split_that_cannot_move_at_all_costs_few_peeks() -> None:
    """Nothing within the limit: known after the first record was looked at."""
    search, seen = search_in([9_000 + i for i in range(1_000_000)], 5_000)

    assert (search.low, search.next_waits) == (0, True)
    assert len(seen) == 1


def test_regular_records_take_a_peek_or_two() -> None:
    """Interpolation lands within the tolerance at once."""
    search, seen = search_in(list(range(1_000_000)), 400_000, near_ms=10_000, known_ms=0)

    assert len(seen) <= 2
    assert 390_000 < search.low <= 400_001


def test_a_long_gap_is_passed() -> None:
    """Positions without a record (aborted, compacted ones) are within any limit."""
    search, _ = search_in([10, *[None] * 5_000, 9_000], 100)

    assert search.low == 5_001
    assert search.next_waits
