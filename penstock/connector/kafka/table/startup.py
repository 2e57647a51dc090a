"""Where a scan starts and stops: the startup and bounded modes as values, and their resolution to offsets.

Pure but for the lookups it is given. Follows Flink's OffsetsInitializer and NoStoppingOffsetsInitializer; an
offset that cannot be right (no commit, past the end of the log) is an error here and never a silent jump.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, assert_never

from penstock.catalog.errors import DataLossError, OptionError
from penstock.connector.kafka.client.connection import TopicPartition

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Earliest:
    """The oldest record still there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest:
    """What comes after the records that are there now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffsets:
    """The offsets that `group` has committed; `reset` is for partitions without one, None fails there."""

    group: str
    reset: Earliest | Latest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AtTimestamp:
    """The first record whose timestamp is `at_ms` (epoch ms) or later; the end where there is none."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecificOffsets:
    """Offsets by partition of the one topic; `group` (None: none) serves the partitions that are not listed."""

    offsets: tuple[tuple[int, int], ...]
    group: str | None = None


StartupMode = Earliest | Latest | GroupOffsets | AtTimestamp | SpecificOffsets
BoundedMode = Latest | GroupOffsets | AtTimestamp | SpecificOffsets


class OffsetLookup(Protocol):
    """Asks the broker; may block. A partition without an answer is absent from the mapping."""

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the log start offsets."""

    def latest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the ends under the scan's isolation level, exclusive."""

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the ends with open transactions included, exclusive."""

    def committed(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the offsets that the scan's group has committed."""

    def at_time(self, partitions: Collection[TopicPartition], at_ms: int) -> Offsets:
        """Return the first offsets at or after a time."""


def parse_specific_offsets(text: str, key: str) -> tuple[tuple[int, int], ...]:
    """Read `partition:0,offset:42;partition:1,offset:300`. Raises OptionError with that shape in it."""
    try:
        pairs = [_parse_pair(pair) for pair in text.split(";")]
    except ValueError:
        raise OptionError(
            f"'{key}' should follow the format 'partition:0,offset:42;partition:1,offset:300', but is '{text}'",
            hint="list each partition once, with the offset of the first record to read (bounded mode: not to read)",
        ) from None
    return tuple(sorted(dict(pairs).items()))


def _parse_pair(pair: str) -> tuple[int, int]:
    partition, _, offset = pair.strip().partition(",")
    numbers = partition.removeprefix("partition:"), offset.removeprefix("offset:")
    if numbers == (partition, offset) or not all(
        number.isascii() and number.isdigit() for number in numbers
    ):
        raise ValueError(pair)
    return int(numbers[0]), int(numbers[1])


def resolve_start(
    mode: StartupMode, partitions: Sequence[TopicPartition], lookup: OffsetLookup
) -> Offsets:
    """Return the first offset to read of each partition. Raises OptionError, DataLossError."""
    match mode:
        case Earliest():
            return lookup.earliest(partitions)
        case Latest():
            return lookup.latest(partitions)
        case AtTimestamp():
            return _at_time(mode, partitions, lookup)
        case GroupOffsets():
            return _committed(mode, partitions, lookup)
        case SpecificOffsets():
            return _specific(mode, partitions, lookup)
    assert_never(mode)


def resolve_stop(
    mode: BoundedMode, partitions: Sequence[TopicPartition], lookup: OffsetLookup
) -> Offsets:
    """Return the first offset not to read of each partition. Raises OptionError, DataLossError.

    One past the end of the log is refused: a run would end before it, with windows that are open and without a word.
    """
    match mode:
        case Latest():
            return lookup.latest(partitions)
        case AtTimestamp():
            return _at_time(mode, partitions, lookup)
        case GroupOffsets():
            committed = lookup.committed(partitions)
            _require_commits(
                mode.group, [p for p in partitions if p not in committed], "scan.bounded.mode"
            )
            _refuse_lost_commits(mode.group, committed, lookup, "scan.bounded.mode")
            return committed
        case SpecificOffsets():
            # a partition that is not listed is not read (Flink's documentation of the option)
            wanted = dict(mode.offsets)
            listed = {p: wanted[p.partition] for p in partitions if p.partition in wanted}
            _refuse_past_the_end(listed, lookup, "scan.bounded.specific-offsets", "read to")
            return {p: listed.get(p, 0) for p in partitions}
    assert_never(mode)


def _at_time(
    mode: AtTimestamp, partitions: Sequence[TopicPartition], lookup: OffsetLookup
) -> Offsets:
    # the ends come first: a record that arrives between the two lookups must not be stepped over
    ends = lookup.latest(partitions)
    return {**ends, **lookup.at_time(partitions, mode.at_ms)}


def _committed(
    mode: GroupOffsets, partitions: Sequence[TopicPartition], lookup: OffsetLookup
) -> Offsets:
    committed = lookup.committed(partitions)
    missing = [p for p in partitions if p not in committed]
    _refuse_lost_commits(mode.group, committed, lookup, "scan.startup.mode")
    if missing and mode.reset is not None:
        return {**committed, **resolve_start(mode.reset, missing, lookup)}
    _require_commits(mode.group, missing, "scan.startup.mode")
    return committed


def _specific(
    mode: SpecificOffsets, partitions: Sequence[TopicPartition], lookup: OffsetLookup
) -> Offsets:
    wanted = dict(mode.offsets)
    listed = {p: wanted[p.partition] for p in partitions if p.partition in wanted}
    _refuse_past_the_end(listed, lookup, "scan.startup.specific-offsets", "read from")
    others = [p for p in partitions if p not in listed]
    if not others:
        return listed
    committed = lookup.committed(others) if mode.group is not None else {}
    unknown = [p for p in others if p not in committed]
    return {**(lookup.earliest(unknown) if unknown else {}), **committed, **listed}


def _refuse_past_the_end(offsets: Offsets, lookup: OffsetLookup, key: str, use: str) -> None:
    """Raise OptionError for an offset that the option `key` names past the end of the log."""
    for partition, (offset, end) in _past_the_end(offsets, lookup).items():
        raise OptionError(
            f"'{key}' names offset {offset} of topic '{partition.topic}', partition "
            f"{partition.partition}, but the log ends at {end}",
            hint=f"the largest offset that can be {use} is {end}",
        )


def _refuse_lost_commits(group: str, committed: Offsets, lookup: OffsetLookup, key: str) -> None:
    """Raise DataLossError for a commit past the end of the log."""
    for partition, (offset, end) in _past_the_end(committed, lookup).items():
        raise DataLossError(
            f"group '{group}' has committed offset {offset} of topic '{partition.topic}', partition "
            f"{partition.partition}, but the log ends at {end}: it was truncated, or the topic was made again",
            hint=f"set the group's offsets again, or take another '{key}'",
        )


def _past_the_end(
    starts: Offsets, lookup: OffsetLookup
) -> Mapping[TopicPartition, tuple[int, int]]:
    ends = lookup.latest(list(starts)) if starts else {}
    suspects = [p for p, offset in starts.items() if offset > ends[p]]
    # past the last stable offset is fine, past the high watermark is not
    highs = lookup.high_watermarks(suspects) if suspects else {}
    return {p: (starts[p], highs[p]) for p in suspects if starts[p] > highs[p]}


def _require_commits(group: str, missing: Sequence[TopicPartition], key: str) -> None:
    if not missing:
        return
    names = ", ".join(p.split_id for p in sorted(missing))
    hint = "commit offsets for the group first"
    if key == "scan.startup.mode":
        hint = (
            "set 'properties.auto.offset.reset' = 'earliest' (or 'latest') for partitions without one, "
            "or 'scan.startup.mode' = 'earliest-offset'"
        )
    raise OptionError(
        f"'{key}' is 'group-offsets', but group '{group}' has no committed offset for: {names}",
        hint=hint,
    )
