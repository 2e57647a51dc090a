"""What a reader tells of its splits: where each began, where it is, how its event time stands."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import replace

from penstock.connector.local.status import SplitStatus
from penstock.connector.source.operator import SourceOperator
from penstock.connector.source.split import Split

__all__ = ["SplitBook"]

FINISHED_SHOWN = 100
"""Splits read to their end whose status is kept; a folder may have millions of files."""


class SplitBook:
    """The splits of one reader, for display only. The reader's thread."""

    def __init__(self, reader: int) -> None:
        self._reader = reader
        self._splits: dict[str, SplitStatus] = {}
        self._finished: deque[SplitStatus] = deque(maxlen=FINISHED_SHOWN)

    @property
    def empty(self) -> bool:
        """Whether no split is being read."""
        return not self._splits

    def add(self, splits: Collection[Split]) -> None:
        """Note splits that are read from their start."""
        for split in splits:
            self._splits[split.split_id] = SplitStatus(
                split_id=split.split_id,
                reader=self._reader,
                start=split.start,
                position=split.start,
            )

    def move(self, positions: Mapping[str, int]) -> None:
        """Note next positions."""
        for split_id, position in positions.items():
            self._splits[split_id] = replace(self._splits[split_id], position=position)

    def finish(self, split_ids: Collection[str], operator: SourceOperator) -> None:
        """Note ends; the operator still has the splits."""
        outputs = {split.split_id: split for split in operator.splits}
        for split_id in sorted(split_ids):
            self._finished.append(
                replace(
                    self._splits.pop(split_id),
                    watermark_ms=outputs[split_id].watermark_ms,
                    finished=True,
                )
            )

    def statuses(self, operator: SourceOperator) -> tuple[SplitStatus, ...]:
        """Give what is shown: splits that ended, then those that are read."""
        reading = (
            replace(
                self._splits[split.split_id],
                watermark_ms=split.watermark_ms,
                idle=split.idle,
                held_at_ms=operator.limit_ms if split.paused else None,
            )
            for split in operator.splits
        )
        return (*self._finished, *reading)
