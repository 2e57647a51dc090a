"""The committed offsets of a consumer group, read by a consumer that never joins it.

The admin client's call for them crashes the process if the group's coordinator moves or is being created
(librdkafka#5040); here no coordinator is looked up for the group.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from penstock.connector.kafka.client.client import DENIED, GONE, REQUEST_TIMEOUT_S, KafkaClient
from penstock.connector.kafka.client.connection import Connection
from penstock.connector.kafka.client.split import TopicPartition

__all__ = ["CommittedOffsets"]

SLICE_S = 1.0
_NOT_YET = {KafkaError._TIMED_OUT, KafkaError._WAIT_COORD}  # noqa: SLF001  public codes
_OF_PRODUCERS = ("transactional.id", "transaction.timeout.ms")


class CommittedOffsets(KafkaClient):
    """A consumer that belongs to `group` by its name only. One thread; closed at the end of `with`."""

    def __init__(self, connection: Connection, group: str) -> None:
        super().__init__(connection)
        self._group = group
        self._consumer: Consumer = self.make(Consumer)

    def configuration(self) -> dict[str, Any]:
        """Return the client library's settings; open transactions are waited for."""
        settings = super().configuration()
        return {key: value for key, value in settings.items() if key not in _OF_PRODUCERS} | {
            "group.id": self._group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }

    @property
    def metadata(self) -> Any:
        """What stands for the group in a transaction."""
        return self._consumer.consumer_group_metadata()

    def committed(self, partitions: Collection[TopicPartition]) -> list[ClientPartition]:
        """Return the partitions in which the group has committed, asked for once.

        Raises KafkaException, for the error of a single partition too: its offset looks like one never committed.
        """
        wanted = [ClientPartition(*partition) for partition in partitions]
        answer = self._patiently(wanted)
        for partition in answer:
            if partition.error is not None and partition.error.code() not in GONE:
                raise KafkaException(partition.error)
        return [partition for partition in answer if partition.offset >= 0]

    def _patiently(self, wanted: list[ClientPartition]) -> list[ClientPartition]:
        """Ask in slices: a coordinator that may not be asked is reported as an event, and not in the answer."""
        give_up_s = time.monotonic() + REQUEST_TIMEOUT_S
        while True:
            try:
                return self._consumer.committed(wanted, timeout=SLICE_S)
            except KafkaException as failure:
                if failure.args[0].code() not in _NOT_YET:
                    raise
                event = self._consumer.poll(0)
                reason = None if event is None else event.error()
                if reason is not None and reason.code() in DENIED:
                    raise KafkaException(reason) from None
                if time.monotonic() >= give_up_s:
                    raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close()
