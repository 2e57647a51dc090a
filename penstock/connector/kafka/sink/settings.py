"""The sink options of a Kafka table as one checked, typed value (Flink's KafkaConnectorOptionsUtil, sink side)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.catalog.errors import OptionError, UnsupportedError
from penstock.catalog.options.option import Resolved
from penstock.connector.kafka.client.properties import PRODUCED, PRODUCER_DECIDES, PRODUCER_RENAMED
from penstock.connector.kafka.table import options as o

logger = logging.getLogger(__name__)

LONGEST_PREFIX = 64_000
"""Bytes of UTF-8 (Flink's KafkaSinkBuilder); Kafka's strings end at 65,535, and ours append to it."""


class Delivery(StrEnum):
    """What a failure may do to written records (`sink.delivery-guarantee`)."""

    NONE = "none"
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


class Partitioner(StrEnum):
    """What chooses a record's partition: the client (by key, as Java's does), or each task one for all its records."""

    DEFAULT = "default"
    FIXED = "fixed"


class Staging(StrEnum):
    """When the rows of a batch are kept before they are published, so that a replay has the same ones."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSinkSettings:
    """What a WITH clause says about writing. `producer` are options of the client library, without log-in and address.

    `prefix` is empty unless delivery is exactly-once. `parallelism` is the number of tasks, or None. `buffers`: of an
    upsert sink, whether the last change of each key in a batch is enough. `by_tasks`: whether reading tasks may write.
    """

    delivery: Delivery
    prefix: str
    partitioner: Partitioner
    parallelism: int | None
    staging: Staging
    buffers: bool
    by_tasks: bool
    producer: Mapping[str, str] = field(repr=False)

    @property
    def transaction_timeout_ms(self) -> int | None:
        """`properties.transaction.timeout.ms`; None where the table leaves it open."""
        text = self.producer.get("transaction.timeout.ms")
        return None if text is None else int(text)


def read_sink_settings(resolved: Resolved, *, upsert: bool, owner: str) -> KafkaSinkSettings:
    """Read and check the sink options. Raises OptionError, UnsupportedError."""
    delivery = _delivery(resolved, owner)
    prefix = resolved.get(o.TRANSACTIONAL_ID_PREFIX) or ""
    if delivery is Delivery.EXACTLY_ONCE:
        _check_prefix(prefix, owner)
    return KafkaSinkSettings(
        delivery=delivery,
        prefix=prefix,
        partitioner=_partitioner(resolved, owner),
        parallelism=resolved.at_least_one(o.SINK_PARALLELISM, owner=owner),
        staging=Staging(resolved.get(o.STAGING)),
        buffers=upsert and _buffers(resolved, owner),
        by_tasks=resolved.get(o.WRITER) != "spark",
        producer=_producer(resolved, delivery, owner),
    )


def _delivery(resolved: Resolved, owner: str) -> Delivery:
    text = resolved.get(o.DELIVERY_GUARANTEE)
    if resolved.is_set(o.SEMANTIC):
        logger.warning(
            "%s: 'sink.semantic' is deprecated: use '%s'", owner, o.DELIVERY_GUARANTEE.key
        )
        if not resolved.is_set(o.DELIVERY_GUARANTEE):
            text = resolved.get(o.SEMANTIC)
    return Delivery(text)


def _check_prefix(prefix: str, owner: str) -> None:
    key = o.TRANSACTIONAL_ID_PREFIX.key
    if not prefix:
        raise OptionError(
            f"{owner}: '{key}' must be set when '{o.DELIVERY_GUARANTEE.key}' is 'exactly-once'",
            hint=f"add '{key}' = '...', a name that no other pipeline on this Kafka cluster uses",
        )
    size = len(prefix.encode())
    if size > LONGEST_PREFIX:
        raise OptionError(
            f"{owner}: '{key}' has {size} bytes, and at most {LONGEST_PREFIX} are allowed"
        )


def _partitioner(resolved: Resolved, owner: str) -> Partitioner:
    text = resolved.get(o.PARTITIONER)
    match text:
        case "default" | "fixed":
            return Partitioner(text)
        case "round-robin":
            if resolved.get(o.KEY_FIELDS):
                raise OptionError(
                    f"{owner}: '{o.PARTITIONER.key}' = 'round-robin' only works when '{o.KEY_FIELDS.key}' "
                    "is not set",
                    hint="records with a key go to the partition of their key; leave one of the two out",
                )
            # as in Flink: without a key the client spreads records itself
            return Partitioner.DEFAULT
        case "":
            raise OptionError(f"{owner}: '{o.PARTITIONER.key}' is empty", hint=o.PARTITIONER.doc)
    raise UnsupportedError(
        f"{owner}: '{o.PARTITIONER.key}' = '{text}': classes of Java are not loaded",
        hint="use 'default' (by key, as Kafka's own), 'fixed' or 'round-robin'",
    )


def _buffers(resolved: Resolved, owner: str) -> bool:
    rows, interval_ms = resolved.get(o.BUFFER_ROWS), resolved.get(o.BUFFER_INTERVAL)
    if (rows > 0) != (interval_ms > 0):
        raise OptionError(
            f"{owner}: '{o.BUFFER_ROWS.key}' and '{o.BUFFER_INTERVAL.key}' must be set together",
            hint="with both, the last change of each key in a micro-batch is written; without, all changes are",
        )
    return bool(rows > 0)


def _producer(resolved: Resolved, delivery: Delivery, owner: str) -> dict[str, str]:
    """Return the producer's options that the table sets, checked against what delivery needs."""
    properties = resolved.prefixed(o.PROPERTIES.prefix)
    producer = {
        PRODUCER_RENAMED.get(key, key): value
        for key, value in properties.items()
        if PRODUCER_RENAMED.get(key, key) in PRODUCED
    }
    for key, reason in PRODUCER_DECIDES.items():
        if key in properties:
            raise OptionError(f"{owner}: option 'properties.{key}' is refused: {reason}")
    if delivery is not Delivery.NONE:
        _check_durable(producer, delivery, owner)
    timeout = producer.get("transaction.timeout.ms", "1")
    if not timeout.isdigit() or int(timeout) < 1:
        raise OptionError(
            f"{owner}: option 'properties.transaction.timeout.ms' = '{timeout}' is not a number of milliseconds"
        )
    return producer


def _check_durable(producer: Mapping[str, str], delivery: Delivery, owner: str) -> None:
    for key, good in (("acks", ("all", "-1")), ("enable.idempotence", ("true",))):
        value = producer.get(key)
        if value is not None and value.lower() not in good:
            raise OptionError(
                f"{owner}: option 'properties.{key}' = '{value}' contradicts "
                f"'{o.DELIVERY_GUARANTEE.key}' = '{delivery.value}', which needs '{good[0]}'",
                hint=f"leave it out, or set '{o.DELIVERY_GUARANTEE.key}' = 'none'",
            )
