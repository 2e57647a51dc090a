"""Rows of splits one split after the other: whatever comes first, nothing is lost, and not much waits."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connector.contract import FetcherModel
from penstock.connector.source.reader.reader import SourceReader
from penstock.connector.source.reader.source_operator import PauseOrResume
from penstock.connector.source.reader.split_order import SplitOrder
from tests.connector.source.numbers import NumbersReader, numbered


def rows(*numbers: int) -> pa.RecordBatch:
    """Rows of eight bytes."""
    return pa.record_batch({"n": pa.array(numbers, pa.int64())})


def taken(order: SplitOrder, *batches: tuple[str, pa.RecordBatch], ends: str = "") -> list[tuple[str, list[int]]]:  # fmt: skip
    """What comes out of a fetch."""
    return [(i, batch.column(0).to_pylist()) for i, batch in order.take(batches, frozenset(ends))]


def test_rows_of_later_splits_wait_for_the_end_of_those_before() -> None:
    """A split that is finished early gives its rows when its turn comes; one without rows holds nothing up."""
    order = SplitOrder("abcd")

    first = taken(order, ("b", rows(3)), ("d", rows(5)), ("a", rows(1)), ends="bc")
    waiting = order.waiting_bytes
    second = taken(order, ("a", rows(2)), ("d", rows(6)), ends="a")

    assert first == [("a", [1])]
    assert waiting == 16
    assert second == [("a", [2]), ("b", [3]), ("d", [5]), ("d", [6])]
    assert order.waiting_bytes == 0


def test_rows_whose_turn_never_comes_are_told() -> None:
    """A reader that says of no split that it is finished would lose those behind it."""
    order = SplitOrder("ab")
    taken(order, ("b", rows(1)), ends="b")
    with pytest.raises(AssertionError, match=r"rows of \['b'\] wait"):
        order.check_end()
    taken(order, ends="a")
    order.check_end()


@given(st.data(), st.lists(st.integers(0, 6), min_size=1, max_size=4))
def test_the_order_of_fetches_makes_no_difference(data: st.DataObject, sizes: Sequence[int]) -> None:  # fmt: skip
    """All rows of the first split, then all of the second: for each way in which they may come."""
    splits = {f"t-{n}": list(range(size)) for n, size in enumerate(sizes)}
    order, found, left = SplitOrder(list(splits)), [], {i: list(of) for i, of in splits.items()}
    while left:
        split_id = data.draw(st.sampled_from(sorted(left)))
        count = data.draw(st.integers(0, len(left[split_id])))
        given_now, left[split_id] = left[split_id][:count], left[split_id][count:]
        ended = not left[split_id]
        if ended:
            del left[split_id]
        batches = [(split_id, rows(*given_now))] if given_now else []
        finished = {split_id} if ended else set()
        found += [(i, n) for i, b in order.take(batches, finished) for n in b.column(0).to_pylist()]

    assert found == [(split_id, number) for split_id, of in splits.items() for number in of]


def test_splits_that_wait_are_paused_beyond_the_bound_and_go_on_in_their_turn() -> None:
    """The first one is never paused; the others go on when half of what waits is taken, one that ended not at all."""
    order = SplitOrder("abcd", most_bytes=32)
    changes = []
    for batch, ends in (
        (("b", rows(1, 2)), ""),
        (("c", rows(3, 4)), "d"),
        (("a", rows(5)), ""),
        (("a", rows(6)), "a"),
        (("b", rows(7)), "b"),
    ):
        taken(order, batch, ends=ends)
        changes.append(order.change())

    assert changes == [
        PauseOrResume(),
        PauseOrResume(pause=frozenset("bc")),
        PauseOrResume(),
        PauseOrResume(resume=frozenset("bc")),
        PauseOrResume(),
    ]


@pytest.mark.parametrize("model", FetcherModel)
def test_a_reader_that_is_paused_by_what_waits_reads_all_splits_in_order(
    model: FetcherModel,
) -> None:
    """On threads, with a bound that is reached again and again."""
    order, found, most = SplitOrder(["t-0", "t-1", "t-2"], most_bytes=300), [], 0
    with SourceReader(lambda: NumbersReader(step=7), model=model) as reader:
        reader.add_splits(numbered(300, 200, 250))
        reader.notify_no_more_splits()
        for records in reader.read_to_end():
            for split_id, batch in order.take(records.batches, records.finished):
                found += [(split_id, number) for number in batch.column(0).to_pylist()]
            most = max(most, order.waiting_bytes)
            change = order.change()
            if change:
                reader.pause_or_resume_splits(change.pause, change.resume)

    assert found == [(f"t-{n}", i) for n, size in enumerate((300, 200, 250)) for i in range(size)]
    assert most < 300 + 3 * 7 * 8
