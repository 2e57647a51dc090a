"""The values that are passed to the Kafka client and those that it returns: connections, partitions, splits.

What each of our clients is tuned for, on top of what the table says, has its numbers from the source's benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from penstock.catalog.options.references import shown_references
from penstock.connector.source.split import Split

if TYPE_CHECKING:
    from confluent_kafka import Message  # noqa: TC004  at run time only `client` may


class TopicPartition(NamedTuple):
    """A partition of a topic; also a dictionary key and, as `topic-partition`, a split id (Flink's spelling)."""

    topic: str
    partition: int

    @property
    def split_id(self) -> str:
        """The id under which offsets and checkpoints know the partition."""
        return f"{self.topic}-{self.partition}"

    @classmethod
    def of(cls, split_id: str) -> TopicPartition:
        """Parse a split id; a topic's name may hold dashes itself."""
        topic, _, partition = split_id.rpartition("-")
        assert topic, f"{split_id!r} is not <topic>-<partition>"
        return cls(topic, int(partition))


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSplit(Split):
    """The offsets [`start`, `stop`) of one partition, for one task.

    `leader_epoch` is the leader's epoch when the range was planned: with it the client notices a log that was
    truncated since (KIP-320). None when nothing was planned in this process.
    """

    topic: str
    partition: int
    leader_epoch: int | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that is read."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBounds:
    """What a partition holds: `first` inclusive, `end` exclusive, and its leader's epoch (None: not told)."""

    first: int
    end: int
    leader_epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """A topic's id, which changes when it is deleted and made again (KIP-516), and its partitions."""

    topic_id: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where to begin in a partition; `leader_epoch` lets the client notice a truncated log (KIP-320).

    It looks as it hears of a later leader than it knows, and not where a read begins: see `cut_logs.py`.
    """

    partition: TopicPartition
    offset: int
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOfPartition:
    """The consumer stands at the end of what it may read: `offset`, exclusive."""

    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetUnavailable:
    """The offset asked for is not in the log: deleted, truncated, or not there yet."""

    partition: TopicPartition
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicUnknown:
    """The broker has no such topic or partition (any more)."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """The broker refuses the log-in or the topic."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Displaced:
    """Records came where they are not taken: another consumer has to read on where each range stands."""


Event = EndOfPartition | OffsetUnavailable | TopicUnknown | Denied | Displaced


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """The configuration of a client; may hold passwords, so it shows its address only. Usable as a key."""

    settings: tuple[tuple[str, str], ...] = field(repr=False)

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Connection:
        """Freeze a configuration."""
        return cls(settings=tuple(sorted(settings.items())))

    @property
    def address(self) -> str:
        """The brokers to begin with, for errors."""
        return shown_references(dict(self.settings)["bootstrap.servers"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Records in the order of each partition, and what else happened meanwhile."""

    messages: Sequence[Message]
    events: tuple[Event, ...] = ()


# what the scan decides itself; no table may change it
_ALWAYS = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    # the client's default jumps elsewhere without a word when an offset is gone
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "allow.auto.create.topics": "false",
}
_COMMON = {
    "client.id": "penstock",
    "socket.keepalive.enable": "true",
    # a broker that comes back is to be noticed within a second, not ten
    "reconnect.backoff.max.ms": "1000",
}
# librdkafka wants a group id of every consumer, though one that only assigns never joins
_GROUP = {"group.id": "penstock"}
_READ = {
    # the client fetches while a batch is decoded; it must not run dry in that time. More than this is read no
    # faster, and what lies fetched behind the end of a range is thrown away
    "queued.min.messages": "200000",
    "queued.max.messages.kbytes": "32768",
    "fetch.max.bytes": str(16 << 20),
    "max.partition.fetch.bytes": str(4 << 20),
    # a fetch that waits for data at the end of a range would hold up the next range by its whole wait
    "fetch.wait.max.ms": "10",
    # the default of a second is longer than a full queue lasts
    "fetch.queue.backoff.ms": "10",
    "fetch.error.backoff.ms": "50",
}
_FEW = {
    # a small range is over before more is wanted: records behind it cost the client more than those in it cost to read
    "queued.min.messages": "1000",
    "max.partition.fetch.bytes": str(1 << 20),
    "fetch.queue.backoff.ms": "1",
}
_PEEK = {
    "queued.min.messages": "1",
    # a record batch larger than this is answered for one partition a request (KIP-74)
    "max.partition.fetch.bytes": str(1 << 20),
    "fetch.max.bytes": str(8 << 20),
    "fetch.wait.max.ms": "10",
    "fetch.queue.backoff.ms": "1",
    "fetch.error.backoff.ms": "5",
}


def admin_connection(client: Mapping[str, str]) -> Connection:
    """For questions about topics, offsets and groups."""
    consumers_only = {"group.id", *_READ, "check.crcs", "isolation.level"}
    return Connection.of(
        {**_COMMON, **{k: v for k, v in client.items() if k not in consumers_only}}
    )


def read_connection(client: Mapping[str, str]) -> Connection:
    """For reading ranges as fast as they can be decoded; the table may change sizes and waits."""
    return Connection.of({**_COMMON, **_GROUP, **_READ, **client, **_ALWAYS})


def few_records_connection(client: Mapping[str, str]) -> Connection:
    """For ranges of few records: little is fetched behind their ends; the table may change sizes and waits."""
    return Connection.of({**_COMMON, **_GROUP, **_READ, **_FEW, **client, **_ALWAYS})


def peek_connection(client: Mapping[str, str]) -> Connection:
    """For single records of many partitions, quickly."""
    return Connection.of({**_COMMON, **_GROUP, **client, **_PEEK, **_ALWAYS})
