"""When a FULL materialized table is written anew, what its failures are, and what ends it. The clock jumps."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from penstock.catalog.errors import (
    CatalogError,
    PenstockError,
    PipelineLockedError,
    QueryFailedError,
)
from penstock.sql.errors.spark import EngineGoneError
from penstock.sql.jobs.progress import JobProgress
from penstock.sql.jobs.refresher import LONGEST_WAIT_MS, Refresher, next_time
from penstock.sql.observation.pipeline import JobStatus
from tests.sql.run.scripted import MovedClock

MINUTE, HOUR = 60_000, 3_600_000
NOON = 12 * HOUR


class ScriptedRefresh:
    """Each time plays the next step: an error, milliseconds that the write takes, or what the test does then.

    When the script is over the table is gone.
    """

    def __init__(self, clock: MovedClock, *steps: Any, interval_ms: int = HOUR) -> None:
        self.sink = "daily"
        self.steps = list(steps)
        self.interval = interval_ms
        self.clock = clock
        self.times: list[int] = []
        self.cancelled = 0
        self.unread: list[PenstockError] = []

    def interval_ms(self) -> int | None:
        if self.unread:
            raise self.unread.pop()
        return self.interval if self.steps else None

    def write(self, lost_lease: object = None) -> None:
        self.times.append(self.clock.now - NOON)
        step = self.steps.pop(0)
        if isinstance(step, BaseException):
            raise step
        if callable(step):
            step()
        else:
            self.clock.now += step

    def cancel(self) -> None:
        self.cancelled += 1


class Run:
    """A refresher over a script that begins three minutes past noon, run to its end."""

    def __init__(self, *steps: Any, interval_ms: int = HOUR) -> None:
        self.clock = MovedClock()
        self.clock.now = NOON + 3 * MINUTE
        self.refresh = ScriptedRefresh(self.clock, *steps, interval_ms=interval_ms)
        self.lost: Callable[[], PenstockError | None] = lambda: None
        self.ends = 0
        self.refresher = Refresher(
            self.refresh,
            pipeline="etl/daily",
            clock=self.clock,
            lost_lease=self._lost_lease,
            at_end=self._count_end,
        )

    def _count_end(self) -> None:
        self.ends += 1

    def _lost_lease(self) -> PenstockError | None:
        return self.lost()

    def to_end(self) -> JobProgress:
        self.refresher.start(self.refresh.interval)
        assert self.refresher.done.wait(10), "the job did not end"
        return self.refresher.progress()


@pytest.mark.parametrize(
    ("now", "interval", "due"),
    [(0, HOUR, HOUR), (HOUR - 1, HOUR, HOUR), (HOUR, HOUR, 2 * HOUR), (1_001, 1_000, 2_000)],
)
def test_times_are_multiples_of_the_freshness(now: int, interval: int, due: int) -> None:
    """As those of Flink's cron expressions: one that is now is over."""
    assert next_time(now, interval) == due


def test_a_table_is_refreshed_at_each_time_until_it_is_gone() -> None:
    """The first write is the starter's; a change of the freshness holds from the next time on."""
    run = Run(0, 0)
    run.refresh.steps[1] = lambda: setattr(run.refresh, "interval", 30 * MINUTE)
    run.refresh.steps.append(0)

    progress = run.to_end()

    assert run.refresh.times == [HOUR, 2 * HOUR, 3 * HOUR]
    assert (progress.status, progress.batches, progress.restarts) == (JobStatus.STOPPED, 4, 0)
    assert progress.last_commit_ms == NOON + 3 * HOUR
    assert (progress.name, progress.sink, progress.refreshes) == ("etl/daily", "daily", True)
    assert max(run.clock.waits) == LONGEST_WAIT_MS
    assert run.ends == 1


def test_a_refresh_that_takes_longer_than_the_freshness_is_not_overlapped() -> None:
    """The times that pass meanwhile are passed over."""
    run = Run(2 * HOUR + MINUTE, 0)

    run.to_end()

    assert run.refresh.times == [HOUR, 4 * HOUR]


def test_what_a_job_does_next_is_told() -> None:
    """In UTC, while it waits."""
    told = []
    run = Run()
    run.clock.while_waiting = lambda: told.append(run.refresher.progress().activity)

    run.to_end()

    assert set(told) == {"next refresh at 1970-01-01 13:00:00Z"}


def test_a_failure_is_told_and_tried_again_at_the_next_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Even one that would end a streaming query: what is wrong may be mended meanwhile."""
    told: list[tuple[JobStatus, str]] = []
    run = Run(QueryFailedError("the disk is full"), 0)
    run.clock.while_waiting = lambda: told.append(
        (run.refresher.progress().status, run.refresher.progress().activity)
    )

    with caplog.at_level(logging.INFO, "penstock"):
        progress = run.to_end()

    assert run.refresh.times == [HOUR, 2 * HOUR]
    failed = (JobStatus.RESTARTING, "failed: the disk is full; again at 1970-01-01 14:00:00Z")
    assert failed in told
    assert (progress.status, progress.restarts, progress.batches) == (JobStatus.STOPPED, 1, 2)
    assert run.refresher.error is None
    assert [record.getMessage() for record in caplog.records] == [
        "daily: its refresh failed: the disk is full",
        "daily: refreshed again",
    ]


def test_the_log_of_many_failures_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """Of a hundred in a row seven are written down."""
    run = Run(*[QueryFailedError("the disk is full")] * 100, interval_ms=1_000)

    progress = run.to_end()

    assert progress.restarts == 100
    assert progress.restart_reasons == {QueryFailedError.code: 100}
    assert len(caplog.records) == 7
    assert "(64 times in a row)" in caplog.records[-1].getMessage()


def test_a_catalog_that_is_away_is_a_failure_like_others() -> None:
    """The freshness that was known last holds."""
    run = Run(0)
    run.refresh.unread = [CatalogError("the store is locked")]

    progress = run.to_end()

    assert run.refresh.times == [2 * HOUR]
    assert progress.restarts == 1


def test_a_stop_ends_a_wait_at_once_and_a_refresh_after_it() -> None:
    """The table is whole; what was asked for twice is cancelled, and is no failure."""
    waiting, writing, cancelled = Run(0), Run(0), Run(0)
    waiting.clock.while_waiting = waiting.refresher.request_stop
    writing.refresh.steps = [writing.refresher.request_stop, 0]

    def cancel() -> None:
        cancelled.refresher.request_stop()
        cancelled.refresher.request_stop(now=True)
        raise RuntimeError("Job 3 cancelled")

    cancelled.refresh.steps = [cancel, 0]

    assert [run.to_end().status for run in (waiting, writing, cancelled)] == [JobStatus.STOPPED] * 3
    assert (waiting.refresh.times, writing.refresh.times) == ([], [HOUR])
    assert (cancelled.refresh.cancelled, cancelled.refresher.progress().restarts) == (1, 0)


def test_who_has_lost_its_lease_refreshes_no_more() -> None:
    """Another runner does so now."""
    taken = PipelineLockedError("run by process 7")
    run = Run(0)
    run.lost = lambda: taken

    assert run.to_end().status is JobStatus.FAILED
    assert run.refresher.error is taken
    assert run.refresh.times == []


def test_nothing_is_tried_again_without_spark() -> None:
    """Its Java process does not come back."""
    run = Run(EngineGoneError("Spark's Java process ended unexpectedly"), 0)

    assert run.to_end().status is JobStatus.FAILED
    assert isinstance(run.refresher.error, EngineGoneError)
    assert run.refresh.times == [HOUR]
