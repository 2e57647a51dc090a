"""Infer a table from a subject of a schema registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model import types as t
from penstock.catalog.model.table import PhysicalColumn
from penstock.catalog.options.redaction import redact
from penstock.connector.inference.avro_types import avro_columns
from penstock.connector.inference.inferred_table import PROPOSAL, InferredColumn, InferredTable
from penstock.connector.inference.json_schema_types import schema_columns
from penstock.connector.inference.location import DELTA, KAFKA
from penstock.connector.inference.schema_registry import RegisteredSchema

__all__ = ["infer_subject_table", "topic_of"]

FRAMED = (
    "Records that a registry's serializer wrote begin with five bytes that are not JSON, and 'json' refuses them. "
    "`penstock catalog infer kafka://HOST/TOPIC` reads some, and proposes an event time too."
)
_ENDINGS = ("-value", "-key")


def topic_of(subject: str) -> str:
    """Return the topic of a subject by Confluent's TopicNameStrategy: `orders-value` is of `orders`."""
    for ending in _ENDINGS:
        if subject.endswith(ending) and len(subject) > len(ending):
            return subject.removesuffix(ending)
    return subject


def infer_subject_table(
    found: RegisteredSchema, *, name: str, shown: str, properties: Mapping[str, str]
) -> InferredTable:
    """Draft a table of a schema: a Kafka table for JSON; a Delta table of the rows for Avro, which no format reads.

    `properties` are those of a Kafka client, `shown` the registry's address. Raises UnsupportedError for Protobuf,
    DefinitionError for a schema without columns.
    """
    origin = (
        f"subject '{found.subject}', version {found.version}, of the schema registry at {shown}"
    )
    match found.kind:
        case "JSON":
            return _of_json(found, name=name, origin=origin, properties=properties)
        case "AVRO":
            return _of_avro(found, name=name, origin=origin)
    raise UnsupportedError(
        f"{origin} is of the kind {found.kind}",
        hint="schemas of the kinds AVRO and JSON are understood",
    )


def _of_json(
    found: RegisteredSchema, *, name: str, origin: str, properties: Mapping[str, str]
) -> InferredTable:
    options = redact({f"properties.{key}": value for key, value in properties.items()})
    return InferredTable(
        name=name,
        columns=schema_columns(found.schema),
        options=(
            ("connector", KAFKA),
            ("topic", topic_of(found.subject)),
            *options.items(),
            ("scan.startup.mode", "earliest-offset"),
            ("format", "json"),
            ("json.timestamp-format.standard", "ISO-8601-WITH-OFFSET"),
        ),
        remarks=(
            f"From {origin}: a JSON schema.",
            PROPOSAL,
            "The topic is the one that the subject's name says.",
            FRAMED,
        ),
    )


def _of_avro(found: RegisteredSchema, *, name: str, origin: str) -> InferredTable:
    columns = tuple(map(_storable, avro_columns(found.schema, found.references)))
    return InferredTable(
        name=name,
        columns=columns,
        options=(("connector", DELTA), ("path", name)),
        remarks=(
            f"From {origin}: an Avro schema.",
            PROPOSAL,
            "No format reads Avro records yet: this is a Delta table for rows of this schema.",
            "The topic's records are read as they are with one BYTES column and 'format' = 'raw'.",
        ),
    )


def _storable(each: InferredColumn) -> InferredColumn:
    """Keep bytes of a fixed size as BYTES: the size says nothing to Spark."""
    column = each.column
    if isinstance(column, PhysicalColumn) and isinstance(column.type, t.BinaryType):
        kind = t.VarBinaryType(length=t.MAX_LENGTH, nullable=column.type.nullable)
        return replace(each, column=replace(column, type=kind))
    return each
