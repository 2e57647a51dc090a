"""The pinned jars that the embedded Kafka broker runs from. Fetching and checking is `connector.jars`' part."""

from __future__ import annotations

from pathlib import Path

from penstock.connector.jars import JarSet, fetch_jars, read_jar_set

__all__ = ["broker_jar_set", "broker_jars"]


def broker_jar_set() -> JarSet:
    """Kafka 4.2.0 with all it needs, and log4j's binding so that the broker's log can be read."""
    return read_jar_set(Path(__file__).with_name("kafka-broker.jars"))


def broker_jars() -> list[Path]:
    """The broker's jars, fetched on the first call on a machine. Raises RunError when they cannot be had."""
    return fetch_jars(broker_jar_set())
