"""The WITH clause of a Kafka table as one checked, typed value.

The topics are a list of names or a Java regular expression (Flink's KafkaSubscriber).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.catalog.errors import OptionError
from penstock.catalog.options.option import Option, PrefixOption, Resolved, resolve
from penstock.catalog.options.references import shown_references
from penstock.connector.jvm.java_pattern import java_pattern
from penstock.connector.kafka.client.properties import client_configuration
from penstock.connector.kafka.table import options as o
from penstock.connector.kafka.table.startup import (
    AtTimestamp,
    BoundedMode,
    Earliest,
    GroupOffsets,
    Latest,
    SpecificOffsets,
    StartupMode,
    parse_specific_offsets,
)
from penstock.connector.options.bad_records import (
    BAD_RECORD_OPTIONS,
    BadRecordSettings,
    KafkaTopic,
    cluster_of,
    read_bad_record_settings,
)
from penstock.connector.options.watermark import (
    WATERMARK_OPTIONS,
    WatermarkSettings,
    read_watermark_settings,
)

# kept by the brokers for themselves; a pattern does not match them (Kafka's ListTopics leaves them out)
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicList:
    """The topics named; each has to exist."""

    topics: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join(f"'{topic}'" for topic in self.topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPattern:
    """Every topic whose whole name matches; `pattern` is Java's spelling. None may match yet."""

    pattern: str

    def select(self, existing: Iterable[str]) -> tuple[str, ...]:
        """Return those of `existing` that are read, sorted."""
        compiled = topic_pattern(self.pattern)
        return tuple(
            sorted(t for t in existing if t not in INTERNAL_TOPICS and compiled.fullmatch(t))
        )

    def __str__(self) -> str:
        return f"pattern '{self.pattern}'"


Subscription = TopicList | TopicPattern


def is_topic_name(name: str) -> bool:
    """Return whether Kafka takes `name` for a topic (Topic.validate)."""
    return _TOPIC_NAME.match(name) is not None and name not in (".", "..")


def topic_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a `topic-pattern`. Raises OptionError."""
    return java_pattern(
        pattern,
        what="'topic-pattern'",
        hint="it is a Java regular expression for the whole topic name, as in 'orders-.*' or 'orders-(eu|us)'",
    )


DISCOVERY_MS = 1_000
PATTERN_DISCOVERY_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """What the WITH clause of a Kafka table says, checked. Durations in ms; None or <= 0 turns a duration off.

    `client` is the configuration of the client library and may hold passwords. `group` is None where the table
    names no consumer group; `commits` says whether progress is committed to it. `bounded` is None for a scan
    that never ends by itself.
    """

    subscription: Subscription
    client: Mapping[str, str] = field(repr=False)
    group: str | None
    commits: bool
    startup: StartupMode
    bounded: BoundedMode | None
    discovery_interval_ms: int
    parallelism: int | None
    tolerates_loss: bool
    max_records_per_batch: int | None
    watermark: WatermarkSettings
    bad_records: BadRecordSettings
    resolved: Resolved = field(repr=False)

    @property
    def bootstrap_servers(self) -> str:
        """Addresses to name in errors."""
        return shown_references(self.client["bootstrap.servers"])

    @property
    def reads_committed(self) -> bool:
        """Whether records of open and aborted transactions are left out (the default, unlike Java's client)."""
        return self.client.get("isolation.level", "read_committed").lower() == "read_committed"


def read_settings(
    options: Mapping[str, str],
    formats: Sequence[Option[Any] | PrefixOption],
    *,
    owner: str,
    known: Sequence[Option[Any] | PrefixOption] = o.OPTIONS,
) -> KafkaSettings:
    """Read a WITH clause; `formats` are the options of the table's formats, `known` all others.

    Raises OptionError as Flink does.
    """
    resolved = resolve(
        options, [*known, *WATERMARK_OPTIONS, *BAD_RECORD_OPTIONS, *formats], owner=owner
    )
    subscription = _subscription(resolved, owner)
    properties = {
        "bootstrap.servers": resolved.get(o.BOOTSTRAP_SERVERS),
        **resolved.prefixed(o.PROPERTIES.prefix),
    }
    if not properties["bootstrap.servers"].strip():
        raise OptionError(
            f"{owner}: '{o.BOOTSTRAP_SERVERS.key}' is empty", hint=o.BOOTSTRAP_SERVERS.doc
        )
    bad_records = read_bad_record_settings(resolved, owner=owner, cluster=cluster_of(options))
    _check_no_circle(bad_records, subscription, owner)
    group = resolved.get(o.GROUP_ID)
    if group is not None:
        properties["group.id"] = group
    reset = _reset(properties, owner)
    bounded = _bounded(resolved, subscription, group, owner)
    return KafkaSettings(
        subscription=subscription,
        client=client_configuration(properties, owner=owner),
        group=group,
        commits=group is not None
        and properties.get("commit.offsets.on.checkpoint", "true") != "false",
        startup=_startup(resolved, subscription, group, reset, owner),
        bounded=bounded,
        # a bounded scan has the partitions that it began with (KafkaSourceBuilder)
        discovery_interval_ms=-1 if bounded is not None else _discovery(resolved, subscription),
        parallelism=resolved.at_least_one(o.PARALLELISM, owner=owner),
        tolerates_loss=resolved.get(o.ON_DATA_LOSS) == "continue",
        max_records_per_batch=resolved.at_least_one(o.MAX_RECORDS, owner=owner),
        watermark=read_watermark_settings(resolved, owner=owner, connector="kafka"),
        bad_records=bad_records,
        resolved=resolved,
    )


def _discovery(resolved: Resolved, subscription: Subscription) -> int:
    """Read how often to look for partitions.

    What is written to a partition before it is found may be late, so Flink's five minutes are too long. One request
    describes named topics; a pattern takes the names of all topics of the cluster.
    """
    chosen = resolved.get(o.DISCOVERY_INTERVAL)
    if chosen is not None:
        return chosen
    return PATTERN_DISCOVERY_MS if isinstance(subscription, TopicPattern) else DISCOVERY_MS


def _subscription(resolved: Resolved, owner: str) -> Subscription:
    topics, pattern = resolved.get(o.TOPIC), resolved.get(o.TOPIC_PATTERN)
    if topics is not None and pattern is not None:
        raise OptionError(f"{owner}: options 'topic' and 'topic-pattern' must not be set together")
    if pattern is not None:
        topic_pattern(pattern)
        return TopicPattern(pattern=pattern)
    if not topics:
        raise OptionError(f"{owner}: either 'topic' or 'topic-pattern' must be set")
    for topic in topics:
        if not is_topic_name(topic):
            raise OptionError(
                f"{owner}: '{topic}' cannot be the name of a Kafka topic",
                hint="names have letters, digits, '.', '_' and '-', at most 249; several are separated by ';'",
            )
    return TopicList(topics=tuple(dict.fromkeys(topics)))


def _check_no_circle(bad_records: BadRecordSettings, read: Subscription, owner: str) -> None:
    """Refuse dead letters in a topic that the table reads: each would be read as one more bad record."""
    outlet = bad_records.outlet
    if not isinstance(outlet, KafkaTopic):
        return
    listed = read.topics if isinstance(read, TopicList) else read.select([outlet.topic])
    if outlet.topic in listed:
        raise OptionError(
            f"{owner}: 'dead-letter.topic' = '{outlet.topic}' is a topic that the table reads ({read})",
            hint="name another topic",
        )


def _reset(properties: Mapping[str, str], owner: str) -> Earliest | Latest | None:
    """Read auto.offset.reset, which counts only where a group has committed nothing."""
    text = properties.get("auto.offset.reset", "none").lower()
    modes: dict[str, Earliest | Latest | None] = {
        "earliest": Earliest(),
        "latest": Latest(),
        "none": None,
    }
    if text not in modes:
        raise OptionError(
            f"{owner}: option 'properties.auto.offset.reset' = '{text}' is not one of 'earliest', 'latest', 'none'"
        )
    return modes[text]


def _startup(
    resolved: Resolved,
    subscription: Subscription,
    group: str | None,
    reset: Earliest | Latest | None,
    owner: str,
) -> StartupMode:
    match resolved.get(o.STARTUP_MODE):
        case "earliest-offset":
            return Earliest()
        case "latest-offset":
            return Latest()
        case "timestamp":
            _require(resolved, o.STARTUP_TIMESTAMP, "timestamp", "startup", owner)
            return AtTimestamp(at_ms=resolved.get(o.STARTUP_TIMESTAMP))
        case "specific-offsets":
            offsets = _specific(resolved, o.STARTUP_OFFSETS, subscription, "startup", owner)
            return SpecificOffsets(offsets=offsets, group=group)
    # without a group the table may still be written; its source then refuses (see KafkaConnector.source)
    return GroupOffsets(group=group or "", reset=reset)


def _bounded(
    resolved: Resolved, subscription: Subscription, group: str | None, owner: str
) -> BoundedMode | None:
    match resolved.get(o.BOUNDED_MODE):
        case "latest-offset":
            return Latest()
        case "group-offsets":
            return GroupOffsets(group=group or "")
        case "timestamp":
            _require(resolved, o.BOUNDED_TIMESTAMP, "timestamp", "bounded", owner)
            return AtTimestamp(at_ms=resolved.get(o.BOUNDED_TIMESTAMP))
        case "specific-offsets":
            offsets = _specific(resolved, o.BOUNDED_OFFSETS, subscription, "bounded", owner)
            return SpecificOffsets(offsets=offsets)
    return None


def _specific(
    resolved: Resolved, option: Option[Any], subscription: Subscription, mode: str, owner: str
) -> tuple[tuple[int, int], ...]:
    _require(resolved, option, "specific-offsets", mode, owner)
    if isinstance(subscription, TopicPattern) or len(subscription.topics) != 1:
        raise OptionError(
            f"{owner}: '{option.key}' works for a single topic only, not for {subscription}"
        )
    return parse_specific_offsets(resolved.get(option), option.key)


def _require(resolved: Resolved, option: Option[Any], value: str, mode: str, owner: str) -> None:
    if not resolved.is_set(option):
        raise OptionError(
            f"{owner}: '{option.key}' is required in '{value}' {mode} mode but missing",
            hint=option.doc,
        )
