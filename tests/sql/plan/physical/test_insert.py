"""Rows by sink, each batch once however often it is run."""

from __future__ import annotations

from penstock.sql.plan.physical.incremental import MAX_BATCHES, SinkCounts


def test_a_batch_that_is_run_again_counts_once() -> None:
    """Its last run is what counts."""
    counts = SinkCounts()

    counts.add(0, {"a": 3, "b": 1})
    counts.add(1, {"a": 5, "b": 0})
    counts.add(1, {"a": 4, "b": 2})

    assert counts.of(1) == {"a": 4, "b": 2}
    assert counts.of(7) == {}
    assert counts.total() == {"a": 7, "b": 3}


def test_old_batches_stay_in_the_sum() -> None:
    """They are no longer kept apart."""
    counts = SinkCounts()

    for number in range(MAX_BATCHES + 2):
        counts.add(number, {"a": 1})

    assert counts.of(0) == {}
    assert counts.total() == {"a": MAX_BATCHES + 2}
