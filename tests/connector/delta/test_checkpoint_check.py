"""Which table a checkpoint goes on with: what is refused, and what is an ordinary restart."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import StateMismatchError
from penstock.connector.delta.checkpoint_check import (
    CheckpointProgress,
    NotedTable,
    StoredTable,
    compare_with_checkpoint,
    read_note,
)

KNOWN = NotedTable(id="a", version=4)
GOING_ON = CheckpointProgress(planned=7, committed=6)
"""Batch 7 was planned, and perhaps written, when the last run ended."""


def check(
    known: NotedTable | None,
    found: StoredTable,
    progress: CheckpointProgress,
    *,
    commits_empty: bool,
) -> None:
    """Judge a table that messages call `orders`."""
    compare_with_checkpoint(known, found, progress, "orders", commits_empty=commits_empty)


@pytest.mark.parametrize("commits_empty", [True, False])
@pytest.mark.parametrize("known", [KNOWN, None])
@pytest.mark.parametrize("written", [None, 6, 7])
def test_the_table_that_the_checkpoint_knows_is_gone_on_with(
    known: NotedTable | None, written: int | None, commits_empty: bool
) -> None:
    """Also where its last batches had no rows, and where an earlier release noted nothing."""
    found = StoredTable(id="a", version=4, written=written)

    check(known, found, GOING_ON, commits_empty=commits_empty)


def test_a_new_query_takes_any_table() -> None:
    """It has written nothing that could be missing; a start that wrote nothing may have seen another table."""
    nothing = CheckpointProgress(planned=None, committed=None)

    check(None, StoredTable(id="b", version=0), nothing, commits_empty=True)
    check(KNOWN, StoredTable(id="b", version=0), nothing, commits_empty=True)


def test_a_keyed_table_whose_last_batches_had_no_rows_is_gone_on_with() -> None:
    """A batch without rows is no commit there."""
    check(KNOWN, StoredTable(id="a", version=9, written=3), GOING_ON, commits_empty=False)


def test_a_keyed_table_that_got_no_row_yet_is_still_at_its_first_version() -> None:
    """A batch without rows is no commit there."""
    check(
        NotedTable(id="a", version=0, each_from=None),
        StoredTable(id="a", version=0),
        GOING_ON,
        commits_empty=False,
    )


@pytest.mark.parametrize("version", [0, 4])
@pytest.mark.parametrize("each_from", [None, 7])
def test_a_table_whose_key_is_dropped_is_gone_on_with(version: int, each_from: int | None) -> None:
    """Where its last batches had no rows they were no commits; the first start of appends may have added none yet."""
    known = NotedTable(id="a", version=version, written=3 if version else None, each_from=each_from)
    found = StoredTable(id="a", version=version, written=known.written)

    check(known, found, GOING_ON, commits_empty=True)


def test_each_batch_behind_a_dropped_key_is_asked_for() -> None:
    """They are commits again."""
    known = NotedTable(id="a", version=4, written=3, each_from=6)
    with pytest.raises(StateMismatchError, match="has committed batch 6"):
        check(known, StoredTable(id="a", version=4, written=3), GOING_ON, commits_empty=True)


@pytest.mark.parametrize("commits_empty", [True, False])
def test_a_table_that_lacks_a_batch_which_was_noted_is_refused(commits_empty: bool) -> None:
    """Whatever others have committed to it since."""
    known = NotedTable(id="a", version=4, written=5, each_from=None)
    with pytest.raises(StateMismatchError, match=r"has batch 3 .*, and had batch 5 when its"):
        check(
            known, StoredTable(id="a", version=9, written=3), GOING_ON, commits_empty=commits_empty
        )


def test_a_transaction_that_has_expired_is_not_missed() -> None:
    """Delta forgets old ones where the table has a retention of them."""
    known = NotedTable(id="a", version=4, written=5, each_from=None)

    check(known, StoredTable(id="a", version=9), GOING_ON, commits_empty=False)


def test_a_note_of_an_earlier_release_is_of_appends() -> None:
    """It says nothing of batches."""
    text = '{"id": "a", "version": 4}'

    assert read_note(text, "note") == NotedTable(id="a", version=4, written=None, each_from=0)


@pytest.mark.parametrize(
    ("found", "progress", "message"),
    [
        (StoredTable(id="b", version=9), GOING_ON, "is not the one that the checkpoint knows"),
        (
            StoredTable(id="a", version=0),
            GOING_ON,
            "is empty, but its pipeline has written 7 batches",
        ),
        (StoredTable(id="a", version=3), GOING_ON, "is at version 3, and was at 4"),
        (StoredTable(id="a", version=9, written=8), GOING_ON, "is only at batch 7"),
        (
            StoredTable(id="a", version=9, written=3),
            GOING_ON,
            "has batch 3 of this query as its last one, but its pipeline has committed batch 6",
        ),
        (
            StoredTable(id="a", version=9, written=0),
            CheckpointProgress(planned=None, committed=None),
            "has batch 0 of this query, and its checkpoint has planned none",
        ),
    ],
)
def test_a_table_that_does_not_go_with_the_checkpoint_is_refused(
    found: StoredTable, progress: CheckpointProgress, message: str
) -> None:
    """With what to do."""
    with pytest.raises(StateMismatchError, match=message) as caught:
        check(KNOWN, found, progress, commits_empty=True)

    assert "--from-scratch" in (caught.value.hint or "")
