"""What a cell shows, as values: a table of rows, a query that is followed, jobs that run, an error, a note."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.sql.run.progress import JobProgress

__all__ = ["Head", "JobsView", "LiveView", "Note", "Sample", "TableView", "View"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A column: its name, its type in Flink's words (None: text of the catalog), whether it holds numbers."""

    name: str
    type: str | None = None
    numeric: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """Rows under their heads. `more`: there are more rows than these; `limit` is the option that cut them.

    `newest`: what is left out came before, and not behind.
    """

    heads: tuple[Head, ...]
    rows: Sequence[tuple[Any, ...]]
    more: bool = False
    limit: int | None = None
    newest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """How a followed query was at a moment: rows read a second, how far its watermark is behind the clock (ms)."""

    rows_per_second: float
    lag_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveView:
    """A query that never ends, as of its last batch: its newest rows, `op` in front where rows change.

    `rows_seen` counts rows of the result, `watermark_ms` is event time, `seconds` wall-clock time since the start.
    `ended` says why it is over; None while it runs. `starting`: its first batch has not begun. `rows_in` are those
    of `batches`, which were completed; rows of the batch in flight may be among those seen.
    """

    table: TableView
    rows_seen: int
    rows_in: int
    batches: int
    seconds: float
    watermark_ms: int | None
    samples: tuple[Sample, ...]
    ended: str | None = None
    starting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsView:
    """Jobs of INSERTs as of now; `now_ms` is the wall clock. `errors` are texts of those that failed."""

    jobs: tuple[JobProgress, ...]
    now_ms: int
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A line of text, or the text of an error with its place."""

    text: str
    is_error: bool = False


View = TableView | LiveView | JobsView | Note
