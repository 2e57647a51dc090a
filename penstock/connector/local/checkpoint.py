"""Checkpoints of a local job: the coordinator's part and each reader's, as a value and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.catalog.errors import StateMismatchError
from penstock.connector.source.coordinator import CoordinatorState
from penstock.connector.source.split import Split

__all__ = ["LocalCheckpoint", "ReaderCheckpoint", "decode_checkpoint", "encode_checkpoint"]

VERSION = 1


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


def encode_checkpoint(checkpoint: LocalCheckpoint) -> str:
    """Write a checkpoint as JSON, keys in fixed order."""
    return json.dumps(
        {
            "version": VERSION,
            "checkpoint": checkpoint.checkpoint_id,
            "coordinator": checkpoint.coordinator,
            "readers": [_encode_reader(part) for part in checkpoint.readers],
        }
    )


def decode_checkpoint(text: str) -> LocalCheckpoint:
    """Read what `encode_checkpoint` wrote. Raises StateMismatchError for another version."""
    value = json.loads(text)
    if value.get("version") != VERSION:
        raise StateMismatchError(
            f"the checkpoint is of version {value.get('version')!r}, this Penstock reads {VERSION}",
            hint="start without it, or run the version of Penstock that wrote it",
        )
    return LocalCheckpoint(
        checkpoint_id=value["checkpoint"],
        coordinator=value["coordinator"],
        readers=tuple(_decode_reader(part) for part in value["readers"]),
    )


def _encode_reader(part: ReaderCheckpoint) -> dict[str, Any]:
    return {
        "watermark_ms": part.watermark_ms,
        "splits": {
            split.split_id: {
                "owner": split.owner,
                "from": split.start,
                "stop": split.stop,
                "watermark_ms": part.split_watermarks_ms.get(split.split_id),
            }
            for split in sorted(part.splits, key=lambda split: split.split_id)
        },
    }


def _decode_reader(value: Mapping[str, Any]) -> ReaderCheckpoint:
    return ReaderCheckpoint(
        splits=tuple(
            Split(split_id=split_id, start=item["from"], stop=item["stop"], owner=item["owner"])
            for split_id, item in value["splits"].items()
        ),
        watermark_ms=value["watermark_ms"],
        split_watermarks_ms={
            split_id: item["watermark_ms"]
            for split_id, item in value["splits"].items()
            if item["watermark_ms"] is not None
        },
    )
