"""What a person is told of the rows that reach a sink."""

from __future__ import annotations

from penstock.connector.changelog import ChangelogMode
from penstock.sql.plan.rules.flow import describe_changes


def test_rows_that_stay_are_inserts() -> None:
    """The other modes say what comes beside."""
    assert describe_changes(ChangelogMode.INSERT_ONLY, None) == "inserts"
    assert describe_changes(ChangelogMode.UPSERT, ("k",)) == "upserts and deletes by (k)"
    assert "the row before and after" in describe_changes(ChangelogMode.ALL, None)
