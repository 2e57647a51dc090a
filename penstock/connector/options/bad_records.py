"""The options for records that cannot be decoded: fail, skip, or keep them as dead letters.

All are Penstock's own. Flink's `<format>.ignore-parse-errors` keeps its meaning beside them: it makes malformed fields
NULL, so the two are not set together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.catalog.errors import OptionError
from penstock.catalog.model.table import Table
from penstock.catalog.options.option import (
    LONG,
    STRING,
    Option,
    OptionType,
    Resolved,
    enum_type,
    resolve,
)

Cluster = tuple[tuple[str, str], ...]
"""Options of a Kafka table that say how its cluster is reached, by name."""

_TOPIC_NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}\Z")
_OF_THE_CLUSTER = "properties."
_PREFIX = "sink.transactional-id-prefix"
# what a table says about its own scan has no say in the letters' topic
_OF_THE_SCAN = ("group.id", "isolation.level", "auto.offset.reset", "commit.offsets.on.checkpoint")
_RATIO = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*(%?)\s*\Z")


class BadRecordPolicy(StrEnum):
    """What becomes of a record that cannot be decoded.

    FAIL: it fails the query. SKIP: it is left out and counted. DEAD_LETTER: it is also kept, as it was.
    """

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideCheckpoint:
    """Dead letters go to the Delta table `dead-letters` in the checkpoint directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaPath:
    """Dead letters go to the Delta table at `path`: relative to the project, absolute, or a Hadoop URL."""

    path: str


class DeadLetterDelivery(StrEnum):
    """What a failure may do to dead letters in a Kafka topic: repeat some, or nothing."""

    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTopic:
    """Dead letters go to a Kafka topic of the cluster that the table is read from.

    `cluster` are the table's options that say how to reach it. They are not compared: an address or a password that
    changes makes no other outlet.
    """

    topic: str
    delivery: DeadLetterDelivery = DeadLetterDelivery.EXACTLY_ONCE
    cluster: Cluster = field(default=(), compare=False, repr=False)

    @property
    def brokers(self) -> str:
        """Addresses of the cluster, as the table has them."""
        return dict(self.cluster).get(f"{_OF_THE_CLUSTER}bootstrap.servers", "")


DeadLetterTarget = BesideCheckpoint | DeltaPath | KafkaTopic
"""Where dead letters go."""


def _ratio(text: str) -> float:
    found = _RATIO.match(text)
    if found is None:
        raise ValueError(text)
    ratio = float(found.group(1)) / (100 if found.group(2) else 1)
    if ratio > 1:
        raise ValueError(text)
    return ratio


BAD_RECORDS = Option(
    key="bad-records",
    type=enum_type(*(policy.value for policy in BadRecordPolicy)),
    default=BadRecordPolicy.FAIL.value,
    doc="what becomes of a record that cannot be decoded: fail, skip or dead-letter",
    flink=None,
)
MAX_RATIO = Option(
    key="bad-records.max-ratio",
    type=OptionType(name="a share such as '0.1' or '10%', at most 1", parse=_ratio),
    default=0.1,
    doc="the share of a batch's records above which bad ones stop the query, in batches of 1,000 records and more; "
    "1 is no limit",
    flink=None,
)
MAX_ROWS: Option[int | None] = Option(
    key="bad-records.max-rows",
    type=LONG,
    default=None,
    doc="the number of bad records in a batch above which they stop the query",
    flink=None,
)
DEAD_LETTER_PATH: Option[str | None] = Option(
    key="dead-letter.path",
    type=STRING,
    default=None,
    doc="Delta table for dead letters: a path relative to the project, or a URL; default 'dead-letters' in the "
    "query's checkpoint directory",
    flink=None,
)
DEAD_LETTER_TOPIC: Option[str | None] = Option(
    key="dead-letter.topic",
    type=STRING,
    default=None,
    doc="Kafka topic for dead letters, in place of a Delta table: of the cluster that the table is read from",
    flink=None,
)
DEAD_LETTER_DELIVERY = Option(
    key="dead-letter.delivery-guarantee",
    type=enum_type(*(delivery.value for delivery in DeadLetterDelivery)),
    default=DeadLetterDelivery.EXACTLY_ONCE.value,
    doc="what a failure may do to dead letters in a Kafka topic: exactly-once or at-least-once",
    flink=None,
)
BAD_RECORD_OPTIONS: tuple[Option[Any], ...] = (
    BAD_RECORDS,
    MAX_RATIO,
    MAX_ROWS,
    DEAD_LETTER_PATH,
    DEAD_LETTER_TOPIC,
    DEAD_LETTER_DELIVERY,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRecordSettings:
    """What the options say. `max_ratio` is a share of a batch's records, `max_rows` a number of them (None: any)."""

    policy: BadRecordPolicy = BadRecordPolicy.FAIL
    outlet: DeadLetterTarget = BesideCheckpoint()
    max_ratio: float = 0.1
    max_rows: int | None = None

    @property
    def leaves_out(self) -> bool:
        """Whether bad records are left out, and the query continues."""
        return self.policy is not BadRecordPolicy.FAIL

    @property
    def keeps(self) -> bool:
        """Whether bad records are kept as dead letters."""
        return self.policy is BadRecordPolicy.DEAD_LETTER


def read_bad_record_settings(
    resolved: Resolved, *, owner: str, cluster: Cluster | None = None
) -> BadRecordSettings:
    """Check the options of a table; `cluster` is how its Kafka cluster is reached, None of a table without one.

    Raises OptionError where they contradict each other.
    """
    policy = BadRecordPolicy(resolved.get(BAD_RECORDS))
    _check_needs(resolved, policy, owner)
    max_rows = resolved.get(MAX_ROWS)
    if max_rows is not None and max_rows < 0:
        raise OptionError(f"{owner}: option '{MAX_ROWS.key}' must not be negative")
    return BadRecordSettings(
        policy=policy,
        outlet=_dead_letter_target(resolved, owner, cluster),
        max_ratio=resolved.get(MAX_RATIO),
        max_rows=max_rows,
    )


def _dead_letter_target(
    resolved: Resolved, owner: str, cluster: Cluster | None
) -> DeadLetterTarget:
    path, topic = resolved.get(DEAD_LETTER_PATH), resolved.get(DEAD_LETTER_TOPIC)
    if resolved.is_set(DEAD_LETTER_DELIVERY) and topic is None:
        raise OptionError(f"{owner}: '{DEAD_LETTER_DELIVERY.key}' needs '{DEAD_LETTER_TOPIC.key}'")
    if topic is not None:
        if path is not None:
            raise OptionError(
                f"{owner}: '{DEAD_LETTER_PATH.key}' and '{DEAD_LETTER_TOPIC.key}' "
                "are two places for the same dead letters",
                hint="set one of the two",
            )
        return _topic(topic, DeadLetterDelivery(resolved.get(DEAD_LETTER_DELIVERY)), owner, cluster)
    if path is not None and not path.strip():
        raise OptionError(
            f"{owner}: option '{DEAD_LETTER_PATH.key}' is empty", hint=DEAD_LETTER_PATH.doc
        )
    return BesideCheckpoint() if path is None else DeltaPath(path=path)


def _topic(
    topic: str, delivery: DeadLetterDelivery, owner: str, cluster: Cluster | None
) -> KafkaTopic:
    if cluster is None:
        raise OptionError(
            f"{owner}: '{DEAD_LETTER_TOPIC.key}' = '{topic}' is a topic of the table's Kafka cluster, and it has none",
            hint=f"name a Delta table by '{DEAD_LETTER_PATH.key}', or leave both out",
        )
    if _TOPIC_NAME.match(topic) is None:
        raise OptionError(
            f"{owner}: '{DEAD_LETTER_TOPIC.key}' = '{topic}' cannot be the name of a Kafka topic",
            hint="names have letters, digits, '.', '_' and '-', at most 249",
        )
    return KafkaTopic(topic=topic, delivery=delivery, cluster=cluster)


def cluster_of(options: Mapping[str, str]) -> Cluster | None:
    """Return the options of a table that say how its Kafka cluster is reached; None of a table that has none."""
    if f"{_OF_THE_CLUSTER}bootstrap.servers" not in options:
        return None
    left_out = {f"{_OF_THE_CLUSTER}{key}" for key in _OF_THE_SCAN}
    return tuple(
        (key, value)
        for key, value in options.items()
        if key == _PREFIX or (key.startswith(_OF_THE_CLUSTER) and key not in left_out)
    )


def bad_record_settings(table: Table) -> BadRecordSettings:
    """Read the options of a table that its connector has checked; tables of other kinds fail."""
    known = {option.key for option in BAD_RECORD_OPTIONS}
    options = {key: value for key, value in table.options if key in known}
    owner = f"table {table.identifier}"
    resolved = resolve(options, BAD_RECORD_OPTIONS, owner=owner)
    return read_bad_record_settings(resolved, owner=owner, cluster=cluster_of(table.option_map))


def check_against_format(resolved: Resolved, *, owner: str, format_skips: bool) -> None:
    """Refuse `bad-records` beside a format that leaves out bad records by itself. Raises OptionError."""
    if format_skips and resolved.is_set(BAD_RECORDS):
        raise OptionError(
            f"{owner}: '{BAD_RECORDS.key}' = '{resolved.get(BAD_RECORDS)}' contradicts 'ignore-parse-errors' = "
            "'true' of the format, which makes malformed fields NULL and leaves out malformed records by itself",
            hint="set one of the two",
        )


def _check_needs(resolved: Resolved, policy: BadRecordPolicy, owner: str) -> None:
    """Refuse options without effect: the user relies on them."""
    needed = {
        MAX_RATIO: "skip' or 'dead-letter",
        MAX_ROWS: "skip' or 'dead-letter",
        DEAD_LETTER_PATH: "dead-letter",
        DEAD_LETTER_TOPIC: "dead-letter",
        DEAD_LETTER_DELIVERY: "dead-letter",
    }
    for option, values in needed.items():
        if resolved.is_set(option) and policy not in values.split("' or '"):
            raise OptionError(
                f"{owner}: '{option.key}' needs '{BAD_RECORDS.key}' = '{values}', it is '{policy}'",
                hint=BAD_RECORDS.doc,
            )
