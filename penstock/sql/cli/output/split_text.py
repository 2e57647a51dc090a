"""Splits as a person reads them: a line, a table, or what was looked at in vain. Pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.sql.cli.output.text import (
    count_text,
    duration_text,
    terminal_text,
    timeless_text,
    watermark_text,
)

if TYPE_CHECKING:
    from rich.table import Table

    from penstock.connector.local.split_status import LocalJobStatus, SplitStatus

__all__ = ["looked_at_lines", "split_line", "split_table", "state_text"]

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
            Text(terminal_text(split.split_id)),
            count_text(split.position),
            count_text(split.lag),
            watermark_text(split.watermark_ms),
            Text(state_text(split, group), style="yellow" if held else "dim"),
        )
    more = len(status.splits) - SHOWN
    table.add_row(
        Text(f"all, {more} more than shown" if more > 0 else "all", style="bold"),
        "",
        count_text(_total_lag(status)),
        watermark_text(status.watermark_ms),
        Text(_held_text(status), style="yellow"),
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
