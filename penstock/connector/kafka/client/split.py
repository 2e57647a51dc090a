"""Kafka's splits: a range of one partition, its id, and topic partitions as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from penstock.connector.source.split import Split

__all__ = ["KafkaSplit", "TopicPartition"]


class TopicPartition(NamedTuple):
    """A partition of a topic; also a dictionary key and, as `topic-partition`, a split id (Flink's spelling)."""

    topic: str
    partition: int

    @property
    def split_id(self) -> str:
        """The id under which offsets and checkpoints know the partition."""
        return f"{self.topic}-{self.partition}"

    @classmethod
    def of(cls, split_id: str) -> TopicPartition:
        """Parse a split id; a topic's name may hold dashes itself."""
        topic, _, partition = split_id.rpartition("-")
        assert topic, f"{split_id!r} is not <topic>-<partition>"
        return cls(topic, int(partition))


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSplit(Split):
    """The offsets [`start`, `stop`) of one partition, for one task.

    `leader_epoch` is the leader's epoch when the range was planned: with it the client notices a log that was
    truncated since (KIP-320). None when nothing was planned in this process.
    """

    topic: str
    partition: int
    leader_epoch: int | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that is read."""
        return TopicPartition(self.topic, self.partition)
