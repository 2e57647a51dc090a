"""What a slot's marker says about the batch at hand: every case of the protocol's third step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.catalog.errors import StateMismatchError
from penstock.connector.kafka.sink.protocol import BatchCommit, Marker, SlotNames, may_write


def claim(batch_id: int, *, first: int = 0, digest: str = "aa") -> BatchCommit:
    """A slot's claim to write a batch."""
    return BatchCommit(slot="s-0", batch_id=batch_id, first_batch=first, digest=digest)


def refusal(made: BatchCommit, found: Marker | None) -> StateMismatchError:
    """The error that a claim is refused with."""
    with pytest.raises(StateMismatchError, match="slot 's-0', batch") as caught:
        may_write(made, found)
    return caught.value


def test_a_marker_is_read_as_it_was_written() -> None:
    """Offset and metadata hold all of it."""
    marker = Marker(next_batch=8, rows=12, digest="0123456789abcdef")

    assert marker.metadata == "v1;7;12;0123456789abcdef"
    assert Marker.parse(8, marker.metadata) == marker


@pytest.mark.parametrize("text", [None, "", "by hand", "v2;7;12;aa", "v1;7;many;aa"])
def test_a_marker_that_was_set_by_hand_says_where_to_go_on(text: str | None) -> None:
    """Its metadata is no digest: the batch it stands before may be written, the one behind it is not passed over."""
    marker = Marker.parse(8, text)

    assert may_write(claim(8), marker)
    assert "another batch of this number" in refusal(claim(7), marker).message


def test_the_batch_that_is_next_is_written() -> None:
    """Whatever the digest of the one before was."""
    assert may_write(claim(8), Marker(next_batch=8, digest="zz"))


def test_the_batch_that_is_there_is_passed_over() -> None:
    """The same digest says that it is the same."""
    assert not may_write(claim(7), Marker(next_batch=8, digest="aa"))


def test_another_batch_of_the_same_number_is_refused() -> None:
    """A copied or restored checkpoint, or another query."""
    error = refusal(claim(7, digest="bb"), Marker(next_batch=8, digest="aa"))

    assert "checkpoint was copied or restored" in error.message
    assert error.hint


def test_a_batch_that_lies_far_behind_is_refused() -> None:
    """Another runner is ahead."""
    error = refusal(claim(5), Marker(next_batch=8, digest="aa"))

    assert "the topic has batch 7" in error.message


def test_a_batch_that_skips_one_is_refused() -> None:
    """Slots or names were changed."""
    error = refusal(claim(9), Marker(next_batch=8, digest="aa"))

    assert "batch 8 is missing there" in error.message


def test_without_a_marker_only_the_first_batch_is_written() -> None:
    """A sink may come later than its query; then its first batch is not the query's."""
    assert may_write(claim(0), None)
    assert may_write(claim(4, first=4), None)
    assert "is lost" in refusal(claim(5, first=4), None).message


def test_names_hold_the_query_and_the_sink() -> None:
    """Another checkpoint or another table never has the same."""
    names = SlotNames.of("p", "query", "sink")
    others = {SlotNames.of("p", "other", "sink"), SlotNames.of("p", "query", "other")}

    assert names.slot(3) == f"p-{names.scope}-3"
    assert len(names.scope) == 16
    assert names not in others
    assert SlotNames.of("p", "query", "sink") == names


def test_a_sink_that_is_not_given_every_batch_writes_behind_its_last_one() -> None:
    """Where there is no marker, and behind any gap; a batch that is there is passed over all the same."""
    sparse = replace(claim(7, first=3), sparse=True)

    assert may_write(sparse, None)
    assert may_write(sparse, Marker(next_batch=4, digest="zz"))
    assert not may_write(sparse, Marker(next_batch=8, digest="aa"))
    assert "another batch of this number" in refusal(sparse, Marker(next_batch=8)).message
    assert "another runner is ahead" in refusal(sparse, Marker(next_batch=9)).message
