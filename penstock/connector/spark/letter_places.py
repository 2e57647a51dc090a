"""The two kinds of places that dead letters are kept in, read as frames with the same columns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from penstock.connector.bad_record_options import KafkaTopic
from penstock.connector.dead_letter_table import REPLAYED_SUFFIX, topic_table
from penstock.connector.registry import connector_of
from penstock.connector.scan import Scan
from penstock.connector.spark.letter_records import letters_of_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["DeltaLetters", "LetterPlace", "TopicLetters"]


class LetterPlace(Protocol):
    """Where dead letters are."""

    @property
    def name(self) -> str:
        """The place, as people are told."""

    @property
    def notes(self) -> str:
        """Path of the Delta table that says which of them were given back (absolute, or a URL)."""

    def exists(self, spark: SparkSession) -> bool:
        """Tell whether there is such a place."""

    def read(self, spark: SparkSession) -> DataFrame:
        """Give the dead letters, with the columns of docs/dead-letters.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaLetters:
    """A Delta table at `path` (absolute, or a URL)."""

    path: str

    @property
    def name(self) -> str:
        """Its path."""
        return self.path

    @property
    def notes(self) -> str:
        """Beside it."""
        return f"{self.path.rstrip('/')}{REPLAYED_SUFFIX}"

    def exists(self, spark: SparkSession) -> bool:
        """Tell whether there is a Delta table."""
        from delta.tables import DeltaTable

        return DeltaTable.isDeltaTable(spark, self.path)

    def read(self, spark: SparkSession) -> DataFrame:
        """Give its rows."""
        return spark.read.format("delta").load(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLetters:
    """A Kafka topic, read up to its end now. `workdir` is private to this process: it holds the log-in.

    `brokers` tell topics of one name apart.
    """

    outlet: KafkaTopic
    brokers: str
    notes: str
    workdir: Path
    project: Path

    @property
    def name(self) -> str:
        """The topic, and where it is."""
        return f"topic {self.outlet.topic} at {self.brokers}"

    def exists(self, spark: SparkSession) -> bool:
        """Ask the broker. Raises BrokerUnavailableError."""
        from penstock.connector.kafka.admin import KafkaAdmin
        from penstock.connector.kafka.source import KafkaSource
        from penstock.connector.kafka.tuning import admin_connection

        del spark
        table = topic_table(self.outlet)
        source = connector_of(table, project=self.project).source(table)
        assert isinstance(source, KafkaSource), "the table was made for Kafka"
        admin = KafkaAdmin(admin_connection(source.settings.client))
        return self.outlet.topic in admin.topics([self.outlet.topic])

    def read(self, spark: SparkSession) -> DataFrame:
        """Give the letters among its committed records."""
        from penstock.connector.spark.frame import read_scan_frame

        table = topic_table(self.outlet)
        scan = Scan(
            table=table,
            columns=tuple(column.name for column in table.schema.columns),
            rowtime=None,
            time_zone="UTC",
            project=str(self.project),
        )
        view = f"penstock_letters_{uuid4().hex[:8]}"
        read = read_scan_frame(
            spark, scan, view=view, workdir=self.workdir, streaming=False, computed={}
        )
        return letters_of_records(read.frame)
