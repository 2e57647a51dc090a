"""What a planned batch reads, by its offsets and those of the batch before."""

from __future__ import annotations

from penstock.connector.source.state import SourceState, SplitState
from penstock.sql.checkpoint.directory import PlannedBatch


def offset(*ranges: tuple[int, int], watermark_ms: int | None = None) -> SourceState:
    """The offset of a source whose splits are read in ranges."""
    splits = tuple(
        SplitState(split_id=f"s{n}", owner="t", start=start, end=end)
        for n, (start, end) in enumerate(ranges)
    )
    return SourceState(splits=splits, watermark_ms=watermark_ms)


def test_the_records_of_all_sources_are_counted() -> None:
    """In the first batch and in a later one."""
    first = offset((0, 5), (10, 12))
    later = offset((5, 9), (12, 12))

    assert PlannedBatch(time_ms=0, offsets=(first, first), before=None).records == 14
    assert PlannedBatch(time_ms=0, offsets=(later,), before=(first,)).records == 4


def test_a_source_without_news_is_not_read_again() -> None:
    """Its offset is that of the batch before, whose range is over."""
    quiet, more = offset((0, 5_000_000)), offset((0, 3))

    assert (
        PlannedBatch(time_ms=0, offsets=(quiet, more), before=(quiet, offset((0, 0)))).records == 3
    )


def test_the_records_of_other_sources_are_not_known() -> None:
    """Those that have a text for an offset, or none yet."""
    assert (
        PlannedBatch(time_ms=0, offsets=(offset((0, 1)), '{"v": 1}'), before=None).records is None
    )
    assert PlannedBatch(time_ms=0, offsets=(None, offset((0, 1))), before=None).records is None


def test_watermarks_are_those_of_both_batches() -> None:
    """A source that is none of ours has none."""
    before, now = offset((0, 1), watermark_ms=5), offset((1, 2), watermark_ms=9)
    found = PlannedBatch(time_ms=0, offsets=(now, "x"), before=(before, "x")).watermarks
    first = PlannedBatch(time_ms=0, offsets=(now,), before=None).watermarks

    assert (list(found.before_ms), list(found.now_ms)) == ([5, None], [9, None])
    assert (list(first.before_ms), list(first.now_ms)) == ([None], [9])
