"""Follows a query that never ends: its rows batch by batch, with what each of them changes, until it is stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from tempfile import TemporaryDirectory
from threading import Event
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.connector.changelog import RowKind
from penstock.connector.contract import OutputMode
from penstock.sql.dialect.unfolded_sets import is_determined
from penstock.sql.run.failure import translate
from penstock.sql.run.live_query import Row

if TYPE_CHECKING:
    from penstock.sql.run.clock import Clock
    from penstock.sql.run.live_query import LiveQuery

__all__ = ["Changes", "follow", "result_key"]

OP = "op"
POLL_MS = 100
MOST_KEYS = 100_000
"""Rows that are remembered to show what an update replaces; older ones are forgotten."""


def result_key(query: exp.Expr) -> tuple[int, ...] | None:
    """Give the positions of the columns that tell the rows of a GROUP BY apart; None where not all are selected."""
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
class Changes:
    """Turns rows that replace the earlier ones of their key into changes: +I, or -U and +U.

    `key` None: keys are not in the rows, and every row is shown as +U.
    """

    key: tuple[int, ...] | None
    _last: dict[Row, Row] = field(default_factory=dict)

    def of(self, row: Row) -> list[Row]:
        """Give the changes that a row makes, with their kind in front."""
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


def follow(
    live: LiveQuery,
    *,
    show: Callable[[Sequence[str], Sequence[Row]], None],
    stopped: Callable[[], bool],
    clock: Clock,
) -> None:
    """Run a streaming query and show its rows, `op` in front, on the calling thread, until `stopped` says so.

    Nothing is kept: its checkpoint is a temporary folder. Raises QueryFailedError.
    """
    columns, analysed = tuple(live.shown.columns), live.query
    updates = analysed.output is OutputMode.UPDATE
    changes = Changes(key=result_key(analysed.query)) if updates else None
    has_kinds = columns[:1] == (OP,) and bool(analysed.flow.kinds)
    shown = columns if has_kinds else (OP, *columns)
    batches: Queue[list[Row]] = Queue(maxsize=4)

    def take(rows: list[Row]) -> None:
        if rows:
            batches.put(rows)

    def rows_of(batch: list[Row]) -> list[Row]:
        if has_kinds:
            return batch
        if changes is None:
            return [(RowKind.INSERT.short, *row) for row in batch]
        return [change for row in batch for change in changes.of(row)]

    never = Event()
    with TemporaryDirectory(prefix="penstock-") as folder:
        query = live.start(Path(folder), take)
        try:
            while not stopped():
                active = query.isActive
                try:
                    show(shown, rows_of(batches.get_nowait()))
                except Empty:
                    if not active:
                        break
                    clock.wait(never, POLL_MS)
        finally:
            while not batches.empty():
                batches.get_nowait()  # a batch that waits for its place would not end
            query.stop()
        failure = query.exception()
        if failure is not None and not stopped():
            raise translate(failure) from failure
