"""What the embedded broker is configured with: its properties, its log's, and the id of its cluster."""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path

from penstock.connector.kafka.broker.record import HOST

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",
    "log.retention.bytes": "-1",
    "offsets.retention.minutes": "525600",
    # A killed broker may come back only when its old session is over (default 9 s).
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # Cleaning and offset deletion start early, so that compacted topics compact while one looks.
    "log.initial.task.delay.ms": "500",
    "log.cleaner.backoff.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}

LOG4J = """status = error
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c{1})%n%ex
"""


def properties_text(
    settings: Mapping[str, str], *, data: Path, port: int, controller_port: int
) -> str:
    """Return the text of server.properties: `settings`, and what is the broker's own."""
    listeners = f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}"
    whole = {
        **settings,
        "listeners": listeners,
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "log.dirs": data.as_posix(),
    }
    return "".join(f"{key}={value}\n" for key, value in whole.items())


def cluster_id() -> str:
    """A new cluster id in Kafka's spelling (22 characters of URL-safe base64, no leading dash)."""
    return urlsafe_b64encode(b"\x50" + uuid.uuid4().bytes[1:]).rstrip(b"=").decode()
