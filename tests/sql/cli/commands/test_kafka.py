"""`penstock kafka topics` on a real broker, and what it says where there is none."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from penstock.connector.kafka.client.admin import KafkaAdmin
from penstock.connector.kafka.client.connection import admin_connection
from penstock.sql.cli.commands.app import app
from tests.sql.cli.command_runner import CommandRunner

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka_server import KafkaServer


@pytest.fixture
def topics(project: Path) -> Callable[..., Any]:
    """Runs `penstock kafka topics ...` in an empty project."""
    runner = CommandRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    return lambda *arguments: runner.invoke(app, ["kafka", "topics", *arguments])


def test_a_topic_is_made_and_listed(kafka: KafkaServer, topics: Callable[..., Any]) -> None:
    """With its partitions and settings, as text and as JSON."""
    name = f"orders-{uuid.uuid4().hex[:8]}"
    at = ("--bootstrap", kafka.bootstrap)
    made = topics("create", name, "--partitions", "3", "--config", "cleanup.policy=compact", *at)
    listed, document = topics("ls", *at), topics("ls", "--format", "json", *at)

    assert (made.exit_code, made.stdout) == (0, ""), made.stderr
    assert f"created topic {name}" in made.stderr
    assert re.search(rf"^{name} +3 partitions$", listed.stdout, re.MULTILINE)
    assert {"name": name, "partitions": 3} in json.loads(document.stdout)["topics"]
    assert KafkaAdmin(admin_connection({"bootstrap.servers": kafka.bootstrap})).topics([name])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--partitions", "2"), "exists already"),
        (("other!",), "does not make topic 'other!'"),
        (("--config", "cleanup=compact"), "exists already"),
        (("--config", "compact"), "'compact' is not K=V"),
    ],
)
def test_what_cannot_be_made_is_status_2(
    kafka: KafkaServer, topic: Callable[..., str], topics: Callable[..., Any], more: Any, words: str
) -> None:
    """With the reason; the topic that is there stays as it is."""
    name = topic(partitions=1)
    names = [] if "other!" in more else [name]
    result = topics("create", *names, *more, "--bootstrap", kafka.bootstrap)

    assert (result.exit_code, result.stdout) == (2, "")
    assert words in " ".join(result.stderr.split())


def test_partitions_are_added_and_settings_changed(
    kafka: KafkaServer, topic: Callable[..., str], topics: Callable[..., Any]
) -> None:
    """Fewer partitions than there are is refused with Kafka's reason."""
    name, at = topic(partitions=2), ("--bootstrap", kafka.bootstrap)
    altered = topics("alter", name, "--partitions", "4", "--config", "retention.ms=-1", *at)
    fewer = topics("alter", name, "--partitions", "3", *at)
    wrong = topics("alter", name, "--config", "retention.ms=soon", *at)
    absent = topics("alter", "no-such-topic", "--partitions", "3", *at)

    assert altered.exit_code == 0, altered.stderr
    assert f"topic {name} has 4 partitions" in altered.stderr
    assert len(kafka_topic(kafka, name).partitions) == 4
    assert [result.exit_code for result in (fewer, wrong, absent)] == [2, 2, 2]
    assert f"does not give topic '{name}' 3 partitions" in " ".join(fewer.stderr.split())
    assert f"does not change the settings of topic '{name}'" in " ".join(wrong.stderr.split())
    assert "there is no topic 'no-such-topic'" in absent.stderr


def test_a_topic_is_deleted_only_with_yes(
    kafka: KafkaServer, topic: Callable[..., str], topics: Callable[..., Any]
) -> None:
    """One misspelt name among them deletes none."""
    name, at = topic(partitions=1), ("--bootstrap", kafka.bootstrap)
    misspelt = topics("delete", name, f"{name}x", "--yes", *at)
    asked = topics("delete", name, *at)
    still_there = kafka_topic(kafka, name) is not None
    deleted = topics("delete", name, "--yes", *at)

    assert (misspelt.exit_code, asked.exit_code, deleted.exit_code) == (2, 0, 0)
    assert f"there is no topic '{name}x'" in misspelt.stderr
    assert f"would delete topic {name}" in asked.stderr
    assert still_there
    assert kafka_topic(kafka, name) is None


def kafka_topic(kafka: KafkaServer, name: str) -> Any:
    """What the cluster says of a topic, None where there is none."""
    return (
        KafkaAdmin(admin_connection({"bootstrap.servers": kafka.bootstrap}))
        .topics([name])
        .get(name)
    )


def test_without_a_broker_it_says_how_to_get_one(topics: Callable[..., Any]) -> None:
    """The default is the project's own, which does not run here."""
    result = topics("ls")

    assert result.exit_code == 2
    assert "penstock kafka start" in result.stderr
