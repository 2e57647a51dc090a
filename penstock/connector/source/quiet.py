"""Since when each split is caught up and quiet: what idleness is decided from. Clocks come with the calls."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.connector.source.state import SplitState

__all__ = ["QuietSplits"]


class QuietSplits:
    """Remembers when splits were first seen without new records, by a clock that never steps (`now_ms`)."""

    def __init__(self) -> None:
        self._since_ms: dict[str, int] = {}
        self._restored = False

    def restore(self, splits: Iterable[SplitState], *, now_ms: int, wall_ms: int) -> None:
        """Take over what a checkpoint says, once: quiet before a restart is quiet since, whatever a clock shows."""
        if self._restored:
            return
        self._restored = True
        for split in splits:
            if split.quiet_since_ms is not None:
                self._since_ms[split.split_id] = now_ms - max(0, wall_ms - split.quiet_since_ms)

    def watch(self, split_id: str, *, quiet: bool, now_ms: int) -> int | None:
        """Note whether the split is quiet now, and tell since when it is (`now_ms` clock); None where it is not."""
        if not quiet:
            self._since_ms.pop(split_id, None)
            return None
        return self._since_ms.setdefault(split_id, now_ms)
