"""Where a job is: written by the thread that keeps it going, read by any other. Counts are the thread's own."""

from __future__ import annotations

from threading import Event, Lock
from typing import TYPE_CHECKING

from penstock.sql.run.progress import JobProgress, JobStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.catalog.errors import PenstockError
    from penstock.sql.run.clock import Clock

__all__ = ["JobState"]


class JobState:
    """The status of the job `name` that writes `sink`, what it does now, and its end.

    `at_end` is called once, on the thread that ends the job, before `done` is set.
    """

    def __init__(
        self, clock: Clock, *, name: str, sink: str, activity: str, at_end: Callable[[], None]
    ) -> None:
        self._clock = clock
        self._name = name
        self._sink = sink
        self._at_end = at_end
        self._lock = Lock()
        self._status = JobStatus.RUNNING
        self._activity = activity
        self._error: PenstockError | None = None
        self._started_ms = clock.now_ms()
        self._ended_ms: int | None = None
        self.done = Event()

    @property
    def error(self) -> PenstockError | None:
        """What ended the job, where it was not asked to end."""
        with self._lock:
            return self._error

    def progress(self) -> JobProgress:
        """Tell all but the counts. To be asked before them: of an ended job they are then the last."""
        now = self._clock.now_ms()
        with self._lock:
            return JobProgress(
                name=self._name,
                sink=self._sink,
                status=self._status,
                activity=self._activity,
                started_ms=self._started_ms,
                seconds=((self._ended_ms or now) - self._started_ms) / 1000,
            )

    def set(self, status: JobStatus, activity: str) -> None:
        """Say what the job does now."""
        with self._lock:
            self._status, self._activity = status, activity

    def end(self, status: JobStatus, error: PenstockError | None) -> None:
        """End the job; `error` is what it failed of."""
        with self._lock:
            self._status, self._error, self._ended_ms = status, error, self._clock.now_ms()
            self._activity = error.message if error else status.value
        try:
            self._at_end()
        finally:
            self.done.set()
