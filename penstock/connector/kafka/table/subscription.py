"""Which topics a table reads: a list of names or a Java regular expression (Flink's KafkaSubscriber)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.connector.java_pattern import java_pattern

__all__ = ["Subscription", "TopicList", "TopicPattern", "is_topic_name", "topic_pattern"]

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
