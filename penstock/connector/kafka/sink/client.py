"""Producers, with transactions and without, and markers by the client library; settings of the sink's connection.

Before a write the broker is asked for topics, rights, and how long a transaction may last.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import (
    KafkaError,
    KafkaException,
    Message,
    Producer,
)
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    ConfigResource,
    ResourceType,
)

from penstock.catalog.errors import (
    BrokerUnavailableError,
    OptionError,
    PenstockError,
    SinkError,
    UnknownObjectError,
)
from penstock.connector.kafka.client.admin import CommittedOffsets, KafkaAdmin
from penstock.connector.kafka.client.client import DENIED, REQUEST_TIMEOUT_S, KafkaClient
from penstock.connector.kafka.client.connection import Connection, TopicPartition, admin_connection
from penstock.connector.kafka.client.errors import missing_topics
from penstock.connector.kafka.sink.settings import Delivery, KafkaSinkSettings
from penstock.connector.kafka.table.settings import Subscription, TopicList

logger = logging.getLogger(__name__)

DEFAULT_TRANSACTION_TIMEOUT_MS = 300_000
"""Time for one slot's part of a batch. Flink's hour is more than brokers allow (FLINK-35870); what a dead runner
left open holds up read_committed readers no longer than this."""

ANSWERED_WITHIN_MS = 30_000
"""For one request of a transactional producer, as Java's client waits by default. librdkafka would wait for as long as
the transaction may last, whatever time the call that asks is given.
"""

_TUNED = {
    "linger.ms": "20",
    "batch.size": str(1 << 20),
    # Java's choice of partition by key, so that records of both clients lie together
    "partitioner": "murmur2_random",
}

_DURABLE = {"acks": "all", "enable.idempotence": "true"}


def producer_connection(client: Mapping[str, str], sink: KafkaSinkSettings) -> Connection:
    """Return the connection of producers without transactions; `client` is the table's own configuration."""
    base = dict(admin_connection(client).settings)
    forced = {} if sink.delivery is Delivery.NONE else _DURABLE
    chosen = {k: v for k, v in sink.producer.items() if k != "transaction.timeout.ms"}
    return Connection.of({**base, **_TUNED, **chosen, **forced})


def transactional(connection: Connection, transactional_id: str, timeout_ms: int) -> Connection:
    """Return the connection of one transaction's producer; a 'properties.socket.timeout.ms' of the table stays."""
    return Connection.of(
        {
            "socket.timeout.ms": str(min(ANSWERED_WITHIN_MS, timeout_ms)),
            **dict(connection.settings),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": str(timeout_ms),
        }
    )


Commit = tuple[int, str]
"""A committed offset and the text beside it."""

GIVE_UP_AFTER_S = 60.0
"""For starting or ending a transaction, retries included: a broker that restarts is back by then."""

DRAINED_BYTES = 64 << 20

DRAINED_RECORDS = 200_000
"""So much is handed to the client before all of it has to be with the broker: its queue never runs full."""

ABORTED_WITHIN_S = 5.0
"""For an abort, which only saves others from waiting."""

POLL_S = 0.1

SERVED_S = 0.01
"""Bound of one poll for delivery reports. The client's own flush is not usable: where a fatal error has to be raised,
it calls back with the exception set (confluent-kafka 2.16).
"""

_FENCED = {
    KafkaError._FENCED,  # noqa: SLF001  the client's own codes begin with an underscore
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
}

_TIMED_OUT = {
    KafkaError.INVALID_TXN_STATE,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
    KafkaError.UNKNOWN_PRODUCER_ID,
}


class SinkAdmin(KafkaAdmin):
    """The requests of a sink, beside those of scans. Any thread; every call may block up to 30 s."""

    def group_commits(
        self, group: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Commit]:
        """Look up what a group committed, open transactions waited for; missing ones are absent."""
        with CommittedOffsets(self.connection, group) as member:
            found = self.patiently(
                f"marker of group '{group}'", lambda: member.committed(partitions)
            )
        return {TopicPartition(p.topic, p.partition): (p.offset, p.metadata or "") for p in found}

    def broker_setting(self, name: str) -> str | None:
        """Look up a setting of any broker; None where it may not be seen."""

        def attempt() -> str | None:
            nodes = self.admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_S).result().nodes
            broker = ConfigResource(ResourceType.BROKER, str(nodes[0].id))
            futures = self.admin.describe_configs([broker], request_timeout=REQUEST_TIMEOUT_S)
            (answer,) = [future.result() for future in futures.values()]
            return answer[name].value if name in answer else None

        try:
            return self.patiently(f"setting '{name}'", attempt)
        except PenstockError as error:
            if isinstance(error, BrokerUnavailableError):
                raise
            return None

    def group_names(self) -> tuple[str, ...]:
        """List all consumer groups that may be seen."""
        found = self.patiently(
            "list of groups",
            lambda: self.admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S).result(),
        )
        return tuple(sorted(group.group_id for group in found.valid))


class RecordProducer(KafkaClient):
    """Sends records, in one transaction at most. One thread; a fresh one for each transaction.

    `who` names the writer in errors. Transactional where the connection has a transactional.id.
    """

    def __init__(self, connection: Connection, *, who: str) -> None:
        super().__init__(connection)
        self._who = who
        self._failed: list[tuple[KafkaError, str]] = []
        self._queued_bytes = self._queued_records = 0
        self._began = time.monotonic()
        self._producer: Producer = self.make(Producer)

    def configuration(self) -> dict[str, Any]:
        """Return the client library's settings; only failures are reported, record by record."""
        settings = super().configuration()
        # what fails is told record by record, and fatal errors are raised
        del settings["error_cb"]
        return {
            **settings,
            "on_delivery": self._note_failure,
            "delivery.report.only.error": True,
            "queue.buffering.max.messages": 10 * DRAINED_RECORDS,
            "queue.buffering.max.kbytes": 1 << 20,
        }

    def fence(self) -> None:
        """Make every earlier producer of this transactional.id powerless, and wait until its transaction is over."""
        self._patiently("the start of a transaction", self._producer.init_transactions)

    def begin(self) -> None:
        """Begin the transaction."""
        self._at_once(self._producer.begin_transaction)

    def partitions(self, topic: str) -> int:
        """Count a topic's partitions. Raises SinkError where it is not there."""
        found: list[int] = []

        def ask(timeout_s: float) -> None:
            described = self._producer.list_topics(topic, timeout=timeout_s).topics[topic]
            if described.error is not None:
                raise KafkaException(described.error)
            found.append(len(described.partitions))

        self._patiently(f"partitions of topic '{topic}'", ask)
        return found[-1]

    def send(self, topic: str, records: list[dict[str, Any]], size: int, partition: int) -> None:
        """Send records of `size` bytes in all, as `Producer.produce_batch` takes them; -1: by key."""
        self._make_room(size, len(records))
        queued = self._at_once(
            lambda: self._producer.produce_batch(topic, records, partition=partition)
        )
        if queued != len(records):
            failed = next(record["_error"] for record in records if record.get("_error"))
            raise self._refused(failed, topic)

    def send_one_by_one(
        self, topic: str, records: Sequence[Mapping[str, Any]], size: int, partition: int
    ) -> None:
        """Send records with headers or timestamps, which the client accepts only one by one."""
        self._make_room(size, len(records))
        for record in records:
            try:
                self._producer.produce(topic, partition=partition, **record)
            except KafkaException as failure:
                raise self._refused(failure.args[0], topic) from None

    def flush(self) -> None:
        """Wait until the broker has all records. Raises SinkError for the first that it did not take."""
        # the client gives up on a record by itself (message.timeout.ms), so this ends
        while len(self._producer) and not self._failed:
            self._serve(SERVED_S)
        self._queued_bytes = self._queued_records = 0
        if self._failed:
            raise self._refused(*self._failed[0])

    def add_marker(self, group: str, partition: TopicPartition, commit: Commit) -> None:
        """Add an offset of `group` to the transaction; nothing is committed yet."""
        offset, metadata = commit
        marker = [ClientPartition(partition.topic, partition.partition, offset, metadata)]
        with CommittedOffsets(self.connection, group) as consumer:
            member = consumer.metadata

        def with_marker(timeout_s: float) -> None:
            self._producer.send_offsets_to_transaction(marker, member, timeout_s)

        self._patiently("the marker of a transaction", with_marker)

    def commit(self) -> None:
        """Commit the transaction; after an error nobody knows whether it is."""
        self._patiently("the commit of a transaction", self._producer.commit_transaction)

    def abort(self) -> None:
        """Abort the transaction, if that is at once possible; else the next `fence` or the broker does."""
        try:
            self._producer.abort_transaction(ABORTED_WITHIN_S)
        except KafkaException as failure:
            logger.debug("%s: an open transaction is left: %s", self._who, failure)

    def drop(self) -> None:
        """Drop the producer and all that was not committed; the next `fence` of the id ends what is open.

        The client's own close is not usable here: it fails for a producer that is fenced.
        """
        self._producer.purge()
        del self._producer

    def _make_room(self, size: int, records: int) -> None:
        self._queued_bytes += size
        self._queued_records += records
        if self._queued_bytes > DRAINED_BYTES or self._queued_records > DRAINED_RECORDS:
            self.flush()
            self._queued_bytes, self._queued_records = size, records
        elif self._failed:
            raise self._refused(*self._failed[0])
        self._serve(0)

    def _serve(self, wait_s: float) -> None:
        """Poll the client for delivery reports, and record them."""
        try:
            self._producer.poll(wait_s)
        except KafkaException as failure:  # a fatal error, which belongs to no record
            self._failed.append((failure.args[0], ""))

    def _note_failure(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append((error, message.topic() or ""))

    def _at_once(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except KafkaException as failure:
            raise self._error(failure.args[0], "a transaction") from None

    def _patiently(self, asked: str, call: Callable[[float], Any]) -> None:
        """Call until it works or cannot: the client says which of its errors may pass."""
        began = time.monotonic()
        while True:
            try:
                call(REQUEST_TIMEOUT_S)
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                if not error.retriable() and error.code() != KafkaError._TIMED_OUT:  # noqa: SLF001
                    raise self._error(error, asked) from None
            else:
                return
            seconds = time.monotonic() - began
            if seconds > GIVE_UP_AFTER_S:
                raise self.unavailable(asked, seconds)
            threading.Event().wait(POLL_S)

    def _refused(self, error: KafkaError, topic: str) -> PenstockError:
        """Make the error for a record that the broker, or the client, did not take."""
        fatal = self._fatal_error()
        if fatal is not None:
            # the record was only thrown away with the producer, which knows the reason
            return self._error(fatal, "a record")
        if error.fatal() or error.code() in _FENCED:
            return self._error(error, "a record")
        if error.code() == KafkaError._MSG_TIMED_OUT:  # noqa: SLF001
            return self.unavailable(f"records for topic '{topic}'", time.monotonic() - self._began)
        if error.code() in DENIED:
            return self.denied(error.str())
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return SinkError(
                f"a record is too large for topic '{topic}': {error.str()}",
                hint="raise 'properties.max.request.size' of the table and max.message.bytes of the topic",
            )
        return SinkError(f"topic '{topic}' did not take a record: {error.str()} ({error.name()})")

    def _fatal_error(self) -> KafkaError | None:
        """Return why the producer is unusable, by aborting its transaction; None where it is
        usable, or has no transaction.
        """
        if "transactional.id" not in dict(self.connection.settings):
            return None
        # nothing may be left that an abort would report, see SERVED_S
        self._producer.purge()
        while len(self._producer):
            self._serve(SERVED_S)
        try:
            self._producer.abort_transaction(REQUEST_TIMEOUT_S)
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            return error if error.fatal() else None
        return None

    def _error(self, error: KafkaError, asked: str) -> PenstockError:
        why = f"{error.str()} ({error.name()})"
        if error.code() in _FENCED:
            return SinkError(
                f"{self._who} is fenced: a newer attempt has taken its transaction over: {why}",
                hint="the newer attempt continues; if this comes again and again, a second runner works on the same "
                "checkpoint, or another pipeline uses this 'sink.transactional-id-prefix': stop one of them",
            )
        if error.code() in _TIMED_OUT:
            return SinkError(
                f"{self._who} lost its transaction: the broker ended it after transaction.timeout.ms: {why}",
                hint="raise 'properties.transaction.timeout.ms' (and the broker's transaction.max.timeout.ms), or "
                "write smaller batches: 'scan.max-records-per-batch' of the source",
            )
        if error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            return SinkError(
                f"{self._who}: the broker does not allow so long a transaction.timeout.ms: {why}",
                hint="lower 'properties.transaction.timeout.ms', or raise the broker's transaction.max.timeout.ms",
            )
        if error.code() in DENIED:
            return self.denied(error.str())
        return SinkError(f"{self._who}: {asked} failed: {why}")


CAP = "transaction.max.timeout.ms"
DEFAULT_CAP_MS = 900_000
"""Kafka's own, assumed where the broker's settings may not be seen."""


def check_topics(admin: SinkAdmin, topics: Subscription) -> None:
    """Check that the topics of a list exist: a sink creates none. Raises UnknownObjectError."""
    if isinstance(topics, TopicList):
        found = admin.topics(topics.topics)
        missing = [topic for topic in topics.topics if topic not in found]
        if missing:
            raise missing_topics(missing, admin.topic_names(), admin.connection.address)


def transaction_timeout_ms(admin: SinkAdmin, asked_ms: int | None, *, owner: str) -> int:
    """Return the time for a transaction: as the table says, else ours or the broker's limit. Raises OptionError."""
    cap_ms = int(admin.broker_setting(CAP) or DEFAULT_CAP_MS)
    if asked_ms is None:
        return min(DEFAULT_TRANSACTION_TIMEOUT_MS, cap_ms)
    if asked_ms > cap_ms:
        raise OptionError(
            f"{owner}: 'properties.transaction.timeout.ms' = '{asked_ms}' is more than the broker allows: its "
            f"{CAP} is {cap_ms}",
            hint=f"lower it to {cap_ms} at most, or raise {CAP} of the brokers",
        )
    return asked_ms


def check_transactions(
    connection: Connection, admin: SinkAdmin, prefix: str, timeout_ms: int, topic: str
) -> None:
    """Start a transaction of the prefix and ask for a marker, under `topic` as tasks will: what is not allowed shows.

    Raises OptionError, which names the right that is missing, SinkError, and BrokerUnavailableError.
    """
    name = f"{prefix}-check"
    producer = RecordProducer(transactional(connection, name, timeout_ms), who=f"'{name}'")
    try:
        producer.fence()
    except (OptionError, SinkError) as error:
        raise type(error)(
            f"transactions with ids that begin with '{prefix}' do not start: {error.message}",
            hint=error.hint,
        ) from error
    finally:
        producer.drop()
    admin.group_commits(name, [TopicPartition(topic, 0)])


def marker_partition(admin: SinkAdmin, topics: Subscription) -> str:
    """Choose the topic under whose name markers are kept, when a sink begins. Raises UnknownObjectError."""
    if isinstance(topics, TopicList):
        return topics.topics[0]
    existing = topics.select(admin.topic_names())
    if not existing:
        raise UnknownObjectError(
            f"no topic matches {topics} yet, and one is needed to keep markers under its name",
            hint="make the first of them",
        )
    return existing[0]
