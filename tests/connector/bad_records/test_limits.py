"""How many bad records are too many, for a task and for a batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalog.errors import BadRecordError
from penstock.connector.bad_records.limits import Tally, check_batch, check_task
from penstock.connector.options.bad_records import BadRecordPolicy, BadRecordSettings

counts = st.tuples(st.integers(0, 3000), st.integers(0, 3000)).map(
    lambda pair: Tally(read=max(pair), bad=min(pair))
)


def limits(ratio: float = 0.1, rows: int | None = None) -> BadRecordSettings:
    """Settings with these limits."""
    return BadRecordSettings(policy=BadRecordPolicy.SKIP, max_ratio=ratio, max_rows=rows)


def stops(settings: BadRecordSettings, tally: Tally) -> bool:
    """Whether a batch with these counts stops the query."""
    try:
        check_batch(settings, tally, "c.d.t")
    except BadRecordError:
        return True
    return False


@pytest.mark.parametrize(
    ("read", "bad", "stopped"),
    [
        (1000, 100, False),
        (1000, 101, True),
        (999, 999, False),
        (100_000, 10_000, False),
        (0, 0, False),
    ],
)
def test_a_share_is_judged_from_a_thousand_records_on(read: int, bad: int, stopped: bool) -> None:
    """More than the share, in a batch that is large enough to say something."""
    assert stops(limits(), Tally(read=read, bad=bad)) is stopped


@pytest.mark.parametrize(("bad", "stopped"), [(5, False), (6, True)])
def test_a_number_is_judged_in_any_batch(bad: int, stopped: bool) -> None:
    """However small it is."""
    assert stops(limits(1.0, 5), Tally(read=10, bad=bad)) is stopped


def test_the_whole_is_no_limit() -> None:
    """A share of 1 lets everything pass."""
    assert not stops(limits(1.0), Tally(read=5000, bad=5000))


def test_the_error_says_how_many_and_what_was_allowed() -> None:
    """And that trying again will not help."""
    with pytest.raises(BadRecordError) as caught:
        check_batch(limits(0.1, 50), Tally(read=2000, bad=1500), "c.d.t")

    assert "1,500 of 2,000" in caught.value.message
    assert (
        "'bad-records.max-ratio' = '0.1' or 'bad-records.max-rows' = '50'" in caught.value.message
    )
    assert caught.value.permanent


@given(own=counts, others=st.lists(counts, max_size=3), rows=st.none() | st.integers(0, 500))
def test_a_task_stops_only_where_its_batch_would(
    own: Tally, others: list[Tally], rows: int | None
) -> None:
    """Whatever the other tasks find; positions are at least as many as records."""
    settings = limits(0.1, rows)
    batch = sum(others, start=own)
    try:
        check_task(settings, own, "c.d.t", batch_positions=batch.read)
    except BadRecordError:
        assert stops(settings, batch)


def test_a_lone_task_stops_in_the_middle_of_its_batch() -> None:
    """So what it keeps of a topic of rubbish is bounded by the share."""
    with pytest.raises(BadRecordError):
        check_task(limits(), Tally(read=2000, bad=2000), "c.d.t", batch_positions=10_000)


def test_without_an_end_of_its_ranges_a_task_cannot_know() -> None:
    """A compressed file has more records than positions are planned for it."""
    check_task(limits(), Tally(read=5000, bad=5000), "c.d.t", batch_positions=None)
