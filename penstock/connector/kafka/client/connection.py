"""The values that are passed to the Kafka client, and those that it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.catalog.options.references import shown_references
from penstock.connector.kafka.client.split import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Message  # noqa: TC004  at run time only `client` may

__all__ = [
    "Connection",
    "Denied",
    "EndOfPartition",
    "Event",
    "Fetched",
    "LogBounds",
    "OffsetUnavailable",
    "Start",
    "TopicInfo",
    "TopicUnknown",
]


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
    """Where to begin in a partition; `leader_epoch` lets the client notice a truncated log (KIP-320)."""

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


Event = EndOfPartition | OffsetUnavailable | TopicUnknown | Denied


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
