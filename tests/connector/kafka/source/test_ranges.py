"""When a range ends: by a record past it, by the partition's end, or by the consumer's position; never by counting."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from confluent_kafka import Message

from penstock.connector.kafka.client.connection import KafkaSplit, TopicPartition
from penstock.connector.kafka.source.ranges import RangeProgress, by_partition


def messages(offsets: Iterable[int], partition: int = 0, topic: str = "t") -> list[Message]:
    """Records at offsets."""
    return [
        Message(topic=topic, partition=partition, offset=offset, value=b"") for offset in offsets
    ]


def reading(start: int, stop: int | None) -> RangeProgress:
    """A range of partition 0."""
    return RangeProgress(KafkaSplit(split_id="t-0", start=start, stop=stop, topic="t", partition=0))


def offsets(taken: Iterable[Message]) -> list[int | None]:
    """Where records are."""
    return [message.offset() for message in taken]


def test_a_record_at_the_stop_ends_the_range_and_is_not_taken() -> None:
    """With all that follow it."""
    progress = reading(5, 8)

    assert offsets(progress.take(messages(range(5, 12)))) == [5, 6, 7]
    assert progress.finished


def test_records_below_the_start_are_not_taken() -> None:
    """A whole record batch may come though its middle was asked for."""
    progress = reading(5, 8)

    assert offsets(progress.take(messages([3, 4, 5]))) == [5]
    assert progress.position == 6
    assert not progress.finished


def test_a_gap_up_to_the_stop_does_not_end_the_range_by_itself() -> None:
    """Offset 7 may be a marker or may still come: the position or the partition's end tells."""
    progress = reading(5, 8)
    progress.take(messages([5, 6]))

    assert not progress.finished
    assert progress.left(100) == 1
    assert progress.advance(8)
    assert progress.finished


def test_nothing_is_left_of_a_range_that_was_deleted_with_more() -> None:
    """The log begins behind the stop, so that the position is there; it takes nothing from other ranges."""
    progress = reading(5, 8)
    progress.advance(20)

    assert progress.left(100) == 0
    assert progress.finished


def test_offsets_that_were_lost_are_reported_once_and_only_those_of_the_range() -> None:
    """A log that begins behind the stop has lost more, which the next range counts."""
    bounded, endless = reading(5, 8), reading(5, None)
    bounded.lose(20)
    endless.lose(20)

    assert (bounded.take_lost(), bounded.take_lost()) == (3, 0)
    assert (endless.take_lost(), endless.position) == (15, 20)
    assert bounded.finished


def test_a_record_past_a_gap_ends_the_range() -> None:
    """Compaction took the last records of the range."""
    progress = reading(5, 8)

    assert offsets(progress.take(messages([5, 20]))) == [5]
    assert progress.finished


def test_progress_never_goes_back() -> None:
    """A position from before the last records says nothing."""
    progress = reading(5, None)
    progress.take(messages([5, 6]))

    assert not progress.advance(6)
    assert progress.position == 7
    assert not progress.finished
    assert progress.left(100) == 100


def test_a_position_is_told_once_and_never_past_the_stop() -> None:
    """Records behind the stop were fetched, but are not the range's."""
    progress = reading(5, 8)
    before = progress.report()
    progress.take(messages([5, 6]))
    reported = [progress.report(), progress.report()]
    progress.take(messages([20]))

    assert before is None
    assert reported == [7, None]
    assert progress.report() == 8


def test_a_range_goes_on_under_the_leader_epoch_of_its_last_record() -> None:
    """That of planning is older than what later leaders wrote, and would look like a truncated log (KIP-320)."""
    split = KafkaSplit(split_id="t-0", start=5, stop=None, topic="t", partition=0, leader_epoch=1)
    progress = RangeProgress(split)
    planned = progress.start.leader_epoch
    progress.take([Message(topic="t", partition=0, offset=5, value=b"", leader_epoch=3)])

    assert (planned, progress.start.leader_epoch) == (1, 3)


def test_a_range_is_caught_up_from_the_end_of_its_partition_to_the_next_record() -> None:
    """The end of a shorter log says nothing."""
    progress = reading(5, None)
    seen = [progress.caught_up]
    for step in (3, 9):
        progress.at_end(step)
        seen.append(progress.caught_up)
    progress.take(messages([9]))

    assert seen == [False, False, True]
    assert not progress.caught_up
    assert progress.position == 10


def test_a_fetch_is_sorted_by_partition() -> None:
    """Runs of one partition come together, in order; strangers are left out."""
    mixed = messages([1, 2], 1) + messages([5], 0) + messages([3], 1) + messages([9], 7)

    sorted_ = by_partition(mixed, [TopicPartition("t", 0), TopicPartition("t", 1)])

    assert {place.partition: offsets(m) for place, m in sorted_.items()} == {0: [5], 1: [1, 2, 3]}


def test_partitions_of_several_topics_are_kept_apart() -> None:
    """The same number in two topics is two partitions."""
    mixed = (
        messages([1], 0, "a")
        + messages([2], 0, "b")
        + messages([3], 0, "a")
        + messages([4], 0, "x")
    )

    sorted_ = by_partition(mixed, [TopicPartition("a", 0), TopicPartition("b", 0)])

    assert {place.topic: offsets(m) for place, m in sorted_.items()} == {"a": [1, 3], "b": [2]}


def test_one_partition_is_passed_on_as_it_came() -> None:
    """The normal path looks at two records of a fetch."""
    fetched = messages(range(10))

    assert by_partition(fetched, [TopicPartition("t", 0)]) == {TopicPartition("t", 0): fetched}


def test_strangers_at_either_end_are_noticed_with_one_partition_too() -> None:
    """What an earlier assignment left would come first."""
    fetched = messages([8, 9], 3) + messages([1, 2])

    sorted_ = by_partition(fetched, [TopicPartition("t", 0)])

    assert {place: offsets(m) for place, m in sorted_.items()} == {TopicPartition("t", 0): [1, 2]}


@pytest.mark.parametrize("topic", ["orders", "orders-eu", "a-1-2", "x.y_z"])
def test_split_ids_give_their_partition_back(topic: str) -> None:
    """Though names of topics have dashes themselves."""
    partition = TopicPartition(topic, 12)

    assert TopicPartition.of(partition.split_id) == partition
