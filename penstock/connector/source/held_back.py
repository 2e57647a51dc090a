"""Batches of paused splits that were fetched before the pause: held back in order until the split is resumed.

Flink emits them all the same, so that alignment overshoots by what is queued (FLIP-217); here it does not.
"""

from __future__ import annotations

from collections.abc import Collection

from penstock.connector.source.records import RecordsWithSplitIds

__all__ = ["HeldBack"]


class HeldBack:
    """The held part of a reader's fetches, by split. Bounded by what one fetcher has under way when a pause comes."""

    def __init__(self) -> None:
        self._held: dict[str, list[RecordsWithSplitIds]] = {}

    def __bool__(self) -> bool:
        """Whether anything is held."""
        return bool(self._held)

    def sift(
        self, records: RecordsWithSplitIds, paused: Collection[str]
    ) -> RecordsWithSplitIds | None:
        """Hold back what belongs to paused splits and give the rest, None when nothing is left of it.

        A paused split's progress without rows (its end above all) passes, unless rows before it are held.
        """
        rows_of = {split_id for split_id, _ in records.batches}
        concerned = rows_of | records.finished | records.positions.keys()
        held = {i for i in concerned if i in paused and (i in rows_of or i in self._held)}
        if not held:
            return records
        for split_id in sorted(held):
            self._held.setdefault(split_id, []).append(_only(records, {split_id}))
        rest = _only(records, concerned - held, skipped=records.skipped)
        return None if rest == RecordsWithSplitIds() else rest

    def release(self, split_ids: Collection[str]) -> list[RecordsWithSplitIds]:
        """Give what is held of splits, in order, to be delivered before all else of them."""
        return [part for split_id in split_ids for part in self._held.pop(split_id, ())]


def _only(
    records: RecordsWithSplitIds, split_ids: Collection[str], *, skipped: int = 0
) -> RecordsWithSplitIds:
    return RecordsWithSplitIds(
        batches=tuple(item for item in records.batches if item[0] in split_ids),
        finished=records.finished & frozenset(split_ids),
        positions={i: at for i, at in records.positions.items() if i in split_ids},
        skipped=skipped,
        origins={i: of for i, of in records.origins.items() if i in split_ids},
        read={i: count for i, count in records.read.items() if i in split_ids},
        bad={i: bad for i, bad in records.bad.items() if i in split_ids},
    )
