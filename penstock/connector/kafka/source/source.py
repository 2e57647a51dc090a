"""The scan of a Kafka table as a picklable value (Flink's KafkaSource): opens metadata client and reader.

Partitions are assigned to readers as Flink's KafkaSourceEnumerator.getSplitOwner does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from penstock.catalog.model.types import LogicalType
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import FetcherModel, ReadRequest, SplitMetadataClient, SplitSource
from penstock.connector.kafka.client.connection import TopicPartition
from penstock.connector.kafka.table.fields import KafkaTable, metadata_of
from penstock.connector.options.watermark import WatermarkSettings
from penstock.connector.source.coordinator.discovery import DiscoveringEnumerator
from penstock.connector.source.enumerator import MakeEnumerator
from penstock.connector.source.split import Split, TaskSize

if TYPE_CHECKING:
    from penstock.connector.kafka.source.decode import KafkaRecordDecoder
    from penstock.connector.kafka.source.metadata_client import KafkaMetadataClient
    from penstock.connector.kafka.source.reader import KafkaSplitReader


TASK_SIZE = TaskSize(positions=30_000, opening=100)
"""Some 60 ms of reading and decoding, about the CPU time that a task costs Spark and Python whatever it reads."""


def java_hash(text: str) -> int:
    """Return Java's String.hashCode: 31-ary over UTF-16 units, in 32 signed bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def split_owner(split: Split, readers: int) -> int:
    """Return the reader of a partition: a topic's partitions go round, beginning at a reader that its name picks."""
    partition = TopicPartition.of(split.split_id)
    first = (java_hash(partition.topic) * 31 & 0x7FFFFFFF) % readers
    return (first + partition.partition) % readers


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSource(SplitSource):
    """A SplitSource over Kafka. Loads the client library only when a side is opened."""

    table: KafkaTable

    @property
    def bounded(self) -> bool:
        """Whether `scan.bounded.mode` ends the scan."""
        return self.table.settings.bounded is not None

    @property
    def changes(self) -> ChangelogMode:
        """What the format of the value says, or upserts by the key."""
        return (
            ChangelogMode.UPSERT if self.table.upserts else self.table.formats.value.format.changes
        )

    @property
    def projects_fields(self) -> bool:
        """Whether the formats find fields by name, and none has to be there."""
        return self.table.formats.projects_fields(self.table.settings.resolved)

    @property
    def metadata_types(self) -> Mapping[str, LogicalType]:
        """The metadata that records have, and that of the format of the value."""
        return metadata_of(self.table.formats.value.format.metadata)

    @property
    def skips_bad_records(self) -> bool:
        """Whether what cannot be decoded is left out, by the formats or by `bad-records`."""
        by_format = self.table.formats.skips_bad_records(self.table.settings.resolved)
        return by_format or self.table.settings.bad_records.leaves_out

    @property
    def tolerates_loss(self) -> bool:
        """Whether `scan.on-data-loss` is `continue`."""
        return self.table.settings.tolerates_loss

    @property
    def watermark(self) -> WatermarkSettings:
        """The `scan.watermark.*` options."""
        return self.table.settings.watermark

    @property
    def fetching(self) -> FetcherModel:
        """One consumer reads all partitions of a reader, as in Flink."""
        return FetcherModel.MULTIPLEXED

    @property
    def max_records_per_batch(self) -> int | None:
        """`scan.max-records-per-batch`."""
        return self.table.settings.max_records_per_batch

    @property
    def parallelism(self) -> int | None:
        """`scan.parallelism`."""
        return self.table.settings.parallelism

    @property
    def task_size(self) -> TaskSize:
        """Positions are records; one consumer reads all partitions of a task."""
        return TASK_SIZE

    @property
    def discovery_interval_ms(self) -> int:
        """`scan.topic-partition-discovery.interval`; -1 for a bounded scan."""
        return self.table.settings.discovery_interval_ms

    @property
    def enumerator_type(self) -> type[DiscoveringEnumerator]:
        """The class of its enumerators."""
        return DiscoveringEnumerator

    def enumerator(self, planner: SplitMetadataClient) -> MakeEnumerator:
        """Push partitions to the readers that own them, and look for new ones at the interval."""
        return partial(
            DiscoveringEnumerator,
            planner=planner,
            bounded=self.bounded,
            discovery_interval_ms=self.discovery_interval_ms,
            owner=split_owner,
        )

    def open_planner(self, peeked: ReadRequest) -> KafkaMetadataClient:
        """Open the driver's side."""
        from penstock.connector.kafka.source.metadata_client import KafkaMetadataClient

        # a deletion tells nothing of event time: peeks look for the record before it
        return KafkaMetadataClient(self.table.settings, self.decoder(peeked, deletes=False))

    def open_reader(self, request: ReadRequest) -> KafkaSplitReader:
        """Open a task's side."""
        from penstock.connector.kafka.client.connection import (
            few_records_connection,
            read_connection,
        )
        from penstock.connector.kafka.source.ranges import LogCheck
        from penstock.connector.kafka.source.reader import KafkaSplitReader

        check = LogCheck(
            client=self.table.settings.client,
            tolerates_loss=self.table.settings.tolerates_loss,
            committed=self.table.settings.reads_committed,
        )
        return KafkaSplitReader(
            read_connection(self.table.settings.client),
            self.decoder(request),
            check,
            origins=request.origins,
            few=few_records_connection(self.table.settings.client),
        )

    def decoder(self, request: ReadRequest, *, deletes: bool = True) -> KafkaRecordDecoder:
        """Make the decoder of the table's records; without `deletes` those that only delete yield no row."""
        from penstock.connector.kafka.source.decode import KafkaRecordDecoder, Tombstones

        tombstones = None
        if self.table.upserts:
            tombstones = Tombstones.DELETE if deletes else Tombstones.LEAVE_OUT
        return KafkaRecordDecoder(
            request.columns,
            self.table.schema,
            self.table.projection,
            self.table.formats,
            self.table.settings.resolved,
            leaves_out_bad=self.table.settings.bad_records.leaves_out,
            tombstones=tombstones,
            time_zone=request.time_zone,
        )
