"""A log-in without the rights that a table needs: named at the start, before a row moves (case 31)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from penstock.catalog.errors import OptionError
from penstock.connector.commits import OffsetCommits
from penstock.connector.kafka.client import admin
from penstock.connector.kafka.client.connection import Connection, TopicPartition
from penstock.connector.kafka.sink.client import SinkAdmin, check_transactions
from penstock.connector.kafka.source.metadata_client import GroupCommitter
from tests.connector.kafka.reading import planning, read
from tests.connector.kafka.tables import kafka_source
from tests.integration.pipeline import wait_until
from tests.kafka_listener import NAME, BrokerWithListener
from tests.kafka_server import KafkaServer

if TYPE_CHECKING:
    from penstock.connector.kafka.source.source import KafkaSource

pytestmark = pytest.mark.broker

USER, PASSWORD = "clerk", "of-the-tests"
LOG_IN = {
    "properties.security.protocol": "SASL_PLAINTEXT",
    "properties.sasl.mechanism": "PLAIN",
    "properties.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="{USER}" password="{PASSWORD}";',
}
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",  # who comes by the plain listener: the broker itself, and the test
    f"listener.name.{NAME.lower()}.sasl.enabled.mechanisms": "PLAIN",
    f"listener.name.{NAME.lower()}.plain.sasl.jaas.config": JAAS,
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A broker whose second listener asks for a log-in, and gives no right that was not granted."""
    folder = tmp_path_factory.mktemp("guarded")
    with BrokerWithListener(folder, protocol="SASL_PLAINTEXT", settings=SETTINGS) as broker:
        yield KafkaServer(broker)


def second(kafka: KafkaServer) -> str:
    """The address at which the broker asks for a log-in."""
    assert isinstance(kafka.broker, BrokerWithListener)
    return kafka.broker.second_bootstrap


def source(kafka: KafkaServer, topic: str, **more: str) -> KafkaSource:
    """The table as the clerk reads it."""
    return kafka_source(
        {"properties.bootstrap.servers": second(kafka), "topic": topic, **LOG_IN, **more}
    )


def connection(kafka: KafkaServer) -> Connection:
    """A client's settings with the clerk's log-in."""
    return Connection.of(
        {
            "bootstrap.servers": second(kafka),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
    )


def allow(kafka: KafkaServer, kind: ResourceType, name: str, operation: AclOperation) -> None:
    """Grant the clerk a right."""
    right = AclBinding(
        kind,
        name,
        ResourcePatternType.LITERAL,
        f"User:{USER}",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )
    for future in kafka.admin.create_acls([right]).values():
        future.result()


def test_a_wrong_password_is_named(guarded: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a request or two, not after all the retries that are for brokers that restart."""
    monkeypatch.setattr(admin, "REQUEST_TIMEOUT_S", 1.0)
    wrong = LOG_IN["properties.sasl.jaas.config"].replace(PASSWORD, "guessed")
    table = source(guarded, guarded.create_topic(), **{"properties.sasl.jaas.config": wrong})

    with planning(table) as planner, pytest.raises(OptionError, match="refuses access") as caught:
        planner.list_splits()
    assert "guessed" not in str(caught.value)


def test_a_topic_that_may_not_be_read_is_named_before_a_row_moves(guarded: KafkaServer) -> None:
    """Seen, but not to be read: the first fetch says so; with the right its records come."""
    topic = guarded.create_topic()
    guarded.produce_json(topic, [{"id": 1, "name": "a"}])
    allow(guarded, ResourceType.TOPIC, topic, AclOperation.DESCRIBE)

    with pytest.raises(OptionError, match="refuses access"):
        read(source(guarded, topic), ["id"])

    allow(guarded, ResourceType.TOPIC, topic, AclOperation.READ)
    assert read(source(guarded, topic), ["id"]).column("id") == [1]


def test_a_group_that_may_not_be_read_is_named_at_the_start(guarded: KafkaServer) -> None:
    """Where reading begins at the group's offsets."""
    topic = guarded.create_topic()
    allow(guarded, ResourceType.TOPIC, topic, AclOperation.READ)
    begin = {"scan.startup.mode": "group-offsets", "properties.group.id": "clerks"}
    table = source(guarded, topic, **begin)

    with planning(table) as planner, pytest.raises(OptionError, match=r"(?i)refuses access.*group"):
        planner.start_positions(sorted(planner.list_splits().owners), first_listing=True)


def test_a_transactional_id_that_may_not_be_used_is_named_at_the_start(
    guarded: KafkaServer,
) -> None:
    """By its prefix; with the right for it, that for the group of the markers is next."""
    topic = guarded.create_topic()
    asked = SinkAdmin(connection(guarded))
    with pytest.raises(OptionError, match="ids that begin with 'ledger' do not start") as first:
        check_transactions(connection(guarded), asked, "ledger", 60_000, topic)
    for operation in (AclOperation.WRITE, AclOperation.DESCRIBE):
        allow(guarded, ResourceType.TRANSACTIONAL_ID, "ledger-check", operation)
    with pytest.raises(OptionError, match=r"(?i)group") as second_refusal:
        check_transactions(connection(guarded), asked, "ledger", 60_000, topic)

    assert "Transactional Id authorization failed" in first.value.message
    assert "refuses access" in second_refusal.value.message


def test_a_commit_that_is_denied_is_one_warning_and_nothing_else(
    guarded: KafkaServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The group's offsets are for others to see (case 29): a query does not end for want of that right."""
    topic = guarded.create_topic()
    allow(guarded, ResourceType.TOPIC, topic, AclOperation.READ)
    committer = GroupCommitter(admin.KafkaAdmin(connection(guarded)), "denied-clerks")
    with caplog.at_level(logging.WARNING):
        committer.commit({TopicPartition(topic, 0): 1})
        wait_until(lambda: bool(caplog.records), seconds=20, what="the warning")

    (record,) = caplog.records
    assert "group 'denied-clerks': offsets could not be committed" in record.getMessage()
    assert committer.offset_commits == OffsetCommits(failed=1)
