"""The connector `kafka`: checks a table's definition, describes its scan and its sink. Loads no client library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.catalog.errors import OptionError
from penstock.catalog.model.table import Table
from penstock.catalog.options.option import Option, PrefixOption
from penstock.connector.capabilities import ConnectivityCheck, ScanModes, TableAccess, TopicAccess
from penstock.connector.column_checks import check_metadata_column
from penstock.connector.connectivity import check_source
from penstock.connector.contract import Connector, Sink
from penstock.connector.kafka.scan_modes import KafkaScanModes
from penstock.connector.kafka.source.source import KafkaSource
from penstock.connector.kafka.table.fields import KafkaTable, check_primary_key, formats_of, project
from penstock.connector.kafka.table.metadata import metadata_of
from penstock.connector.kafka.table.options import OPTIONS, STARTUP_MODE
from penstock.connector.kafka.table.settings import KafkaSettings, read_settings
from penstock.connector.kafka.table.startup import GroupOffsets
from penstock.connector.options.bad_records import BAD_RECORD_OPTIONS, check_against_format
from penstock.connector.options.watermark import WATERMARK_OPTIONS

__all__ = ["KafkaConnector", "describe", "require_group"]


class KafkaConnector(Connector):
    """Tables of Kafka topics."""

    name = "kafka"

    def __init__(self, *, project: Path | None = None) -> None:  # noqa: ARG002 - others have paths
        """`project` is for connectors with relative paths; a Kafka table has none."""
        self._described: tuple[Table, KafkaTable] | None = None

    @property
    def options(self) -> Sequence[Option[Any] | PrefixOption]:
        """Return the options of its tables."""
        return (*OPTIONS, *WATERMARK_OPTIONS, *BAD_RECORD_OPTIONS)

    def check(self, table: Table) -> None:
        """Check options, formats and columns, without I/O. Raises OptionError, DefinitionError."""
        self._describe(table)

    def connectivity_check(self, table: Table) -> ConnectivityCheck:
        """List the partitions; a topic that is only written needs no consumer group, which a scan would ask for."""

        def check(access: TableAccess) -> str:
            if access.read:
                return check_source(self.source(table))
            own = {k: v for k, v in table.option_map.items() if not k.startswith("scan.")}
            options = {**own, STARTUP_MODE.key: "earliest-offset"}
            return check_source(self.source(replace(table, options=tuple(options.items()))))

        return check

    @property
    def scan_modes(self) -> ScanModes:
        """Scans begin and end at offsets."""
        return KafkaScanModes(chooses_start=True)

    def topic_access(self, table: Table) -> TopicAccess:
        """Its cluster has topics. Raises as `source`."""
        from penstock.connector.kafka.topic_access import (
            KafkaTopicAccess,  # loads the client library
        )

        return KafkaTopicAccess(table=self.source(table).table, owner=f"table {table.identifier}")

    def source(self, table: Table) -> KafkaSource:
        """Describe the scan. Raises as `check`, and OptionError when a needed consumer group is missing."""
        described = self._describe(table)
        require_group(table, described.settings)
        return KafkaSource(table=described)

    def sink(self, table: Table) -> Sink:
        """Describe writing. Raises as `check`, and where the table cannot be written."""
        from penstock.connector.kafka.sink import kafka_sink

        return kafka_sink(table, self._describe(table))

    def _describe(self, table: Table) -> KafkaTable:
        """Describe a table once: it is checked, and then its scan or its sink is asked for."""
        if self._described is None or self._described[0] is not table:
            self._described = (table, describe(table))
        return self._described[1]


def require_group(table: Table, settings: KafkaSettings) -> None:
    """Refuse a scan that begins or ends where a consumer group is, without naming the group. Raises OptionError."""
    modes = {"scan.startup.mode": settings.startup, "scan.bounded.mode": settings.bounded}
    for key, mode in modes.items():
        if isinstance(mode, GroupOffsets) and settings.group is None:
            raise OptionError(
                f"table {table.identifier}: 'properties.group.id' is required when '{key}' is 'group-offsets'"
                + (" (the default)" if key not in table.option_map else ""),
                hint="set 'scan.startup.mode' = 'earliest-offset' to read everything, or name a group"
                if key == "scan.startup.mode"
                else "name a group, or set 'scan.bounded.mode' = 'latest-offset'",
            )


def describe(table: Table) -> KafkaTable:
    """Check a Kafka table as a whole. Raises OptionError, DefinitionError."""
    owner = f"table {table.identifier}"
    formats = formats_of(table.option_map, owner)
    settings = read_settings(table.option_map, formats.options, owner=owner)
    check_primary_key(table.schema, formats, owner)
    projection = project(table.schema, settings.resolved, formats, owner)
    check_against_format(
        settings.resolved, owner=owner, format_skips=formats.skips_bad_records(settings.resolved)
    )
    metadata = metadata_of(formats.value.format.metadata)
    for column in table.schema.metadata:
        check_metadata_column(column, metadata, owner=owner, connector="kafka")
    return KafkaTable(
        schema=table.schema, settings=settings, formats=formats, projection=projection
    )
