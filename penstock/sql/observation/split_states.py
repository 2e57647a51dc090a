"""The state of a split as metrics, the JSON API and pages name it, and which splits hold a table's watermark."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.connector.source.state import SourceState, SplitState


class SplitPhase(StrEnum):
    """What a split does, as of the last batch."""

    READING = "reading"
    CAUGHT_UP = "caught_up"
    IDLE = "idle"
    PAUSED = "paused"
    FINISHED = "finished"


def phase_of(split: SplitState, lag: int) -> SplitPhase:
    """Return the state of a split that is `lag` positions behind its end. A pause outweighs all but the end."""
    if split.finished:
        return SplitPhase.FINISHED
    if split.paused is not None:
        return SplitPhase.PAUSED
    if split.idle:
        return SplitPhase.IDLE
    return SplitPhase.READING if lag else SplitPhase.CAUGHT_UP


def holders(state: SourceState) -> frozenset[str]:
    """Return the ids of the splits that hold the table's watermark.

    Those are the active splits without a watermark, where there are any, else the active ones with the lowest.
    """
    active = [split for split in state.splits if not split.idle and not split.finished]
    timeless = frozenset(split.split_id for split in active if split.watermark_ms is None)
    known = [split.watermark_ms for split in active if split.watermark_ms is not None]
    if timeless or not known:
        # the clock is there for the sake of event times: without it the table may have none
        times = bool(known) or state.watermark_ms is not None or state.clock_ms is not None
        return timeless if times else frozenset()
    lowest = min(known)
    return frozenset(split.split_id for split in active if split.watermark_ms == lowest)
