"""What reading tasks need to write records, decided by the definition of their table; or why Spark writes them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import quote
from penstock.catalog.model.table import MetadataColumn, PhysicalColumn, Schema, Table
from penstock.connector.file_output import (
    FileColumn,
    FilledColumn,
    RecordOutput,
    WrittenByEngine,
    cast_reason,
)
from penstock.connector.formats.contract import ColumnEncoding
from penstock.connector.kafka.sink.records import single_topic, writes_changes
from penstock.connector.kafka.sink.settings import Delivery, KafkaSinkSettings, Staging
from penstock.connector.kafka.sink.sink_state import BatchBegun
from penstock.connector.kafka.table.fields import Field, FormatChoice, KafkaTable
from penstock.connector.kafka.table.options import STAGING, WRITER

log = logging.getLogger(__name__)


def record_output(
    definition: Table,
    table: KafkaTable,
    settings: KafkaSinkSettings,
    filled: Sequence[FilledColumn],
) -> RecordOutput | WrittenByEngine:
    """Decide for the columns that a query fills; `table` is the `definition`, checked."""
    given = {column.name: column for column in filled}
    reason = next(_reasons(table, settings, given), None)
    if reason is not None:
        return WrittenByEngine(reason=reason)
    return RecordOutput(
        table=definition,
        columns=tuple(_columns(table.schema, given)),
        tasks=settings.parallelism,
    )


def ended_by(
    output: RecordOutput, began: BatchBegun | None, settings: KafkaSinkSettings, *, owner: str
) -> RecordOutput | WrittenByEngine:
    """Decide by the settings, unless a batch was begun: those who began it end it."""
    if began is None:
        if settings.by_tasks:
            return output
        return WrittenByEngine(reason=f"'{WRITER.key}' = 'spark'")
    if not began.by_tasks:
        return WrittenByEngine(reason=f"it wrote a part of batch {began.batch_id}, and ends it")
    if not settings.by_tasks:
        log.warning(
            "%s: reading tasks end batch %d, of which they wrote a part; Spark writes from the next start on",
            owner,
            began.batch_id,
        )
    return output


def _reasons(
    table: KafkaTable, settings: KafkaSinkSettings, given: Mapping[str, FilledColumn]
) -> Iterator[str]:
    """Tell what only Spark writes."""
    formats = table.formats
    if table.upserts:
        yield "the rows of a key come together"
    if writes_changes(table):
        yield f"the format '{formats.value.format.identifier}' writes changes"
    if settings.staging is Staging.ALWAYS and settings.delivery is Delivery.EXACTLY_ONCE:
        yield f"'{STAGING.key}' = 'always'"
    written = [column for column in table.schema.metadata if not column.virtual]
    if single_topic(table) is None or any(c.metadata_key == "topic" for c in written):
        yield "rows say their topic"
    for column in written:
        if column.name in given and not _writable(column):
            yield f"column {quote(column.name)} is written as '{column.metadata_key}'"
    yield from _unencoded(table, table.projection.value, formats.value)
    if formats.key is not None:
        yield from _unencoded(table, table.projection.key, formats.key)
    for target in _written(table.schema):
        source = given.get(target.name)
        if source is not None and (cast := cast_reason(target.name, source.type, target.type)):
            yield cast


def _written(schema: Schema) -> Iterator[PhysicalColumn | MetadataColumn]:
    yield from schema.physical
    yield from schema.metadata


def _columns(schema: Schema, given: Mapping[str, FilledColumn]) -> Iterator[FileColumn]:
    for column in _written(schema):
        filled = given.get(column.name)
        if isinstance(column, MetadataColumn) and filled is None:
            continue
        yield FileColumn(
            name=column.name,
            type=column.type,
            source=None if filled is None else filled.source,
            required=not column.type.nullable,
            statistics=False,
        )


def _writable(column: MetadataColumn) -> bool:
    """Whether tasks write metadata: instants, which need no time zone."""
    return column.metadata_key == "timestamp" and isinstance(column.type, t.TimestampLtzType)


def _unencoded(table: KafkaTable, fields: Sequence[Field], choice: FormatChoice) -> Iterator[str]:
    named, format_ = [(field.name, field.type) for field in fields], choice.format
    if not isinstance(format_, ColumnEncoding):
        yield f"the format '{format_.identifier}' is not encoded by tasks"
        return
    reason = format_.why_not_encoded(named, table.settings.resolved, prefix=choice.prefix)
    if reason is not None:
        yield reason
