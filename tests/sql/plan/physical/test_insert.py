"""Rows by sink, each batch once however often it is run; queries that keyed operators alone run."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.sql.incremental.keyed.operator import RunBySpark
from penstock.sql.plan.physical.incremental import MAX_BATCHES, SinkCounts, refuse_panes
from tests.sql.maintain.temporal_tables import planned

HIGHEST = (
    "SELECT MAX(amount) AS m, window_start AS s, window_end AS e FROM "
    "TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '6' SECOND)) GROUP BY window_start, window_end"
)


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


def test_windows_by_panes_are_refused_where_spark_would_run_them() -> None:
    """A start says why; other queries run by Spark."""
    windows = planned(
        f"SELECT a.m FROM ({HIGHEST}) AS a JOIN ({HIGHEST}) AS b ON a.s = b.s AND a.e = b.e"
    )
    others = planned(
        "SELECT o.id, u.rate FROM orders AS o JOIN untimed AS u ON o.currency = u.currency"
    )
    assert windows.maintained is not None
    assert others.maintained is not None
    spark = RunBySpark(reason="a value of type MAP")

    refuse_panes(others.maintained, spark)
    with pytest.raises(UnsupportedError, match="would have to compute a value of type MAP") as told:
        refuse_panes(windows.maintained, spark)

    assert told.value.hint == "aggregate the windows in a query of its own, into a table"
