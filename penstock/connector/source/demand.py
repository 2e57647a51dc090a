"""What the splits of an aligned table may ask of the read limit. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.connector.source.draft import Peeked
from penstock.connector.source.state import SplitState

__all__ = ["wanted_of"]

TRY_AGAIN = 8
"""A split that was held takes at most twice what it got, or this part of a fair share, of the next read limit."""


def wanted_of(
    splits: Mapping[str, SplitState],
    backlog: Mapping[str, int],
    remembered: Mapping[str, Peeked],
    *,
    last: Sequence[SplitState],
    limit: int | None,
) -> dict[str, int]:
    """Say how many positions of its `backlog` each split asks for, those that hold the watermark first.

    A split that its group held in the batch `last` asks for little more than it got, so that the others get the
    rest; where all were held nobody would have it. `remembered` are peeks into splits that wait.
    """
    wanted = dict(backlog)
    held = {split.split_id: split.end - split.start for split in last if split.paused}
    if limit is not None and any(backlog[split_id] for split_id in backlog.keys() - held):
        least = max(1, limit // (TRY_AGAIN * len(splits)))
        for split_id in held.keys() & backlog.keys():
            wanted[split_id] = min(wanted[split_id], max(least, 2 * held[split_id]))

    def rank(split_id: str) -> tuple[bool, int]:
        split = splits[split_id]
        next_ms = remembered.get(split_id, {}).get(split.end + 1, split.watermark_ms)
        return (next_ms is not None, next_ms or 0)

    return {split_id: wanted[split_id] for split_id in sorted(wanted, key=rank)}
