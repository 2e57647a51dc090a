"""Numbers and times as a person reads them."""

from __future__ import annotations

import pytest

from penstock.connector.source.state import MAX_WATERMARK_MS
from penstock.sql.cli.output.text import count_text, lag_text, watermark_text
from penstock.sql.clock import duration_text


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0 ms"),
        (850, "850 ms"),
        (12_300, "12.3 s"),
        (60_000, "1 min"),
        (245_000, "4 min 5 s"),
        (10_920_000, "3 h 2 min"),
        (1_051_200_000, "12 d 4 h"),
    ],
)
def test_a_duration_has_its_two_largest_units(duration_ms, text):
    """Enough to judge by, short enough for a column."""
    assert duration_text(duration_ms) == text


def test_counts_are_grouped():
    """What is not known is a dash."""
    assert (count_text(1_234_567), count_text(0), count_text(None)) == ("1,234,567", "0", "-")


def test_a_watermark_is_event_time_to_the_second():
    """The end of a bounded table is said in a word."""
    assert watermark_text(1_767_225_600_999) == "2026-01-01 00:00:00"
    assert watermark_text(MAX_WATERMARK_MS) == "end"
    assert watermark_text(None) == "-"


def test_the_lag_is_the_clocks_distance():
    """Neither a missing watermark nor the end of time has one; a watermark ahead of the clock has none."""
    assert lag_text(1_000, 61_000) == "1 min"
    assert lag_text(5_000, 1_000) == "0 ms"
    assert (lag_text(None, 1_000), lag_text(MAX_WATERMARK_MS, 1_000)) == ("-", "-")
