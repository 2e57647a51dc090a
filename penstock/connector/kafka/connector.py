"""The connector `kafka`: checks a table's definition and describes its scan. Loads no client library."""

from __future__ import annotations

from pathlib import Path

from penstock.catalog.errors import OptionError, UnsupportedError
from penstock.catalog.table import Table
from penstock.connector.contract import Sink
from penstock.connector.kafka.fields import check_primary_key, formats_of, project
from penstock.connector.kafka.metadata import METADATA_TYPES
from penstock.connector.kafka.settings import read_settings
from penstock.connector.kafka.source import KafkaSource
from penstock.connector.kafka.startup import GroupOffsets
from penstock.connector.metadata_columns import check_metadata_column

__all__ = ["KafkaConnector"]


class KafkaConnector:
    """Tables of Kafka topics."""

    name = "kafka"

    def __init__(self, *, project: Path | None = None) -> None:
        """`project` is for connectors with relative paths; a Kafka table has none."""

    def check(self, table: Table) -> None:
        """Check options, formats and columns, without I/O. Raises OptionError, DefinitionError."""
        _describe(table)

    def source(self, table: Table) -> KafkaSource:
        """Describe the scan. Raises as `check`, and OptionError when a needed consumer group is missing."""
        source = _describe(table)
        settings = source.settings
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
        return source

    def sink(self, table: Table) -> Sink:
        """Writing comes with a later version. Raises UnsupportedError."""
        raise UnsupportedError(
            f"table {table.identifier}: the connector 'kafka' cannot be written yet",
            hint="write to a table with 'connector' = 'delta'",
        )


def _describe(table: Table) -> KafkaSource:
    owner = f"table {table.identifier}"
    formats = formats_of(table.option_map, owner)
    settings = read_settings(table.option_map, formats.options, owner=owner)
    check_primary_key(table.schema, formats, owner)
    projection = project(table.schema, settings.resolved, formats, owner)
    for column in table.schema.metadata:
        check_metadata_column(column, METADATA_TYPES, owner=owner, connector="kafka")
    return KafkaSource(
        schema=table.schema, settings=settings, formats=formats, projection=projection
    )
