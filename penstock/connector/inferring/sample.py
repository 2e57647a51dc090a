"""Records that were read to look at: by split, in the order of each split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Sample", "SampledSplit", "listed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledSplit:
    """Records of one split. `positions` are offsets of records, or numbers of lines, for people.

    `keys` and `times_ms` (epoch ms) are empty where records have none; else they are as long as `values`.
    """

    name: str
    unit: str
    positions: Sequence[int]
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] = ()
    times_ms: Sequence[int | None] = ()

    def where(self, index: int) -> str:
        """Name a record, as in `partition 3, offset 17`."""
        return f"{self.name}, {self.unit} {self.positions[index]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What was read. `origin` says from where: "topic 'orders' at 127.0.0.1:9092"."""

    origin: str
    splits: tuple[SampledSplit, ...]

    @property
    def size(self) -> int:
        """The number of records."""
        return sum(len(split.values) for split in self.splits)

    @property
    def values(self) -> list[bytes]:
        """The values of all splits that are there."""
        return [value for split in self.splits for value in split.values if value]

    @property
    def keys(self) -> list[bytes | None]:
        """The keys of all splits, in the order of their records."""
        return [key for split in self.splits for key in split.keys]


def listed(items: Sequence[str], limit: int = 3) -> str:
    """Write a few of `items` in a row, and how many more there are."""
    shown = "; ".join(items[:limit])
    more = len(items) - limit
    return f"{shown}; and {more:,} more" if more > 0 else shown
