"""The backends of dead letters, a Delta table or a Kafka topic, read as frames with the same columns.

Dead letters are encoded as records of a topic, and decoded, by Spark expressions only.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from penstock.catalog.model.table import Table
from penstock.connector.dead_letters.table import (
    REPLAYED_SUFFIX,
    define_dead_letter_table,
    define_dead_letter_topic,
)
from penstock.connector.options.bad_records import DeltaPath, KafkaTopic
from penstock.connector.registry import connector_of
from penstock.connector.scan import Scan
from penstock.connector.spark.encoding import sql_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_BEGIN = "__penstock.errors."
_OF_LETTERS = (
    # column, header, Spark type, the text of the value
    ("table", "table", "STRING", "`table`"),
    ("pipeline", "pipeline", "STRING", "`pipeline`"),
    ("query_id", "query", "STRING", "`query_id`"),
    ("batch_id", "batch", "BIGINT", "CAST(`batch_id` AS STRING)"),
    ("topic", "topic", "STRING", "`topic`"),
    ("partition", "partition", "INT", "CAST(`partition` AS STRING)"),
    ("offset", "offset", "BIGINT", "CAST(`offset` AS STRING)"),
    ("timestamp", "timestamp", "BIGINT", "CAST(unix_millis(`timestamp`) AS STRING)"),
    ("stage", "stage", "STRING", "`stage`"),
    ("error", "message", "STRING", "`error`"),
)
HEADERS = tuple(f"{_BEGIN}{header}" for _, header, _, _ in _OF_LETTERS)
"""The headers of a letter, in their order behind those of the record."""


def encode_dead_letters(letters: DataFrame) -> DataFrame:
    """Return the records of dead letters: `key`, `value`, `headers`. Dead letters of files lose their path."""
    added = ", ".join(
        f"named_struct('key', {sql_text(name)}, 'value', CAST({text} AS BINARY))"
        for name, (_, _, _, text) in zip(HEADERS, _OF_LETTERS, strict=True)
    )
    own = "coalesce(headers, CAST(array() AS ARRAY<STRUCT<key: STRING, value: BINARY>>))"
    return letters.selectExpr("key", "value", f"concat({own}, array({added})) AS headers")


def decode_dead_letters(records: DataFrame) -> DataFrame:
    """Return the dead letters among records with `key`, `value`, `headers` and `left_out_at`; other
    records give none.
    """
    headers = [f"try_element_at(headers, {at - len(HEADERS)})" for at in range(len(HEADERS))]
    is_letter = " AND ".join(
        f"{header}.key <=> {sql_text(name)}" for header, name in zip(headers, HEADERS, strict=True)
    )
    columns = [
        f"{_read(column, kind, header)} AS `{column}`"
        for header, (column, _, kind, _) in zip(headers, _OF_LETTERS, strict=True)
    ]
    return records.filter(is_letter).selectExpr(
        *columns,
        "CAST(NULL AS STRING) AS path",
        "CAST(NULL AS BIGINT) AS position",
        "key",
        "value",
        f"slice(headers, 1, greatest(size(headers) - {len(HEADERS)}, 0)) AS headers",
        "left_out_at",
    )


def _read(column: str, kind: str, header: str) -> str:
    # not what we wrote: NULL, as nobody is helped by a list of letters that fails for one of them
    value = f"try_cast(CAST({header}.value AS STRING) AS {kind})"
    return f"timestamp_millis({value})" if column == "timestamp" else value


def read_stored(table: Table, spark: SparkSession) -> DataFrame | None:
    """Return the rows of a table of dead letters or of replays; None where it does not exist. Raises ConfigError."""
    publishable = connector_of(table, project=Path()).publishable(table)
    assert publishable is not None, "dead letters are kept in tables that Spark reads"
    relation = publishable.relation(spark)
    if relation is None:
        return None
    return spark.read.format(relation.provider or "").load(relation.location)


class DeadLetterBackend(Protocol):
    """Where dead letters are."""

    @property
    def name(self) -> str:
        """The place, as messages name it."""

    @property
    def notes(self) -> str:
        """Path of the Delta table of their replays (absolute, or a URL)."""

    def exists(self, spark: SparkSession) -> bool:
        """Return whether there is such a place."""

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the dead letters, with the columns of docs/dead-letters.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaDeadLetters:
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
        """Return whether there is a Delta table."""
        return read_stored(self._table, spark) is not None

    def read(self, spark: SparkSession) -> DataFrame:
        """Return its rows."""
        found = read_stored(self._table, spark)
        assert found is not None, "asked before"
        return found

    @property
    def _table(self) -> Table:
        return define_dead_letter_table(DeltaPath(path=self.path), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaDeadLetters:
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
        """Return whether the broker has the topic. Raises BrokerUnavailableError."""
        del spark
        table = define_dead_letter_topic(self.outlet)
        topics = connector_of(table, project=self.project).topic_access(table)
        assert topics is not None, "the table was made for a topic"
        return topics.exists(self.outlet.topic)

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the dead letters among its committed records."""
        from penstock.connector.spark.source.frame import read_scan_frame

        table = define_dead_letter_topic(self.outlet)
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
        return decode_dead_letters(read.frame)
