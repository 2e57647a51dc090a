"""Numbers, times and splits as a person reads them, and text made safe for a terminal. Pure functions, no terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.connector.options.watermark import IDLE_TIMEOUT as IDLE_OPTION
from penstock.connector.source.state import MAX_WATERMARK_MS, MIN_INSTANT_MS
from penstock.sql.clock import duration_text

if TYPE_CHECKING:
    from rich.table import Table

    from penstock.connector.local.split_status import LocalJobStatus, SplitStatus


# everything but line ends, tabs and colours, which are our own as well
_CONTROLS = re.compile(r"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]")


def terminal_text(text: str) -> str:
    """Write characters that move the cursor, or do worse, as a person can read them."""
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


LONGEST_CELL = 2_000
"""Characters of a text that a live table has: it is drawn several times a second."""

# also colours, which a table sets itself, ends of lines, and what turns the order of characters round
_IN_A_CELL = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def cell_text(text: str) -> str:
    """Write a text that others made for one line of a live table."""
    cut = text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}…"
    return _IN_A_CELL.sub(lambda found: ascii(found[0])[1:-1], cut)


NAMED = 3
"""Splits that are named in a line; of others only the count."""

IDLE_TIMEOUT = IDLE_OPTION.key


def count_text(count: float | None) -> str:
    """1234567 as `1,234,567`; nothing known as a dash."""
    return "-" if count is None else f"{count:,.0f}"


def watermark_text(watermark_ms: int | None) -> str:
    """Event time to the second; `end` when every row of a bounded table has been read."""
    if watermark_ms is None:
        return "-"
    if watermark_ms >= MAX_WATERMARK_MS:
        return "end"
    within_ms = max(watermark_ms, MIN_INSTANT_MS)  # a row may be of the year -9999
    return datetime.fromtimestamp(within_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def instant_text(at_ms: int) -> str:
    """A moment of the clock to the second, as log lines begin: `2026-01-01 00:02:00Z`."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def timeless_text(split_ids: Sequence[str], silent_ms: int | None, *, silent: bool = True) -> str:
    """Name the splits that hold back the watermark, how long the last of them has been silent, and the remedy."""
    if not split_ids:
        return ""
    more = len(split_ids) - NAMED
    names = ", ".join(split_ids[:NAMED]) + (f" and {more} more" if more > 0 else "")
    said = f"{names} {'has' if len(split_ids) == 1 else 'have'} no event time yet"
    if silent_ms is not None:
        said += f": silent for {duration_text(silent_ms // 1000 * 1000)}"
    return (
        f"{said}; {IDLE_TIMEOUT} excludes {'it' if len(split_ids) == 1 else 'them'}"
        if silent
        else said
    )


def late_text(split_id: str, rows: int, found_ms: int) -> str:
    """Describe the cost of a split that was discovered late."""
    found = instant_text(found_ms)
    return (
        f"{count_text(rows)} rows of {split_id} were late: found at {found}, after its first rows"
    )


def lost_text(records: int) -> str:
    """Describe what a table lost that may go on without it."""
    return f"{count_text(records)} records lost (deleted before they were read)"


def left_out_texts(rows_dropped: int, bad_records: int, records_lost: int = 0) -> list[str]:
    """Describe the rows that a SELECT left out; nothing where it has all."""
    texts = [f"{count_text(rows_dropped)} dropped as late"] if rows_dropped else []
    texts += [f"{count_text(bad_records)} bad records left out"] if bad_records else []
    return [*texts, lost_text(records_lost)] if records_lost else texts


def lag_text(watermark_ms: int | None, now_ms: int) -> str:
    """How far the watermark is behind the clock."""
    if watermark_ms is None or watermark_ms >= MAX_WATERMARK_MS:
        return "-"
    return duration_text(max(now_ms - watermark_ms, 0))


SHOWN = 20
"""Splits that are named one by one; of more only the count."""


def state_text(split: SplitStatus, group: str | None) -> str:
    """Describe the state of a split, and why it is not read further."""
    if split.finished:
        return "read to its end"
    if split.held_at_ms is not None and split.watermark_ms is not None:
        ahead = duration_text(split.watermark_ms - split.held_at_ms)
        return f"paused: {ahead} above what group '{group}' allows"
    if split.idle:
        return "idle: does not hold the watermark"
    return "caught up" if split.lag == 0 else "reading"


def split_table(status: LocalJobStatus, group: str | None) -> Table:
    """Draw one line a split, and the watermark of all."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim", expand=False)
    table.add_column("split", no_wrap=True, overflow="ellipsis", min_width=8)
    for header in ("position", "lag", "watermark"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, overflow="ellipsis")
    for split in status.splits[:SHOWN]:
        held = split.held_at_ms is not None
        table.add_row(
            Text(cell_text(split.split_id)),
            count_text(split.position),
            count_text(split.lag),
            watermark_text(split.watermark_ms),
            Text(cell_text(state_text(split, group)), style="yellow" if held else "dim"),
        )
    more = len(status.splits) - SHOWN
    table.add_row(
        Text(f"all, {more} more than shown" if more > 0 else "all", style="bold"),
        "",
        count_text(_total_lag(status)),
        watermark_text(status.watermark_ms),
        Text(cell_text(_held_text(status)), style="yellow"),
    )
    return table


def split_line(status: LocalJobStatus, group: str | None) -> str:
    """Return the same as one line for a log."""
    held = _held_text(status)
    parts = [
        f"watermark {watermark_text(status.watermark_ms)}{f' ({held})' if held else ''}",
        f"{count_text(_total_lag(status))} behind",
    ]
    for split in status.splits[:SHOWN]:
        facts = (
            f"at {split.position}",
            f"lag {count_text(split.lag)}",
            f"watermark {watermark_text(split.watermark_ms)}",
            state_text(split, group),
        )
        parts.append(f"{split.split_id} ({', '.join(facts)})")
    if len(status.splits) > SHOWN:
        parts.append(f"{len(status.splits) - SHOWN} more splits")
    return "; ".join(parts)


def looked_at_lines(status: LocalJobStatus) -> list[str]:
    """Describe what was read of each split, for a user who expected rows."""
    lines = [f"  {split.split_id}: {_range_text(split)}" for split in status.splits[:SHOWN]]
    if len(status.splits) > SHOWN:
        lines.append(f"  and {len(status.splits) - SHOWN} more")
    return lines


def _range_text(split: SplitStatus) -> str:
    if split.end == 0:
        return "is empty"
    there = "" if split.end is None else f", where it ends at {split.end}"
    if split.position == split.start:
        return f"waited at {split.position}{there}"
    return f"read from {split.start} up to {split.position}{there}"


def _held_text(status: LocalJobStatus) -> str:
    """Name the splits that hold back the watermark though they are read to their end."""
    timeless = [
        split.split_id
        for split in status.splits
        if split.watermark_ms is None and split.lag == 0 and not split.idle and not split.finished
    ]
    return timeless_text(timeless, None)


def _total_lag(status: LocalJobStatus) -> int | None:
    lags = [split.lag for split in status.splits]
    return None if None in lags else sum(lag for lag in lags if lag is not None)
