"""Find logs that were cut below a position, and may have grown past it again (KIP-320).

A consumer that begins at a position with a leader epoch compares it with the epochs of the log as soon as it hears of
the partition's leader, before it fetches; one that knows the leader already does not. So each look has a new consumer.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as ClientPartition

from penstock.connector.kafka.client.client import KafkaClient
from penstock.connector.kafka.client.connection import Connection, Start, TopicPartition

LOOK_S = 20.0
"""As long as any other request of planning."""

_SLICE_S = 0.1

_CUT = re.compile(r"log truncation detected .* broker end offset is (\d+)")
"""What the client says of such a log: its code is that of any offset that is unavailable."""

_ANSWERED = {
    KafkaError._PARTITION_EOF,  # noqa: SLF001  a public code, whatever its name
    KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001
    KafkaError.OFFSET_OUT_OF_RANGE,
}


def find_cuts(connection: Connection, starts: Sequence[Start]) -> dict[TopicPartition, int]:
    """Return where logs were cut below their start; those that were not are absent.

    May block for LOOK_S. Raises BrokerUnavailableError.
    """
    client = KafkaClient(connection)
    consumer: Consumer = client.make(Consumer)
    left = {start.partition for start in starts}
    cuts: dict[TopicPartition, int] = {}
    give_up_s = time.monotonic() + LOOK_S
    try:
        consumer.assign([_client_partition(start) for start in starts])
        while left:
            if time.monotonic() > give_up_s:
                raise client.unavailable("check of cut logs", LOOK_S)
            for message in consumer.consume(len(left), _SLICE_S):
                error = message.error()
                if error is not None and error.code() not in _ANSWERED:
                    continue
                partition = _partition(message)
                left.discard(partition)
                cut = None if error is None else _CUT.search(error.str())
                if cut is not None:
                    cuts[partition] = int(cut.group(1))
    finally:
        consumer.close()
    return cuts


def _client_partition(start: Start) -> ClientPartition:
    assert start.leader_epoch is not None, (
        "a position without an epoch can be compared with nothing"
    )
    return ClientPartition(*start.partition, start.offset, leader_epoch=start.leader_epoch)


def _partition(message: Message) -> TopicPartition:
    return TopicPartition(message.topic() or "", message.partition() or 0)
