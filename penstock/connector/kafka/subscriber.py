"""Which topics a table reads: a list of names or a Java regular expression (Flink's KafkaSubscriber)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.catalog.errors import OptionError

__all__ = ["Subscription", "TopicList", "TopicPattern", "is_topic_name", "java_pattern"]

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
        """Give those of `existing` that are read, sorted."""
        compiled = java_pattern(self.pattern)
        return tuple(
            sorted(t for t in existing if t not in INTERNAL_TOPICS and compiled.fullmatch(t))
        )

    def __str__(self) -> str:
        return f"pattern '{self.pattern}'"


Subscription = TopicList | TopicPattern


def is_topic_name(name: str) -> bool:
    """Tell whether Kafka takes `name` for a topic (Topic.validate)."""
    return _TOPIC_NAME.match(name) is not None and name not in (".", "..")


# topic names are ASCII, so the POSIX classes of java.util.regex.Pattern are these
_CLASSES = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "XDigit": "0-9a-fA-F",
    "Punct": "!-/:-@\\[-`{-~",
    "IsAlphabetic": "a-zA-Z",
    "IsDigit": "0-9",
    "L": "a-zA-Z",
    "Lu": "A-Z",
    "Ll": "a-z",
    "N": "0-9",
    "Nd": "0-9",
}
# one alternative for each thing that Java writes otherwise than Python; everything else is the same
_JAVA_ONLY = re.compile(
    r"\\Q(?P<literal>.*?)(?:\\E|\Z)"
    r"|\\p\{(?P<class_>\w+)\}"
    r"|\(\?<(?P<group>[A-Za-z]\w*)>"
    r"|\\k<(?P<reference>\w+)>"
    r"|(?P<end>\\[zZ])"
    r"|(?P<set>\[)"
    r"|(?P<unset>\])"
    r"|(?P<refused>&&|\\[hHRXGP])"
    r"|\\."
    r"|.",
    re.DOTALL,
)


def java_pattern(pattern: str) -> re.Pattern[str]:
    r"""Translate a java.util.regex pattern. Raises OptionError for what has no counterpart (\h, \R, && in a class)."""
    depth = 0
    parts: list[str] = []
    for token in _JAVA_ONLY.finditer(pattern):
        depth += (token["set"] is not None) - (token["unset"] is not None and depth > 0)
        if depth > 1 or (token["refused"] and (token["refused"] != "&&" or depth)):
            raise _refused(pattern, f"'{token[0]}' is not supported here")
        parts.append(_python(token, pattern, inside=depth > 0))
    try:
        return re.compile("".join(parts))
    except re.error as error:
        raise _refused(pattern, str(error)) from None


def _python(token: re.Match[str], pattern: str, *, inside: bool) -> str:
    if token["literal"] is not None:
        return re.escape(token["literal"])
    if token["class_"] is not None:
        members = _CLASSES.get(token["class_"])
        if members is None:
            raise _refused(pattern, f"the class '{token[0]}' is not supported")
        return members if inside else f"[{members}]"
    if token["group"] is not None:
        return f"(?P<{token['group']}>"
    if token["reference"] is not None:
        return f"(?P={token['reference']})"
    return r"\Z" if token["end"] else token[0]


def _refused(pattern: str, reason: str) -> OptionError:
    return OptionError(
        f"'topic-pattern' = '{pattern}' is not a usable regular expression: {reason}",
        hint="it is a Java regular expression for the whole topic name, as in 'orders-.*' or 'orders-(eu|us)'",
    )
