"""What a cell shows, as values: a table of rows, a live query, running jobs, an error.

Also writes one value of a row as text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from penstock.sql.jobs.observation import ObservedJob
from penstock.sql.runner.summary import plain, time_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A column: its name, its type in Flink's words (None: text of the catalog), whether it holds numbers."""

    name: str
    type: str | None = None
    numeric: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """Rows under their heads. `more`: there are more rows than these; `limit` is the option that cut them.

    `newest`: the omitted rows are earlier ones, not later ones.
    """

    heads: tuple[Head, ...]
    rows: Sequence[tuple[Any, ...]]
    more: bool = False
    limit: int | None = None
    newest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressSample:
    """How a followed query was at a moment: rows read a second, how far its watermark is behind the clock (ms)."""

    rows_per_second: float
    lag_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveView:
    """An unbounded query, as of its last batch: its newest rows, `op` in front where rows change.

    `rows_seen` counts rows of the result, `watermark_ms` is event time, `seconds` wall-clock time since the start.
    `ended` says why it is over; None while it runs. `starting`: its first batch has not begun. `rows_in` are those of
    `batches`, which were completed; rows of the batch in flight may be among those seen. Of these batches are the late
    rows, `rows_dropped`, the records that were left out, `bad_records`, and those that were deleted before they were
    read, `records_lost`. `sentence` says what it does, or why no row comes.
    """

    table: TableView
    rows_seen: int
    rows_in: int
    batches: int
    seconds: float
    watermark_ms: int | None
    samples: tuple[ProgressSample, ...]
    ended: str | None = None
    starting: bool = False
    rows_dropped: int = 0
    bad_records: int = 0
    records_lost: int = 0
    sentence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsView:
    """Jobs of INSERTs as of now; `now_ms` is the wall clock. `errors` are texts of those that failed."""

    jobs: tuple[ObservedJob, ...]
    now_ms: int
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A line of text, or the text of an error with its place."""

    text: str
    is_error: bool = False


View = TableView | LiveView | JobsView | Note

LONGEST = 300
"""Characters of a value that are shown; what is cut says how long it was."""


def cell_text(value: Any) -> str:
    """Write a value; NULL has its name, control characters are written out."""
    text = _text(value)
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    if len(shown) <= LONGEST:
        return shown
    return f"{shown[:LONGEST]}… ({len(text):,} characters)"


def _text(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case Decimal():
            return f"{value:f}"
        case int() | float():
            return str(value)
        case bytes() | bytearray():
            return f"0x{bytes(value).hex()}"
        case datetime():
            return time_text(value)
        case date() | time():
            return value.isoformat()
        case dict() | list() | tuple():
            return json.dumps(plain(value), ensure_ascii=False)
    return str(value)
