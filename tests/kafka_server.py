"""The broker of a test run with what tests do to it: topics, records, transactions, deletions, offsets.

Talks to the broker with clients of its own, so that the code under test is not checked by itself.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

if TYPE_CHECKING:
    from penstock.connector.kafka.broker.broker import EmbeddedBroker

TIMEOUT_S = 30.0
"""For one request to the broker; it answers in milliseconds unless a test has stopped it."""

NUMBERS = itertools.count(1)


class KafkaServer:
    """A running broker and the clients that prepare it."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        """Clients are made when first needed."""
        self.broker = broker
        self._admin: AdminClient | None = None

    @property
    def bootstrap(self) -> str:
        """Value for `properties.bootstrap.servers`."""
        return self.broker.bootstrap

    @property
    def admin(self) -> AdminClient:
        """An admin client, for what has no method here."""
        if self._admin is None:
            self._admin = AdminClient(self.client_settings())
        return self._admin

    def client_settings(self, **more: Any) -> dict[str, Any]:
        """Settings of any client; keys of `more` are written with underscores for dots."""
        settings = {key.replace("_", "."): value for key, value in more.items()}
        return {"bootstrap.servers": self.bootstrap, "log_level": 0, **settings}

    def create_topic(self, name: str | None = None, *, partitions: int = 1, **config: str) -> str:
        """Make a topic, ready to be written; a name of its own unless one is given."""
        name = name or f"topic-{next(NUMBERS)}"
        new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
        self._wait(self.admin.create_topics([new]))
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until the broker no longer lists it."""
        self._wait(self.admin.delete_topics([name]))
        while name in self.admin.list_topics(timeout=TIMEOUT_S).topics:
            pass

    def add_partitions(self, topic: str, total: int) -> None:
        """Give the topic more partitions, `total` in all, and wait until the broker lists them.

        Its controller answers earlier, and a producer takes a partition that is not listed for one that is not there.
        """
        self._wait(self.admin.create_partitions([NewPartitions(topic, total)]))
        while (
            len(self.admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions) < total
        ):
            pass

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete what lies before an offset (exclusive), by partition: what retention does."""
        ends = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        self._wait(self.admin.delete_records(ends))

    def produce(
        self,
        topic: str,
        values: Iterable[bytes | str | None],
        *,
        partition: int = 0,
        keys: Sequence[bytes | str | None] | None = None,
        timestamps_ms: Sequence[int] | None = None,
        headers: Mapping[str, bytes] | None = None,
        **settings: Any,
    ) -> None:
        """Write records to one partition in this order and wait until the broker has them all."""
        # without idempotence a retry may put records in another order
        ordered = {"enable_idempotence": True, "linger_ms": 1, **settings}
        producer = Producer(self.client_settings(**ordered))
        self._produce(producer, topic, values, partition, keys, timestamps_ms, headers)

    def produce_json(
        self, topic: str, rows: Iterable[Any], *, partition: int = 0, **more: Any
    ) -> None:
        """Write each row as a JSON record; see `produce`."""
        self.produce(topic, [json.dumps(row) for row in rows], partition=partition, **more)

    def transaction(
        self,
        topic: str,
        values: Iterable[bytes | str | None],
        *,
        partition: int = 0,
        commit: bool = True,
    ) -> None:
        """Write records in one transaction; `commit=False` aborts it. Both leave a control record behind them."""
        identity = f"test-{next(NUMBERS)}"
        producer = Producer(self.client_settings(transactional_id=identity, linger_ms=1))
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        self._produce(producer, topic, values, partition, None, None, None)
        if commit:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """First offset (inclusive) and high watermark (exclusive) of a partition."""
        consumer = Consumer(self.client_settings(group_id="test-watermarks"))
        try:
            low, high = consumer.get_watermark_offsets(
                TopicPartition(topic, partition), timeout=TIMEOUT_S
            )
        finally:
            consumer.close()
        return low, high

    def committed(self, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Offsets a consumer group has committed, by partition; partitions without one are left out."""
        wanted = [TopicPartition(topic, partition) for partition in partitions]
        consumer = Consumer(self.client_settings(group_id=group))
        try:
            found = consumer.committed(wanted, timeout=TIMEOUT_S)
        finally:
            consumer.close()
        return {place.partition: place.offset for place in found if place.offset >= 0}

    def _produce(
        self,
        producer: Producer,
        topic: str,
        values: Iterable[bytes | str | None],
        partition: int,
        keys: Sequence[bytes | str | None] | None,
        timestamps_ms: Sequence[int] | None,
        headers: Mapping[str, bytes] | None,
    ) -> None:
        """Queue the records, making room in the client's queue where it is full; wait until the broker has them all.

        A record that it does not take counts as delivered to `flush`: only its report tells.
        """
        refused: list[KafkaError] = []

        def note(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                refused.append(error)

        for index, value in enumerate(values):
            extra: dict[str, Any] = {}
            if timestamps_ms is not None:
                extra["timestamp"] = timestamps_ms[index]
            if headers is not None:
                extra["headers"] = list(headers.items())
            key = keys[index] if keys is not None else None
            while True:
                try:
                    producer.produce(
                        topic, value, key, partition=partition, on_delivery=note, **extra
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(TIMEOUT_S) == 0, "the broker did not take every record"
        assert not refused, f"the broker did not take every record: {refused[0]}"

    @staticmethod
    def _wait(futures: Mapping[Any, Any]) -> None:
        """Wait for an admin request; raises what the broker said."""
        for future in futures.values():
            future.result(TIMEOUT_S)
