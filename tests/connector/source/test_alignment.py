"""The arithmetic of alignment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connector.source.alignment import Alignment, WatermarkAggregator, alignment_limit
from penstock.connector.source.state import MAX_WATERMARK_MS, MIN_INSTANT_MS

instants = st.integers(MIN_INSTANT_MS, MAX_WATERMARK_MS) | st.sampled_from(
    [MIN_INSTANT_MS, MAX_WATERMARK_MS]
)


def test_the_limit_of_an_idle_group_is_the_maximum_and_does_not_overflow() -> None:
    """FLINK-31632: the maximum plus the drift came out negative, and no split was ever resumed."""
    assert alignment_limit(MAX_WATERMARK_MS, 1000) == MAX_WATERMARK_MS


@given(group=instants, drift=st.integers(1, 10**18))
def test_the_limit_is_never_below_the_group(group: int, drift: int) -> None:
    """So the slowest of a group can always go on."""
    assert group <= alignment_limit(group, drift) <= MAX_WATERMARK_MS


@given(
    reports=st.lists(
        st.tuples(st.integers(0, 3), instants | st.none()),
        max_size=40,
    )
)
def test_the_aggregate_is_the_lowest_of_the_last_reports(
    reports: list[tuple[int, int | None]],
) -> None:
    """Under any updates, with the smallest and largest values among them; None takes a reader out."""
    aggregator = WatermarkAggregator()
    last: dict[int, int] = {}
    for reader, watermark in reports:
        if watermark is None:
            aggregator.forget(reader)
            last.pop(reader, None)
        else:
            aggregator.report(reader, watermark)
            last[reader] = watermark

        assert aggregator.lowest_ms == min(last.values(), default=None)
        assert all((reader in aggregator) == (reader in last) for reader in range(4))


@pytest.mark.parametrize(("drift", "interval"), [(0, 1000), (-1, 1000), (1000, 0), (1000, -1)])
def test_a_drift_or_an_interval_of_nothing_is_refused(drift: int, interval: int) -> None:
    """Options are checked where a table is made; here it is a bug."""
    with pytest.raises(AssertionError):
        Alignment(group="g", max_drift_ms=drift, update_interval_ms=interval)
