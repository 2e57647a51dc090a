"""Checkpoints of a local job as values: the coordinator's part and each reader's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.connector.source.coordinator import CoordinatorState
from penstock.connector.source.split import Split

__all__ = ["LocalCheckpoint", "ReaderCheckpoint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderCheckpoint:
    """A reader's part: its unfinished splits, each with its next position as start, and its event time.

    `watermark_ms` is the operator's, `split_watermarks_ms` those of splits that had one; epoch ms.
    """

    splits: tuple[Split, ...] = ()
    watermark_ms: int | None = None
    split_watermarks_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCheckpoint:
    """A complete checkpoint. Everything emitted before its barrier is in it, nothing behind it is."""

    checkpoint_id: int
    coordinator: CoordinatorState
    readers: tuple[ReaderCheckpoint, ...]

    def reader(self, reader: int, parallelism: int) -> ReaderCheckpoint:
        """Give the part that `reader` of `parallelism` starts with: its own, and those of readers that are no more.

        Its watermark is then the lowest of theirs, and none where one of them had none.
        """
        parts = self.readers[reader::parallelism]
        known = [part.watermark_ms for part in parts if part.watermark_ms is not None]
        return ReaderCheckpoint(
            splits=tuple(split for part in parts for split in part.splits),
            watermark_ms=min(known) if known and len(known) == len(parts) else None,
            split_watermarks_ms={
                split_id: watermark_ms
                for part in parts
                for split_id, watermark_ms in part.split_watermarks_ms.items()
            },
        )
