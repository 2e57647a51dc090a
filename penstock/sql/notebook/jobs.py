"""Draws the jobs of a cell's INSERTs until they have ended, on a thread of its own."""

from __future__ import annotations

from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from penstock.sql.error_formats import ErrorFormat, show_error
from penstock.sql.notebook.views import JobsView

if TYPE_CHECKING:
    from penstock.sql.notebook.screen import Place, Screen
    from penstock.sql.run.clock import Clock
    from penstock.sql.run.job import Job

__all__ = ["JobsPanel"]

REDRAW_MS = 500


class JobsPanel:
    """Jobs on display. `add` is called by the thread that runs the cell."""

    def __init__(self, screen: Screen, clock: Clock) -> None:
        self._screen = screen
        self._clock = clock
        self._lock = Lock()
        self._jobs: list[Job] = []
        self._place: Place | None = None
        self._thread: Thread | None = None

    def add(self, job: Job) -> None:
        """Show a job from now on."""
        with self._lock:
            self._jobs.append(job)
        if self._place is None:
            self._place = self._screen(self._view())
            self._thread = Thread(target=self._draw, name="penstock cell", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Wait until the jobs have ended and are drawn so."""
        if self._thread is not None:
            self._thread.join()

    def _draw(self) -> None:
        assert self._place is not None, "made before the thread"
        never = Event()
        while True:
            # asked before the view is made, so that the last view is of their end
            ended = all(job.wait(0) for job in self._known())
            self._place.update(self._view(), last=ended)
            if ended:
                return
            self._clock.wait(never, REDRAW_MS)

    def _known(self) -> tuple[Job, ...]:
        with self._lock:
            return tuple(self._jobs)

    def _view(self) -> JobsView:
        jobs = self._known()
        errors = [job.exception for job in jobs]
        return JobsView(
            jobs=tuple(job.progress for job in jobs),
            now_ms=self._clock.now_ms(),
            errors=tuple(show_error(e, ErrorFormat.FULL) for e in errors if e is not None),
        )
