"""Rows by sink, each batch once however often it is run; queries that keyed operators alone run."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.sql.incremental.keyed.operator import RunBySpark
from penstock.sql.plan.physical.incremental import (
    MAX_BATCHES,
    SinkCounts,
    refuse_outer_joins,
    refuse_panes,
)
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


@pytest.mark.parametrize("side", ["LEFT", "RIGHT", "FULL"])
def test_outer_joins_within_a_time_are_refused_where_spark_would_run_them(side: str) -> None:
    """A start says why, and what to write instead where that is known; inner ones, and others, run by Spark."""
    within = (
        "SELECT o.id, q.rate FROM orders AS o {} JOIN quotes AS q ON o.currency = q.currency "
        "AND q.since BETWEEN o.ts AND o.ts + INTERVAL '5' SECOND"
    )
    without = (
        f"SELECT o.id, u.rate FROM orders AS o {side} JOIN untimed AS u ON o.currency = u.currency"
    )
    outer, *others = (
        planned(sql).maintained for sql in (within.format(side), within.format("INNER"), without)
    )
    assert outer is not None
    spark = RunBySpark(reason="a value of type MAP")
    hinted = RunBySpark(reason="a value of type MAP", hint="leave it out")

    for other in filter(None, others):
        refuse_outer_joins(other, spark)
    for plan, hint in (
        (spark, "join the tables in a query of its own, into a table"),
        (hinted, "leave it out"),
    ):
        with pytest.raises(UnsupportedError, match="outer join within a time cannot run") as told:
            refuse_outer_joins(outer, plan)

        assert "Spark would have to compute a value of type MAP" in str(told.value)
        assert told.value.hint == hint
