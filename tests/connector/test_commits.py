"""Commits of offsets as the source counts them in a file, and the query's process reads them."""

from __future__ import annotations

from pathlib import Path

from penstock.connector.commits import OffsetCommits, OffsetCommitsFile
from penstock.connector.spark.source.retry import current_commits, outage_file


def test_a_source_that_starts_again_counts_on(tmp_path: Path) -> None:
    """Its process begins at nothing; what the one before has counted stays, and is added once."""
    path = outage_file(tmp_path, "checkpoints/a", 1)
    first, second = OffsetCommitsFile(path), OffsetCommitsFile(path)

    first.note(OffsetCommits(ok=1))
    first.note(OffsetCommits(ok=3, failed=1))
    second.note(OffsetCommits())
    second.note(OffsetCommits(ok=1, skipped=2))

    assert current_commits(tmp_path, "checkpoints/a", 2) == {
        1: OffsetCommits(ok=4, failed=1, skipped=2)
    }
    assert current_commits(tmp_path, "checkpoints/b", 2) == {}


def test_the_file_of_a_query_is_its_owners(tmp_path: Path) -> None:
    """It is written beside the one that says what the source waits for, which it does not change."""
    path = outage_file(tmp_path, "checkpoints/a", 0)
    OffsetCommitsFile(path).note(OffsetCommits(ok=1))

    (written,) = tmp_path.iterdir()
    assert written != path
    assert written.stat().st_mode & 0o777 == 0o600
