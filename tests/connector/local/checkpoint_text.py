"""Checkpoints of a local job as JSON: what goes through it is a value and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock.connector.local.messages import LocalCheckpoint, ReaderCheckpoint
from penstock.connector.source.split import Split

__all__ = ["decode_checkpoint", "encode_checkpoint"]


def encode_checkpoint(checkpoint: LocalCheckpoint) -> str:
    """Write a checkpoint as JSON, keys in fixed order."""
    return json.dumps(
        {
            "checkpoint": checkpoint.checkpoint_id,
            "coordinator": checkpoint.coordinator,
            "readers": [_encode_reader(part) for part in checkpoint.readers],
        }
    )


def decode_checkpoint(text: str) -> LocalCheckpoint:
    """Read what `encode_checkpoint` wrote."""
    value = json.loads(text)
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
