"""Which reader reads which partition, and the enumerator of a Kafka table."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connector.kafka.client.connection import TopicPartition
from penstock.connector.kafka.source.source import java_hash, split_owner
from penstock.connector.source.split import Split
from tests.connector.kafka.tables import kafka_source
from tests.connector.source.coordinating import Job, World

DISCOVERY_INTERVAL_MS = 1_000


def partition(topic: str, number: int) -> Split:
    """A split of a partition."""
    return Split(split_id=TopicPartition(topic, number).split_id, start=0, owner=topic)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),
        ("Aa", 2112),
        ("BB", 2112),
        ("ä", 228),
        ("\N{GRINNING FACE}", 1772899),
    ],
)
def test_the_hash_is_javas(text: str, value: int) -> None:
    """String.hashCode, over UTF-16 units and with 32 bits."""
    assert java_hash(text) == value


@pytest.mark.parametrize(
    ("topic", "number", "readers", "owner"),
    [
        ("a", 0, 4, 97 * 31 % 4),
        ("a", 1, 4, (97 * 31 + 1) % 4),
        ("hello", 0, 7, (99162322 * 31 % 2**31) % 7),
        ("polygenelubricants", 2, 5, 2),
        ("orders-eu", 3, 1, 0),
    ],
)
def test_a_partition_belongs_to_the_reader_that_flink_gives_it_to(
    topic: str, number: int, readers: int, owner: int
) -> None:
    """KafkaSourceEnumerator.getSplitOwner, a negative hash included."""
    assert split_owner(partition(topic, number), readers) == owner


@given(
    topic=st.from_regex(r"[a-zA-Z0-9._-]{1,40}", fullmatch=True),
    partitions=st.integers(1, 40),
    readers=st.integers(1, 9),
)
def test_the_partitions_of_a_topic_are_spread_evenly(
    topic: str, partitions: int, readers: int
) -> None:
    """No reader has two more than another, and each partition has a reader that exists."""
    counts = Counter(split_owner(partition(topic, n), readers) for n in range(partitions))

    assert set(counts) <= set(range(readers))
    assert max(counts.values()) - min(counts[r] for r in range(readers)) <= 1


def test_partitions_go_to_their_owners() -> None:
    """Those that are found later too."""
    world = World().add("a-0", "a-1")
    job = Job(kafka_source().enumerator(world), parallelism=4).start()
    job.register(0, 1, 2, 3)
    world.add("a-2", "a-3", "a-4")
    job.tick()

    first = 97 * 31 % 4
    assert [job.ids((first + n) % 4) for n in range(4)] == [
        ["a-0", "a-4"],
        ["a-1"],
        ["a-2"],
        ["a-3"],
    ]


def test_discovery_is_on_where_nothing_is_said() -> None:
    """FLINK-36780: a builder switched it off silently; every second is the default."""
    job = Job(kafka_source().enumerator(World())).start()

    assert [call.every_ms for call in job.scheduled] == [DISCOVERY_INTERVAL_MS]


def test_discovery_can_be_switched_off() -> None:
    """An interval of nothing lists once."""
    options = {"scan.topic-partition-discovery.interval": "0"}
    job = Job(kafka_source(options).enumerator(World())).start()

    assert [call.every_ms for call in job.scheduled] == [None]


def test_a_bounded_table_lists_once_and_ends() -> None:
    """Its readers have their last split then."""
    world = World(stops={"a-0": 150}).add("a-0")
    source = kafka_source({"scan.bounded.mode": "latest-offset"})
    job = Job(source.enumerator(world), parallelism=1).start().register(0)

    assert [(split.start, split.stop) for split in job.given(0)] == [(100, 150)]
    assert job.ends(0) == 1
