"""Collect the exit statuses of processes that others left behind: process 1 of a container has to, or they stay.

Such a process is one whose parent has died, as Spark's workers where Java was killed; this one inherits it.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress

FIRST_PROCESS = 1


def is_first() -> bool:
    """Return whether this is process 1, to which orphans come."""
    return os.getpid() == FIRST_PROCESS


def reap_orphans(own: Collection[int]) -> int:
    """Collect all that have ended, but for `own`, whose statuses others wait for; returns how many.

    It stops at one of `own`: the rest is collected once that has been waited for.
    """
    found = 0
    with suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid in own:
                break
            os.waitpid(ended.si_pid, 0)
            found += 1
    return found
