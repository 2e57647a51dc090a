"""How a local job stands, as values to show: its splits, their positions, event time, and what holds them."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["JobStatus", "ReaderStatus", "SplitStatus"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitStatus:
    """One split that is being read, or was read to its end (`finished`).

    `start` and `position` are positions: where this run began, and the next to read. `end` is the position behind
    the last record that was there at the last look, None before the first look. `watermark_ms` is epoch ms.
    `held_at_ms` is the limit (epoch ms) that the split's watermark is above, where alignment has paused it.
    """

    split_id: str
    reader: int
    start: int
    position: int
    end: int | None = None
    watermark_ms: int | None = None
    idle: bool = False
    held_at_ms: int | None = None
    finished: bool = False

    @property
    def lag(self) -> int | None:
        """Positions between here and the end of what is there; None while the end is not known."""
        return None if self.end is None else max(self.end - self.position, 0)

    def with_end(self, end: int | None) -> SplitStatus:
        """Add the end that the last look found."""
        return replace(self, end=end)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderStatus:
    """One reader: its splits, finished ones first, and its part of the event time."""

    reader: int
    splits: tuple[SplitStatus, ...] = ()
    watermark_ms: int | None = None
    idle: bool = False
    finished: bool = False
    skipped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """The splits by id, and the job's watermark: the lowest of its active readers', which never goes back.

    `skipped` counts the bad records that the table's options left out, `restarts` the readers that failed and were
    started again. `asking`: the planner was asked something and has not answered yet.
    """

    splits: tuple[SplitStatus, ...] = ()
    watermark_ms: int | None = None
    skipped: int = 0
    restarts: int = 0
    asking: bool = False

    @property
    def caught_up(self) -> bool:
        """Whether there are splits, and each was read to the end that the last look found."""
        return bool(self.splits) and all(split.finished or split.lag == 0 for split in self.splits)
