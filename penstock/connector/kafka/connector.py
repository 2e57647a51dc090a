"""The connectors `kafka` and `upsert-kafka`: check a table's definition, describe its scan and its sink.

In the topics of `upsert-kafka` a record replaces the one before with the same key, or deletes it. Scans are given
another begin or end (`ScanModes`) by the options `scan.startup.*` and `scan.bounded.*`. Loads no client library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.catalog.errors import DefinitionError, OptionError
from penstock.catalog.model.table import Table
from penstock.catalog.options.option import Option, PrefixOption
from penstock.connector.capabilities import (
    ConnectivityCheck,
    Dataset,
    MetadataKey,
    ScanModes,
    TableAccess,
    TopicAccess,
)
from penstock.connector.checks import check_metadata_column, check_source
from penstock.connector.contract import Connector, Sink
from penstock.connector.kafka.source.source import KafkaSource
from penstock.connector.kafka.table import options as o
from penstock.connector.kafka.table.fields import (
    METADATA,
    KafkaTable,
    check_insert_only,
    check_primary_key,
    formats_of,
    metadata_of,
    project,
)
from penstock.connector.kafka.table.options import (
    BOUNDED_MODE,
    BOUNDED_OFFSETS,
    OPTIONS,
    STARTUP_MODE,
)
from penstock.connector.kafka.table.settings import KafkaSettings, TopicList, read_settings
from penstock.connector.kafka.table.startup import Earliest, GroupOffsets
from penstock.connector.options.bad_records import BAD_RECORD_OPTIONS, check_against_format
from penstock.connector.options.watermark import WATERMARK_OPTIONS

_BOUNDED = "scan.bounded."
_STARTUP = "scan.startup."


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaScanModes:
    """Those of one connector; `chooses_start`: its tables have a startup mode, those of upserts begin at the oldest."""

    chooses_start: bool

    def with_end(self, table: Table) -> Table:
        """End with the newest records at the start, unless the table has an end."""
        ends = {BOUNDED_MODE.key: "latest-offset"}
        return replace(table, options=tuple({**ends, **table.option_map}.items()))

    def stopping_at(self, table: Table, positions: Mapping[str, int]) -> Table:
        """End at offsets of one topic; tables of more topics at the newest records."""
        options = {k: v for k, v in table.option_map.items() if not k.startswith(_BOUNDED)}
        topics = {split.rpartition("-")[0] for split in positions}
        if len(topics) == 1:
            options[BOUNDED_MODE.key] = "specific-offsets"
            options[BOUNDED_OFFSETS.key] = ";".join(
                f"partition:{split.rpartition('-')[2]},offset:{stop}"
                for split, stop in positions.items()
            )
        else:
            options[BOUNDED_MODE.key] = "latest-offset"  # offsets have no topic in their spelling
        return replace(table, options=tuple(options.items()))

    def starting_at(self, table: Table, mode: str) -> Table | None:
        """Replace the startup mode."""
        if not self.chooses_start:
            return None
        kept = tuple((k, v) for k, v in table.options if not k.startswith(_STARTUP))
        return replace(table, options=(*kept, (STARTUP_MODE.key, mode)))


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

    @property
    def metadata(self) -> Sequence[MetadataKey]:
        """Return the metadata of records."""
        return METADATA

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

    def datasets(self, table: Table) -> Sequence[Dataset]:
        """Its topics, or the pattern of their names."""
        return topic_datasets(self._describe(table))

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


def topic_datasets(described: KafkaTable) -> Sequence[Dataset]:
    """Name the topics of a table, at the first of its bootstrap servers."""
    settings = described.settings
    server = settings.bootstrap_servers.split(",")[0].strip()
    subscription = settings.subscription
    names = subscription.topics if isinstance(subscription, TopicList) else (str(subscription),)
    return tuple(Dataset(namespace=f"kafka://{server}", name=name) for name in names)


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


class UpsertKafkaConnector(Connector):
    """Tables of Kafka topics keyed by their PRIMARY KEY."""

    name = "upsert-kafka"

    def __init__(self, *, project: Path | None = None) -> None:
        """`project` is for connectors with relative paths; a Kafka table has none."""

    @property
    def options(self) -> Sequence[Option[Any] | PrefixOption]:
        """Return the options of its tables."""
        return (*o.UPSERT_OPTIONS, *WATERMARK_OPTIONS, *BAD_RECORD_OPTIONS)

    @property
    def metadata(self) -> Sequence[MetadataKey]:
        """Return the metadata of records."""
        return METADATA

    def check(self, table: Table) -> None:
        """Check options, formats and columns, without I/O. Raises OptionError, DefinitionError."""
        describe_upserts(table)

    @property
    def scan_modes(self) -> ScanModes:
        """Scans begin and end at offsets."""
        return KafkaScanModes(chooses_start=False)

    def datasets(self, table: Table) -> Sequence[Dataset]:
        """Its topics."""
        return topic_datasets(describe_upserts(table))

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
