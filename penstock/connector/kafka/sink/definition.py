"""Whether a table can be written at all: its formats, its metadata columns, its topics. Needs no JVM and no broker."""

from __future__ import annotations

from collections.abc import Collection

from penstock.catalog.errors import DefinitionError, OptionError
from penstock.connector.changelog import ChangelogMode
from penstock.connector.kafka.sink.records import record_expressions, single_topic, writable_as
from penstock.connector.kafka.sink.settings import KafkaSinkSettings
from penstock.connector.kafka.table.fields import KafkaTable
from penstock.connector.kafka.table.metadata import METADATA_TYPES, WRITABLE

__all__ = ["check_order", "check_topic_given", "check_writable", "writes_changes"]


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
