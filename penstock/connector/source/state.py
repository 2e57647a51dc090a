"""The state of a scan between two batches, and its versioned JSON: what an offset log keeps and a person can read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.catalog.errors import StateMismatchError

__all__ = ["MAX_WATERMARK_MS", "SourceState", "SplitState", "decode_state", "encode_state"]

VERSION = 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MIN_INSTANT_MS = -62_135_596_800_000  # 0001-01-01T00:00:00Z, the first that a datetime holds
MAX_WATERMARK_MS = (
    253_402_300_799_000  # 9999-12-31T23:59:59Z: every split of a bounded scan is read
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitState:
    """One split: the range [`start`, `end`) of the batch, and what is known of its event time.

    `owner` is what the split belongs to (Kafka: the topic). `stop` is the exclusive end of a bounded split.
    `watermark_ms` is the highest watermark seen in the split, None before its first record. `quiet_since_ms`
    is the wall clock at which it was first seen without new records, None while records come; `lost` counts
    positions deleted before they were read (only where the table tolerates that).
    """

    split_id: str
    owner: str
    start: int
    end: int
    stop: int | None = None
    watermark_ms: int | None = None
    idle: bool = False
    quiet_since_ms: int | None = None
    lost: int = 0

    @property
    def finished(self) -> bool:
        """Whether the split is bounded and read to its stop."""
        return self.stop is not None and self.end >= self.stop


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """A scan after a batch: enough to restart from, and to plan the batch's tasks again after a crash.

    `watermark_ms` is the table's watermark with this batch, `watermark_before_ms` the one before it: rows
    behind that one are late. `incarnations` are the ids of the topics that the splits belong to.
    """

    splits: tuple[SplitState, ...] = ()
    incarnations: tuple[tuple[str, str], ...] = ()
    watermark_ms: int | None = None
    watermark_before_ms: int | None = None

    @property
    def finished(self) -> bool:
        """Whether every split is bounded and read to its stop."""
        return bool(self.splits) and all(split.finished for split in self.splits)

    @property
    def positions(self) -> dict[str, int]:
        """Where each split goes on, by split id."""
        return {split.split_id: split.end for split in self.splits}


def encode_state(state: SourceState) -> dict[str, Any]:
    """Write a state as JSON values: keys in fixed order, as offsets are compared as text."""
    return {
        "version": VERSION,
        "watermark": _instant(state.watermark_ms),
        "watermark_before": _instant(state.watermark_before_ms),
        "topics": dict(sorted(state.incarnations)),
        "splits": {
            split.split_id: _encode_split(split) for split in sorted(state.splits, key=_by_id)
        },
    }


def decode_state(value: Mapping[str, Any]) -> SourceState:
    """Read what `encode_state` wrote. Raises StateMismatchError for a version that is not known here."""
    if value.get("version") != VERSION:
        raise StateMismatchError(
            f"the checkpoint holds source offsets of version {value.get('version')!r}, this Penstock reads {VERSION}",
            hint="run the version of Penstock that wrote the checkpoint, or start anew with another pipeline.name",
        )
    return SourceState(
        splits=tuple(_decode_split(split_id, item) for split_id, item in value["splits"].items()),
        incarnations=tuple(sorted(value["topics"].items())),
        watermark_ms=_milliseconds(value["watermark"]),
        watermark_before_ms=_milliseconds(value["watermark_before"]),
    )


def _by_id(split: SplitState) -> str:
    return split.split_id


def _encode_split(split: SplitState) -> dict[str, Any]:
    return {
        "owner": split.owner,
        "from": split.start,
        "to": split.end,
        "stop": split.stop,
        "watermark": _instant(split.watermark_ms),
        "idle": split.idle,
        "quiet_since": _instant(split.quiet_since_ms),
        "lost": split.lost,
    }


def _decode_split(split_id: str, item: Mapping[str, Any]) -> SplitState:
    return SplitState(
        split_id=split_id,
        owner=item["owner"],
        start=item["from"],
        end=item["to"],
        stop=item["stop"],
        watermark_ms=_milliseconds(item["watermark"]),
        idle=item["idle"],
        quiet_since_ms=_milliseconds(item["quiet_since"]),
        lost=item["lost"],
    )


def _instant(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    within = min(max(milliseconds, MIN_INSTANT_MS), MAX_WATERMARK_MS)
    return (
        (_EPOCH + timedelta(milliseconds=within))
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def _milliseconds(text: str | None) -> int | None:
    if text is None:
        return None
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1)
