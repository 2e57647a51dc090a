"""The tables that dead letters are published to: a Delta table of fixed columns or a Kafka topic, and their
counts.

A record has one dead letter for each query, and for each table of it that the record was read for.
docs/dead-letters.md defines the columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.namespaces import DEFAULT_CATALOG, DEFAULT_DATABASE
from penstock.catalog.model.table import MetadataColumn, PhysicalColumn, Schema, Table
from penstock.connector.options.bad_records import (
    BesideCheckpoint,
    DeadLetterTarget,
    DeltaPath,
    KafkaTopic,
)

FOLDER = "dead-letters"
"""Name of the default Delta table in a checkpoint directory."""

STAGING = "dead-letters-staging"
"""Name of the folder in a checkpoint directory that tasks write to before the batch is done."""

REPLAYED_SUFFIX = "-replayed"
"""Suffix of the path of a table of dead letters: the table of its replays."""

_TEXT = t.VarCharType(length=t.MAX_LENGTH)

_BYTES = t.VarBinaryType(length=t.MAX_LENGTH)

_HEADER = t.RowType(
    fields=(t.RowField(name="key", type=_TEXT), t.RowField(name="value", type=_BYTES))
)

_COLUMNS: tuple[tuple[str, t.LogicalType], ...] = (
    ("table", _TEXT),
    ("pipeline", _TEXT),
    ("query_id", _TEXT),
    ("batch_id", t.BigIntType()),
    ("topic", _TEXT),
    ("partition", t.IntType()),
    ("offset", t.BigIntType()),
    ("path", _TEXT),
    ("position", t.BigIntType()),
    ("timestamp", t.TimestampLtzType(precision=6)),
    ("key", _BYTES),
    ("value", _BYTES),
    ("headers", t.ArrayType(element=_HEADER)),
    ("stage", _TEXT),
    ("error", _TEXT),
    ("left_out_at", t.TimestampLtzType(precision=6)),
)

_REPLAYED: tuple[tuple[str, t.LogicalType], ...] = (
    ("replay_id", _TEXT),
    ("state", _TEXT),
    ("table", _TEXT),
    ("topic", _TEXT),
    ("partition", t.IntType()),
    ("offset", t.BigIntType()),
    ("target", _TEXT),
    ("at", t.TimestampLtzType(precision=6)),
)


_PREFIX = "sink.transactional-id-prefix"

_RECORDS = {
    "connector": "kafka",
    "key.format": "raw",
    "key.fields": "key",
    "value.format": "raw",
    "value.fields-include": "EXCEPT_KEY",
    "scan.startup.mode": "earliest-offset",
    "scan.bounded.mode": "latest-offset",
    # the letters of a batch are one transaction: there are few, and all of them are read or none
    "sink.parallelism": "1",
}


class ReplayState(StrEnum):
    """The kind of a row in the table of replays: a record to replay, or the end of the replay."""

    PLANNED = "planned"
    DONE = "done"


def define_dead_letter_table(outlet: DeadLetterTarget, checkpoint: str) -> Table:
    """Define the table that dead letters of a query go to; `checkpoint` is the query's directory."""
    match outlet:
        case BesideCheckpoint():
            return _delta("dead letters", f"{checkpoint}/{FOLDER}", _COLUMNS)
        case DeltaPath(path=path):
            return _delta("dead letters", path, _COLUMNS)
        case KafkaTopic():
            return define_dead_letter_topic(outlet)
        case _:
            assert_never(outlet)


def define_dead_letter_topic(outlet: KafkaTopic) -> Table:
    """Define the topic of dead letters: key and value as they were, all else in headers.

    `left_out_at` is the time of the record in this topic, which is the broker's measure of how long to keep it: an old
    record does not expire as soon as it is written.
    """
    cluster = dict(outlet.cluster)
    prefix = cluster.pop(_PREFIX, "penstock")
    headers = t.ArrayType(element=_HEADER, nullable=False)
    time = t.TimestampLtzType(precision=3, nullable=False)
    return Table(
        identifier=Identifier(
            catalog=DEFAULT_CATALOG,
            database=DEFAULT_DATABASE,
            name=f"dead letters in {outlet.topic}",
        ),
        schema=Schema(
            columns=(
                PhysicalColumn(name="key", type=_BYTES),
                PhysicalColumn(name="value", type=_BYTES),
                MetadataColumn(name="headers", type=headers, key="header-list"),
                MetadataColumn(name="left_out_at", type=time, key="timestamp", virtual=True),
            )
        ),
        options=tuple(
            {
                **cluster,
                **_RECORDS,
                "topic": outlet.topic,
                "sink.delivery-guarantee": outlet.delivery.value,
                _PREFIX: f"{prefix}-dead-letters",
            }.items()
        ),
    )


def define_replay_table(path: str) -> Table:
    """Define the table at `path` of the replays of a place."""
    return _delta("replayed dead letters", path, _REPLAYED)


def _delta(name: str, path: str, columns: tuple[tuple[str, t.LogicalType], ...]) -> Table:
    return Table(
        identifier=Identifier(catalog=DEFAULT_CATALOG, database=DEFAULT_DATABASE, name=name),
        schema=Schema(columns=tuple(PhysicalColumn(name=n, type=kind) for n, kind in columns)),
        options=(("connector", "delta"), ("path", path)),
    )


RECORD_POSITION = ("topic", "partition", "offset")
"""Columns that say which record of Kafka a letter is of."""

# "field 'id': not a BIGINT: ..." and "it is not valid JSON: ...": what comes behind is different for each record
ERROR_KIND = r"^((?:field '[^']*': )?[^:]*)"
"""The part of an error that many dead letters share, as a group of a regular expression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterCount:
    """Dead letters of one table, stage and kind of error. `replayed` of them were replayed."""

    table: str
    pipeline: str
    stage: str
    error: str
    letters: int
    replayed: int
