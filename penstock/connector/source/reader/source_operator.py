"""The source operator: event time between a reader and its output. Per-split watermarks, idleness, alignment.

Flink's SourceOperator with WatermarkOutputMultiplexer and WatermarksWithIdleness, as a state machine: time is passed
in, and its decisions for splits are returned. One change: when all splits are idle the watermark stays, so that
neither a clock nor the order of splits decides which rows are late (FLINK-38454).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from penstock.connector.source.state import MAX_WATERMARK_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseOrResume:
    """What the reader is to do (FLIP-217): split ids to pause, and those to resume."""

    pause: frozenset[str] = frozenset()
    resume: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.pause or self.resume)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOutput:
    """The status of a split: its highest watermark in epoch ms (None before a record had one), idle, paused."""

    split_id: str
    watermark_ms: int | None
    idle: bool
    paused: bool


@dataclass(slots=True)
class _IdlenessTimer:
    """Time without records, counted only while records could come (FLINK-35886, FLINK-36751)."""

    counted_ms: int = 0
    since_ms: int | None = None

    def go_on(self, now_ms: int) -> None:
        if self.since_ms is None:
            self.since_ms = now_ms

    def stop(self, now_ms: int) -> None:
        self.counted_ms = self.at(now_ms)
        self.since_ms = None

    def reset(self, now_ms: int) -> None:
        self.counted_ms = 0
        if self.since_ms is not None:
            self.since_ms = now_ms

    def at(self, now_ms: int) -> int:
        return self.counted_ms + (0 if self.since_ms is None else max(now_ms - self.since_ms, 0))


@dataclass(slots=True)
class _Output:
    """One split's part of the operator."""

    watermark_ms: int | None
    idle: bool = False
    paused: bool = False
    quiet: _IdlenessTimer = field(default_factory=_IdlenessTimer)


class SourceOperator:
    """The event time of one reader. Used by the reader's thread; `now_ms` is of a clock that never steps back.

    A watermark is the lowest of the active splits' and never decreases; a split without one holds it where it is,
    until it has a record or is idle.
    """

    def __init__(
        self, *, idle_timeout_ms: int | None = None, watermark_ms: int | None = None
    ) -> None:
        """`idle_timeout_ms` None is never idle. `watermark_ms` is what a checkpoint held."""
        self._idle_timeout_ms = idle_timeout_ms
        self._watermark_ms = watermark_ms
        self._limit_ms: int | None = None
        self._splits: dict[str, _Output] = {}
        self._without_splits = _IdlenessTimer()
        # a reader that finished its splits before the checkpoint may get no others, and must not hold its group
        self._had_splits = watermark_ms is not None
        self._no_more_splits = False
        self._held = False
        self._idle = False

    # --- splits come and go ---

    def add_splits(
        self,
        split_ids: Iterable[str],
        now_ms: int,
        watermarks_ms: Mapping[str, int] | None = None,
    ) -> PauseOrResume:
        """Add splits, active from now on; `watermarks_ms` are those that a checkpoint held."""
        known = watermarks_ms or {}
        for split_id in split_ids:
            assert split_id not in self._splits, f"split {split_id} is there already"
            self._splits[split_id] = output = _Output(watermark_ms=known.get(split_id))
            if not self._held:
                output.quiet.go_on(now_ms)
            self._had_splits = True
        self._update(now_ms)
        return self._aligned(now_ms, tuple(known))

    def no_more_splits(self, now_ms: int) -> None:
        """No further split will be assigned: the end of the last one is the end of all."""
        self._no_more_splits = True
        self._update(now_ms)

    def finish_splits(self, split_ids: Collection[str], now_ms: int) -> None:
        """Remove splits that are read to their end; they hold nothing and are never paused again."""
        for split_id in split_ids:
            self._splits.pop(split_id, None)
        self._update(now_ms)

    # --- records ---

    def emit(self, split_id: str, watermark_ms: int | None, now_ms: int) -> PauseOrResume:
        """Note a batch of a split, with the highest watermark in it; None where no row has one.

        Any record ends idleness, at the split's previous watermark if need be. A split that this brings above
        the limit is paused at once.
        """
        output = self._splits[split_id]
        output.idle = False
        output.quiet.reset(now_ms)
        if watermark_ms is not None and (
            output.watermark_ms is None or watermark_ms > output.watermark_ms
        ):
            output.watermark_ms = watermark_ms
        self._update(now_ms)
        return self._aligned(now_ms, (split_id,))

    def hold(self, now_ms: int) -> None:
        """A batch waits to be taken (backpressure): no split is silent by its own fault (FLINK-40234)."""
        self._held = True
        for output in self._splits.values():
            output.quiet.stop(now_ms)

    def release(self, now_ms: int) -> None:
        """The batch was taken, records may come again."""
        self._held = False
        for output in self._splits.values():
            if not output.paused:
                output.quiet.go_on(now_ms)

    # --- time and events ---

    def probe_idleness(self, now_ms: int) -> None:
        """Find the splits that are idle: no record for more than the timeout while one could have come.

        All are found before the watermark moves, so their order does not matter (FLINK-38454).
        """
        if self._idle_timeout_ms is None:
            return
        for output in self._splits.values():
            # a clock that stands is one of a split that could not deliver, however long it was quiet before
            if output.quiet.since_ms is not None and (
                output.quiet.at(now_ms) > self._idle_timeout_ms
            ):
                output.idle = True
        self._update(now_ms)

    def align(self, limit_ms: int, now_ms: int) -> PauseOrResume:
        """Apply the group's limit (WatermarkAlignment): splits strictly above it pause, the others resume."""
        self._limit_ms = limit_ms
        return self._aligned(now_ms, tuple(self._splits))

    # --- what is known ---

    @property
    def watermark_ms(self) -> int | None:
        """The watermark behind everything emitted so far, epoch ms; the maximum when all is read."""
        return self._watermark_ms

    @property
    def limit_ms(self) -> int | None:
        """The group's limit as last announced, epoch ms."""
        return self._limit_ms

    @property
    def idle(self) -> bool:
        """Whether every split is idle, or the reader has been without splits for the idle timeout."""
        return self._idle

    @property
    def finished(self) -> bool:
        """Whether the last split is read to its end."""
        return self._no_more_splits and not self._splits

    @property
    def splits(self) -> tuple[SplitOutput, ...]:
        """The status of each split."""
        return tuple(
            SplitOutput(
                split_id=split_id,
                watermark_ms=output.watermark_ms,
                idle=output.idle,
                paused=output.paused,
            )
            for split_id, output in self._splits.items()
        )

    def report(self) -> int | None:
        """Return the watermark to report (ReportedWatermark).

        The maximum when idle or finished as a whole, which holds back no reader (FLINK-35157, FLINK-32496); nothing
        before the first watermark (FLINK-32414); else the watermark, which a slower split that arrives does not lower.
        """
        if self.idle or self.finished:
            return MAX_WATERMARK_MS
        return self._watermark_ms

    def _update(self, now_ms: int) -> None:
        """Find out whether all is idle, and move the watermark if it can move."""
        if self._splits:
            self._without_splits = _IdlenessTimer()
            self._idle = all(output.idle for output in self._splits.values())
        elif self._had_splits and self._idle_timeout_ms is not None:
            self._without_splits.go_on(now_ms)
            self._idle = self._without_splits.at(now_ms) > self._idle_timeout_ms
        if self.finished:
            self._watermark_ms = MAX_WATERMARK_MS
            return
        lowest: int | None = None
        for output in self._splits.values():
            if output.idle:
                continue
            if output.watermark_ms is None:
                return
            lowest = output.watermark_ms if lowest is None else min(lowest, output.watermark_ms)
        if lowest is not None and (self._watermark_ms is None or lowest > self._watermark_ms):
            self._watermark_ms = lowest

    def _aligned(self, now_ms: int, split_ids: Collection[str]) -> PauseOrResume:
        """Compare splits with the limit. An idle one is left alone: its next record is compared (FLINK-39073)."""
        if self._limit_ms is None:
            return PauseOrResume()
        pause, resume = set[str](), set[str]()
        for split_id in split_ids:
            output = self._splits[split_id]
            above = output.watermark_ms is not None and output.watermark_ms > self._limit_ms
            if above and not output.paused and not output.idle:
                output.paused = True
                output.quiet.stop(now_ms)
                pause.add(split_id)
            elif output.paused and not above:
                output.paused = False
                if not self._held:
                    output.quiet.go_on(now_ms)
                resume.add(split_id)
        return PauseOrResume(pause=frozenset(pause), resume=frozenset(resume))
