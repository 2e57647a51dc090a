"""Rewrites a table at each multiple of its freshness: the watching thread of a FULL materialized table's job.

Flink has a scheduler for this (`FRESHNESS` becomes a cron expression, IntervalFreshnessUtils). Here it is one thread a
table, so that no refresh begins before the one before it is over; a time that passed meanwhile is skipped. Owns no
lease; `sql/runner/refresh.py` does the refresh.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Protocol

from penstock.sql.errors.spark import EngineGoneError, is_permanent, translate
from penstock.sql.jobs.progress import JobProgress, JobState
from penstock.sql.observation.pipeline import JobStatus, PipelineTraits, ResultMode

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.catalog.errors import PenstockError
    from penstock.connector.contract import LostLease
    from penstock.sql.clock import Clock


log = logging.getLogger(__name__)

LONGEST_WAIT_MS = 60_000
"""How long the thread waits at most before it reads the clock again, which may be set or have slept."""


class Refresh(Protocol):
    """The refresh that is run at each of the times."""

    @property
    def sink(self) -> str:
        """The table written, as messages name it."""

    def interval_ms(self) -> int | None:
        """Return the table's freshness as it is now; None where it is no longer to be refreshed.
        Raises CatalogError.
        """

    def write(self, lost_lease: LostLease | None = None) -> None:
        """Rewrite the table atomically; not once `lost_lease` returns an error. May raise any error of Spark."""

    def cancel(self) -> None:
        """End a `write` that runs on another thread: it raises."""


def next_time(now_ms: int, interval_ms: int) -> int:
    """Return the next multiple of the interval after `now_ms`, counted from the epoch in UTC.

    For intervals that Flink allows (they divide a minute, an hour or a day) that is when its cron expression fires.
    """
    return (now_ms // interval_ms + 1) * interval_ms


class Refresher:
    """Refreshes one table until it is stopped, or the table is no longer to be refreshed. `progress` is for any
    thread.

    A failed refresh is logged and tried again at the next time. `lost_lease` is asked before each; an error that it
    returns prevents the refresh, and a permanent one ends the job. `at_end` is called once, on the thread, before
    `done` is set.
    """

    def __init__(
        self,
        refresh: Refresh,
        *,
        pipeline: str,
        clock: Clock,
        lost_lease: Callable[[], PenstockError | None] = lambda: None,
        at_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._refresh = refresh
        self._clock = clock
        self._lost_lease = lost_lease
        self._state = JobState(
            clock, name=pipeline, sink=refresh.sink, activity="refreshing", at_end=at_end
        )
        self._lock = Lock()
        self._stop = Event()
        self._stop_now = Event()
        self._writing = Event()
        self._refreshes = 0
        self._failures: dict[str, int] = {}
        self._failures_in_a_row = 0
        self._failure = ""
        self._refreshed_ms: int | None = None
        self.done = self._state.done

    @property
    def error(self) -> PenstockError | None:
        """The error that ended the job, where it was not asked to end; a failed refresh does not end it."""
        return self._state.error

    def progress(self) -> JobProgress:
        """Return how often and when the table was refreshed, and what comes next."""
        state = self._state.progress()
        with self._lock:
            return replace(
                state,
                batches=self._refreshes,
                last_commit_ms=self._refreshed_ms,
                restarts=sum(self._failures.values()),
                restart_reasons=dict(self._failures),
                last_error=self._failure or None,
                refreshes=True,
                traits=PipelineTraits(mode=ResultMode.REFRESH),
            )

    def batches(self) -> None:
        """Return None: a refresh is no batch of a stream."""

    def start(self, interval_ms: int | None) -> None:
        """Start the thread: the table was written just now, and is written again at the next time (None: never)."""
        self._note_refreshed()
        name = f"penstock {self._refresh.sink}"
        Thread(target=self._run, args=(interval_ms,), name=name, daemon=True).start()

    def request_stop(self, *, now: bool = False) -> None:
        """Request the end after a running refresh, or without waiting for it. Returns immediately."""
        self._stop.set()
        if now:
            self._stop_now.set()
            self._cancel()

    def _cancel(self) -> None:
        if not self._writing.is_set():
            return
        try:
            self._refresh.cancel()
        except Exception:  # Spark may be going down as well: then the write ends by itself
            log.debug("the refresh of %s was not cancelled", self._refresh.sink, exc_info=True)

    # --- the thread ---------------------------------------------------------------------------

    def _run(self, interval_ms: int | None) -> None:
        try:
            self._keep_fresh(interval_ms)
        except Exception as error:  # a lost lease, a dead JVM; a bug must end the job visibly too
            log.debug("%s is no longer refreshed", self._refresh.sink, exc_info=True)
            self._state.end(JobStatus.FAILED, translate(error))
        else:
            self._state.end(JobStatus.STOPPED, None)

    def _keep_fresh(self, interval_ms: int | None) -> None:
        """Refresh until told to stop. Raises what ends the job."""
        while interval_ms is not None:
            due_ms = next_time(self._clock.now_ms(), interval_ms)
            self._set_status(due_ms)
            if not self._wait_until(due_ms):
                return
            try:
                interval_ms = self._refresh.interval_ms()
                if interval_ms is not None:
                    self._write()
            except Exception as error:  # noqa: BLE001  whatever it is, the table stays as it was
                if self._stop_now.is_set():
                    return
                self._note_failure(translate(error))

    def _write(self) -> None:
        lost = self._lost_lease()
        if lost is not None:
            raise lost
        self._state.set(JobStatus.RUNNING, "refreshing")
        self._writing.set()
        try:
            self._refresh.write(self._lost_lease)
        finally:
            self._writing.clear()
        self._note_refreshed()

    def _wait_until(self, due_ms: int) -> bool:
        """Wait for a time. False when the job has to stop. Raises when its lease is lost permanently."""
        while (left_ms := due_ms - self._clock.now_ms()) > 0:
            if self._clock.wait(self._stop, min(left_ms, LONGEST_WAIT_MS)):
                return False
            lost = self._lost_lease()
            if lost is not None and is_permanent(lost):
                raise lost
        return not self._stop.is_set()

    def _note_refreshed(self) -> None:
        if self._failures_in_a_row:
            log.info("%s: refreshed again", self._refresh.sink)
        with self._lock:
            self._refreshes += 1
            self._failures_in_a_row = 0
            self._refreshed_ms = self._clock.now_ms()

    def _note_failure(self, failure: PenstockError) -> None:
        """Log a failure: of many in a row the 1st, 2nd, 4th, 8th ... so that the log stays small."""
        if isinstance(failure, EngineGoneError):
            raise failure
        with self._lock:
            self._failures[failure.code] = self._failures.get(failure.code, 0) + 1
            self._failures_in_a_row += 1
            self._failure = failure.message
            count = self._failures_in_a_row
        if count & (count - 1) == 0:
            times = f" ({count} times in a row)" if count > 1 else ""
            log.warning("%s: its refresh failed%s: %s", self._refresh.sink, times, failure.message)

    def _set_status(self, due_ms: int) -> None:
        at = datetime.fromtimestamp(due_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        if self._failures_in_a_row:
            self._state.set(JobStatus.RESTARTING, f"failed: {self._failure}; again at {at}")
        else:
            self._state.set(JobStatus.RUNNING, f"next refresh at {at}")
