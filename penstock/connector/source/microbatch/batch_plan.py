"""The plan of one batch: how far each split is read, its quota, and the limit that watermark alignment sets.

The offset up to which a split may be read under that limit is searched by peeks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.connector.source.state import SplitState

MOST_ROUNDS = 24
"""Peeks of one search: twelve halvings between twelve interpolations; the best cut so far is taken then."""


@dataclass(slots=True, kw_only=True)
class OffsetSearch:
    """A search in one split between two ends (exclusive positions): `low` keeps the limit, `high` does not.

    `low_ms` is the highest watermark known below `low`, None where there is none; `high_ms` that of the record
    before `high`. A cut whose watermark is above `enough_ms` is taken without looking further. All in epoch ms.
    """

    low: int
    low_ms: int | None
    high: int
    high_ms: int
    limit_ms: int
    enough_ms: int
    rounds: int = 0
    _start: int = field(init=False)
    _probe: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        assert self.low < self.high, "there is something to search in"
        assert self.high_ms > self.limit_ms, "the end to begin with is too far"
        assert self.low_ms is None or self.low_ms <= self.limit_ms, "the start is within the limit"
        self._start = self.low

    @property
    def settled(self) -> bool:
        """Whether `low` is the answer."""
        near = self.low_ms is not None and self.low_ms > self.enough_ms
        return self.next_waits or near or self.rounds >= MOST_ROUNDS

    @property
    def next_waits(self) -> bool:
        """Whether the record at `low` itself is known to be above the limit."""
        return self.high - self.low == 1

    def next_range(self) -> tuple[int, int]:
        """Return the next range [from, to) whose last record is to be peeked at."""
        assert not self.settled, "the search has its answer"
        self._probe = min(max(self._guess(), self.low + 1), self.high - 1)
        return self.low, self._probe

    def learn(self, watermark_ms: int | None) -> None:
        """Apply the watermark of that record; None where the range has no record with one."""
        self.rounds += 1
        if watermark_ms is not None and watermark_ms > self.limit_ms:
            self.high, self.high_ms = self._probe, watermark_ms
            return
        self.low = self._probe
        if watermark_ms is not None:
            self.low_ms = watermark_ms if self.low_ms is None else max(self.low_ms, watermark_ms)

    def _guess(self) -> int:
        unknown = self.low_ms is None and self.rounds == 0
        unmoved = self.low == self._start and self.rounds == 1
        if unknown or unmoved:
            # perhaps nothing fits at all
            return self.low + 1
        if self.low_ms is None or self.rounds % 2:
            return (self.low + self.high) // 2
        aim_ms = (self.limit_ms + self.enough_ms) // 2
        part_ms = max(0, aim_ms - self.low_ms)
        return self.low + (self.high - self.low) * part_ms // (self.high_ms - self.low_ms)


ENOUGH = 8
"""A cut within this part of the drift below the limit is good enough, and saves peeks."""

Peeked = Mapping[int, int]
"""What earlier peeks found in a paused split: watermark (epoch ms) of the record before a position."""


@dataclass(slots=True, kw_only=True)
class SplitPlan:
    """One split's part of the batch. `split` stands at its position (`start` and `end`), its idleness is settled.

    `cap` is the furthest end that the read limit allows (exclusive); `reach_ms` the watermark that the split has
    when it is read to there, its potential. `waiting`: it has records to read, though perhaps none in this batch.
    `known` are earlier peeks, `epoch` is the log's now.
    """

    split: SplitState
    cap: int
    waiting: bool
    known: Peeked
    epoch: int | None = None
    reach_ms: int | None = None
    search: OffsetSearch | None = None
    held: bool = False

    @property
    def reads(self) -> bool:
        """Whether the read limit lets it have anything."""
        return self.cap > self.split.end

    def hold(self, limit_ms: int, enough_ms: int) -> None:
        """Stop it before it runs ahead of `limit_ms`; starts a search where the known peeks do not suffice."""
        if self.reach_ms is None or self.reach_ms <= limit_ms:
            return
        self.held = self.reads
        low, low_ms = self.split.end, self.split.watermark_ms
        if low_ms is not None and low_ms > limit_ms:
            return
        if not self.reads:
            self._hold_unread(limit_ms, enough_ms)
            return
        for position in sorted({*self.known, self.cap}):
            if not low < position <= self.cap:
                continue
            found_ms = self.reach_ms if position == self.cap else self.known[position]
            if found_ms > limit_ms:
                self.search = OffsetSearch(
                    low=low,
                    low_ms=low_ms,
                    high=position,
                    high_ms=found_ms,
                    limit_ms=limit_ms,
                    enough_ms=enough_ms,
                )
                return
            low, low_ms = position, found_ms if low_ms is None else max(low_ms, found_ms)

    def _hold_unread(self, limit_ms: int, enough_ms: int) -> None:
        """Hold one that gets nothing of the read limit, where its next record is known to be above the limit."""
        after = self.split.end + 1
        next_ms = self.known.get(after)
        if self.waiting and next_ms is not None and next_ms > limit_ms:
            self.held = True
            self.search = OffsetSearch(
                low=self.split.end,
                low_ms=self.split.watermark_ms,
                high=after,
                high_ms=next_ms,
                limit_ms=limit_ms,
                enough_ms=enough_ms,
            )

    def learn_reach(self, watermark_ms: int) -> None:
        """Apply what the peek found that tells its potential."""
        self.reach_ms = _highest((self.reach_ms, watermark_ms))
        if not self.reads:
            self.known = {**self.known, self.split.end + 1: watermark_ms}

    def decided(self, reason: str | None) -> SplitState:
        """Return the split with its range, its watermark at the end of it, and why it waits.

        A split whose next record is known to be above the limit has the limit for its watermark: in Flink it
        would have that record's, read one too far. Else one that never had a record, or whose event time leaps,
        would hold the table's watermark until the group has come there.
        """
        if not self.held:
            if not self.reads:
                return self.split
            return replace(
                self.split,
                end=self.cap,
                epoch=self.epoch,
                watermark_ms=self.reach_ms,
                paused=None,
            )
        if self.search is None:
            return replace(self.split, paused=reason)
        end_ms = self.search.limit_ms if self.search.next_waits else self.search.low_ms
        moved = self.search.low > self.split.end
        return replace(
            self.split,
            end=self.search.low,
            epoch=self.epoch if moved else self.split.epoch,
            watermark_ms=end_ms,
            paused=reason,
        )

    @property
    def remembered(self) -> Peeked:
        """What the next request can use, while the split waits: its cap, and where it has to stop."""
        if self.waiting and not self.reads:
            return self.known
        if not self.held or self.reach_ms is None:
            return {}
        at_cap = {self.cap: self.reach_ms}
        return at_cap if self.search is None else {self.search.high: self.search.high_ms, **at_cap}


@dataclass(slots=True, kw_only=True)
class BatchPlan:
    """The plans of all splits, by split id. `run_ends`: the run is over when there is nothing left to read."""

    plans: Mapping[str, SplitPlan]
    run_ends: bool
    limit_ms: int | None = None
    reason: str | None = None

    def caps_to_peek(self, *, aligned: bool) -> dict[str, tuple[int, int]]:
        """Return the ranges whose last record tells the potential of a split.

        Of an aligned table also the next position of those that never had a record and get nothing of a small read
        limit: the group would pass them by more than its drift.
        """
        ranges = {}
        for split_id, plan in self.plans.items():
            # one that waits may get nothing of a small read limit: its next record is its potential all the same
            position = plan.cap if plan.reads else min(plan.known, default=plan.cap)
            plan.reach_ms = _highest((plan.split.watermark_ms, plan.known.get(position)))
            if plan.reads and position not in plan.known:
                ranges[split_id] = (plan.split.end, plan.cap)
            elif aligned and plan.waiting and not plan.reads and plan.reach_ms is None:
                ranges[split_id] = (plan.split.end, plan.split.end + 1)
        return ranges

    def learn_caps(self, watermarks_ms: Mapping[str, int]) -> None:
        """Apply what those peeks found; splits without a record are absent."""
        for split_id, watermark_ms in watermarks_ms.items():
            self.plans[split_id].learn_reach(watermark_ms)

    def potential_ms(self) -> int | None:
        """Return the lowest potential, None where no split holds its group.

        Left out are splits that are finished, idle, or quiet without ever having had a record (Flink: a source that
        never reported holds back no other), and in a run with an end those that have nothing left for it.
        """
        return min(
            (plan.reach_ms for plan in self._active() if plan.reach_ms is not None), default=None
        )

    def reached_ms(self) -> int | None:
        """Return the lowest watermark that the batch gets to, once it is known who is held; None as above."""
        return min(
            (ms for plan in self._active() if (ms := self._reached(plan)) is not None), default=None
        )

    def _active(self) -> list[SplitPlan]:
        return [
            plan
            for plan in self.plans.values()
            if not plan.split.finished
            and not plan.split.idle
            and (plan.waiting or not self.run_ends)
        ]

    def _reached(self, plan: SplitPlan) -> int | None:
        if not plan.held:
            return plan.reach_ms
        if self.limit_ms is None:
            return plan.reach_ms if plan.split.watermark_ms is None else plan.split.watermark_ms
        # a cut that is near enough is still below the limit, and so may be the next record
        cut_ms = plan.decided(self.reason).watermark_ms
        return self.limit_ms if cut_ms is None else min(self.limit_ms, cut_ms)

    def hold_all(self, reason: str) -> None:
        """Hold every split."""
        self.reason = reason
        for plan in self.plans.values():
            plan.held = plan.reads

    def hold(self, limit_ms: int, max_drift_ms: int, reason: str) -> None:
        """Stop the splits that would run ahead of `limit_ms`, the others go to their caps."""
        self.limit_ms, self.reason = limit_ms, reason
        for plan in self.plans.values():
            plan.hold(limit_ms, limit_ms - max_drift_ms // ENOUGH)

    def ranges_to_peek(self) -> dict[str, tuple[int, int]]:
        """Return the next round of all unfinished searches."""
        return {split_id: search.next_range() for split_id, search in self._searches()}

    def learn_ranges(self, watermarks_ms: Mapping[str, int]) -> None:
        """Apply what that round found; splits without a record are absent."""
        for split_id, search in self._searches():
            search.learn(watermarks_ms.get(split_id))

    def decided(self) -> tuple[SplitState, ...]:
        """Return the splits of the batch, in order of their ids."""
        return tuple(plan.decided(self.reason) for _, plan in sorted(self.plans.items()))

    def remembered(self) -> dict[str, Peeked]:
        """Return what peeks found in splits that wait, for the next request."""
        return {
            split_id: plan.remembered for split_id, plan in self.plans.items() if plan.remembered
        }

    def _searches(self) -> list[tuple[str, OffsetSearch]]:
        return [
            (split_id, plan.search)
            for split_id, plan in self.plans.items()
            if plan.search is not None and not plan.search.settled
        ]


def _highest(watermarks_ms: Iterable[int | None]) -> int | None:
    return max((ms for ms in watermarks_ms if ms is not None), default=None)


TRY_AGAIN = 8
"""A split that was held takes at most twice what it got, or this part of a fair share, of the next read limit."""


def split_quotas(
    splits: Mapping[str, SplitState],
    backlog: Mapping[str, int],
    remembered: Mapping[str, Peeked],
    *,
    last: Sequence[SplitState],
    limit: int | None,
) -> dict[str, int]:
    """Return how many positions of its `backlog` each split asks for, those that hold the watermark first.

    A split that its group held in the batch `last` asks for little more than it got, so that the others get the rest;
    where all were held it would be lost. `remembered` are peeks into splits that wait.
    """
    wanted = dict(backlog)
    held = {split.split_id: split.end - split.start for split in last if split.paused}
    if limit is not None and any(backlog[split_id] for split_id in backlog.keys() - held):
        least = max(1, limit // (TRY_AGAIN * len(splits)))
        for split_id in held.keys() & backlog.keys():
            wanted[split_id] = min(wanted[split_id], max(least, 2 * held[split_id]))

    def rank(split_id: str) -> tuple[bool, int]:
        split = splits[split_id]
        next_ms = remembered.get(split_id, {}).get(split.end + 1, split.watermark_ms)
        return (next_ms is not None, next_ms or 0)

    return {split_id: wanted[split_id] for split_id in sorted(wanted, key=rank)}
