"""Rows of a file's SELECTs.

Those of a finished query are collected, those of an unbounded one shown periodically.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from threading import Event, Thread
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from penstock.catalog.errors import PenstockError
from penstock.sql.errors.spark import translate
from penstock.sql.execution.functions import register_called
from penstock.sql.jobs.live_query import POLL_MS, LiveSelect, Row, live_query
from penstock.sql.plan.analyzer import analyse_unbounded
from penstock.sql.runner.summary import ResultRows, StatementResult, StatementStatus, with_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.sql.clock import Clock
    from penstock.sql.execution.context import SessionContext
    from penstock.sql.plan.physical.planner import Planner
    from penstock.sql.statements.statement import Select


COLLECT_POLL_MS = 100


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
    while not clock.wait(done, COLLECT_POLL_MS):
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


@dataclass(slots=True, kw_only=True)
class WatchedSelect:
    """A running SELECT. `error` is its failure, `stopped` whether it was stopped before its end."""

    following: LiveSelect
    show: Callable[[Sequence[str], Sequence[Row]], None]
    close: Callable[[], None]
    error: PenstockError | None = None
    stopped: bool = False
    _ended: bool = field(default=False, init=False)

    def look(self) -> bool:
        """Show new rows; returns False at the end, whose cause may be in `error`."""
        if self._ended:
            return False
        try:
            if self.following.show(self.show):
                return True
        except BrokenPipeError:
            self.stopped = True  # whoever read the rows has seen enough
        except Exception as error:  # noqa: BLE001  whatever it is becomes the statement's error
            self.error = translate(error)
        self._end()
        return False

    def stop(self) -> None:
        """End it, if it has not ended."""
        if not self._ended:
            self.stopped = True
            self._end()

    def wait(self, clock: Clock, meanwhile: Callable[[], None]) -> None:
        """Show rows until the end, or until `meanwhile`, called repeatedly, has stopped it."""
        never = Event()
        while self.look():
            meanwhile()
            clock.wait(never, POLL_MS)

    def result(self, blank: StatementResult) -> StatementResult:
        """Add to a result how it ended, and how many rows and records were left out."""
        totals = self.following.totals
        blank = replace(
            blank,
            rows_dropped=totals.rows_dropped,
            bad_records=totals.bad_records,
            records_lost=totals.records_lost,
        )
        if self.error is not None:
            return with_error(replace(blank, status=StatementStatus.FAILED), self.error)
        return replace(
            blank, status=StatementStatus.STOPPED if self.stopped else StatementStatus.FINISHED
        )

    def _end(self) -> None:
        self._ended = True
        self.following.stop()
        self.close()


def watch(
    statement: Select,
    planner: Planner,
    context: SessionContext,
    *,
    show: Callable[[Sequence[str], Sequence[Row]], None],
    ends: bool,
) -> WatchedSelect | None:
    """Start an unbounded query, the planner closed with it; None for a bounded one. `ends`: with the present data.

    Raises InputError.
    """
    query = analyse_unbounded(statement.query, planner)
    if query is None:
        return None
    spark = context.spark()
    try:
        register_called(statement.query, context.namespace, spark, context.project)
        following = LiveSelect(live_query(query, planner, spark), available_now=ends, whole=True)
    except BaseException:
        planner.close()
        raise
    return WatchedSelect(following=following, show=show, close=planner.close)
