"""Kafka tables that tests make by hand: columns as text, options as keywords or pairs."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import (
    Column,
    MetadataColumn,
    PhysicalColumn,
    PrimaryKey,
    Schema,
    Table,
)
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.kafka.connector import KafkaConnector
from penstock.connector.kafka.source.source import KafkaSource

CONNECTION = {"connector": "kafka", "properties.bootstrap.servers": "127.0.0.1:1"}
PLAIN = {**CONNECTION, "topic": "orders", "format": "json", "scan.startup.mode": "earliest-offset"}
COLUMNS = {"id": "BIGINT", "name": "STRING"}


def kafka_table(
    options: Mapping[str, str | None] | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    metadata: Mapping[str, tuple[str, str]] | None = None,
    key: tuple[str, ...] = (),
) -> Table:
    """A table that reads `orders` from its beginning, changed by `options` (None takes one away).

    `columns` are physical, by type; `metadata` maps a column to its metadata key and type; `key` is the PRIMARY KEY.
    """
    given = {key: value for key, value in {**PLAIN, **(options or {})}.items() if value is not None}
    physical: list[Column] = [
        PhysicalColumn(name=name, type=parse_type(text))
        for name, text in (COLUMNS if columns is None else columns).items()
    ]
    of_records = [
        MetadataColumn(name=name, type=parse_type(text), key=key, virtual=True)
        for name, (key, text) in (metadata or {}).items()
    ]
    return Table(
        identifier=Identifier(
            catalog="default_catalog", database="default_database", name="orders"
        ),
        schema=Schema(
            columns=(*physical, *of_records),
            primary_key=PrimaryKey(columns=key) if key else None,
        ),
        options=tuple(given.items()),
    )


def kafka_source(
    options: Mapping[str, str | None] | None = None, **more: Mapping[str, object]
) -> KafkaSource:
    """The source of such a table."""
    return KafkaConnector().source(kafka_table(options, **more))  # type: ignore[arg-type]
