"""Makes topics, and lists those that are there, for `penstock kafka topics`. A pipeline never makes one by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from penstock.catalog.errors import ObjectExistsError, OptionError
from penstock.connector.kafka.admin import KafkaAdmin
from penstock.connector.kafka.client import REQUEST_TIMEOUT_S

__all__ = ["TopicPlan", "create_topic", "partition_counts"]

_REFUSED = frozenset(
    {
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_EXCEPTION,
    }
)
_INTERNAL = "__"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """A topic to be made; None is what the cluster's brokers do by themselves."""

    name: str
    partitions: int | None = None
    replicas: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)


def create_topic(admin: KafkaAdmin, plan: TopicPlan) -> None:
    """Make a topic. Raises ObjectExistsError, OptionError where the cluster refuses it, BrokerUnavailableError."""
    topic = NewTopic(
        plan.name,
        num_partitions=-1 if plan.partitions is None else plan.partitions,
        replication_factor=-1 if plan.replicas is None else plan.replicas,
        config=dict(plan.config),
    )

    def attempt() -> KafkaError | None:
        try:
            admin.admin.create_topics([topic], request_timeout=REQUEST_TIMEOUT_S)[
                plan.name
            ].result()
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if error.code() in {KafkaError.TOPIC_ALREADY_EXISTS, *_REFUSED}:
                return error
            raise
        return None

    error = admin.patiently(f"making of topic '{plan.name}'", attempt)
    if error is None:
        return
    if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
        raise ObjectExistsError(
            f"topic '{plan.name}' exists already",
            hint="`penstock kafka topics ls` lists the topics that are there",
        )
    raise OptionError(f"Kafka does not make topic '{plan.name}': {error.str()}")


def partition_counts(admin: KafkaAdmin) -> dict[str, int]:
    """Topics by name with their number of partitions; those of Kafka itself are left out."""
    names = sorted(name for name in admin.topic_names() if not name.startswith(_INTERNAL))
    found = admin.topics(names)
    return {name: len(found[name].partitions) for name in names if name in found}
