"""Which changes of a key reach an upsert topic, however Arrow cuts the batches."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.connector.kafka.sink.protocol import last_changes

CHANGES = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(RowKind)), max_size=12)


def sent(
    changes: list[tuple[str, RowKind]], *, only_last: bool, size: int = 100
) -> list[tuple[str, str]]:
    """What is left of changes sorted by key, cut into batches of `size`."""
    in_order = sorted(changes, key=lambda change: change[0])
    chunks = [in_order[i : i + size] for i in range(0, len(in_order), size)]
    batches = [
        pa.RecordBatch.from_arrays(
            [
                pa.array([key.encode() for key, _ in chunk], pa.binary()),
                pa.array([kind.value for _, kind in chunk], pa.int8()),
            ],
            names=["key", ROW_KIND],
        )
        for chunk in chunks
    ]
    rows = [row for b in last_changes(iter(batches), only_last=only_last) for row in b.to_pylist()]
    return [(row["key"].decode(), RowKind(row[ROW_KIND]).short) for row in rows]


def test_a_row_before_an_update_is_not_sent() -> None:
    """The one after it says all."""
    update = [("a", RowKind.UPDATE_BEFORE), ("a", RowKind.UPDATE_AFTER)]

    assert sent(update, only_last=False) == [("a", "+U")]


def test_a_row_before_an_update_that_comes_last_is_sent() -> None:
    """The update's other half has another key, so under this one the row is gone."""
    moved = [("a", RowKind.UPDATE_BEFORE), ("b", RowKind.UPDATE_AFTER)]

    assert sent(moved, only_last=False) == [("a", "-U"), ("b", "+U")]


def test_buffering_leaves_the_last_change_of_each_key() -> None:
    """In the order of the changes of a key."""
    changes = [("a", RowKind.INSERT), ("a", RowKind.DELETE), ("b", RowKind.INSERT)]

    assert sent(changes, only_last=True) == [("a", "-D"), ("b", "+I")]


@given(CHANGES, st.integers(1, 4), st.booleans())
def test_the_cut_of_batches_does_not_matter(
    changes: list[tuple[str, RowKind]], size: int, only_last: bool
) -> None:
    """Whole or in pieces: the same is sent, and the last change of each key always is."""
    whole = sent(changes, only_last=only_last)
    last = {key: kind.short for key, kind in changes}

    assert sent(changes, only_last=only_last, size=size) == whole
    assert dict(whole) == last
