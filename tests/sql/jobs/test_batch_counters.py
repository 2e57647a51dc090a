"""The counters of a job's batches, which only grow."""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.jobs.batch_counters import NO_SOURCE, BatchCounters, JobBatches
from tests.sql.metrics.metered import SPLITS, read_batch, source_of


def test_a_replayed_batch_is_work_done_twice():
    """A counter that fell would be a restart of the process to Prometheus."""
    counters = BatchCounters()
    for number in (4, 5, 5):
        counters = counters.add(read_batch(number, source_of(*SPLITS)))

    assert (counters.batches, counters.rows_out, counters.rows_in) == (3, 60, {0: 90})
    assert counters.phases_ms["addBatch"] == 900
    assert counters.duration_ms == 1_500


def test_a_duration_is_in_the_first_bucket_that_has_room_for_it():
    """A bound is inclusive; what is longer than all is in the last."""
    at_bound = BatchCounters().add(read_batch(1, duration_ms=100))
    longest = BatchCounters().add(read_batch(1, duration_ms=300_001))

    assert at_bound.durations == (1, *(0,) * 10)
    assert longest.durations == (*(0,) * 10, 1)


def test_late_rows_of_no_known_source_are_those_of_the_only_one():
    """Of several tables they are kept apart."""
    one = BatchCounters().add(read_batch(1, source_of(*SPLITS), rows_dropped=3))
    known = replace(source_of(*SPLITS), rows_late=2)
    two = BatchCounters().add(read_batch(1, known, source_of(*SPLITS), rows_dropped=3))

    assert one.rows_late == {0: 3}
    assert two.rows_late == {0: 2, 1: 0, NO_SOURCE: 1}


def test_a_table_that_is_read_again_has_a_number_behind_its_name():
    assert JobBatches(sources=("a", "b", "a")).source_names() == ("a", "b", "a#2")
