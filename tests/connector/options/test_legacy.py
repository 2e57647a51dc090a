"""Options as older releases of Flink spelled them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from penstock.connector.options.legacy import translate_legacy_options

KAFKA = {
    "connector.type": "kafka",
    "connector.version": "universal",
    "connector.topic": "clicks",
    "connector.startup-mode": "specific-offsets",
    "connector.specific-offsets.1.partition": "3",
    "connector.specific-offsets.1.offset": "300",
    "connector.specific-offsets.0.partition": "0",
    "connector.specific-offsets.0.offset": "42",
    "connector.properties.0.key": "zookeeper.connect",
    "connector.properties.0.value": "localhost:2181",
    "connector.properties.1.key": "bootstrap.servers",
    "connector.properties.1.value": "localhost:9092",
    "connector.properties.group.id": "g",
    "update-mode": "append",
    "format.type": "json",
    "format.derive-schema": "true",
    "format.ignore-parse-errors": "true",
}
JDBC = {
    "connector.type": "jdbc",
    "connector.url": "jdbc:postgresql://db/shop",
    "connector.table": "orders",
    "connector.username": "u",
    "connector.write.flush.max-rows": "100",
    "connector.lookup.cache.max-rows": "10",
    "connector.lookup.cache.ttl": "10 s",
}


@pytest.mark.parametrize(
    ("older", "today"),
    [
        (
            KAFKA,
            {
                "connector": "kafka",
                "topic": "clicks",
                "scan.startup.mode": "specific-offsets",
                "scan.startup.specific-offsets": "partition:0,offset:42;partition:3,offset:300",
                "properties.bootstrap.servers": "localhost:9092",
                "properties.group.id": "g",
                "format": "json",
                "json.ignore-parse-errors": "true",
            },
        ),
        (
            JDBC,
            {
                "connector": "jdbc",
                "url": "jdbc:postgresql://db/shop",
                "table-name": "orders",
                "username": "u",
                "sink.buffer-flush.max-rows": "100",
                "lookup.cache": "PARTIAL",
                "lookup.partial-cache.max-rows": "10",
                "lookup.partial-cache.expire-after-write": "10 s",
            },
        ),
        (
            {
                "connector.type": "filesystem",
                "connector.path": "/x",
                "format.type": "csv",
                "format.fields.0.name": "a",
                "format.fields.0.type": "INT",
                "format.fields.1.data-type": "STRING",
            },
            {"connector": "filesystem", "path": "/x", "format": "csv"},
        ),
        (
            {"connector": "jdbc", "lookup.cache.max-rows": "5", "lookup.cache": "NONE", "property-version": "1"},
            {"connector": "jdbc", "lookup.partial-cache.max-rows": "5", "lookup.cache": "NONE"},
        ),
        (
            {
                "connector": "kafka",
                "properties.zookeeper.connect": "z:2181",
                "properties.flink.partition-discovery.interval-millis": "1000",
            },
            {"connector": "kafka", "scan.topic-partition-discovery.interval": "1000 ms"},
        ),
    ],
)  # fmt: skip
def test_options_of_older_releases_are_read_as_todays(
    older: Mapping[str, str], today: Mapping[str, str]
) -> None:
    """Whatever their order; what says nothing any more is left out and named."""
    found = translate_legacy_options(older)

    assert found.options == today
    assert found.note is not None
    assert translate_legacy_options(found.options).note is None


def test_todays_options_stay_as_they_are_and_count_more() -> None:
    """Keys of today's connectors are taken for nothing else."""
    today = {"connector": "x", "connector.retries": "3", "format": "json", "format.a": "b"}
    both = {"connector.type": "kafka", "connector.topic": "old", "topic": "new"}

    assert translate_legacy_options(today).options == today
    assert translate_legacy_options(today).note is None
    assert translate_legacy_options(both).options == {"connector": "kafka", "topic": "new"}
