"""How far a task has read each of its ranges, and when a range is at its end. Pure.

A bounded read of [start, stop) ends when a record at or past `stop` arrives, or the end of the partition at or past
`stop` is reached, or the consumer's position is at it: control records, aborted transactions and compaction leave
gaps, so records are never counted (the reason why FLINK-34470 hung).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter

import numpy as np

from penstock.connector.kafka.client.client import Message
from penstock.connector.kafka.client.connection import Start
from penstock.connector.kafka.client.split import KafkaSplit, TopicPartition

__all__ = ["RangeProgress", "by_partition"]


@dataclass(slots=True)
class RangeProgress:
    """One range being read: `position` is the next offset to read, `told` the one that a fetch last reported.

    `caught_up` says that the end of the partition was seen there, where nothing can be expected. `leader_epoch` is
    that of the record before `position`; the one of the split would look like a truncated log once a later leader has
    written more (KIP-320).
    """

    split: KafkaSplit
    position: int = field(init=False)
    told: int = field(init=False)
    leader_epoch: int | None = field(init=False)
    caught_up: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.position = self.told = self.split.start
        self.leader_epoch = self.split.leader_epoch

    @property
    def partition(self) -> TopicPartition:
        """The partition that the range is of."""
        return self.split.topic_partition

    @property
    def finished(self) -> bool:
        """Whether nothing of the range is left."""
        return self.split.stop is not None and self.position >= self.split.stop

    @property
    def start(self) -> Start:
        """Where a consumer resumes."""
        return Start(partition=self.partition, offset=self.position, leader_epoch=self.leader_epoch)

    def left(self, most: int) -> int:
        """Count the offsets that are left, at most `most`."""
        return most if self.split.stop is None else min(most, self.split.stop - self.position)

    def advance(self, position: int) -> bool:
        """Move on to `position` over a gap; whether that was a move."""
        moved = position > self.position
        self.position = max(self.position, position)
        return moved

    def at_end(self, position: int) -> None:
        """The partition ended at `position` when the consumer was there."""
        self.advance(position)
        self.caught_up = position >= self.position

    def go_back(self, position: int) -> None:
        """Go on at the end of a log that lost what was read of it."""
        self.position = position
        self.leader_epoch = None

    def tell(self) -> int | None:
        """Return the next position to read if it was not reported yet; never past the stop."""
        if self.position == self.told:
            return None
        self.told = self.position
        return self.position if self.split.stop is None else min(self.position, self.split.stop)

    def take(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the records of one partition that belong to the range, and move past them."""
        begin, end = 0, len(messages)
        if _offset(messages[0]) < self.position:
            begin = bisect_left(messages, self.position, key=_offset)
        last = _offset(messages[-1])
        if self.split.stop is not None and last >= self.split.stop:
            end = bisect_left(messages, self.split.stop, key=_offset)
        self.advance(last + 1)
        self.caught_up = False
        self.leader_epoch = messages[-1].leader_epoch()
        return messages if (begin, end) == (0, len(messages)) else messages[begin:end]


def by_partition(
    messages: Sequence[Message], assigned: Sequence[TopicPartition]
) -> dict[TopicPartition, Sequence[Message]]:
    """Sort a fetch by partition, keeping each one's order; records of other partitions are left out.

    With one partition assigned only the first and the last record are looked at: an assign drops what was
    fetched before it.
    """
    if len(assigned) == 1:
        (only,) = assigned
        if all(_partition(message) == only for message in (messages[0], messages[-1])):
            return {only: messages}
    codes = np.fromiter(map(Message.partition, messages), np.int64, len(messages))
    topics = sorted({partition.topic for partition in assigned})
    if len(topics) > 1:
        numbers = {topic: number << 32 for number, topic in enumerate(topics)}
        codes += np.fromiter(
            (numbers.get(m.topic() or "", -1) for m in messages), np.int64, len(messages)
        )
    borders = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(messages)]
    gathered: dict[TopicPartition, list[Message]] = {}
    for begin, end in pairwise(borders):
        place = _partition(messages[begin])
        if place in assigned:
            gathered.setdefault(place, []).extend(messages[begin:end])
    return dict(sorted(gathered.items(), key=itemgetter(0)))


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None, "a record has an offset"
    return offset


def _partition(message: Message) -> TopicPartition:
    return TopicPartition(message.topic() or "", message.partition() or 0)
