"""Which reader reads which partition: Flink's KafkaSourceEnumerator.getSplitOwner, so that jobs lay out alike."""

from __future__ import annotations

from penstock.connector.kafka.split import TopicPartition
from penstock.connector.source.split import Split

__all__ = ["java_hash", "owner_of"]


def java_hash(text: str) -> int:
    """Give Java's String.hashCode: 31-ary over UTF-16 units, in 32 signed bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def owner_of(split: Split, readers: int) -> int:
    """Give the reader of a partition: a topic's partitions go round, beginning at a reader that its name picks."""
    partition = TopicPartition.of(split.split_id)
    first = (java_hash(partition.topic) * 31 & 0x7FFFFFFF) % readers
    return (first + partition.partition) % readers
