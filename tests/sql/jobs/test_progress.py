"""The sums over a job's batches."""

from __future__ import annotations

from penstock.sql.jobs.progress import Totals, rows_out_per_second, rows_per_second
from tests.sql.run.scripted import batch


def total(*batches):
    """Totals after these events."""
    totals = Totals()
    for each in batches:
        totals = totals.add(each)
    return totals


def test_every_batch_counts_once_however_often_it_is_seen():
    """A progress event that comes again changes nothing."""
    totals = total(batch(0, 10), batch(1, 20), batch(1, 20), batch(0, 10), batch(2, 30))

    assert (totals.batches, totals.rows_in, totals.rows_out) == (3, 60, 30)


def test_a_replayed_batch_takes_the_place_of_its_first_run():
    """After a restart the last batch may run again; its new counts replace the old."""
    lost = {"lost_of": {0: 7}}
    totals = total(
        batch(4, 10, **lost),
        batch(5, 100, rows_dropped=3, **lost),
        batch(5, 90, rows_dropped=2, **lost),
    )

    assert (totals.batches, totals.rows_in, totals.rows_dropped) == (2, 100, 2)
    assert totals.records_lost == 14


def test_speed_is_that_of_the_batches_of_the_last_seconds():
    """Batches committed long ago do not count; a job that stands still has no speed."""
    totals = total(
        batch(0, 1_000_000, committed_at_ms=1_000),
        batch(1, 500, committed_at_ms=60_000, duration_ms=500),
        batch(2, 500, committed_at_ms=60_500, duration_ms=500),
    )

    assert rows_per_second(totals, 60_500) == 1_000
    assert rows_out_per_second(totals, 60_500) == 500
    assert rows_out_per_second(totals, 100_000) == 0
    assert rows_per_second(totals, 100_000) == 0
    assert rows_per_second(Totals(), 0) == 0
