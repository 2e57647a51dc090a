"""The rules that hold in every run. Each raises a Violation that says what broke it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from penstock.connector.source.state import MAX_WATERMARK_MS
from tests.simulation.outside import Content
from tests.simulation.scheduler import Violation

if TYPE_CHECKING:
    from tests.simulation.witness import Seen

__all__ = [
    "held_back",
    "lowest_of_group",
    "next_row",
    "no_regression",
    "not_above_minimum",
    "not_below_minimum",
    "silent_for_long",
    "within_drift",
]


def next_row(split_id: str, at: int, content: Content, expected: int | None) -> None:
    """Every record counts exactly once, and those of a split in their order.

    The first is that of the startup position, or of the split's beginning where it was found later.
    """
    begins = {0, content.first} if expected is None else {expected}
    awaited = {_record_from(content, begin) for begin in begins}
    if at not in awaited or (content.stop is not None and at >= content.stop):
        raise Violation(f"{split_id}: record {at} was committed, awaited was {sorted(awaited)}")


def _record_from(content: Content, position: int) -> int:
    while position < len(content.times) and content.times[position] is None:
        position += 1
    return position


def no_regression(before_ms: int | None, now_ms: int | None) -> None:
    """A watermark never goes back."""
    if before_ms is not None and (now_ms is None or now_ms < before_ms):
        raise Violation(f"the watermark went back from {before_ms} to {now_ms}")


def not_above_minimum(
    watermark_ms: int | None,
    before_ms: int | None,
    active: Sequence[Sequence[Seen]],
    *,
    all_read: bool,
) -> None:
    """A watermark that moves is not above the lowest of the active splits' highest event times.

    `active` are those at each moment at which it may have moved. It is the maximum only when every split is read
    to its end and no other will come.
    """
    if watermark_ms is None or watermark_ms == before_ms:
        return
    if watermark_ms == MAX_WATERMARK_MS and all_read:
        return
    if not any(_reaches(watermark_ms, splits) for splits in active):
        raise Violation(f"the watermark went from {before_ms} to {watermark_ms} over {active}")


def not_below_minimum(watermark_ms: int | None, highest_ms: Sequence[int | None]) -> None:
    """A watermark is not below the lowest of the active splits' largest event times, once each has one."""
    known = [ms for ms in highest_ms if ms is not None]
    if (
        known
        and len(known) == len(highest_ms)
        and (watermark_ms is None or watermark_ms < min(known))
    ):
        raise Violation(f"the watermark is {watermark_ms}, all splits have come to {highest_ms}")


def _reaches(watermark_ms: int, splits: Sequence[Seen]) -> bool:
    known = [seen.highest_ms for seen in splits if seen.highest_ms is not None]
    return bool(known) and len(known) == len(splits) and watermark_ms <= min(known)


def silent_for_long(split_id: str, seen: Seen, now_ms: int, timeout_ms: int | None) -> None:
    """Only a split that could have had records, and had none for longer than the timeout, is idle."""
    silent_ms = now_ms - seen.since_ms
    if timeout_ms is None or seen.paused_ms is not None or silent_ms <= timeout_ms:
        raise Violation(f"{split_id} is idle after {silent_ms} of {timeout_ms} ms: {seen}")


def held_back(split_id: str, seen: Seen, limit_ms: int | None) -> None:
    """A split that is above its group's limit gives nothing more, until the limit is raised.

    An idle one is compared with its next record only.
    """
    if limit_ms is None or seen.highest_ms is None or seen.idle:
        return
    if seen.highest_ms > limit_ms:
        raise Violation(f"{split_id} at {seen.highest_ms} went on above the limit {limit_ms}")


def lowest_of_group(announced_ms: int | None, lowest_ms: int | None) -> None:
    """The group is at the lowest watermark that a reader which is there reported last."""
    if announced_ms != lowest_ms:
        raise Violation(f"the group is said to be at {announced_ms}, its lowest is {lowest_ms}")


def within_drift(limit_ms: int, limits: Collection[int]) -> None:
    """A limit is the group's lowest watermark at an announcement and the drift, the maximum where that is more."""
    if limit_ms not in limits:
        raise Violation(f"the limit is {limit_ms}, announced were {sorted(limits)}")
