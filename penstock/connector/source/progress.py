"""How far a source reader has delivered each of its splits, and what its checkpoints hold of that."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from penstock.connector.source.records import RecordsWithSplitIds
from penstock.connector.source.split import Split

__all__ = ["ReaderProgress"]


class ReaderProgress:
    """The unfinished splits of a reader, each with the position after the last batch that was delivered."""

    def __init__(self) -> None:
        self._splits: dict[str, Split] = {}
        self._positions: dict[str, int] = {}
        self._finished: dict[str, int] = {}
        self._checkpoints: dict[int, dict[str, int]] = {}

    @property
    def split_ids(self) -> Collection[str]:
        """The unfinished splits."""
        return self._splits.keys()

    def add(self, splits: Sequence[Split]) -> None:
        """Begin splits at their start. A finished split may come again, one that is being read may not."""
        for split in splits:
            assert split.split_id not in self._splits, f"{split.split_id} is being read already"
            self._splits[split.split_id] = split
            self._positions[split.split_id] = split.start

    def deliver(self, records: RecordsWithSplitIds) -> None:
        """Move on over what goes out to the engine now."""
        for split_id, position in records.positions.items():
            if split_id in self._splits:
                self._positions[split_id] = position
        for split_id in records.finished & self._splits.keys():
            del self._splits[split_id]
            self._finished[split_id] = self._positions.pop(split_id)

    def snapshot(self, checkpoint_id: int) -> tuple[Split, ...]:
        """Give each unfinished split from where it goes on, in the order they were added."""
        self._checkpoints[checkpoint_id] = self._finished | self._positions
        return tuple(
            dataclasses.replace(split, start=self._positions[split_id])
            for split_id, split in self._splits.items()
        )

    def complete(self, checkpoint_id: int) -> Mapping[str, int]:
        """Give the positions that a checkpoint holds, those of splits that finished since the last one included.

        As Flink's KafkaSourceReader commits them. Checkpoints that were overtaken or are unknown hold nothing.
        """
        durable = self._checkpoints.get(checkpoint_id, {})
        self._checkpoints = {i: at for i, at in self._checkpoints.items() if i > checkpoint_id}
        self._finished = {i: at for i, at in self._finished.items() if durable.get(i) != at}
        return durable
