"""A file's SELECT that never ends: shown from time to time by the thread that runs the file, until it is stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING

from penstock.catalog.errors import PenstockError
from penstock.sql.plan.watched import unending
from penstock.sql.run.failure import translate
from penstock.sql.run.functions import register_called
from penstock.sql.run.live_query import Row, live_query
from penstock.sql.run.live_select import POLL_MS, Following
from penstock.sql.run.summary import StatementResult, StatementStatus, with_error

if TYPE_CHECKING:
    from penstock.sql.plan.planner import Planner
    from penstock.sql.run.clock import Clock
    from penstock.sql.run.environment import Environment
    from penstock.sql.statements import Select

__all__ = ["WatchedSelect", "watch"]


@dataclass(slots=True, kw_only=True)
class WatchedSelect:
    """A running SELECT. `error` is what it failed of, `stopped` whether it was before its end."""

    following: Following
    show: Callable[[Sequence[str], Sequence[Row]], None]
    close: Callable[[], None]
    error: PenstockError | None = None
    stopped: bool = False
    _ended: bool = field(default=False, init=False)

    def look(self) -> bool:
        """Show what has come; gives False once nothing more will, which `error` may say why."""
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
        """Show what comes until the end, or until `meanwhile`, called again and again, has stopped it."""
        never = Event()
        while self.look():
            meanwhile()
            clock.wait(never, POLL_MS)

    def result(self, blank: StatementResult) -> StatementResult:
        """Add to a result how it ended."""
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
    environment: Environment,
    *,
    show: Callable[[Sequence[str], Sequence[Row]], None],
    ends: bool,
) -> WatchedSelect | None:
    """Start a query that never ends, the planner closed with it; None for one that does. `ends`: with what is there.

    Raises InputError.
    """
    query = unending(statement.query, planner)
    if query is None:
        return None
    spark = environment.spark
    try:
        register_called(statement.query, environment.namespace, spark, environment.project)
        following = Following(live_query(query, planner, spark), available_now=ends, whole=True)
    except BaseException:
        planner.close()
        raise
    return WatchedSelect(following=following, show=show, close=planner.close)
