"""Watermark alignment (FLIP-182, FLIP-217): the highest watermark that a split of a group may have."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.connector.source.state import MAX_WATERMARK_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """The alignment options of a table. Sources of one job that name the same `group` advance together.

    `max_drift_ms` is how far a split's watermark may be above the group's lowest; `update_interval_ms` is how
    often readers report and the coordinator announces, where that takes events (the local executor).
    """

    group: str
    max_drift_ms: int
    update_interval_ms: int

    def __post_init__(self) -> None:
        assert self.max_drift_ms > 0, "a drift of nothing holds every split"
        assert self.update_interval_ms > 0, "limits are announced at an interval"


def alignment_limit(group_ms: int, max_drift_ms: int) -> int:
    """Return the highest watermark that a split of the group may have, inclusive.

    A group that is idle or finished as a whole is at the maximum, and so is its limit (FLINK-31632: Flink's sum
    overflowed there, and no split was ever resumed).
    """
    return min(group_ms + max_drift_ms, MAX_WATERMARK_MS)


class WatermarkAggregator:
    """The lowest of what a source's readers reported last (Flink's WatermarkAggregator).

    A reader that never reported is absent and holds nobody back (FLINK-32414); one that is idle or finished
    reports the maximum, and its next report counts as it is, lower ones too (FLINK-32496).
    """

    def __init__(self) -> None:
        self._by_reader: dict[int, int] = {}

    @property
    def lowest_ms(self) -> int | None:
        """The lowest watermark, epoch ms; None where no reader has reported."""
        return min(self._by_reader.values(), default=None)

    def report(self, reader: int, watermark_ms: int) -> None:
        """Replace a reader's last watermark."""
        self._by_reader[reader] = watermark_ms

    def forget(self, reader: int) -> None:
        """Remove a failed reader from the minimum (FLINK-40505)."""
        self._by_reader.pop(reader, None)

    def __contains__(self, reader: int) -> bool:
        return reader in self._by_reader
