"""Numbers and times as a person reads them. Pure functions, no terminal."""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.connector.source.state import MAX_WATERMARK_MS

__all__ = ["count_text", "duration_text", "instant_text", "lag_text", "watermark_text"]

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
    return datetime.fromtimestamp(watermark_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def instant_text(at_ms: int) -> str:
    """A moment of the clock to the second, as log lines begin: `2026-01-01 00:02:00Z`."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def lag_text(watermark_ms: int | None, now_ms: int) -> str:
    """How far the watermark is behind the clock."""
    if watermark_ms is None or watermark_ms >= MAX_WATERMARK_MS:
        return "-"
    return duration_text(max(now_ms - watermark_ms, 0))


def _two_units(duration_ms: int, large_ms: int, large: str, small_ms: int, small: str) -> str:
    whole, rest = divmod(duration_ms, large_ms)
    part = rest // small_ms
    return f"{whole} {large} {part} {small}" if part else f"{whole} {large}"
