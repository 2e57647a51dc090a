"""The only importer of the Kafka client library: connections that speak in plain values and Penstock's errors.

Knows calls, codes and time limits, nothing of tables. No handle is made at import.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
)
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from penstock.catalog.errors import OptionError, PenstockError
from penstock.connector.kafka.connection import (
    Connection,
    Denied,
    EndOfPartition,
    Event,
    Fetched,
    LogBounds,
    OffsetUnavailable,
    Start,
    TopicInfo,
    TopicUnknown,
)
from penstock.connector.kafka.failures import access_denied, broker_unavailable
from penstock.connector.kafka.fork import outlive_forks
from penstock.connector.kafka.split import TopicPartition

__all__ = ["KafkaAdmin", "KafkaConsumer", "Message"]

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 10.0
"""For one attempt of a request to the broker."""

GIVE_UP_AFTER_S = 20.0
"""For all attempts together; with the last one under way an error is out within 30 s (reliability rule 5)."""

RETRY_PAUSE_S = 0.1

T = TypeVar("T")

# the client's own codes begin with an underscore, and are public all the same
_END = KafkaError._PARTITION_EOF  # noqa: SLF001
_ALL_DOWN = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001
_NO_LEADERS = KafkaError._NOENT  # noqa: SLF001
_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]

_GONE = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    KafkaError.UNKNOWN_TOPIC_ID,
}
_DENIED = {
    KafkaError._AUTHENTICATION,  # noqa: SLF001
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}
# with auto.offset.reset=error the client reports these in place of jumping elsewhere
_UNAVAILABLE = {
    KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError._LOG_TRUNCATION,  # noqa: SLF001
}


class _ClientLog:
    """Takes librdkafka's log lines, which would go to stderr: for those who look, at level DEBUG."""

    def log(self, level: int, template: str, *parts: object) -> None:
        """Pass a line on. The client calls it from within its own calls."""
        del level
        logger.debug(template, *parts)


class _Client:
    """What both kinds of client share: the last error, which librdkafka tells a callback alone."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._last_error: KafkaError | None = None
        outlive_forks(self)

    @property
    def last_error(self) -> str | None:
        """What the client complained about last."""
        return None if self._last_error is None else self._last_error.str()

    def unavailable(self, asked: str, seconds: float) -> PenstockError:
        """Make the error for an answer that did not come; a refused log-in is the user's to mend."""
        last = self._last_error
        if last is not None and last.code() in _DENIED:
            return self.denied(last.str())
        return broker_unavailable(self.connection.address, asked, seconds, self.last_error)

    def denied(self, reason: str) -> PenstockError:
        """Make the error for a refused log-in or a missing right."""
        return access_denied(self.connection.address, reason)

    def _configuration(self) -> dict[str, Any]:
        return {**dict(self.connection.settings), "error_cb": self._note, "logger": _ClientLog()}

    def _note(self, error: KafkaError) -> None:
        # "all brokers are down" comes right after the reason, and tells less
        if error.code() != _ALL_DOWN or self._last_error is None:
            self._last_error = error

    def _make(self, factory: Callable[[dict[str, Any]], T]) -> T:
        try:
            return factory(self._configuration())
        except KafkaException as error:
            raise OptionError(
                f"the Kafka client does not take its options: {error.args[0].str()}",
                hint="options of the client are written 'properties.<name>' in the table",
            ) from None


class KafkaAdmin(_Client):
    """Answers questions about topics, offsets and groups. Any thread; every call may block up to 30 s."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._admin: AdminClient = self._make(AdminClient)

    def topic_names(self) -> tuple[str, ...]:
        """List all topics that may be seen."""
        found = self._patiently(
            "list of topics", lambda: self._admin.list_topics(timeout=REQUEST_TIMEOUT_S)
        )
        return tuple(found.topics)

    def topics(self, names: Sequence[str], *, patience_s: float = 0.0) -> dict[str, TopicInfo]:
        """Look topics up; those that do not exist, asked again during `patience_s`, are absent."""

        def attempt() -> dict[str, TopicInfo]:
            futures = self._admin.describe_topics(
                TopicCollection(list(names)), request_timeout=REQUEST_TIMEOUT_S
            )
            described = {name: _unless_gone(future) for name, future in futures.items()}
            return {
                name: _topic_info(topic) for name, topic in described.items() if topic is not None
            }

        give_up_s = time.monotonic() + patience_s
        while True:
            found = self._patiently("description of topics", attempt) if names else {}
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
                low, high = _unless_gone(future), _unless_gone(ends[partition])
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
            found = {partition: _unless_gone(future) for partition, future in futures.items()}
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

        def attempt() -> dict[TopicPartition, int]:
            wanted = ConsumerGroupTopicPartitions(group, [ClientPartition(*p) for p in partitions])
            futures = self._admin.list_consumer_group_offsets(
                [wanted], require_stable=True, request_timeout=REQUEST_TIMEOUT_S
            )
            (answer,) = [future.result() for future in futures.values()]
            return {
                TopicPartition(p.topic, p.partition): p.offset
                for p in answer.topic_partitions
                if p.offset >= 0
            }

        return self._patiently(f"offsets of group '{group}'", attempt) if partitions else {}

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> Future[Any]:
        """Send a group's offsets without waiting; the future ends within REQUEST_TIMEOUT_S."""
        places = [ClientPartition(p.topic, p.partition, offset) for p, offset in offsets.items()]
        futures = self._admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, places)], request_timeout=REQUEST_TIMEOUT_S
        )
        (future,) = futures.values()
        return future

    def _list_offsets(
        self, partitions: Collection[TopicPartition], spec: OffsetSpec, *, committed: bool
    ) -> dict[TopicPartition, Future[Any]]:
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        futures = self._admin.list_offsets(
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

        return self._patiently(asked, unless_none_exists) if partitions else {}

    def _patiently(self, asked: str, attempt: Callable[[], T]) -> T:
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
                self._admin.poll(0)  # serves the error callback, which knows more than the answer
            self._last_error = self._last_error or error
            if error.code() in _DENIED:
                raise self.denied(error.str())
            if time.monotonic() - began > GIVE_UP_AFTER_S:
                raise self.unavailable(asked, time.monotonic() - began)
            threading.Event().wait(RETRY_PAUSE_S)


class KafkaConsumer(_Client):
    """Reads assigned partitions. One thread at a time."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._consumer: Consumer = self._make(Consumer)
        self._met: set[str] = set()
        self._unknown: list[TopicUnknown] = []

    def assign(self, starts: Sequence[Start]) -> None:
        """Read these partitions from these offsets and no others; what was fetched before is dropped."""
        self._last_error = None
        self._meet(starts)
        self._consumer.assign(list(map(_client_place, starts)))

    def add(self, starts: Sequence[Start]) -> None:
        """Read these partitions too."""
        self._meet(starts)
        self._consumer.incremental_assign(list(map(_client_place, starts)))

    def remove(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop reading these; what was fetched of them is dropped.

        There is no pause here: librdkafka keeps a partition paused over the next assign.
        """
        self._consumer.incremental_unassign([ClientPartition(*p) for p in partitions])

    def consume(self, limit: int, timeout_s: float) -> Fetched:
        """Take up to `limit` records; returns when there are so many or the time is over.

        Errors that may pass are kept as `last_error`.
        """
        messages = self._consumer.consume(limit, timeout_s)
        if self._unknown:
            unknown, self._unknown = self._unknown, []
            return Fetched(
                messages=[m for m in messages if m.error() is None], events=tuple(unknown)
            )
        if not any(map(Message.error, messages)):
            return Fetched(messages=messages)
        failed = [m for m in messages if m.error() is not None]
        events = tuple(event for event in map(self._event, failed) if event is not None)
        return Fetched(messages=[m for m in messages if m.error() is None], events=events)

    def positions(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Give the next offset of each partition, gaps passed included; those not begun are absent."""
        places = self._consumer.position([ClientPartition(*p) for p in partitions])
        return {TopicPartition(p.topic, p.partition): p.offset for p in places if p.offset >= 0}

    def unassign(self) -> None:
        """Read nothing for now."""
        self._consumer.unassign()

    def close(self) -> None:
        """Give the connection back."""
        self._consumer.close()

    def _meet(self, starts: Sequence[Start]) -> None:
        """Ask for the leaders of topics that are new to this client: left to itself it takes a second.

        A topic that does not exist is told by the next `consume`; left to itself the client waits for it.
        """
        self._unknown.clear()
        for topic in {start.partition.topic for start in starts} - self._met:
            try:
                found = self._consumer.list_topics(topic, timeout=REQUEST_TIMEOUT_S).topics[topic]
            except KafkaException as failure:
                self._last_error = failure.args[0]
                continue  # the read that follows has its own deadline
            if found.error is None:
                self._met.add(topic)
            elif found.error.code() in _GONE:
                mine = [start.partition for start in starts if start.partition.topic == topic]
                self._unknown += [TopicUnknown(partition=partition) for partition in mine]

    def _event(self, message: Message) -> Event | None:
        error = message.error()
        topic, partition = message.topic(), message.partition()
        assert error is not None, "only failed messages are events"
        where = TopicPartition(topic or "", -1 if partition is None else partition)
        if error.code() == _END:
            return EndOfPartition(partition=where, offset=message.offset() or 0)
        self._last_error = error
        if error.code() in _UNAVAILABLE:
            return OffsetUnavailable(partition=where, reason=error.str())
        if error.code() in _GONE:
            return TopicUnknown(partition=where)
        # the client looks for the group, but reading needs no rights on it
        denied = error.code() in _DENIED - {KafkaError.GROUP_AUTHORIZATION_FAILED}
        return Denied(reason=error.str()) if denied else None


def _client_place(start: Start) -> ClientPartition:
    if start.leader_epoch is None:
        return ClientPartition(*start.partition, start.offset)
    return ClientPartition(*start.partition, start.offset, leader_epoch=start.leader_epoch)


def _topic_info(topic: Any) -> TopicInfo:
    numbers = sorted(partition.id for partition in topic.partitions)
    return TopicInfo(topic_id=str(topic.topic_id), partitions=tuple(numbers))


def _unless_gone(future: Future[T]) -> T | None:
    try:
        return future.result()
    except KafkaException as error:
        if error.args[0].code() in _GONE:
            return None
        raise
