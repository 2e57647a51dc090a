"""The closing summary names what held a watermark back and what came late."""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.cli.output.progress import summary_lines
from penstock.sql.plan.physical.batch_metrics import LateSplit, TimelessSplit
from penstock.sql.runner.summary import StatementResult

ENDED = StatementResult(
    kind="INSERT",
    subject="per_10s",
    rows_in=3000,
    rows_out=0,
    rows_dropped=7,
    batches=1,
    seconds=2.0,
)


def test_a_run_without_a_watermark_says_which_split_has_no_event_time() -> None:
    """Windows stay open for it, and nothing else says why no row came out."""
    timeless = (TimelessSplit(split_id="orders-0", silent_since_ms=None),)
    (line,) = summary_lines([replace(ENDED, timeless=timeless)])

    assert "7 dropped as late, no watermark: orders-0 has no event time yet, 1 batch" in line


def test_late_rows_of_a_partition_that_was_found_late_are_summed_up_with_the_reason() -> None:
    """Beside the count of all late rows."""
    late = (LateSplit(split_id="orders-3", rows=7, found_ms=1_767_225_720_000),)
    (line,) = summary_lines([replace(ENDED, late_splits=late, watermark_ms=0)])

    wanted = "7 rows of orders-3 were late: found at 2026-01-01 00:02:00Z, after its first rows"
    assert f"watermark 1970-01-01 00:00:00, {wanted}" in line
