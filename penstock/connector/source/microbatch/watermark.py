"""The watermark of a table: the minimum over its active splits; and since when each split is idle. Pure
arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.catalog.errors import StateMismatchError
from penstock.connector.source.state import (
    MAX_WATERMARK_MS,
    MIN_INSTANT_MS,
    SourceState,
    SplitState,
)


class IdlenessTimers:
    """Remembers when splits were first seen without new records, by a clock that never steps (`now_ms`)."""

    def __init__(self) -> None:
        self._since_ms: dict[str, int] = {}
        self._restored = False

    def restore(self, splits: Iterable[SplitState], *, now_ms: int, wall_ms: int) -> None:
        """Restore the state of a checkpoint, once: a split quiet before a restart has been quiet
        since, whatever a clock shows.
        """
        if self._restored:
            return
        self._restored = True
        for split in splits:
            if split.quiet_since_ms is not None:
                self._since_ms[split.split_id] = now_ms - max(0, wall_ms - split.quiet_since_ms)

    def watch(self, split_id: str, *, quiet: bool, now_ms: int) -> int | None:
        """Note whether the split is quiet now, and return since when (`now_ms` clock); None where it is not."""
        if not quiet:
            self._since_ms.pop(split_id, None)
            return None
        return self._since_ms.setdefault(split_id, now_ms)


def combined_watermark(
    splits: Iterable[SplitState], before_ms: int | None, *, no_more_splits: bool
) -> int | None:
    """Return the table's watermark in epoch ms: it never goes back, None until every active split had a record.

    Finished and idle splits do not count; where there are no others, those count that end with this batch. When
    every split is finished and no more will be found nothing can come any more, and the watermark is the maximum;
    so it is where there never was a split.
    """
    everything = tuple(splits)
    if no_more_splits and all(split.finished for split in everything):
        return MAX_WATERMARK_MS
    active = [split.watermark_ms for split in everything if not split.finished and not split.idle]
    if not active:
        # a file that is read within one batch was active while it was read
        active = [split.watermark_ms for split in everything if _ended_now(split)]
    if not active or any(watermark is None for watermark in active):
        return before_ms
    lowest = min(watermark for watermark in active if watermark is not None)
    return lowest if before_ms is None else max(lowest, before_ms)


def check_goes_on(table: str, state: SourceState, *, bounded: bool) -> None:
    """Check that a scan which follows a watermark can resume. Raises StateMismatchError where the table was read to its
    end and is no longer bounded: its windows are closed, and each further row would be dropped as late.

    A maximum that a record has, not the end, is known by the split that had it.
    """
    if bounded or state.watermark_ms is None or state.watermark_ms < MAX_WATERMARK_MS:
        return
    highest_ms = [split.watermark_ms for split in state.splits if split.watermark_ms is not None]
    if max(highest_ms, default=MIN_INSTANT_MS) < MAX_WATERMARK_MS:
        raise StateMismatchError(
            f"the checkpoint has read {table} to its end, where its windows were closed; now the table has no end, and "
            "all of its further rows would be late",
            hint="let the table end as before, or start over with --from-scratch or another pipeline.name",
        )


def _ended_now(split: SplitState) -> bool:
    return split.finished and split.end > split.start and split.watermark_ms is not None


def is_idle(quiet_since_ms: int | None, now_ms: int, idle_timeout_ms: int | None) -> bool:
    """Return whether a split that is caught up and quiet since `quiet_since_ms` counts as idle.

    A split with records waiting is never idle, however long its batch takes (FLINK-40234), nor is one whose
    table sets no `scan.watermark.idle-timeout`.
    """
    if quiet_since_ms is None or not idle_timeout_ms:
        return False
    return now_ms - quiet_since_ms > idle_timeout_ms
