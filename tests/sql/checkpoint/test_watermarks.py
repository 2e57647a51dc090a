"""The event time that a batch passes: that of the lowest watermark, once every source has one."""

from __future__ import annotations

from penstock.sql.checkpoint.watermarks import EventTimeSpan, Watermarks

BATCH = Watermarks(before_ms=[5, None, 9], now_ms=[20, 10, 9])


def test_the_lowest_watermark_of_the_sources_counts() -> None:
    """Of those that are asked for alone."""
    assert BATCH.span([0, 2]) == EventTimeSpan(before_ms=5, now_ms=9)


def test_a_source_without_a_watermark_holds_all_back() -> None:
    """Until it has one nothing is late, and nothing complete."""
    assert BATCH.span([0, 1]) == EventTimeSpan(before_ms=None, now_ms=10)
