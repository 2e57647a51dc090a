"""The connector `upsert-kafka`: topics in which a record replaces the one before with the same key, or deletes it.

Flink's UpsertKafkaDynamicTableFactory. The key is the table's PRIMARY KEY; every scan begins with the oldest records,
as any record may hold the row that is current. Loads no client library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.catalog.errors import DefinitionError
from penstock.catalog.model.table import Table
from penstock.catalog.options.option import Option, PrefixOption
from penstock.connector.capabilities import ScanModes, TopicAccess
from penstock.connector.column_checks import check_metadata_column
from penstock.connector.contract import Connector, Sink
from penstock.connector.kafka.connector import require_group
from penstock.connector.kafka.scan_modes import KafkaScanModes
from penstock.connector.kafka.source.source import KafkaSource
from penstock.connector.kafka.table import options as o
from penstock.connector.kafka.table.fields import KafkaTable, check_insert_only, formats_of, project
from penstock.connector.kafka.table.metadata import metadata_of
from penstock.connector.kafka.table.settings import read_settings
from penstock.connector.kafka.table.startup import Earliest
from penstock.connector.options.bad_records import BAD_RECORD_OPTIONS, check_against_format
from penstock.connector.options.watermark import WATERMARK_OPTIONS

__all__ = ["UpsertKafkaConnector", "describe_upserts"]


class UpsertKafkaConnector(Connector):
    """Tables of Kafka topics keyed by their PRIMARY KEY."""

    name = "upsert-kafka"

    def __init__(self, *, project: Path | None = None) -> None:
        """`project` is for connectors with relative paths; a Kafka table has none."""

    @property
    def options(self) -> Sequence[Option[Any] | PrefixOption]:
        """Return the options of its tables."""
        return (*o.UPSERT_OPTIONS, *WATERMARK_OPTIONS, *BAD_RECORD_OPTIONS)

    def check(self, table: Table) -> None:
        """Check options, formats and columns, without I/O. Raises OptionError, DefinitionError."""
        describe_upserts(table)

    @property
    def scan_modes(self) -> ScanModes:
        """Scans begin and end at offsets."""
        return KafkaScanModes(chooses_start=False)

    def topic_access(self, table: Table) -> TopicAccess:
        """Its cluster has topics. Raises as `source`."""
        from penstock.connector.kafka.topic_access import (
            KafkaTopicAccess,  # loads the client library
        )

        return KafkaTopicAccess(table=self.source(table).table, owner=f"table {table.identifier}")

    def source(self, table: Table) -> KafkaSource:
        """Describe the scan. Raises as `check`, and OptionError when a needed consumer group is missing."""
        described = describe_upserts(table)
        require_group(table, described.settings)
        return KafkaSource(table=described)

    def sink(self, table: Table) -> Sink:
        """Describe writing: a record for each row of a key, a tombstone for its deletion. Raises as `check`."""
        from penstock.connector.kafka.sink import kafka_sink

        return kafka_sink(table, describe_upserts(table))


def describe_upserts(table: Table) -> KafkaTable:
    """Check an `upsert-kafka` table as a whole. Raises OptionError, DefinitionError."""
    owner = f"table {table.identifier}"
    options = table.option_map
    # a missing format is among the missing options, all named at once; `format` is none of the options here
    known = {key: value for key, value in options.items() if key != o.FORMAT.key}
    formats = formats_of(known, owner) if o.VALUE_FORMAT.key in options else None
    settings = read_settings(
        options,
        formats.options if formats is not None else (),
        owner=owner,
        known=o.UPSERT_OPTIONS,
    )
    assert formats is not None, "the option 'value.format' is required"
    assert formats.key is not None, "the option 'key.format' is required"
    check_insert_only(formats.key.format, "key", owner)
    check_insert_only(formats.value.format, "value", owner)
    if table.schema.primary_key is None:
        raise DefinitionError(
            f"{owner}: 'upsert-kafka' tables require a PRIMARY KEY: it says which columns the key of a record holds, "
            "and so which row a record replaces or deletes",
            hint="declare PRIMARY KEY (...) NOT ENFORCED with the columns of the key, in their order",
        )
    projection = project(
        table.schema,
        settings.resolved,
        formats,
        owner,
        key_columns=table.schema.primary_key.columns,
    )
    check_against_format(
        settings.resolved, owner=owner, format_skips=formats.skips_bad_records(settings.resolved)
    )
    for column in table.schema.metadata:
        check_metadata_column(
            column,
            metadata_of(formats.value.format.metadata),
            owner=owner,
            connector="upsert-kafka",
        )
    return KafkaTable(
        schema=table.schema,
        settings=replace(settings, startup=Earliest()),
        formats=formats,
        projection=projection,
        upserts=True,
    )
