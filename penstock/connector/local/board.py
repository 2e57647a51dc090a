"""The board of alignment groups: what each table of a process has published as its lowest watermark.

Flink keeps it in the coordinator store of a job; here the jobs of one process share one.
"""

from __future__ import annotations

from threading import Lock

__all__ = ["GroupBoard"]


class GroupBoard:
    """Lowest watermarks (epoch ms) by group and source. Any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._groups: dict[str, dict[str, int]] = {}

    def publish(self, group: str, source: str, watermark_ms: int | None) -> None:
        """Replace what `source` published; None takes it off: it no longer holds the group."""
        with self._lock:
            entries = self._groups.setdefault(group, {})
            if watermark_ms is None:
                entries.pop(source, None)
            else:
                entries[source] = watermark_ms

    def lowest_ms(self, group: str) -> int | None:
        """Give the group's lowest watermark; None while nobody has published one. Who never did is absent."""
        with self._lock:
            return min(self._groups.get(group, {}).values(), default=None)
