"""The order of the tests: pure ones, so that a simple mistake shows at once; then the longest files; then the others.

The tests of a file go to one worker. One that began a long file last would be at work alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

LATER = ("nightly", "slow", "spark", "broker")
"""Marks of tests that are not pure; in a file, and among short ones, those with the first of them come last."""

LONG_FILES = (
    "tests/integration/test_windows.py",
    "tests/contract/test_sink_writes.py",
    "tests/integration/test_crash.py",
    "tests/sql/cli/test_run_end_to_end.py",
    "tests/integration/test_rows_by_bucket.py",
    "tests/integration/test_grouped_by_tasks.py",
    "tests/connector/delta/test_upsert.py",
    "tests/integration/test_broker_faults.py",
    "tests/sql/incremental/operators/test_query.py",
    "tests/connector/delta/test_compaction.py",
    "tests/connector/delta/test_task_commit.py",
    "tests/connector/delta/test_merge.py",
    "tests/integration/test_bad_records.py",
    "tests/integration/test_serve.py",
    "tests/integration/test_changelogs.py",
    "tests/integration/test_maintained.py",
    "tests/sql/testing/test_on_spark.py",
    "tests/sql/observation/test_sentence_on_spark.py",
    "tests/sql/incremental/planning/test_windows_over_changes.py",
    "tests/sql/incremental/planning/test_planned_and_run.py",
    "tests/integration/test_other_statements.py",
    "tests/security/test_bi_user.py",
    "tests/integration/test_alignment.py",
    "tests/integration/test_over_aggregates.py",
    "tests/connector/dead_letters/test_store.py",
    "tests/integration/test_secrets.py",
    "tests/integration/test_exact_watermark.py",
    "tests/sql/incremental/planning/test_over.py",
    "tests/integration/test_temporal_joins.py",
    "tests/integration/test_delta_upsert.py",
    "tests/integration/test_updating_queries.py",
    "tests/sql/cli/test_up_end_to_end.py",
    "tests/sql/cli/test_run_metrics.py",
    "tests/integration/test_status_page.py",
    "tests/sql/spark_process/test_spark_connect.py",
    "tests/integration/test_ties.py",
    "tests/integration/test_statement_sets.py",
    "tests/integration/test_far_future.py",
    "tests/integration/test_kafka_to_kafka.py",
)
"""Files of half a minute of CPU and more, the longest first."""


def place_of(item: pytest.Item) -> tuple[bool, int, list[bool]]:
    """Return whether a test is of the second half, the place of its file there, and what it needs."""
    file, later = item.nodeid.partition("::")[0], [bool(item.get_closest_marker(m)) for m in LATER]
    place = LONG_FILES.index(file) if file in LONG_FILES else len(LONG_FILES)
    return any(later) or file in LONG_FILES, place, later
