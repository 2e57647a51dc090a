"""Deadlines for the answers of a database server, of a call and of each answer."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

ANSWER_TIMEOUT_S = 15.0
"""How long to wait for each answer. Above the server's own limits, whose errors say more."""

DEADLINE_S: ContextVar[float] = ContextVar("penstock_deadline_s", default=math.inf)
"""When, by `time.monotonic`, the last answer has to be there; see `answers_within`."""


@contextmanager
def answers_within(seconds: float) -> Iterator[None]:
    """Abort the work of this thread in the block after that time."""
    token = DEADLINE_S.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        DEADLINE_S.reset(token)
