"""The rules of one table's planned batches, each checked where a batch is planned, against the model of the outside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.connector.source.state import (
    MAX_WATERMARK_MS,
    SourceState,
    SplitState,
    decode_state,
    encode_state,
)
from tests.simulation import invariants
from tests.simulation.model import ModelSource
from tests.simulation.outside import Content
from tests.simulation.scheduler import Run, Violation

__all__ = ["Planned", "Rules", "aligned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A table's part of a batch; `now` is False where it has none, and the state is of an earlier one."""

    state: SourceState
    now: bool
    run_ends: bool


class Rules:
    """Watches the batches of one table."""

    def __init__(self, run: Run, name: str, source: ModelSource) -> None:
        self._run = run
        self.name = name
        self._source = source
        self._begins: dict[str, int] = {}
        self._waited_at: dict[str, int] = {}
        self._asked_ms = 0
        self._surprised = False
        self.settled = False

    def asked(self, before: SourceState, after: SourceState) -> None:
        """The table was asked for its next batch.

        It is a surprise to the tables that were asked before it in this round when a split is new, has its first
        record or wakes: they were told how far it gets without that.
        """
        self._published_is_done(before)
        known = {s.split_id for s in before.splits if s.watermark_ms is not None and not s.idle}
        self._surprised = any(
            split.split_id not in known or self._content(split).woke_ms >= self._asked_ms
            for split in after.splits
        )
        self._asked_ms = self._run.now_ms

    def planned(
        self,
        before: SourceState,
        after: SourceState,
        text: str,
        *,
        limit: int | None,
    ) -> None:
        """Check a batch that was planned after another one."""
        self._probe(before, after)
        same_text(after, text)
        follows(before, after)
        within_read_limit(after, limit)
        invariants.no_regression(before.watermark_ms, after.watermark_ms)
        for split in after.splits:
            self._begins.setdefault(split.split_id, split.start)
            if split.paused:
                self._waited_at[split.split_id] = split.end
            self._idle_is_silent(split)
        self._watermark_is_true(before, after)
        self._follows_what_was_read(before, after)
        self.settled = False

    def nothing_new(self, state: SourceState) -> None:
        """A table that gives no batch has the watermark of all that was read."""
        self.settled = True
        active = [
            s for s in state.splits if not s.finished and not (s.idle and not self._unread(s))
        ]
        invariants.not_below_minimum(state.watermark_ms, [self._read(s) for s in active])

    def _unread(self, split: SplitState) -> bool:
        return len(self._content(split).times) > split.end

    def _read(self, split: SplitState) -> int | None:
        """Give the largest event time that was read of a split with the batches before and this one."""
        return self._content(split).highest(self._begins[split.split_id], split.end)

    def _follows_what_was_read(self, before: SourceState, after: SourceState) -> None:
        """A split's watermark is at least the largest event time of the batches before, not only of their last records.

        And what is not lower than the watermarks of all active splits is the table's.
        """
        ends = {split.split_id: split for split in before.splits}
        for split in after.splits:
            read_ms = self._read(ends[split.split_id]) if split.split_id in ends else None
            if read_ms is not None and (split.watermark_ms is None or split.watermark_ms < read_ms):
                raise Violation(f"{split} is below {read_ms}, which was read before")
            if split.watermark_ms is not None and read_ms == split.watermark_ms:
                self._run.probe("largest event time of an earlier batch")
        active = [s.watermark_ms for s in after.splits if not s.finished and not s.idle]
        invariants.not_below_minimum(after.watermark_ms, active)

    def published(self, completed: SourceState) -> None:
        """The progress that the outside was told is that of the completed batch."""
        published = self._source.outside.published
        for split_id, position in completed.positions.items():
            if published.get(split_id) != position:
                raise Violation(f"{split_id}: {published.get(split_id)} published, done {position}")

    def _published_is_done(self, completed: SourceState) -> None:
        """The outside was never told of progress that is not that of a completed batch."""
        done = completed.positions
        for split_id, position in self._source.outside.published.items():
            # a file that was read to its end is not in later states
            if position > done.get(split_id, position):
                raise Violation(f"{split_id}: {position} published, done {done.get(split_id)}")

    def at_its_end(self, state: SourceState) -> bool:
        """Tell whether a bounded table's watermark is at the maximum."""
        return state.watermark_ms == MAX_WATERMARK_MS

    def _content(self, split: SplitState) -> Content:
        return self._source.outside.splits[split.split_id]

    def _idle_is_silent(self, split: SplitState) -> None:
        """Only a split that was caught up and had nothing new for longer than the timeout is idle."""
        if not split.idle:
            return
        self._run.probe("split idle in a batch")
        content, timeout_ms = self._content(split), self._source.watermark.idle_timeout_ms
        silent_ms = self._run.now_ms - content.grown_ms
        unread = len(content.times) > split.start
        if timeout_ms is None or silent_ms <= timeout_ms or unread or split.paused:
            raise Violation(
                f"{split} is idle after {silent_ms} of {timeout_ms} ms, unread {unread}"
            )

    def _watermark_is_true(self, before: SourceState, after: SourceState) -> None:
        """A watermark that moves is not above the lowest highest event time of the active splits.

        Where there are none it is that of those that end with this batch, as a file may be read within one. Of a
        split that waited where it is the next record counts: it is known, and in Flink it would have been read.
        """
        now_ms = after.watermark_ms
        if now_ms is None or now_ms == before.watermark_ms:
            return
        if now_ms == MAX_WATERMARK_MS:
            contents = self._source.outside.splits
            if not self._source.bounded or self._left(after, contents):
                raise Violation(f"{self.name} is said to be read to its end: {after}")
            return
        # one whose peek had no answer is read as a whole with this batch, so none of its rows is late
        lowest = [self._lowest(after, {s.split_id for s in after.splits if s.watermark_ms is None})]
        known = before.positions.keys()
        if self._source.pulled or all(split.split_id in known for split in after.splits):
            # what the batch before came to counts even where a split wakes; a split that is found holds it
            lowest.append(self._lowest(before, set()))
        if now_ms > max((ms for ms in lowest if ms is not None), default=-1):
            raise Violation(f"{self.name}: watermark {now_ms} over {lowest} of {after.splits}")

    def _lowest(self, state: SourceState, unknown: set[str]) -> int | None:
        """Give the lowest of the active splits' largest event times, None where one has none.

        Where there are none, of those that end with the batch, but for those that are `unknown`.
        """
        active = [split for split in state.splits if not split.idle and not split.finished]
        if not active:
            active = [split for split in state.splits if split.finished and split.end > split.start]
            active = [
                s for s in active if s.split_id not in unknown and self._highest(s) is not None
            ]
        highest = [self._highest(split) for split in active]
        known = [ms for ms in highest if ms is not None]
        return min(known) if known and len(known) == len(highest) else None

    def _left(self, after: SourceState, contents: dict[str, Content]) -> list[str]:
        positions = after.positions
        pulled = (
            self._source.pulled
        )  # splits that were read to their end before are no longer there
        return [
            split_id
            for split_id, content in contents.items()
            if positions.get(split_id, content.stop if pulled else -1) != content.stop
        ]

    def _highest(self, split: SplitState) -> int | None:
        content = self._content(split)
        until = split.end
        if self._waited_at.get(split.split_id) == split.end:
            until = next(iter(content.positions(split.end, len(content.times))), until) + 1
        return content.highest(self._begins[split.split_id], until)

    def holding(self, planned: Planned, *, own: bool) -> list[tuple[int, str]]:
        """Give the watermarks and names of the splits that hold the group: active, with a record.

        In a run with an end those with something left. What could be idle counts as idle. A table that was itself
        surprised holds only its `own` splits in this batch.
        """
        if self._surprised and not own:
            return []
        return [
            (self._at_least(split), f"{self.name} {split.split_id}")
            for split in planned.state.splits
            if split.watermark_ms is not None and self._holds(split, planned)
        ]

    def _at_least(self, split: SplitState) -> int:
        """Give where a split is: at its watermark, or at the record it comes to next."""
        content = self._content(split)
        following = content.positions(split.end, len(content.times))[:1]
        # tasks have told of what was read, though it may not have been worth a batch
        times = [split.watermark_ms, self._read(split), *(content.time(i) for i in following)]
        return max(ms for ms in times if ms is not None)

    def _holds(self, split: SplitState, planned: Planned) -> bool:
        if split.finished:
            return False
        read = planned.now and (split.end > split.start or split.paused is not None)
        if planned.run_ends:
            return read
        content, timeout_ms = self._content(split), self._source.watermark.idle_timeout_ms
        if read or len(content.times) > split.end:
            return True
        silent_ms = self._run.now_ms - content.grown_ms
        return timeout_ms is None or silent_ms <= timeout_ms

    @property
    def max_drift_ms(self) -> int | None:
        """The drift that the table allows, None without alignment."""
        alignment = self._source.watermark.alignment
        return None if alignment is None else alignment.max_drift_ms

    def _probe(self, before: SourceState, after: SourceState) -> None:
        probe = self._run.probe
        idle = {split.split_id for split in before.splits if split.idle}
        if any(s.split_id in idle and s.end > s.start for s in after.splits):
            probe("idle split woke in a batch")
        if any(s.paused and s.end > s.start for s in after.splits):
            probe("split cut")
        if any(s.paused and s.end == s.start for s in after.splits):
            probe("split held")
        if all(s.end == s.start for s in after.splits):
            probe("batch without records")
        if after.watermark_ms == MAX_WATERMARK_MS:
            probe("bounded table read to its end")


def same_text(state: SourceState, text: str) -> None:
    """Offsets are compared as text: reading and writing one again gives the same bytes."""
    if json.dumps(encode_state(decode_state(json.loads(text)))) != text:
        raise Violation(f"the offset does not survive its text: {state}")


def follows(before: SourceState, after: SourceState) -> None:
    """A batch begins where the last one ended, split by split, and goes forward."""
    known = before.positions
    for split in after.splits:
        if known.get(split.split_id, split.start) != split.start or split.end < split.start:
            raise Violation(f"{split} follows {known.get(split.split_id)}")


def within_read_limit(after: SourceState, limit: int | None) -> None:
    """A batch takes no more than its read limit."""
    taken = sum(split.end - split.start for split in after.splits)
    if limit is not None and taken > limit:
        raise Violation(f"a batch takes {taken}, its limit is {limit}")


def aligned(tables: Sequence[tuple[Rules, Planned]]) -> None:
    """At the end of a batch no split that read in it is further ahead of its group than the drift."""
    for rules, planned in tables:
        if rules.max_drift_ms is None or not planned.now:
            continue
        lows = [low for other, part in tables for low in other.holding(part, own=other is rules)]
        lowest_ms, holder = min(lows, default=(MAX_WATERMARK_MS, ""))
        for split in planned.state.splits:
            ahead_ms = (split.watermark_ms or 0) - lowest_ms
            if split.end > split.start and ahead_ms > rules.max_drift_ms:
                raise Violation(
                    f"{rules.name} {split.split_id} is {ahead_ms} ms ahead of {holder} at {lowest_ms}, "
                    f"limit {planned.state.limit_ms}: {tables}"
                )
