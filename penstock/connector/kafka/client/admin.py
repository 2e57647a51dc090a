"""The admin client: topics, offsets, groups. Requests that a restarting broker does not answer are repeated.

Committed offsets of a group are read by a consumer that never joins it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from penstock.catalog.errors import PenstockError
from penstock.connector.kafka.client.client import DENIED, GONE, REQUEST_TIMEOUT_S, KafkaClient
from penstock.connector.kafka.client.connection import (
    Connection,
    LogBounds,
    TopicInfo,
    TopicPartition,
)
from penstock.connector.kafka.client.errors import partition_unknown, topic_changed

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


GIVE_UP_AFTER_S = 20.0
"""For all attempts together; with the last one under way an error is out within 30 s (reliability rule 5)."""

DENIED_AFTER_S = 2.0
"""A log-in that is refused for so long is wrong; before that a broker that starts may not know its users yet."""

RETRY_PAUSE_S = 0.1

T = TypeVar("T")

_NO_LEADERS = KafkaError._NOENT  # noqa: SLF001  a public code, whatever its name

_LEADER_MOVED = {
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_LEADER_EPOCH,
}

_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]

_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class KafkaAdmin(KafkaClient):
    """Answers questions about topics, offsets and groups. Any thread; every call may block up to 30 s."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.admin: AdminClient = self.make(AdminClient)

    def topic_names(self) -> tuple[str, ...]:
        """List all topics that may be seen."""
        found = self.patiently(
            "list of topics", lambda: self.admin.list_topics(timeout=REQUEST_TIMEOUT_S)
        )
        return tuple(found.topics)

    def topics(self, names: Sequence[str], *, patience_s: float = 0.0) -> dict[str, TopicInfo]:
        """Look topics up; those that do not exist, asked again during `patience_s`, are absent."""

        def attempt() -> dict[str, TopicInfo]:
            futures = self.admin.describe_topics(
                TopicCollection(list(names)), request_timeout=REQUEST_TIMEOUT_S
            )
            described = {name: _unless_gone(future) for name, future in futures.items()}
            return {
                name: _topic_info(topic) for name, topic in described.items() if topic is not None
            }

        give_up_s = time.monotonic() + patience_s
        while True:
            found = self.patiently("description of topics", attempt) if names else {}
            if len(found) == len(set(names)) or time.monotonic() >= give_up_s:
                return found
            threading.Event().wait(RETRY_PAUSE_S)

    def bounds(
        self, partitions: Collection[TopicPartition], *, committed: bool
    ) -> dict[TopicPartition, LogBounds]:
        """Look up first and end offsets; `committed` ends at the last stable offset. Unknown ones are absent."""

        def attempt() -> dict[TopicPartition, LogBounds]:
            first = self._list_offsets(partitions, _EARLIEST, committed=committed)
            ends = self._list_offsets(partitions, _LATEST, committed=committed)
            found = {}
            for partition, future in first.items():
                low, high = _answered(future), _answered(ends[partition])
                if low is not None and high is not None:
                    found[partition] = LogBounds(
                        first=low.offset, end=high.offset, leader_epoch=high.leader_epoch
                    )
            return found

        return self._of_existing("offsets", attempt, partitions)

    def at_time(
        self, partitions: Collection[TopicPartition], at_ms: int, *, committed: bool
    ) -> dict[TopicPartition, int]:
        """Look up the first offset at or after a time; partitions without one are absent."""

        def attempt() -> dict[TopicPartition, int]:
            futures = self._list_offsets(
                partitions, OffsetSpec.for_timestamp(at_ms), committed=committed
            )
            found = {partition: _answered(future) for partition, future in futures.items()}
            return {
                p: result.offset
                for p, result in found.items()
                if result is not None and result.offset >= 0
            }

        return self._of_existing("offsets of a time", attempt, partitions)

    def group_offsets(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Look up a group's committed offsets, open transactions waited for; missing ones are absent."""
        if not partitions:
            return {}
        with CommittedOffsets(self.connection, group) as member:
            found = self.patiently(
                f"offsets of group '{group}'", lambda: member.committed(partitions)
            )
        return {TopicPartition(p.topic, p.partition): p.offset for p in found}

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> Future[Any]:
        """Send a group's offsets without waiting; the future ends within REQUEST_TIMEOUT_S."""
        partitions = [
            ClientPartition(p.topic, p.partition, offset) for p, offset in offsets.items()
        ]
        futures = self.admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, partitions)], request_timeout=REQUEST_TIMEOUT_S
        )
        (future,) = futures.values()
        return future

    def _list_offsets(
        self, partitions: Collection[TopicPartition], spec: OffsetSpec, *, committed: bool
    ) -> dict[TopicPartition, Future[Any]]:
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        futures = self.admin.list_offsets(
            {ClientPartition(*p): spec for p in partitions},
            isolation_level=level,
            request_timeout=REQUEST_TIMEOUT_S,
        )
        return {TopicPartition(p.topic, p.partition): future for p, future in futures.items()}

    def _of_existing(
        self,
        asked: str,
        attempt: Callable[[], dict[TopicPartition, T]],
        partitions: Collection[TopicPartition],
    ) -> dict[TopicPartition, T]:
        """Try until it works, with nothing for partitions of which none exists: that is an error to the client."""

        def unless_none_exists() -> dict[TopicPartition, T]:
            try:
                return attempt()
            except KafkaException as failure:
                if failure.args[0].code() != _NO_LEADERS:
                    raise
                existing = self.topics(sorted({partition.topic for partition in partitions}))
                if any(
                    p.topic in existing and p.partition in existing[p.topic].partitions
                    for p in partitions
                ):
                    raise
                return {}

        return self.patiently(asked, unless_none_exists) if partitions else {}

    def patiently(self, asked: str, attempt: Callable[[], T]) -> T:
        """Try until it works: a leader that moves or a broker that restarts answers in the end."""
        began = time.monotonic()
        while True:
            try:
                answer = attempt()
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
            else:
                self._last_error = None
                return answer
            finally:
                self.admin.poll(0)  # serves the error callback, which knows more than the answer
            self._last_error = self._last_error or error
            took_s = time.monotonic() - began
            if error.code() in DENIED:
                raise self.denied(error.str())
            refused = self._last_error.code() in DENIED
            if took_s > (DENIED_AFTER_S if refused else GIVE_UP_AFTER_S):
                raise self.unavailable(asked, took_s)
            if error.code() in _LEADER_MOVED:
                # the client asks whom it knows, again and again, until it is made to look anew
                with suppress(KafkaException):
                    self.admin.list_topics(timeout=REQUEST_TIMEOUT_S)
            threading.Event().wait(RETRY_PAUSE_S)


def _topic_info(topic: Any) -> TopicInfo:
    numbers = sorted(partition.id for partition in topic.partitions)
    return TopicInfo(topic_id=str(topic.topic_id), partitions=tuple(numbers))


def _answered(future: Future[Any]) -> Any:
    """Return the answer for one partition, None where it is gone.

    Where a connection broke in between, the client calls a partition answered that is not (librdkafka 2.16).
    """
    result = _unless_gone(future)
    if result is not None and result.offset == OFFSET_INVALID:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))  # noqa: SLF001  a public code
    return result


def _unless_gone(future: Future[T]) -> T | None:
    try:
        return future.result()
    except KafkaException as error:
        if error.args[0].code() in GONE:
            return None
        raise


PATIENCE_S = 3.0
"""A broker that restarts, or has not heard of a new topic yet, denies topics that exist: ask again for so long."""

PAUSE_S = 0.1


def existing_bounds(
    admin: KafkaAdmin,
    partitions: Collection[TopicPartition],
    *,
    committed: bool,
    topic_ids: Mapping[str, str] | None = None,
) -> dict[TopicPartition, LogBounds]:
    """Look up bounds; `committed` ends at the last stable offset. `topic_ids` are those known, by topic.

    Raises for what stays missing: TopicChangedError where its topic was deleted or made again, BrokerUnavailableError
    where the topic exists, as brokers may learn of new partitions late.
    """
    give_up_s = time.monotonic() + PATIENCE_S
    while True:
        found = admin.bounds(partitions, committed=committed)
        missing = [partition for partition in partitions if partition not in found]
        if not missing:
            return found
        if time.monotonic() >= give_up_s:
            raise _why_missing(admin, missing[0], (topic_ids or {}).get(missing[0].topic))
        threading.Event().wait(PAUSE_S)


def _why_missing(admin: KafkaAdmin, partition: TopicPartition, known: str | None) -> PenstockError:
    topic = admin.topics([partition.topic]).get(partition.topic)
    if topic is None:
        return topic_changed(partition.topic, known, None)
    if known is not None and known != topic.topic_id:
        return topic_changed(partition.topic, known, topic.topic_id)
    return partition_unknown(admin.connection.address, partition, PATIENCE_S)
