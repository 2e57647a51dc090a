"""From a frame of rows to a frame of records, and from there to slots: Spark expressions only.

Whether a table can be written at all is checked without a JVM or a broker: formats, metadata columns, topics.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.catalog.errors import DefinitionError, OptionError
from penstock.catalog.model.identifier import quoted
from penstock.catalog.model.table import MetadataColumn
from penstock.catalog.model.types import (
    ArrayType,
    BinaryType,
    CharType,
    DateType,
    MapType,
    RowType,
    TimestampLtzType,
    TimestampType,
    VarBinaryType,
    VarCharType,
)
from penstock.catalog.options.option import OptionScope
from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind
from penstock.connector.kafka.sink.protocol import digest_with_encoding
from penstock.connector.kafka.sink.settings import KafkaSinkSettings
from penstock.connector.kafka.table.fields import (
    METADATA_TYPES,
    WRITABLE,
    Field,
    FormatChoice,
    KafkaTable,
)
from penstock.connector.kafka.table.settings import TopicList
from penstock.connector.spark.encoding import WrittenField, bytes_expression, sql_text
from penstock.connector.spark.sink.target_rows import target_expressions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame


SLOT = "__slot"
ORDER = "__order"
_TEXT = (CharType, VarCharType)
_BYTES = (BinaryType, VarBinaryType)
_GONE = (RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value)


def single_topic(table: KafkaTable) -> str | None:
    """Return the topic of a table that has one only."""
    topics = table.settings.subscription
    return topics.topics[0] if isinstance(topics, TopicList) and len(topics.topics) == 1 else None


def records_of(frame: DataFrame, table: KafkaTable, *, owner: str) -> DataFrame:
    """Return the records of `frame`, whose columns are named and typed as the table's."""
    given = set(frame.columns)
    metadata = [quoted(c.name) for c in table.schema.metadata if c.name in given]
    rows = frame.selectExpr(*target_expressions(table.schema.physical, given), *metadata)
    return rows.selectExpr(*record_expressions(table, given, owner=owner))


def record_expressions(table: KafkaTable, given: set[str], *, owner: str) -> list[str]:
    """Return the Spark SQL of a record's columns, of which the table's columns `given` are the input."""
    changes = ROW_KIND in given
    kind = quoted(ROW_KIND) if changes else None
    key = "CAST(NULL AS BINARY)"
    if table.formats.key is not None:
        key = _bytes(table, table.projection.key, table.formats.key, owner)
    value = _bytes(table, table.projection.value, table.formats.value, owner, kind)
    if changes and table.upserts:
        gone = ", ".join(map(str, _GONE))
        value = f"CASE WHEN {kind} IN ({gone}) THEN NULL ELSE {value} END"
    expressions = [f"{key} AS key", f"{value} AS value"]
    declared = {c.metadata_key: c for c in table.schema.metadata if not c.virtual}
    written = {key: column for key, column in declared.items() if column.name in given}
    if "timestamp" in written:
        expressions.append(_timestamp(written["timestamp"]))
    if "headers" in written:
        expressions.append(_header_map(written["headers"]))
    if "header-list" in written:
        expressions.append(_header_list(written["header-list"]))
    if "topic" in declared:
        expressions.append(_topic(table, written.get("topic")))
    # elsewhere the value tells it
    return [*expressions, quoted(ROW_KIND)] if changes and table.upserts else expressions


def _bytes(
    table: KafkaTable,
    fields: Sequence[Field],
    choice: FormatChoice,
    owner: str,
    kind: str | None = None,
) -> str:
    written = [WrittenField(name=f.name, type=f.type, expression=quoted(f.column)) for f in fields]
    return bytes_expression(
        choice.format,
        written,
        table.settings.resolved,
        prefix=choice.prefix,
        owner=owner,
        kind=kind,
    )


def writable_as(column: MetadataColumn) -> bool:
    """Return whether a column of writable metadata is cast to the metadata's type, as Flink's sink does it."""
    match column.metadata_key, column.type:
        case "timestamp", declared:
            return isinstance(declared, TimestampLtzType | TimestampType | DateType)
        case "headers", MapType(key=key, value=value):
            return isinstance(key, _TEXT) and isinstance(value, (*_TEXT, *_BYTES))
        case "header-list", ArrayType(element=RowType(fields=(name, value))):
            return isinstance(name.type, _TEXT) and isinstance(value.type, (*_TEXT, *_BYTES))
        case "topic", declared:
            return isinstance(declared, _TEXT)
    return False


def _header_map(column: MetadataColumn) -> str:
    assert isinstance(column.type, MapType), "checked with the table"
    name = quoted(column.name)
    if isinstance(column.type.value, _TEXT):
        name = f"CAST({name} AS MAP<STRING, BINARY>)"
    return f"map_entries({name}) AS headers"


def _header_list(column: MetadataColumn) -> str:
    assert isinstance(column.type, ArrayType), "checked with the table"
    assert isinstance(column.type.element, RowType), "checked with the table"
    name, value = (f"h.{quoted(field.name)}" for field in column.type.element.fields)
    if isinstance(column.type.element.fields[1].type, _TEXT):
        value = f"CAST({value} AS BINARY)"
    text = sql_text(f"column {column.name}: a header has no name")
    named = f"named_struct('key', coalesce({name}, raise_error({text})), 'value', {value})"
    return f"transform({quoted(column.name)}, h -> {named}) AS headers"


def _timestamp(column: MetadataColumn) -> str:
    """Return epoch ms; NULL leaves it to the client. The client takes 0 for that, too, so it cannot be written."""
    instant = quoted(column.name)
    if not isinstance(column.type, TimestampLtzType):
        instant = f"CAST({instant} AS TIMESTAMP)"  # in the session's time zone
    ms = f"unix_millis({instant})"
    text = sql_text(
        f"column {column.name}: the timestamp of a record has to be after 1970-01-01T00:00:00Z"
    )
    return f"CASE WHEN {ms} <= 0 THEN raise_error({text}) ELSE {ms} END AS timestamp"


def _topic(table: KafkaTable, column: MetadataColumn | None) -> str:
    """Check the topic of each row against the table's list or pattern (Flink's getTargetTopic)."""
    topics, only = table.settings.subscription, single_topic(table)
    name = "NULL" if column is None else quoted(column.name)
    if only is not None:
        name = f"coalesce({name}, {sql_text(only)})"
    if isinstance(topics, TopicList):
        known = f"{name} IN ({', '.join(map(sql_text, topics.topics))})"
    else:
        known = f"{name} RLIKE {sql_text(f'^(?:{topics.pattern})' + chr(92) + 'z')}"
    why = sql_text(f"the topic of a row has to be one of {topics}, and is ")
    error = f"raise_error(concat({why}, coalesce({name}, 'NULL')))"
    return f"CASE WHEN {known} THEN {name} ELSE {error} END AS topic"


def slotted(records: DataFrame, slots: int, *, by_key: bool) -> DataFrame:
    """Assign each slot its partition, rows in the order of their splits; `by_key`: the rows of a key together.

    A slot is chosen by the key, or by the whole record where there is none, so that a replay gives it the same rows.
    """
    names = [name for name in records.columns if name not in (SLOT, ORDER)]
    whole = ", ".join(f"`{name}`" for name in names)
    slot = f"CAST(pmod(CASE WHEN key IS NOT NULL THEN xxhash64(key) ELSE xxhash64({whole}) END, {slots}) AS INT)"
    given = records if ORDER in records.columns else ordered(records)
    chosen = given.selectExpr("*", f"{slot} AS {SLOT}")
    sorting = ["key", ORDER] if by_key else [ORDER]
    return chosen.repartitionById(slots, chosen[SLOT]).sortWithinPartitions(*sorting)


def ordered(records: DataFrame) -> DataFrame:
    """Add the order in which Spark reads the rows, which grows along each split, before a shuffle loses it."""
    return records.selectExpr("*", f"monotonically_increasing_id() AS {ORDER}")


ZONE = "spark.sql.session.timeZone"
_ENCODING_DIGITS = 8


def encoded_digest(digest: str, frame: DataFrame, table: KafkaTable) -> str:
    """Return the digest of a batch, with one of what the slots of its rows follow from beside these.

    That is what makes records of rows: the columns of the INSERT in their order, those of key and value with their
    types, what their formats are set to, and the time zone. Where no record is without a key, the key alone.
    """
    key = table.formats.key
    whole = key is None or any(field.type.nullable for field in table.projection.key)
    given = {name: position for position, name in enumerate(frame.columns)}
    metadata = [c for c in table.schema.metadata if whole and not c.virtual]
    says_topic = any(column.metadata_key == "topic" for column in metadata)
    encoding = {
        "zone": frame.sparkSession.conf.get(ZONE),
        "key": None if key is None else _described(table, table.projection.key, key, given),
        "metadata": [[c.metadata_key, str(c.type), given.get(c.name)] for c in metadata],
        "topic": single_topic(table) if says_topic else None,
    }
    if whole:
        encoding["value"] = _described(table, table.projection.value, table.formats.value, given)
    text = json.dumps(encoding, sort_keys=True)
    return digest_with_encoding(
        digest, hashlib.sha256(text.encode()).hexdigest()[:_ENCODING_DIGITS]
    )


def _described(
    table: KafkaTable, fields: Sequence[Field], choice: FormatChoice, given: Mapping[str, int]
) -> object:
    """Describe how the key or the value is made. Options at their defaults are left out: later versions have more."""
    options = [option for option in choice.options if option.scope is not OptionScope.SOURCE]
    values = {option.key: table.settings.resolved.get(option) for option in options}
    return {
        "format": choice.format.identifier,
        "options": {o.key: str(values[o.key]) for o in options if values[o.key] != o.default},
        "fields": [
            [field.name, str(replace(field.type, nullable=True)), given.get(field.column)]
            for field in fields
        ],
    }


def writes_changes(table: KafkaTable) -> bool:
    """Return whether values are changes of rows, so that it matters in which order they are read."""
    return table.formats.value.format.changes is not ChangelogMode.INSERT_ONLY


def check_order(table: KafkaTable, settings: KafkaSinkSettings, *, owner: str) -> None:
    """Refuse to spread changes of which nothing says which belong together. Raises OptionError."""
    keyless = writes_changes(table) and table.formats.key is None
    if keyless and (settings.parallelism or 1) > 1:
        raise OptionError(
            f"{owner}: 'sink.parallelism' = '{settings.parallelism}' would write the changes of a row in several "
            f"places at once: '{table.formats.value.format.identifier}' says what happened in its order",
            hint="add 'key.format' and 'key.fields', by which the changes of a row stay together; or leave it out",
        )


def check_writable(table: KafkaTable, *, owner: str) -> None:
    """Check a table that is to be written. Raises DefinitionError, UnsupportedError."""
    written = [column for column in table.schema.metadata if not column.virtual]
    for column in written:
        if column.metadata_key not in WRITABLE:
            raise DefinitionError(
                f"{owner}: the metadata column '{column.name}' is of '{column.metadata_key}', which can be read only",
                hint=f"declare it VIRTUAL; metadata that can be written: {', '.join(WRITABLE)}",
            ).about(column.name)
        if not writable_as(column):
            offered = METADATA_TYPES[column.metadata_key]
            raise DefinitionError(
                f"{owner}: the metadata column '{column.name}' has type {column.type}, which is not cast to that of "
                f"'{column.metadata_key}', {offered}, when a row is written",
                hint=f"declare it VIRTUAL, or {column.name} {offered}",
            ).about(column.name)
    keys = {column.metadata_key for column in written}
    if {"headers", "header-list"} <= keys:
        raise DefinitionError(
            f"{owner}: 'headers' and 'header-list' are two ways to write the same headers",
            hint="declare one of the two columns VIRTUAL",
        )
    if single_topic(table) is None and "topic" not in keys:
        raise DefinitionError(
            f"{owner}: {table.settings.subscription} is more than one topic, and no column says which one a row "
            "goes to",
            hint="declare a column topic STRING METADATA, or write to a table of one topic",
        )
    # every expression is made once, so that what cannot be written shows before anything starts
    record_expressions(table, set(table.schema.names), owner=owner)


def check_topic_given(table: KafkaTable, given: Collection[str], *, owner: str) -> None:
    """Check that an INSERT into several topics says which. Raises DefinitionError."""
    if single_topic(table) is not None:
        return
    (column,) = (c for c in table.schema.metadata if c.metadata_key == "topic" and not c.virtual)
    if column.name not in given:
        raise DefinitionError(
            f"the INSERT leaves out column '{column.name}' of {owner}, which says the topic of each row"
        )
