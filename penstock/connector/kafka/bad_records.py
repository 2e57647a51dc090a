"""The bad records of a fetch: those whose value, or else whose key, could not be decoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.connector.formats.contract import BadValue
from penstock.connector.kafka.records import Records
from penstock.connector.kafka.split import TopicPartition
from penstock.connector.source.records import BadRecord, Stage

__all__ = ["bad_records", "by_split"]


def bad_records(
    records: Records, values: Sequence[BadValue], keys: Sequence[BadValue] = ()
) -> list[BadRecord]:
    """Give the bad records in order. One that is bad in both counts once, by its value."""
    found = {bad.index: (Stage.KEY, bad.error) for bad in keys}
    found |= {bad.index: (Stage.VALUE, bad.error) for bad in values}
    return [
        BadRecord(record=records.raw(index), stage=stage, error=error)
        for index, (stage, error) in sorted(found.items())
    ]


def by_split(bad: Sequence[BadRecord]) -> Mapping[str, Sequence[BadRecord]]:
    """Tell the bad records of each split."""
    found: dict[str, list[BadRecord]] = {}
    for item in bad:
        topic, partition = item.record.topic, item.record.partition
        assert topic is not None, "a record of Kafka is of a topic"
        assert partition is not None, "and of a partition"
        place = TopicPartition(topic=topic, partition=partition)
        found.setdefault(place.split_id, []).append(item)
    return found
