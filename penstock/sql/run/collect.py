"""Fetches the rows of a finished query into memory, in a way that can be cancelled."""

from __future__ import annotations

from threading import Event, Thread
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from penstock.sql.run.failure import translate
from penstock.sql.run.summary import ResultRows

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from penstock.sql.run.clock import Clock

__all__ = ["collect_rows"]

POLL_MS = 100


def collect_rows(
    frame: DataFrame, *, limit: int, cancelled: Callable[[], bool], clock: Clock
) -> ResultRows | None:
    """Run a bounded query and keep its first `limit` rows; None when it was cancelled before its end.

    The rows are fetched on a thread of their own: Python handles no signal while it waits for Java.
    """
    context = frame.sparkSession.sparkContext
    group = f"penstock-{uuid4().hex}"
    outcome: list[list[Any] | Exception] = []
    done = Event()

    def fetch() -> None:
        try:
            context.setJobGroup(group, "SELECT", interruptOnCancel=True)
            outcome.append(frame.limit(limit + 1).collect())
        except Exception as error:  # noqa: BLE001 - handed over to the thread that waits
            outcome.append(error)
        finally:
            done.set()

    Thread(target=fetch, name="penstock select", daemon=True).start()
    while not clock.wait(done, POLL_MS):
        if cancelled():
            context.cancelJobGroup(group)
    rows = outcome[0]
    if isinstance(rows, Exception):
        if cancelled():
            return None
        raise translate(rows) from rows
    return ResultRows(
        columns=tuple(frame.columns),
        rows=tuple(tuple(row) for row in rows[:limit]),
        truncated=len(rows) > limit,
    )
