"""Lists, creates, alters and deletes topics for `penstock kafka topics`. A pipeline never makes or deletes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from penstock.catalog.errors import ObjectExistsError, OptionError, UnknownObjectError
from penstock.connector.kafka.client.admin import KafkaAdmin
from penstock.connector.kafka.client.client import REQUEST_TIMEOUT_S

_REFUSED = frozenset(
    {
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_DELETION_DISABLED,
    }
)
_UNKNOWN = KafkaError.UNKNOWN_TOPIC_OR_PART
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

    error = _outcome(
        admin,
        f"creation of topic '{plan.name}'",
        lambda: admin.admin.create_topics([topic], request_timeout=REQUEST_TIMEOUT_S)[plan.name],
        final={KafkaError.TOPIC_ALREADY_EXISTS},
    )
    if error is None:
        return
    if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
        raise ObjectExistsError(
            f"topic '{plan.name}' exists already",
            hint="`penstock kafka topics ls` lists the topics that are there",
        )
    raise OptionError(f"Kafka does not make topic '{plan.name}': {error.str()}")


def add_partitions(admin: KafkaAdmin, name: str, partitions: int) -> None:
    """Raise a topic's number of partitions to `partitions`. Raises UnknownObjectError, OptionError where Kafka
    refuses.

    Kafka never removes partitions. Records with a key may go to other partitions from then on.
    """
    new = NewPartitions(name, partitions)
    error = _outcome(
        admin,
        f"new partitions of topic '{name}'",
        lambda: admin.admin.create_partitions([new], request_timeout=REQUEST_TIMEOUT_S)[name],
    )
    _raise_if(error, name, f"Kafka does not give topic '{name}' {partitions} partitions")


def alter_config(admin: KafkaAdmin, name: str, config: Mapping[str, str]) -> None:
    """Set some of a topic's settings, and leave the others. Raises as `add_partitions`."""
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in config.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    error = _outcome(
        admin,
        f"settings of topic '{name}'",
        lambda: admin.admin.incremental_alter_configs(
            [resource], request_timeout=REQUEST_TIMEOUT_S
        )[resource],
    )
    _raise_if(error, name, f"Kafka does not change the settings of topic '{name}'")


def delete_topic(admin: KafkaAdmin, name: str) -> None:
    """Delete a topic and its records. Raises as `add_partitions`."""
    error = _outcome(
        admin,
        f"deletion of topic '{name}'",
        lambda: admin.admin.delete_topics([name], request_timeout=REQUEST_TIMEOUT_S)[name],
    )
    _raise_if(error, name, f"Kafka does not delete topic '{name}'")


def unknown_topic(name: str) -> UnknownObjectError:
    """Build the error for a topic that is not there."""
    return UnknownObjectError(
        f"there is no topic '{name}'",
        hint="`penstock kafka topics ls` lists the topics that are there",
    )


def _outcome(
    admin: KafkaAdmin,
    asked: str,
    send: Callable[[], Future[None]],
    final: frozenset[int] | set[int] = frozenset(),
) -> KafkaError | None:
    """Send a request until it is answered: None where it was done, the error where Kafka refuses it."""

    def attempt() -> KafkaError | None:
        try:
            send().result()
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if error.code() in {_UNKNOWN, *final, *_REFUSED}:
                return error
            raise
        return None

    return admin.patiently(asked, attempt)


def _raise_if(error: KafkaError | None, name: str, refused: str) -> None:
    if error is None:
        return
    if error.code() == _UNKNOWN:
        raise unknown_topic(name)
    raise OptionError(f"{refused}: {error.str()}")


def partition_counts(admin: KafkaAdmin) -> dict[str, int]:
    """Topics by name with their number of partitions; those of Kafka itself are left out."""
    names = sorted(name for name in admin.topic_names() if not name.startswith(_INTERNAL))
    found = admin.topics(names)
    return {name: len(found[name].partitions) for name in names if name in found}
