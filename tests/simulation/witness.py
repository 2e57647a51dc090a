"""What the simulation itself knows of a local job, from what went in and came out: the other side of each rule."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.connector.local.messages import MasterMessage, ReaderCheckpoint, ReaderCrashed
from penstock.connector.local.reader import Emission
from penstock.connector.source.coordinator.events import ReaderRegistered, ReportedWatermark
from penstock.connector.source.split import Split
from penstock.connector.source.state import MAX_WATERMARK_MS
from tests.simulation import invariants
from tests.simulation.model import latest_ms

if TYPE_CHECKING:
    from tests.simulation.job import Job
    from tests.simulation.stepped_reader import SteppedReader

__all__ = ["JobWitness", "Seen", "Witness"]


@dataclass(slots=True)
class Seen:
    """One split as its reader's output shows it. `highest_ms` is the highest event time that came out, or restored.

    `since_ms` is when it last had a record, moved on by the time in which it could have none.
    """

    highest_ms: int | None
    since_ms: int
    idle: bool = False
    paused_ms: int | None = None


class Witness:
    """Watches one attempt of a reader."""

    def __init__(self, reader: SteppedReader, restored: ReaderCheckpoint) -> None:
        self._reader = reader
        self._run = reader.job.run
        self._restored = dict(restored.split_watermarks_ms)
        self.splits: dict[str, Seen] = {}
        self.watermark_ms = restored.watermark_ms
        self.idle_since_blocked = False
        self._blocked_ms = 0

    def added(self, splits: Collection[Split]) -> None:
        """The reader takes on splits."""
        for split in splits:
            known_ms = self._restored.pop(split.split_id, None)
            self.splits[split.split_id] = Seen(highest_ms=known_ms, since_ms=self._run.now_ms)
            if split.stop is not None and split.start >= split.stop:
                self._run.probe("empty split")

    def finished(self, split_ids: Collection[str]) -> None:
        """Splits came to their end."""
        for split_id in split_ids:
            del self.splits[split_id]

    def block(self) -> None:
        """The reader's batch waits for room."""
        self._blocked_ms = self._run.now_ms
        self._reader.blocked = True

    def unblock(self) -> None:
        """It waits no longer: no split was silent by its own fault meanwhile."""
        self._reader.blocked = False
        for seen in self.splits.values():
            if seen.paused_ms is None:
                seen.since_ms += self._run.now_ms - self._blocked_ms

    def emitted(self, emission: Emission) -> None:
        """Rows came out."""
        job, split_id = self._reader.job, emission.split_id
        seen = self.splits[split_id]
        invariants.held_back(split_id, seen, self._reader.limit_ms)
        time_ms = latest_ms(emission.batch)
        known = [ms for ms in (seen.highest_ms, time_ms) if ms is not None]
        seen.highest_ms = max(known, default=None)
        seen.since_ms = self._run.now_ms
        if seen.paused_ms is not None:
            # it was resumed in this very turn, and may be paused again by its end
            seen.paused_ms = self._run.now_ms
        if seen.idle:
            self._run.probe("idle split woke")
            seen.idle = False
        positions = emission.batch.column("position").to_pylist()
        job.ledger.add(emission.reader, split_id, positions)
        self._run.note("rows", job.name, split_id, positions, emission.watermark_ms)
        self._check_watermark(emission.watermark_ms, self._active())

    def look(self) -> None:
        """Compare what the operator says with what was seen, after each turn of the reader."""
        if not self._reader.lives:
            return
        active = self._active()
        for split in self._reader.operator.splits:
            seen = self.splits[split.split_id]
            self._follow_pause(seen, paused=split.paused)
            if split.idle and not seen.idle:
                self._run.probe("split went idle")
                invariants.silent_for_long(
                    split.split_id, seen, self._run.now_ms, self._reader.job.idle_timeout_ms
                )
            seen.idle = split.idle
        # it may have moved before splits went idle in this turn, and because of it
        self._check_watermark(self._reader.operator.watermark_ms, active, self._active())
        highest = [seen.highest_ms for seen in self._active()]
        invariants.not_below_minimum(self._reader.operator.watermark_ms, highest)

    def _follow_pause(self, seen: Seen, *, paused: bool) -> None:
        if paused and seen.paused_ms is None:
            self._run.probe("split paused")
            seen.paused_ms = self._run.now_ms
        elif not paused and seen.paused_ms is not None:
            self._run.probe("split resumed")
            seen.since_ms += self._run.now_ms - seen.paused_ms
            seen.paused_ms = None

    def _active(self) -> list[Seen]:
        return [seen for seen in self.splits.values() if not seen.idle]

    def _check_watermark(self, watermark_ms: int | None, *active: list[Seen]) -> None:
        invariants.no_regression(self.watermark_ms, watermark_ms)
        all_read = self._reader.operator.finished and not self.splits
        invariants.not_above_minimum(watermark_ms, self.watermark_ms, active, all_read=all_read)
        self.watermark_ms = watermark_ms


class JobWitness:
    """Watches what reaches a job's coordinator."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._registered: set[int] = set()
        self._reported: dict[int, int] = {}
        self._limits: set[int] = set()

    @property
    def lowest_ms(self) -> int | None:
        """The lowest watermark reported by a reader that is there."""
        return min(self._reported.values(), default=None)

    def arrives(self, message: MasterMessage) -> None:
        """A message reached the coordinator."""
        match message:
            case ReaderRegistered(reader=reader):
                self._registered.add(reader)
            case ReportedWatermark(reader=reader, watermark_ms=watermark_ms):
                if reader in self._registered:
                    self._reported[reader] = watermark_ms
                else:
                    self._job.run.probe("late report")
            case ReaderCrashed(reader=reader):
                self._registered.discard(reader)
                self._reported.pop(reader, None)
                self._job.broke(reader)
            case _:
                pass

    def announcing(self) -> None:
        """Limits are about to be announced."""
        lowest_ms = self._job.world.lowest_reported()
        invariants.lowest_of_group(self._job.group_says(), lowest_ms)
        alignment = self._job.source.watermark.alignment
        assert alignment is not None, "limits for a table without a group"
        if lowest_ms is not None:
            self._limits.add(min(lowest_ms + alignment.max_drift_ms, MAX_WATERMARK_MS))

    def announced(self, limit_ms: int) -> None:
        """A limit goes to a reader; splits that are being made for it may have held it up."""
        invariants.within_drift(limit_ms, self._limits)
