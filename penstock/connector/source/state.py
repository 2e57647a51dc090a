"""The state of a scan between two batches, and its versioned JSON: an offset log keeps it, and a person can read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.catalog.errors import StateMismatchError

VERSION = 2
FIRST_VERSION = 1
"""The version before alignment and before the coordinator: it has topics and splits only."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MIN_INSTANT_MS = -62_135_596_800_000  # 0001-01-01T00:00:00Z, the first that a datetime holds
MAX_WATERMARK_MS = (
    253_402_300_799_000  # 9999-12-31T23:59:59Z: every split of a bounded scan is read
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveredSplit:
    """A split that was discovered with records in it, while others were read.

    `at_ms` is the wall clock at its discovery (epoch ms), `until` its end then, exclusive. `late` counts rows that
    were behind the table's watermark when they were read, while it was read up to there.
    """

    at_ms: int
    until: int
    late: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitState:
    """One split: the range [`start`, `end`) of the batch, and what is known of its event time.

    `owner` is what the split belongs to (Kafka: the topic). `stop` is the exclusive end of a bounded split.
    `watermark_ms` is the highest watermark seen in the split, None before its first record; where its group stopped it
    just before a record that is known to be above the limit, it is the limit. `quiet_since_ms` is the wall clock at
    which it was first seen without new records, None while records come; `lost` counts positions deleted before they
    were read (only where the table tolerates that). `paused` says why the range is shorter than it might be, None
    where it is not. `found` is set for a split that was discovered later than its first record. `epoch` is the
    log's when `end` was chosen (`SplitOffsets.epoch`), None where unknown: no record before `end` has a higher one.
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
    paused: str | None = None
    found: DiscoveredSplit | None = None
    epoch: int | None = None

    @property
    def finished(self) -> bool:
        """Whether the split is bounded and read to its stop."""
        return self.stop is not None and self.end >= self.stop


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """A scan after a batch: enough to restart from, and to plan the batch's tasks again after a crash.

    `watermark_ms` is the table's watermark with this batch, `watermark_before_ms` the one before it: rows behind that
    one are late. `coordinator` is the coordinator's part of the checkpoint. `limit_ms` is the highest watermark that
    the alignment group allowed, None without a limit; `held` counts batches in a row in which the group let nothing be
    read, so that their offsets differ. `clock_ms` is the wall clock at planning (epoch ms, without implausible steps)
    of a scan that looks for records of the future, None for any other.
    """

    splits: tuple[SplitState, ...] = ()
    watermark_ms: int | None = None
    watermark_before_ms: int | None = None
    limit_ms: int | None = None
    held: int = 0
    coordinator: Mapping[str, Any] | None = None
    clock_ms: int | None = None

    def not_after_ms(self, max_future_ms: int | None) -> int | None:
        """Return the highest watermark that a record of the batch may have, epoch ms; None is no bound.

        The offset keeps the clock and not the bound, so that a replay decides alike and yet follows an option that
        was changed because of the batch.
        """
        return highest_allowed_ms(self.clock_ms, max_future_ms)

    @property
    def positions(self) -> dict[str, int]:
        """The next position of each split, by split id."""
        return {split.split_id: split.end for split in self.splits}


def highest_allowed_ms(clock_ms: int | None, max_future_ms: int | None) -> int | None:
    """Return the highest watermark that is not of the future by a clock (epoch ms), None without clock or option."""
    return None if clock_ms is None or max_future_ms is None else clock_ms + max_future_ms


def encode_state(state: SourceState) -> dict[str, Any]:
    """Write a state as JSON values: keys in fixed order, as offsets are compared as text."""
    return {
        "version": VERSION,
        "watermark": _optional_instant(state.watermark_ms),
        "watermark_before": _optional_instant(state.watermark_before_ms),
        "limit": _optional_instant(state.limit_ms),
        "held": state.held,
        **({} if state.clock_ms is None else {"clock": instant_text(state.clock_ms)}),
        "splits": {
            split.split_id: _encode_split(split) for split in sorted(state.splits, key=_by_id)
        },
        "coordinator": state.coordinator,
    }


def decode_state(value: Mapping[str, Any]) -> SourceState:
    """Read what `encode_state` wrote. Raises StateMismatchError for a version that is not known here."""
    version = value.get("version")
    if version not in (FIRST_VERSION, VERSION):
        raise StateMismatchError(
            f"the checkpoint holds source offsets of version {version!r}, this Penstock reads up to {VERSION}",
            hint="run the version of Penstock that wrote the checkpoint, or start over with another pipeline.name",
        )
    splits = tuple(_decode_split(split_id, item) for split_id, item in value["splits"].items())
    first = version == FIRST_VERSION
    return SourceState(
        splits=splits,
        watermark_ms=_milliseconds(value["watermark"]),
        watermark_before_ms=_milliseconds(value["watermark_before"]),
        limit_ms=None if first else _milliseconds(value["limit"]),
        held=0 if first else value["held"],
        coordinator=_first_coordinator(splits, value["topics"]) if first else value["coordinator"],
        clock_ms=_milliseconds(value.get("clock")),
    )


def _first_coordinator(
    splits: Sequence[SplitState], topics: Mapping[str, str]
) -> Mapping[str, Any] | None:
    """Write what version 1 knew as the bare state of a DiscoveringEnumerator, a coordinator's version 0."""
    if not splits:
        return None
    return {
        "kind": "discovering",
        "version": 1,
        "bounded": all(split.stop is not None for split in splits),
        "discovered": True,
        "topics": dict(sorted(topics.items())),
        "assigned": sorted(split.split_id for split in splits),
        "unassigned": [],
        "stops": {},
    }


def _by_id(split: SplitState) -> str:
    return split.split_id


def _encode_split(split: SplitState) -> dict[str, Any]:
    return {
        "owner": split.owner,
        "from": split.start,
        "to": split.end,
        "stop": split.stop,
        "watermark": _optional_instant(split.watermark_ms),
        "idle": split.idle,
        "quiet_since": _optional_instant(split.quiet_since_ms),
        "lost": split.lost,
        "paused": split.paused,
        **({} if split.found is None else {"found": _encode_discovered(split.found)}),
        **({} if split.epoch is None else {"epoch": split.epoch}),
    }


def _encode_discovered(found: DiscoveredSplit) -> dict[str, Any]:
    return {"at": instant_text(found.at_ms), "until": found.until, "late": found.late}


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
        paused=item.get("paused"),
        found=None if item.get("found") is None else _decode_discovered(item["found"]),
        epoch=item.get("epoch"),
    )


def _decode_discovered(value: Mapping[str, Any]) -> DiscoveredSplit:
    at_ms = _milliseconds(value["at"])
    assert at_ms is not None, "a split is found at a time"
    return DiscoveredSplit(at_ms=at_ms, until=value["until"], late=value["late"])


def _optional_instant(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else instant_text(milliseconds)


def instant_text(milliseconds: int) -> str:
    """Write an instant (epoch ms) as ISO 8601 in UTC, kept within the years that a datetime holds."""
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
