"""How far a task has read each of its ranges, when a range is at its end, and a log that differs from the plan.

A bounded read of [start, stop) ends when a record at or past `stop` arrives, or the end of the partition at or past
`stop` is reached, or the consumer's position is at it: control records, aborted transactions and compaction leave
gaps, so records are never counted (the reason why FLINK-34470 hung). Where the log was cut, the task asks the broker
for offsets, then continues or fails.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter

import numpy as np

from penstock.connector.kafka.client.admin import KafkaAdmin, existing_bounds
from penstock.connector.kafka.client.client import Message
from penstock.connector.kafka.client.connection import (
    KafkaSplit,
    Start,
    TopicPartition,
    admin_connection,
)
from penstock.connector.kafka.client.errors import deleted_records, stalled_read, truncated_log
from penstock.connector.source.split import SplitOffsets


@dataclass(slots=True)
class RangeProgress:
    """One range being read: `position` is the next offset to read, `reported` the one that a fetch last reported.

    `caught_up` says that the end of the partition was seen there, where nothing can be expected. `leader_epoch` is
    that of the record before `position`; the one of the split would look like a truncated log once a later leader has
    written more (KIP-320). `lost` counts offsets that the log no longer has and no fetch has reported yet.
    """

    split: KafkaSplit
    position: int = field(init=False)
    reported: int = field(init=False)
    leader_epoch: int | None = field(init=False)
    lost: int = field(init=False, default=0)
    caught_up: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.position = self.reported = self.split.start
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
        if self.split.stop is None:
            return most
        # a log whose beginning was deleted past the stop is at a later position
        return max(0, min(most, self.split.stop - self.position))

    def advance(self, position: int) -> bool:
        """Move on to `position` over a gap; whether that was a move."""
        moved = position > self.position
        self.position = max(self.position, position)
        return moved

    def pass_over(self, offset: int, leader_epoch: int | None) -> None:
        """Move past a record that came."""
        self.advance(offset + 1)
        self.caught_up = False
        self.leader_epoch = leader_epoch

    def at_end(self, position: int) -> None:
        """The partition ended at `position` when the consumer was there."""
        self.advance(position)
        self.caught_up = position >= self.position

    def lose(self, position: int) -> None:
        """Move on to `position` over offsets that the log no longer has; those past the stop are not the range's."""
        end = position if self.split.stop is None else min(position, self.split.stop)
        self.lost += max(0, end - self.position)
        self.advance(position)

    def take_lost(self) -> int:
        """Return the offsets that were lost since the last call."""
        lost, self.lost = self.lost, 0
        return lost

    def go_back(self, position: int) -> None:
        """Go on at the end of a log that lost what was read of it."""
        self.position = position
        self.leader_epoch = None

    def report(self) -> int | None:
        """Return the next position to read if it was not reported yet; never past the stop."""
        if self.position == self.reported:
            return None
        self.reported = self.position
        return self.position if self.split.stop is None else min(self.position, self.split.stop)

    def take(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the records of one partition that belong to the range, and move past them."""
        begin, end = 0, len(messages)
        if _offset(messages[0]) < self.position:
            begin = bisect_left(messages, self.position, key=_offset)
        last = _offset(messages[-1])
        if self.split.stop is not None and last >= self.split.stop:
            end = bisect_left(messages, self.split.stop, key=_offset)
        self.pass_over(last, messages[-1].leader_epoch())
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
        partition = _partition(messages[begin])
        if partition in assigned:
            gathered.setdefault(partition, []).extend(messages[begin:end])
    return dict(sorted(gathered.items(), key=itemgetter(0)))


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None, "a record has an offset"
    return offset


def _partition(message: Message) -> TopicPartition:
    return TopicPartition(message.topic() or "", message.partition() or 0)


logger = logging.getLogger(__name__)


@dataclass(slots=True)
class LogCheck:
    """Looks at the log of a range. `client` may hold passwords; a connection is made at the first look."""

    client: Mapping[str, str] = field(repr=False)
    tolerates_loss: bool
    committed: bool
    _admin: KafkaAdmin | None = None

    def go_on(self, reading: RangeProgress) -> None:
        """Move a range whose next offset is unavailable to where it can resume. Raises DataLossError."""
        extent = self._extent(reading)
        partition, position = reading.partition, reading.position
        if position < extent.first:
            if not self.tolerates_loss:
                raise deleted_records(partition, position, extent)
            logger.warning(
                "%s: %d offsets from %d were deleted before they were read",
                partition.split_id,
                extent.first - position,
                position,
            )
            reading.lose(extent.first)
        elif position > extent.end and self._end_of_log(reading) < position:
            self._shorter(reading, position, extent)

    def _shorter(self, reading: RangeProgress, offset: int, extent: SplitOffsets) -> None:
        """Deal with a log that ends before `offset`, which was planned."""
        if not self.tolerates_loss:
            raise truncated_log(reading.partition, offset, extent)
        logger.warning(
            "%s: the log ends at %d, before offset %d that was planned",
            reading.partition.split_id,
            extent.end,
            offset,
        )
        if reading.split.stop is None:
            reading.go_back(extent.end)
        else:
            reading.lose(reading.split.stop)

    def stalled(self, reading: RangeProgress, last_error: str | None) -> None:
        """Find out why a range gets no further, and raise that or move it on.

        One without an end that has read all there is does not stall, however long nothing comes.
        """
        if reading.split.stop is None and reading.caught_up:
            return
        extent = self._extent(reading)
        position, stop = reading.position, reading.split.stop
        # without an end, only what is in the log already can be waited for in vain
        target = max(position, extent.end) if stop is None else stop
        if position < extent.first:
            self.go_on(reading)
        elif stop is None and position == target:
            if self._end_of_log(reading) < position:
                self._shorter(reading, position, extent)
        elif extent.end < target and self._end_of_log(reading) < target:
            self._shorter(reading, target - 1, extent)
        else:
            raise stalled_read(reading.partition, position, target, extent, last_error)

    def still_there(self, reading: RangeProgress) -> None:
        """Check that a partition that the client does not know is really gone. Raises TopicChangedError."""
        self._extent(reading)

    def _extent(self, reading: RangeProgress) -> SplitOffsets:
        bounds = existing_bounds(self._connected, [reading.partition], committed=self.committed)
        (found,) = bounds.values()
        return SplitOffsets(first=found.first, end=found.end)

    def _end_of_log(self, reading: RangeProgress) -> int:
        """Return the high watermark: past the last stable offset there may only be an open transaction."""
        (found,) = existing_bounds(self._connected, [reading.partition], committed=False).values()
        return found.end

    @property
    def _connected(self) -> KafkaAdmin:
        if self._admin is None:
            self._admin = KafkaAdmin(admin_connection(self.client))
        return self._admin
