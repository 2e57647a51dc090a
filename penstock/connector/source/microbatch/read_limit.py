"""Share the read limit of a batch between splits, and the ranges of splits between tasks.

Tasks follow from the ranges alone, so that a batch that is run again has the same ones on any machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.connector.source.split import Split, TaskSize


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRange:
    """The positions [`start`, `stop`) of one split that one task reads."""

    split_id: str
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Positions in the range; records are at most as many."""
        return self.stop - self.start


def share(limit: int | None, backlog: Mapping[str, int]) -> dict[str, int]:
    """Share `limit` positions fairly: every split gets the same, what one does not need goes to the others.

    What cannot be divided goes to the splits named first. Spark's own Kafka source shares in proportion to the
    backlog, which starves the splits that lag least in records and most in event time. None is no limit.
    """
    if limit is None or sum(backlog.values()) <= limit:
        return dict(backlog)
    left, waiting = limit, sorted(backlog, key=backlog.__getitem__)
    level = 0
    for index, split_id in enumerate(waiting):
        level = left // (len(waiting) - index)
        if backlog[split_id] > level:
            break  # nor can the others have more than this
        left -= backlog[split_id]
    shares = {split_id: min(wanted, level) for split_id, wanted in backlog.items()}
    left = limit - sum(shares.values())
    for split_id, wanted in backlog.items():
        # a limit below the number of splits still moves some of them
        if left and shares[split_id] < wanted:
            shares[split_id] += 1
            left -= 1
    return shares


def pack(ranges: Sequence[SplitRange], tasks: int | None) -> list[tuple[SplitRange, ...]]:
    """Distribute the ranges over tasks. None is one task a range; else `tasks` tasks of about equal size.

    With more tasks than splits long ranges are cut, so that several tasks read one split, each in order; with
    fewer, a task reads several splits.
    """
    filled = [item for item in ranges if item.size > 0]
    if tasks is None:
        return [(item,) for item in filled]
    total = sum(item.size for item in filled)
    if total == 0:
        return []
    quota = -(-total // tasks)
    packed: list[tuple[SplitRange, ...]] = []
    current: list[SplitRange] = []
    room = quota
    for item in filled:
        start = item.start
        while start < item.stop:
            cut = min(item.stop, start + room)
            current.append(SplitRange(split_id=item.split_id, start=start, stop=cut))
            room -= cut - start
            start = cut
            if room == 0:
                packed.append(tuple(current))
                current, room = [], quota
    if current:
        packed.append(tuple(current))
    return packed


def gather(splits: Sequence[Split], size: TaskSize | None) -> list[tuple[Split, ...]]:
    """Put small splits, in their order, into tasks up to a size; a larger one is a task, and without a size each is.

    A task costs as much as thousands of records: a process, a connection, a file of the target.
    """
    gathered: list[tuple[Split, ...]] = []
    room = 0
    for split in splits:
        needed = _needed(split, size)
        if gathered and needed is not None and needed <= room:
            gathered[-1] = (*gathered[-1], split)
            room -= needed
            continue
        gathered.append((split,))
        room = 0 if size is None or needed is None else size.positions - needed
    return gathered


def _needed(split: Split, size: TaskSize | None) -> int | None:
    """Return what a split takes of a task; None where it has no end, or there is no size."""
    if size is None or split.stop is None:
        return None
    return split.stop - split.start + size.opening


def spread(ranges: Sequence[SplitRange], tasks: int) -> list[tuple[SplitRange, ...]]:
    """Distribute whole ranges over exactly `tasks` tasks, of which some may have none; the same ranges always alike.

    The largest first, each to the task that has the least: what one split has stays in its order.
    """
    loads = [0] * tasks
    chosen: list[list[int]] = [[] for _ in range(tasks)]
    by_size = sorted(range(len(ranges)), key=lambda index: (-ranges[index].size, index))
    for index in by_size:
        least = min(range(tasks), key=lambda task: (loads[task], task))
        loads[least] += ranges[index].size
        chosen[least].append(index)
    return [tuple(ranges[index] for index in sorted(indexes)) for indexes in chosen]
