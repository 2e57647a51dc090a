"""What it means that nobody knows the offsets of a partition: its topic is gone, or it is not there yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest

from penstock.catalog.errors import BrokerUnavailableError, TopicChangedError
from penstock.connector.kafka.client import admin as log_bounds
from penstock.connector.kafka.client.admin import KafkaAdmin, existing_bounds
from penstock.connector.kafka.client.connection import (
    Connection,
    LogBounds,
    TopicInfo,
    TopicPartition,
)
from penstock.connector.spark.source.retry import RetryPolicy, retry_while_unavailable

OLD, NEW = TopicPartition("orders", 0), TopicPartition("orders", 1)
BOUNDS = LogBounds(first=0, end=5, leader_epoch=0)


@dataclass
class Cluster:
    """A cluster that lists topics, with leaders that know some of their partitions."""

    topics_listed: dict[str, TopicInfo]
    known: list[TopicPartition] = field(default_factory=lambda: [OLD])
    connection: Connection = field(
        default_factory=lambda: Connection.of({"bootstrap.servers": "kafka:9092"})
    )

    def bounds(
        self,
        partitions: Collection[TopicPartition],
        *,
        committed: bool,
    ) -> dict[TopicPartition, LogBounds]:
        return {p: BOUNDS for p in partitions if p in self.known}

    def topics(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        return {name: self.topics_listed[name] for name in names if name in self.topics_listed}


def topic(topic_id: str = "id-1", partitions: int = 2) -> dict[str, TopicInfo]:
    """The topic, as a broker describes it."""
    return {"orders": TopicInfo(topic_id=topic_id, partitions=tuple(range(partitions)))}


def look(
    cluster: Cluster, topic_ids: Mapping[str, str] | None = None
) -> dict[TopicPartition, LogBounds]:
    """Ask for both partitions."""
    return existing_bounds(
        cast("KafkaAdmin", cluster), [OLD, NEW], committed=True, topic_ids=topic_ids
    )


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_bounds, "PATIENCE_S", 0.0)


@pytest.mark.parametrize("topic_ids", [None, {"orders": "id-1"}], ids=["in a task", "at planning"])
@pytest.mark.parametrize("listed", [1, 2], ids=["not listed", "listed"])
def test_a_new_partition_that_its_leader_does_not_know_yet_is_no_deleted_topic(
    topic_ids: Mapping[str, str] | None, listed: int
) -> None:
    """For seconds on a loaded broker; a broker that is behind may even list fewer partitions than another did."""
    with pytest.raises(BrokerUnavailableError, match="topic 'orders', partition 1") as caught:
        look(Cluster(topic(partitions=listed)), topic_ids)

    assert "kafka:9092" in caught.value.message
    assert not caught.value.permanent


def test_planning_waits_for_the_leader_of_a_new_partition() -> None:
    """As for a broker that is away, and goes on where it was."""
    cluster = Cluster(topic())
    attempts = 0

    def attempt() -> dict[TopicPartition, LogBounds]:
        nonlocal attempts
        attempts += 1
        if attempts == 3:
            cluster.known.append(NEW)
        return look(cluster, {"orders": "id-1"})

    patience = RetryPolicy(first_pause_s=0.001, longest_pause_s=0.001)
    assert retry_while_unavailable(attempt, what="planning", patience=patience).keys() == {OLD, NEW}
    assert attempts == 3


def test_a_deleted_topic_is_told_as_such() -> None:
    """With the id that it had."""
    with pytest.raises(TopicChangedError, match="was deleted while it was read; its id was id-1"):
        look(Cluster({}), {"orders": "id-1"})


def test_a_topic_that_was_made_again_with_fewer_partitions_is_told_as_such() -> None:
    """With both ids."""
    with pytest.raises(TopicChangedError, match="its id was id-1 and is now id-2"):
        look(Cluster(topic("id-2", partitions=1)), {"orders": "id-1"})
