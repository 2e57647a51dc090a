"""Follows an unbounded query: its rows batch by batch, as changes, until it is stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Full, Queue
from tempfile import TemporaryDirectory
from threading import Event
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.connector.changelog import RowKind
from penstock.connector.contract import OutputMode
from penstock.sql.dialect.rewrites.unfold_grouping_sets import is_determined
from penstock.sql.errors.spark import translate
from penstock.sql.jobs.live_query import Row

if TYPE_CHECKING:
    from penstock.sql.clock import Clock
    from penstock.sql.jobs.live_query import LiveQuery

__all__ = ["POLL_MS", "LiveSelect", "UpsertChangelog", "follow", "result_key"]

OP = "op"
POLL_MS = 100
MOST_KEYS = 100_000
"""Number of rows that are kept to show what an update replaces; older ones are forgotten."""


def result_key(query: exp.Expr) -> tuple[int, ...] | None:
    """Return the positions of the columns that identify the rows of a GROUP BY; None where not all are selected."""
    if not isinstance(query, exp.Select):
        return None
    group = query.args.get("group")
    wanted = [k for k in group.expressions if not is_determined(k)] if group is not None else []
    items = query.expressions
    found = []
    for key in wanted:
        places = [
            i
            for i, item in enumerate(items)
            if item.unalias() == key or (key.name and item.alias == key.name)
        ]
        if not places:
            return None
        found.append(places[0])
    return tuple(found)


@dataclass(slots=True, kw_only=True)
class UpsertChangelog:
    """Turns rows that replace the earlier ones of their key into changes: +I, or -U and +U.

    `key` None: keys are not in the rows, and every row is shown as +U.
    """

    key: tuple[int, ...] | None
    _last: dict[Row, Row] = field(default_factory=dict)

    def of(self, row: Row) -> list[Row]:
        """Return the changes that a row makes, with their kind in front."""
        if self.key is None:
            return [(RowKind.UPDATE_AFTER.short, *row)]
        key = tuple(repr(row[i]) for i in self.key)
        before = self._last.pop(key, None)
        self._last[key] = row
        if len(self._last) > MOST_KEYS:
            self._last.pop(next(iter(self._last)))
        if before is None:
            return [(RowKind.INSERT.short, *row)]
        return [(RowKind.UPDATE_BEFORE.short, *before), (RowKind.UPDATE_AFTER.short, *row)]


class LiveSelect:
    """A running query and its rows. Its checkpoint is a temporary folder: nothing is kept.

    Every method is called on one thread. `available_now`: it ends with the present rows. `whole`: each batch is shown
    whole, else its first rows.
    """

    def __init__(
        self, live: LiveQuery, *, available_now: bool = False, whole: bool = False
    ) -> None:
        """Start the query. Raises AnalysisException for what Spark cannot stream."""
        columns, analysed = tuple(live.shown.columns), live.query
        updates = analysed.output is OutputMode.UPDATE
        self._changes = UpsertChangelog(key=result_key(analysed.query)) if updates else None
        self._has_kinds = columns[:1] == (OP,) and bool(analysed.flow.kinds)
        self.columns = columns if self._has_kinds else (OP, *columns)
        self._batches: Queue[list[Row]] = Queue(maxsize=4)
        self._stopped = False
        self._folder = TemporaryDirectory(prefix="penstock-")
        try:
            self._query = live.start(
                Path(self._folder.name), self._take, available_now=available_now, whole=whole
            )
        except BaseException:
            self._folder.cleanup()
            raise

    def show(self, show: Callable[[Sequence[str], Sequence[Row]], None]) -> bool:
        """Show the new rows, `op` in front; returns False at the end. Raises QueryFailedError."""
        if self._stopped:
            return False
        active = self._query.isActive  # asked first: what is there afterwards is the last
        while not self._batches.empty():
            show(self.columns, self._rows_of(self._batches.get_nowait()))
        if active:
            return True
        failure = self._query.exception()
        self.stop()
        if failure is not None:
            raise translate(failure) from failure
        return False

    def stop(self) -> None:
        """End the query, if it has not ended."""
        if self._stopped:
            return
        self._stopped = True
        self._drop_waiting()
        self._query.stop()
        self._folder.cleanup()

    def _take(self, rows: list[Row]) -> None:
        """Wait for a place in the queue, on the batch's own thread, as long as the SELECT is followed."""
        while rows and not self._stopped:
            try:
                self._batches.put(rows, timeout=POLL_MS / 1000)
            except Full:
                continue
            return

    def _rows_of(self, batch: list[Row]) -> list[Row]:
        if self._has_kinds:
            return batch
        if self._changes is None:
            return [(RowKind.INSERT.short, *row) for row in batch]
        return [change for row in batch for change in self._changes.of(row)]

    def _drop_waiting(self) -> None:
        while not self._batches.empty():
            self._batches.get_nowait()


def follow(
    live: LiveQuery,
    *,
    show: Callable[[Sequence[str], Sequence[Row]], None],
    stopped: Callable[[], bool],
    clock: Clock,
) -> None:
    """Run a streaming query and show its rows, `op` in front, on the calling thread, until `stopped` says so.

    Raises QueryFailedError.
    """
    never = Event()
    following = LiveSelect(live)
    try:
        while not stopped() and following.show(show):
            clock.wait(never, POLL_MS)
    finally:
        following.stop()
