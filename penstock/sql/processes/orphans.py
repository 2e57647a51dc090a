"""Collect the exit statuses of processes that others left behind: process 1 of a container has to, or they stay.

Such a process is one whose parent has died, as Spark's workers where Java was killed; this one inherits it. Pipelines
run in sessions of their own (`child.py`), so that what they leave is told from what this process has started itself,
as `penstock doctor`'s look at Java, and waits for.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress

from penstock.sql.clock import Clock

FIRST_PROCESS = 1

OWN_MS = 60_000
"""How long one of this process's session may stay ended before nobody is taken to wait for it."""


def is_first() -> bool:
    """Return whether this is process 1, to which orphans come."""
    return os.getpid() == FIRST_PROCESS


class OrphanReaper:
    """Collects what has ended and nobody waits for. Used by one thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: tuple[int, int] | None = None

    def reap(self, own: Collection[int]) -> int:
        """Collect all that have ended, but for `own`, whose statuses others wait for; returns how many.

        It stops at one of `own`, or of this session: the rest is collected once that has been waited for.
        """
        found = 0
        with suppress(ChildProcessError):
            while (
                ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            ) is not None:
                if ended.si_pid in own or self._is_awaited(ended.si_pid):
                    break
                os.waitpid(ended.si_pid, 0)
                found += 1
        return found

    def _is_awaited(self, pid: int) -> bool:
        """Return whether a process is of this session and has been there, ended, for a short time only."""
        with suppress(OSError):
            if os.getsid(pid) != os.getsid(0):
                return False
        now_ms = self._clock.monotonic_ms()
        if self._seen is None or self._seen[0] != pid:
            self._seen = (pid, now_ms)
        return now_ms - self._seen[1] < OWN_MS
