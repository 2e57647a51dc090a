"""Assignments and checkpoints (Flink's SplitAssignmentTrackerTest)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connector.source.coordinator.context import SplitAssignmentTracker
from penstock.connector.source.split import Split


def splits(*split_ids: str) -> list[Split]:
    """Make splits."""
    return [Split(split_id=split_id, start=0) for split_id in split_ids]


def test_what_was_assigned_after_a_checkpoint_goes_back() -> None:
    """In the order of assignment, and of that reader alone."""
    tracker = SplitAssignmentTracker()
    tracker.record(0, splits("a"))
    tracker.on_checkpoint(1)
    tracker.record(0, splits("b", "c"))
    tracker.record(1, splits("d"))

    assert tracker.take_back(0, 1) == tuple(splits("b", "c"))
    assert tracker.take_back(1, 1) == tuple(splits("d"))


def test_assignments_between_two_checkpoints_are_kept_apart() -> None:
    """A reader that goes back to the first of two gives back what came between them."""
    tracker = SplitAssignmentTracker()
    tracker.record(0, splits("a"))
    tracker.on_checkpoint(1)
    tracker.record(0, splits("b"))
    tracker.on_checkpoint(2)
    tracker.on_completed(1)
    tracker.record(0, splits("c"))

    assert tracker.take_back(0, 1) == tuple(splits("b", "c"))


def test_a_complete_checkpoint_clears_the_assignments_below_it() -> None:
    """Those of checkpoints that were never completed too: a later one holds them."""
    tracker = SplitAssignmentTracker()
    tracker.record(0, splits("a"))
    tracker.on_checkpoint(1)
    tracker.record(0, splits("b"))
    tracker.on_checkpoint(2)
    tracker.on_completed(2)

    assert tracker.take_back(0, 2) == ()
    assert tracker._by_checkpoint == {}


def test_without_a_checkpoint_everything_goes_back() -> None:
    """A reader that starts from nothing has nothing."""
    tracker = SplitAssignmentTracker()
    tracker.record(0, splits("a"))
    tracker.on_checkpoint(1)
    tracker.record(0, splits("b"))

    assert tracker.take_back(0, None) == tuple(splits("a", "b"))


def test_a_split_goes_back_once() -> None:
    """What was taken back is nobody's."""
    tracker = SplitAssignmentTracker()
    tracker.record(0, splits("a"))
    tracker.take_back(0, None)

    assert tracker.take_back(0, None) == ()


@pytest.mark.parametrize("checkpoint_id", [None, 1])
def test_nobody_goes_back_before_a_complete_checkpoint(checkpoint_id: int | None) -> None:
    """What was assigned before it is forgotten, so the executor would lose splits."""
    tracker = SplitAssignmentTracker()
    tracker.on_checkpoint(2)
    tracker.on_completed(2)

    with pytest.raises(AssertionError, match="2 is complete"):
        tracker.take_back(0, checkpoint_id)


steps = st.lists(st.sampled_from(["assign", "checkpoint", "complete"]), max_size=30)


@given(steps=steps)
def test_a_reader_loses_nothing_and_gets_nothing_twice(steps: list[str]) -> None:
    """Its state at any checkpoint that it may go back to and what goes back are all it was given."""
    tracker = SplitAssignmentTracker()
    given_ids: list[str] = []
    held: dict[int | None, list[str]] = {None: []}
    for number, step in enumerate(steps):
        if step == "assign":
            given_ids.append(f"s{number}")
            tracker.record(0, splits(f"s{number}"))
        elif step == "checkpoint":
            held[number] = list(given_ids)
            tracker.on_checkpoint(number)
        elif (last := max((i for i in held if i is not None), default=None)) is not None:
            held = {last: held[last]}
            tracker.on_completed(last)
    oldest = next(iter(held))

    back = [split.split_id for split in tracker.take_back(0, oldest)]

    assert held[oldest] + back == given_ids
