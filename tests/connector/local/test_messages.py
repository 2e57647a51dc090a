"""Checkpoints of a local job: JSON and back, and who starts with what."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.connector.local.messages import LocalCheckpoint, ReaderCheckpoint
from penstock.connector.source.split import Split
from tests.connector.local.checkpoint_text import decode_checkpoint, encode_checkpoint

WATERMARKS = st.none() | st.integers(-(10**15), 10**15)


@st.composite
def reader_checkpoints(draw: st.DrawFn) -> ReaderCheckpoint:
    """Make a reader's part, its splits in the order in which JSON has them."""
    ids = draw(st.lists(st.text(min_size=1), unique=True, max_size=4).map(sorted))
    starts = {split_id: draw(st.integers(0, 10**18)) for split_id in ids}
    stops = {split_id: draw(st.none() | st.integers(0, 10**18)) for split_id in ids}
    found = {split_id: draw(WATERMARKS) for split_id in ids}
    return ReaderCheckpoint(
        splits=tuple(
            Split(split_id=i, start=starts[i], stop=stops[i], owner=draw(st.text())) for i in ids
        ),
        watermark_ms=draw(WATERMARKS),
        split_watermarks_ms={i: at for i, at in found.items() if at is not None},
    )


@given(st.integers(1, 10**9), st.lists(reader_checkpoints(), max_size=3))
def test_a_checkpoint_comes_back_from_json(number: int, readers: list[ReaderCheckpoint]) -> None:
    """Whatever the ids are; and the same value gives the same text."""
    taken = LocalCheckpoint(
        checkpoint_id=number, coordinator={"version": 1}, readers=tuple(readers)
    )
    text = encode_checkpoint(taken)

    assert decode_checkpoint(text) == taken
    assert encode_checkpoint(decode_checkpoint(text)) == text


def test_readers_that_are_no_more_leave_their_splits_to_others() -> None:
    """The watermark is the lowest of the joined parts, and none where one of them had none."""
    parts = tuple(
        ReaderCheckpoint(splits=(Split(split_id=f"s{i}", start=i),), watermark_ms=at)
        for i, at in enumerate((50, 40, 60, None))
    )
    taken = LocalCheckpoint(checkpoint_id=1, coordinator={}, readers=parts)
    first, second = taken.reader(0, 2), taken.reader(1, 2)

    assert [split.split_id for split in (*first.splits, *second.splits)] == ["s0", "s2", "s1", "s3"]
    assert (first.watermark_ms, second.watermark_ms) == (50, None)
    assert taken.reader(5, 6) == ReaderCheckpoint()
