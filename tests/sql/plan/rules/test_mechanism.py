"""What a person is told of an updating query: the mechanism, its key, its state."""

from __future__ import annotations

from penstock.connector.changelog import ChangelogMode
from penstock.sql.plan.rules.flow import describe_changes, describe_operator
from tests.sql.plan.changing import plan


def test_the_lines_name_mechanism_key_and_state() -> None:
    """And what reaches the sink."""
    flow = plan("SELECT k, COUNT(*) AS n FROM events GROUP BY k").flow
    assert flow.mechanism is not None

    assert describe_operator(flow.mechanism) == (
        "updating: aggregation without a window (Spark's update mode; a key's newest row replaces the one before)",
        "  key: k",
        "  state: COUNT(*), for each key that was ever seen",
    )
    assert (
        describe_changes(flow.changes, flow.key) == "rows to the sink: upserts and deletes by (k)"
    )


def test_rows_that_stay_are_inserts() -> None:
    """The other modes say what comes beside."""
    assert describe_changes(ChangelogMode.INSERT_ONLY, None) == "rows to the sink: inserts"
    assert "the row before and after" in describe_changes(ChangelogMode.ALL, None)
