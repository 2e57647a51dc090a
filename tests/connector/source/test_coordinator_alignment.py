"""Alignment between readers and sources (Flink's SourceCoordinatorAlignmentTest)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connector.source.alignment import Alignment
from penstock.connector.source.coordinator.events import (
    AlignmentDue,
    NoMoreSplits,
    PublishGroupWatermark,
    ReaderFailed,
    ReportedWatermark,
    WatermarkAlignment,
)
from penstock.connector.source.state import MAX_WATERMARK_MS
from tests.connector.source.coordinating import Job, Shares

DRIFT_MS = 1000


def aligned(group: str = "g", *, readers: int = 2) -> Job:
    """A started job of a group, with all its readers there."""
    alignment = Alignment(group=group, max_drift_ms=DRIFT_MS, update_interval_ms=500)
    return Job(Shares, parallelism=readers, alignment=alignment).start().register(*range(readers))


def report(job: Job, reader: int, watermark_ms: int) -> None:
    """Let a reader report."""
    job.handle(ReportedWatermark(reader=reader, watermark_ms=watermark_ms))


def announce(*jobs: Job) -> None:
    """Let an interval pass in a group of jobs: the board holds what each published last."""
    last = [job.published[-1][1] for job in jobs if job.published]
    lowest = min((watermark for watermark in last if watermark is not None), default=None)
    for job in jobs:
        job.handle(AlignmentDue(group_ms=lowest))


def limits(job: Job, reader: int) -> list[int]:
    """Give the limits that a reader was told."""
    return [e.limit_ms for e in job.events(reader) if isinstance(e, WatermarkAlignment)]


def test_readers_get_the_lowest_watermark_plus_the_drift() -> None:
    """SourceCoordinatorAlignmentTest.testWatermarkAlignment: 42 and 44, then 5000 and 44."""
    job = aligned()
    report(job, 0, 42)
    report(job, 1, 44)
    announce(job)
    report(job, 0, 5000)
    announce(job)

    assert limits(job, 0) == limits(job, 1) == [1042, 1044]


def test_an_idle_reader_is_ignored_until_it_is_active_again() -> None:
    """testWatermarkAlignmentWithIdleness, FLINK-32496: back at its old value it lowers the limit again."""
    job = aligned()
    report(job, 0, 42)
    report(job, 1, 44)
    report(job, 0, MAX_WATERMARK_MS)
    announce(job)
    report(job, 0, 42)
    announce(job)
    for reader in (0, 1):
        report(job, reader, MAX_WATERMARK_MS)
    announce(job)
    report(job, 0, 42)
    announce(job)

    assert limits(job, 1) == [1044, 1042, MAX_WATERMARK_MS, 1042]


def test_a_group_that_is_idle_as_a_whole_has_no_limit() -> None:
    """FLINK-31632: the sum overflowed, and sources never resumed."""
    job = aligned()
    report(job, 0, 42)
    report(job, 0, MAX_WATERMARK_MS)
    announce(job)

    assert job.published[-1] == ("g", MAX_WATERMARK_MS)
    assert limits(job, 0) == [MAX_WATERMARK_MS]


def test_a_finished_reader_holds_nobody_back() -> None:
    """FLINK-35157: it kept its last watermark; it reports the maximum here."""
    job = aligned()
    report(job, 0, 42)
    report(job, 1, 5000)
    report(job, 0, MAX_WATERMARK_MS)
    announce(job)

    assert limits(job, 1) == [6000]


def test_a_reader_without_splits_reports_nothing_and_holds_nobody_back() -> None:
    """FLINK-32414: it reported an uninitialised minimum, and the whole group hung."""
    job = aligned()
    report(job, 1, 44)
    announce(job)

    assert limits(job, 1) == [1044]
    assert limits(job, 0) == []


def test_limits_are_announced_after_the_last_split_too() -> None:
    """FLINK-37670: readers that wait for one would wait for ever."""
    job = aligned()
    enumerator = job.coordinator._enumerator
    assert isinstance(enumerator, Shares)
    for reader in (0, 1):
        enumerator.context.signal_no_more_splits(reader)
        report(job, reader, 42)
    announce(job)

    assert [type(e) for e in job.events(0)[1:]] == [NoMoreSplits, WatermarkAlignment]


def test_the_watermark_of_a_failed_reader_is_forgotten() -> None:
    """FLINK-40505: it went on constraining the group; a report that comes late does not bring it back."""
    job = aligned()
    report(job, 0, 42)
    report(job, 1, 44)
    job.handle(ReaderFailed(reader=0))
    report(job, 0, 43)
    announce(job)

    assert job.published[-1] == ("g", 44)
    assert limits(job, 1) == [1044]


def test_a_source_whose_readers_are_all_gone_leaves_the_board() -> None:
    """Others of the group do not wait for it."""
    job = aligned()
    report(job, 0, 42)
    job.handle(ReaderFailed(reader=0))

    assert job.published == [("g", 42), ("g", None)]


def test_a_reader_that_is_not_ready_is_passed_over() -> None:
    """FLINK-32362, testSendWatermarkAlignmentEventFailed: one that had failed ended the announcements for all."""
    job = aligned()
    for reader in (0, 1):
        report(job, reader, 42)
    job.handle(ReaderFailed(reader=0))
    announce(job)
    job.register(0)
    report(job, 0, 43)
    announce(job)

    assert job.failure is None
    assert limits(job, 1) == [1042, 1042]
    assert limits(job, 0) == [1042]


def test_groups_do_not_know_of_each_other() -> None:
    """SourceCoordinatorAlignmentTest.testWatermarkAlignmentWithTwoGroups."""
    one, other = aligned("one"), aligned("other")
    report(one, 0, 42)
    report(other, 0, 5000)
    announce(one)
    announce(other)

    assert limits(one, 0) == [1042]
    assert limits(other, 0) == [6000]


def test_sources_of_one_group_wait_for_each_other() -> None:
    """Through the board; one that never reported is not on it."""
    slow, fast, silent = aligned(), aligned(), aligned()
    report(slow, 0, 42)
    report(fast, 0, 5000)
    announce(slow, fast, silent)

    assert limits(fast, 0) == [1042]
    assert silent.published == []


def test_nothing_is_announced_before_anybody_reported() -> None:
    """An empty board sets no limit."""
    job = aligned()

    assert job.handle(AlignmentDue(group_ms=None)) == ()


def test_nothing_is_announced_before_the_start() -> None:
    """SourceCoordinatorAlignmentTest.testAnnounceCombinedWatermarkWithoutStart."""
    alignment = Alignment(group="g", max_drift_ms=DRIFT_MS, update_interval_ms=500)

    with pytest.raises(AssertionError, match="before the start"):
        Job(Shares, alignment=alignment).coordinator.handle(AlignmentDue(group_ms=42))


def test_a_table_without_a_group_publishes_nothing() -> None:
    """Its readers report for its watermark alone."""
    job = Job(Shares).start().register(0)
    report(job, 0, 42)

    assert job.published == []


@given(reports=st.lists(st.tuples(st.integers(0, 2), st.integers(-5, 5)), max_size=30))
def test_the_board_is_told_each_change_and_nothing_else(reports: list[tuple[int, int]]) -> None:
    """What was published last is always the lowest of the last reports."""
    job = aligned(readers=3)
    last: dict[int, int] = {}
    for reader, watermark in reports:
        before = min(last.values(), default=None)
        last[reader] = watermark
        lowest = min(last.values())
        effects = job.handle(ReportedWatermark(reader=reader, watermark_ms=watermark))

        told = (PublishGroupWatermark(group="g", watermark_ms=lowest),)
        assert effects == (told if lowest != before else ())
