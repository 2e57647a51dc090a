"""Numbers and times as a person reads them, and text made safe for a terminal. Pure functions, no terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from penstock.connector.options.watermark import IDLE_TIMEOUT as IDLE_OPTION
from penstock.connector.source.state import MAX_WATERMARK_MS, MIN_INSTANT_MS

__all__ = [
    "count_text",
    "duration_text",
    "instant_text",
    "lag_text",
    "late_text",
    "terminal_text",
    "timeless_text",
    "watermark_text",
]

# everything but line ends, tabs and colours, which are our own as well
_CONTROLS = re.compile(r"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]")


def terminal_text(text: str) -> str:
    """Write characters that move the cursor, or do worse, as a person can read them."""
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


NAMED = 3
"""Splits that are named in a line; of others only the count."""

IDLE_TIMEOUT = IDLE_OPTION.key

_SECOND_MS, _MINUTE_MS, _HOUR_MS, _DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000


def count_text(count: float | None) -> str:
    """1234567 as `1,234,567`; nothing known as a dash."""
    return "-" if count is None else f"{count:,.0f}"


def duration_text(duration_ms: int) -> str:
    """A span of time in its two largest units: `850 ms`, `12.3 s`, `4 min 5 s`, `3 h 2 min`, `12 d 4 h`."""
    if duration_ms < _SECOND_MS:
        return f"{max(duration_ms, 0)} ms"
    if duration_ms < _MINUTE_MS:
        return f"{duration_ms / _SECOND_MS:.1f}".removesuffix(".0") + " s"
    if duration_ms < _HOUR_MS:
        return _two_units(duration_ms, _MINUTE_MS, "min", _SECOND_MS, "s")
    if duration_ms < _DAY_MS:
        return _two_units(duration_ms, _HOUR_MS, "h", _MINUTE_MS, "min")
    return _two_units(duration_ms, _DAY_MS, "d", _HOUR_MS, "h")


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


def lag_text(watermark_ms: int | None, now_ms: int) -> str:
    """How far the watermark is behind the clock."""
    if watermark_ms is None or watermark_ms >= MAX_WATERMARK_MS:
        return "-"
    return duration_text(max(now_ms - watermark_ms, 0))


def _two_units(duration_ms: int, large_ms: int, large: str, small_ms: int, small: str) -> str:
    whole, rest = divmod(duration_ms, large_ms)
    part = rest // small_ms
    return f"{whole} {large} {part} {small}" if part else f"{whole} {large}"
