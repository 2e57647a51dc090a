"""Disorder within splits, and the delay that bears it."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.connector.inference.event_time import (
    disorder_of,
    interval_text,
    lateness_ms,
    propose_delay,
)


def test_a_record_is_late_by_what_it_is_behind_the_highest_before_it():
    """As BoundedOutOfOrdernessWatermarks counts it."""
    assert lateness_ms(np.array([10, 30, 20, 25, 40])).tolist() == [0, 0, 10, 5, 0]


def test_a_split_is_summed_up_by_median_99th_percentile_and_most():
    """In ms; one stray among many shows in the last alone."""
    times = np.arange(0, 300_000, 1000)
    times[200] -= 90_000
    found = disorder_of("partition 0", times)

    assert (found.records, found.p50_ms, found.p99_ms, found.max_ms) == (300, 0, 0, 89_000)


@pytest.mark.parametrize(
    ("splits", "delay_ms", "late"),
    [
        ([[0, 1000, 2000]], 1000, 0),
        ([[5000, 1000, 6000]], 10_000, 0),
        # another split's times do not matter
        ([[10_000_000, 10_001_000], [0, 1000]], 1000, 0),
        ([[], [0, 40_000, 0]], 60_000, 0),
    ],
)
def test_the_delay_covers_the_worst_split_and_half_as_much_again(splits, delay_ms, late):
    """Rounded up to what people write."""
    found = propose_delay([np.array(times, np.int64) for times in splits])

    assert (found.delay_ms, found.late) == (delay_ms, late)


def test_a_stray_does_not_choose_the_delay_and_is_counted():
    """One record an hour late among a thousand."""
    times = np.arange(0, 1_000_000, 1000)
    times[500] -= 3_600_000
    found = propose_delay([times])

    assert (found.delay_ms, found.late) == (1000, 1)


@pytest.mark.parametrize(
    ("delay_ms", "text"),
    [
        (10_000, "INTERVAL '10' SECOND"),
        (90_000, "INTERVAL '90' SECOND"),
        (300_000, "INTERVAL '5' MINUTE"),
        (7_200_000, "INTERVAL '2' HOUR"),
        (172_800_000, "INTERVAL '2' DAY"),
    ],
)
def test_a_delay_is_written_in_its_largest_unit(delay_ms, text):
    """As a person would."""
    assert interval_text(delay_ms) == text
