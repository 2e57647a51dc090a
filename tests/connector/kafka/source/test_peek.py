"""Peeks: the last record of a range that can be decoded, over every kind of gap, for all ranges at once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.connector.kafka.reading import planning, topic_source

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from tests.kafka_server import KafkaServer


def encoded(count: int, first: int = 0) -> list[bytes]:
    """Records with ids in order."""
    return [
        b'{"id": %d, "name": "n%d"}' % (number, number) for number in range(first, first + count)
    ]


def peeked(
    kafka: KafkaServer, topic: str, ranges: Mapping[int, tuple[int, int]], **options: str
) -> dict[int, int]:
    """The id seen last in a range of each partition."""
    given = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    with planning(topic_source(kafka, topic, given), "id") as planner:
        found = planner.peek({f"{topic}-{p}": offsets for p, offsets in ranges.items()})
    assert all(batch.num_rows == 1 and batch.schema.names == ["id"] for batch in found.values())
    return {
        int(split_id.rpartition("-")[2]): batch.column("id")[0].as_py()
        for split_id, batch in found.items()
    }


def test_the_last_record_of_each_range_is_found(kafka: KafkaServer) -> None:
    """At the end of the log and in the middle of it; a range without records has no answer."""
    topic = kafka.create_topic(partitions=4)
    for partition in range(3):
        kafka.produce(
            topic,
            encoded(5000, first=partition * 10_000),
            partition=partition,
            enable_idempotence=True,
        )

    assert peeked(kafka, topic, {0: (0, 5000), 1: (17, 2500), 2: (0, 1)}) == {
        0: 4999,
        1: 12_499,
        2: 20_000,
    }
    assert peeked(kafka, topic, {3: (0, 0)}) == {}


@pytest.mark.nightly
def test_many_partitions_cost_few_round_trips(kafka: KafkaServer) -> None:
    """Planning must not add to a batch; the limit is generous for a busy machine."""
    topic = kafka.create_topic(partitions=100)
    for partition in range(100):
        kafka.produce(topic, encoded(10, first=partition * 100), partition=partition)
    ranges = {f"{topic}-{p}": (0, 10) for p in range(100)}

    with planning(topic_source(kafka, topic), "id") as planner:
        planner.peek(ranges)
        began = time.monotonic()
        found = planner.peek(ranges)
        took = time.monotonic() - began

    assert len(found) == 100
    assert took < 2.0


def test_a_transactions_marker_is_stepped_over(kafka: KafkaServer) -> None:
    """The usual tail of a topic that is written exactly once."""
    topic = kafka.create_topic()
    kafka.transaction(topic, encoded(3))

    assert peeked(kafka, topic, {0: (0, 4)}) == {0: 2}


@pytest.mark.parametrize("aborted", [1, 10, 3000])
def test_aborted_transactions_are_stepped_over(kafka: KafkaServer, aborted: int) -> None:
    """However long; in windows that grow, then by halves."""
    topic = kafka.create_topic()
    kafka.produce(topic, encoded(2000), enable_idempotence=True)
    kafka.transaction(topic, encoded(aborted, first=50_000), commit=False)
    end = 2000 + aborted + 1

    assert peeked(kafka, topic, {0: (0, end)}) == {0: 1999}
    assert peeked(kafka, topic, {0: (500, end)}) == {0: 1999}
    assert peeked(kafka, topic, {0: (2000, end)}) == {}


def test_an_aborted_stretch_between_records_does_not_hide_the_later_ones(
    kafka: KafkaServer,
) -> None:
    """The last record counts, not the last before a gap."""
    topic = kafka.create_topic()
    kafka.produce(topic, encoded(1000), enable_idempotence=True)
    kafka.transaction(topic, encoded(700, first=50_000), commit=False)
    kafka.produce(topic, encoded(3, first=1701))
    kafka.transaction(topic, encoded(900, first=60_000), commit=False)

    assert peeked(kafka, topic, {0: (0, 2605)}) == {0: 1703}
    assert peeked(kafka, topic, {0: (0, 1702)}) == {0: 1701}
    assert peeked(kafka, topic, {0: (0, 1701)}) == {0: 999}


@pytest.mark.parametrize("ignore", ["true", "false"])
def test_bad_records_and_tombstones_are_stepped_over(kafka: KafkaServer, ignore: str) -> None:
    """Whether they fail the query is found out by reading, not by planning; other ranges are not hurt."""
    topic = kafka.create_topic(partitions=3)
    kafka.produce(topic, [*encoded(3), b"oops", None], partition=0)
    kafka.produce(topic, [*encoded(3, first=10), *[b"bad"] * 30], partition=1)
    kafka.produce(topic, [b"bad"] * 200, partition=2)

    found = peeked(
        kafka, topic, {0: (0, 5), 1: (0, 33), 2: (0, 200)}, json__ignore_parse_errors=ignore
    )

    assert found == {0: 2, 1: 12}


def test_a_range_whose_records_are_deleted_has_no_answer(kafka: KafkaServer) -> None:
    """What that means is the extents' part to tell."""
    topic = kafka.create_topic(partitions=2)
    for partition in (0, 1):
        kafka.produce(topic, encoded(10, first=partition * 100), partition=partition)
    kafka.delete_records(topic, {0: 8})

    assert peeked(kafka, topic, {0: (0, 5), 1: (0, 5)}) == {1: 104}
    assert peeked(kafka, topic, {0: (0, 10)}) == {0: 9}


def test_key_and_metadata_columns_can_be_peeked(kafka: KafkaServer) -> None:
    """Event time may be the record's own timestamp."""
    topic = kafka.create_topic()
    kafka.produce(topic, [b'{"id": 1}'], timestamps_ms=[1_700_000_000_000])
    source = topic_source(kafka, topic, metadata={"at": ("timestamp", "TIMESTAMP_LTZ(3)")})

    with planning(source, "at") as planner:
        (row,) = planner.peek({f"{topic}-0": (0, 1)}).values()

    assert row.column("at")[0].value == 1_700_000_000_000_000


def accepted(
    kafka: KafkaServer, topic: str, ranges: Mapping[int, tuple[int, int]]
) -> dict[int, int]:
    """The id that is found in each partition when those from 900,000 on are not accepted."""

    def small_ids(rows: Mapping[str, pa.RecordBatch]) -> list[str]:
        return [i for i, row in rows.items() if row["id"][0].as_py() < 900_000]

    with planning(topic_source(kafka, topic), "id") as planner:
        found = planner.peek({f"{topic}-{p}": offsets for p, offsets in ranges.items()}, small_ids)
    return {int(i.rpartition("-")[2]): row["id"][0].as_py() for i, row in found.items()}


def test_records_that_are_not_accepted_are_stepped_over(kafka: KafkaServer) -> None:
    """As bad records are; one range's do not cost another its answer, and a range of nothing else has none."""
    topic = kafka.create_topic(partitions=3)
    kafka.produce(topic, [*encoded(3), b"bad", *encoded(2, first=900_000)], partition=0)
    kafka.produce(topic, encoded(3, first=10), partition=1)
    kafka.produce(topic, encoded(70, first=900_000), partition=2)

    assert accepted(kafka, topic, {0: (0, 6), 1: (0, 3), 2: (0, 70)}) == {0: 2, 1: 12}


def test_any_number_of_records_that_are_not_accepted_is_stepped_over(kafka: KafkaServer) -> None:
    """In strides that grow, so that what is found may lie further back than it has to: a lower bound is safe."""
    counts = (7, 8, 9, 100, 5000)
    topic = kafka.create_topic(partitions=len(counts))
    for partition, count in enumerate(counts):
        records = [*encoded(count), *encoded(count, first=900_000)]
        kafka.produce(topic, records, partition=partition)
    found = accepted(kafka, topic, {p: (0, 2 * count) for p, count in enumerate(counts)})

    assert found.keys() == set(range(len(counts)))
    assert all(0 <= found[p] < count for p, count in enumerate(counts))
    assert (found[0], found[1]) == (6, 7)


def test_the_first_record_is_looked_at_in_any_case(kafka: KafkaServer) -> None:
    """A short range is searched to its beginning."""
    counts = range(0, 60, 7)
    topic = kafka.create_topic(partitions=len(counts))
    for partition, count in enumerate(counts):
        kafka.produce(topic, [*encoded(1), *encoded(count, first=900_000)], partition=partition)
    found = accepted(kafka, topic, {p: (0, count + 1) for p, count in enumerate(counts)})

    assert found == dict.fromkeys(range(len(counts)), 0)
