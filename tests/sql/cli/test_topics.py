"""`penstock kafka topics` on a real broker, and what it says where there is none."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from penstock.connector.kafka.admin import KafkaAdmin
from penstock.connector.kafka.tuning import admin_connection
from penstock.sql.cli.app import app

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka_server import KafkaServer


@pytest.fixture
def topics(project: Path) -> Callable[..., Any]:
    """Runs `penstock kafka topics ...` in an empty project."""
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    return lambda *arguments: runner.invoke(app, ["kafka", "topics", *arguments])


def test_a_topic_is_made_and_listed(kafka: KafkaServer, topics: Callable[..., Any]) -> None:
    """With its partitions and settings, as text and as JSON."""
    name = f"orders-{uuid.uuid4().hex[:8]}"
    at = ("--bootstrap", kafka.bootstrap)
    made = topics("create", name, "--partitions", "3", "--config", "cleanup.policy=compact", *at)
    listed, document = topics("ls", *at), topics("ls", "--format", "json", *at)

    assert (made.exit_code, made.stdout) == (0, ""), made.stderr
    assert f"made topic {name}" in made.stderr
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


def test_without_a_broker_it_says_how_to_get_one(topics: Callable[..., Any]) -> None:
    """The default is the project's own, which does not run here."""
    result = topics("ls")

    assert result.exit_code == 2
    assert "penstock kafka start" in result.stderr
