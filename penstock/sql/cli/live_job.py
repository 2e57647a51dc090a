"""Runs a local job for a command, whose process is to end when the command does."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.sql.cli.report import EXIT_INTERRUPTED, say

if TYPE_CHECKING:
    from penstock.connector.local.job import LocalJob

__all__ = ["running"]


@contextmanager
def running(job: LocalJob) -> Iterator[LocalJob]:
    """Run the job while the block runs.

    Where the job leaves a thread behind that waits for an answer of the outside world, this ends the process:
    an interpreter that winds down under a thread's feet makes libraries complain at length.
    """
    try:
        with job:
            yield job
    except KeyboardInterrupt:
        if job.abandoned:
            say("interrupted")
            _leave(EXIT_INTERRUPTED)
        raise
    if job.abandoned:
        _leave(0)


def _leave(status: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
