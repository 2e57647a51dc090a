"""What pages show of things that take long to find, or may hang: a catalog that does not answer, a broker."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Event, Lock, Thread
from typing import Generic, TypeVar

from penstock.sql.clock import Clock, SystemClock

log = logging.getLogger(__name__)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestLook(Generic[_T]):
    """What a look found last, None where none did; when, by the wall clock; whether another one runs."""

    found: _T | None = None
    at_ms: int | None = None
    running: bool = False


@dataclass(slots=True, kw_only=True)
class BackgroundLook(Generic[_T]):
    """Looks on a thread of its own, one look at a time: whoever asks gets what is known.

    `name` is the thread's. What was found is old after `fresh_ms`: then the next request begins another look. One that
    raises leaves what was found before. May be used on any thread.
    """

    name: str
    fresh_ms: int
    clock: Clock = field(default_factory=SystemClock)
    _lock: Lock = field(default_factory=Lock)
    _latest: LatestLook[_T] = field(default_factory=LatestLook)
    _ended: Event = field(default_factory=Event)
    _begun_ms: int = 0
    _ended_ms: int | None = None
    """Both by the monotonic clock: the wall clock may be set."""

    def latest(self, look: Callable[[], _T], *, wait_ms: int = 0) -> LatestLook[_T]:
        """Return what is known, and begin to `look` where there is nothing, or what is old.

        While nothing was found, all who ask wait for a look until it has run for `wait_ms`.
        """
        with self._lock:
            now_ms = self.clock.monotonic_ms()
            is_due = self._ended_ms is None or now_ms - self._ended_ms > self.fresh_ms
            starts = is_due and not self._latest.running
            if starts:
                self._latest = replace(self._latest, running=True)
                self._begun_ms = now_ms
                self._ended = Event()
            latest, ended, left_ms = self._latest, self._ended, self._begun_ms + wait_ms - now_ms
        if starts:
            Thread(target=self._look, args=(look,), name=self.name, daemon=True).start()
        if latest.found is None and latest.running and left_ms > 0:
            ended.wait(left_ms / 1000)
        with self._lock:
            return self._latest

    def _look(self, look: Callable[[], _T]) -> None:
        found: _T | None = None
        try:
            found = look()
        except Exception:  # pages go on without it
            log.debug("%s failed", self.name, exc_info=True)
        with self._lock:
            if found is None:
                self._latest = replace(self._latest, running=False)
            else:
                self._latest = LatestLook(found=found, at_ms=self.clock.now_ms())
            self._ended_ms = self.clock.monotonic_ms()
            self._ended.set()
