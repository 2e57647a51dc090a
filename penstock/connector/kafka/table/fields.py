"""Which columns come from the key, the value and the metadata of a record, and the formats that decode them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.catalog.errors import DefinitionError, OptionError, did_you_mean
from penstock.catalog.model.table import Schema
from penstock.catalog.model.types import (
    ArrayType,
    BigIntType,
    IntType,
    LogicalType,
    MapType,
    RowField,
    RowType,
    TimestampLtzType,
    VarBinaryType,
    VarCharType,
)
from penstock.catalog.options.option import Option, Resolved
from penstock.connector.capabilities import MetadataKey
from penstock.connector.changelog import ChangelogMode
from penstock.connector.formats import Format, find_format
from penstock.connector.formats.contract import FieldProjecting
from penstock.connector.kafka.table import options as o
from penstock.connector.kafka.table.settings import KafkaSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatChoice:
    """A format and the prefix that its options have in this table."""

    format: Format
    prefix: str

    @property
    def options(self) -> tuple[Option[Any], ...]:
        """Descriptors of the format's options, with full keys."""
        return tuple(self.format.options(self.prefix))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFormats:
    """The formats of a table's records."""

    value: FormatChoice
    key: FormatChoice | None

    @property
    def options(self) -> tuple[Option[Any], ...]:
        """Descriptors of all options that the formats bring."""
        return self.value.options + (self.key.options if self.key is not None else ())

    def skips_bad_records(self, resolved: Resolved) -> bool:
        """Return whether a bad key or value is left out rather than an error."""
        return any(c.format.skips_bad_records(resolved, prefix=c.prefix) for c in self._choices)

    def projects_fields(self, resolved: Resolved) -> bool:
        """Return whether key and value can be decoded into rows with some of their fields."""
        return all(
            isinstance(c.format, FieldProjecting)
            and c.format.projects_fields(resolved, prefix=c.prefix)
            for c in self._choices
        )

    @property
    def _choices(self) -> tuple[FormatChoice, ...]:
        return (self.value,) if self.key is None else (self.value, self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A physical column and its name inside the key or value, which lacks `key.fields-prefix`."""

    column: str
    name: str
    type: LogicalType


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """The columns of key and value. One that is in both is filled from the value, as in Flink."""

    key: tuple[Field, ...]
    value: tuple[Field, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTable:
    """A checked table of Kafka's topics, which is read by a `KafkaSource` and written by a `KafkaSink`.

    `upserts`: a record replaces the row of its key, one without a value deletes it (`upsert-kafka`).
    """

    schema: Schema
    settings: KafkaSettings
    formats: TableFormats = field(repr=False)
    projection: Projection = field(repr=False)
    upserts: bool = False


def formats_of(options: Mapping[str, str], owner: str) -> TableFormats:
    """Find the formats that a WITH clause names. Raises OptionError."""
    if o.FORMAT.key in options:
        value = FormatChoice(
            format=find_format(options[o.FORMAT.key], option=o.FORMAT.key), prefix=""
        )
    elif o.VALUE_FORMAT.key in options:
        found = find_format(options[o.VALUE_FORMAT.key], option=o.VALUE_FORMAT.key)
        value = FormatChoice(format=found, prefix="value.")
    else:
        raise OptionError(
            f"{owner}: one of the options '{o.FORMAT.key}' and '{o.VALUE_FORMAT.key}' is required",
            hint=f"add '{o.FORMAT.key}' = 'json'",
        )
    key = None
    if o.KEY_FORMAT.key in options:
        found = find_format(options[o.KEY_FORMAT.key], option=o.KEY_FORMAT.key)
        key = FormatChoice(format=found, prefix="key.")
    return TableFormats(value=value, key=key)


def project(
    schema: Schema,
    resolved: Resolved,
    formats: TableFormats,
    owner: str,
    *,
    key_columns: tuple[str, ...] | None = None,
) -> Projection:
    """Return the columns of the key and of the value, checked. Raises OptionError, DefinitionError.

    `key_columns` are those of the key where it is not for `key.fields` to say.
    """
    names = resolved.get(o.KEY_FIELDS) if key_columns is None else key_columns
    prefix = resolved.get(o.KEY_FIELDS_PREFIX)
    if names and formats.key is None:
        raise OptionError(
            f"{owner}: the option '{o.KEY_FIELDS.key}' can only be declared if a key format is defined "
            f"using '{o.KEY_FORMAT.key}'"
        )
    if formats.key is not None and not names:
        raise OptionError(
            f"{owner}: a key format '{o.KEY_FORMAT.key}' requires the declaration of one or more of key fields "
            f"using '{o.KEY_FIELDS.key}'"
        )
    except_key = resolved.get(o.VALUE_FIELDS_INCLUDE) == "EXCEPT_KEY"
    if prefix and not except_key:
        raise OptionError(
            f"{owner}: a key prefix is not allowed when option '{o.VALUE_FIELDS_INCLUDE.key}' is set to 'ALL'",
            hint="set it to 'EXCEPT_KEY' instead to avoid field overlaps",
        )
    key = tuple(_key_field(schema, name, prefix, owner) for name in names)
    value = tuple(
        Field(column=column.name, name=column.name, type=column.type)
        for column in schema.physical
        if not (except_key and column.name in names)
    )
    projection = Projection(key=key, value=value)
    _check_formats(projection, resolved, formats, owner)
    return projection


def _key_field(schema: Schema, name: str, prefix: str, owner: str) -> Field:
    physical = {column.name: column for column in schema.physical}
    if name not in physical:
        raise OptionError(
            f"{owner}: could not find the field '{name}' in the table schema for usage in the key format; "
            f"a key field must be a regular, physical column",
            hint=did_you_mean(name, physical)
            or f"columns that '{o.KEY_FIELDS.key}' may name: {', '.join(physical)}",
        )
    if not name.startswith(prefix):
        raise OptionError(
            f"{owner}: all fields in '{o.KEY_FIELDS.key}' must be prefixed with '{prefix}' when option "
            f"'{o.KEY_FIELDS_PREFIX.key}' is set, but field '{name}' is not prefixed"
        )
    return Field(column=name, name=name.removeprefix(prefix), type=physical[name].type)


def _check_formats(
    projection: Projection, resolved: Resolved, formats: TableFormats, owner: str
) -> None:
    value = [(field.name, field.type) for field in projection.value]
    formats.value.format.check(value, resolved, prefix=formats.value.prefix)
    if formats.key is not None:
        check_insert_only(formats.key.format, "key", owner)
        key = [(field.name, field.type) for field in projection.key]
        formats.key.format.check(key, resolved, prefix=formats.key.prefix)


def check_insert_only(chosen: Format, role: str, owner: str) -> None:
    """Refuse a format of changes as the format of the `role`: "key" or "value". Raises OptionError."""
    if chosen.changes is not ChangelogMode.INSERT_ONLY:
        raise OptionError(
            f"{owner}: '{chosen.identifier}' cannot be the {role} format, because its records are changes of rows; a "
            f"{role} format here should only deal with insert-only records",
            hint="use a format such as 'json' or 'raw'",
        )


def check_primary_key(schema: Schema, formats: TableFormats, owner: str) -> None:
    """Refuse a key that records without deletes and updates cannot keep (validatePKConstraints)."""
    insert_only = formats.value.format.changes is ChangelogMode.INSERT_ONLY
    if insert_only and schema.primary_key is not None:
        name = formats.value.format.identifier
        raise DefinitionError(
            f"{owner}: the Kafka table with '{name}' format doesn't support defining PRIMARY KEY constraint on the "
            "table, because it can't guarantee the semantic of primary key",
            hint="leave PRIMARY KEY out, or use the connector 'upsert-kafka' if a record replaces the one before with "
            "the same key",
        )


VALUE_PREFIX = "value."
"""Before the format's names for its metadata (KafkaDynamicSource.VALUE_METADATA_PREFIX)."""

LONGEST = 2_147_483_647  # STRING and BYTES
_STRING = VarCharType(length=LONGEST, nullable=False)
_BYTES = VarBinaryType(length=LONGEST)

METADATA = (
    MetadataKey(
        key="topic",
        type=_STRING,
        writable=True,
        doc="Topic of the record; written, the topic that the record goes to.",
    ),
    MetadataKey(key="partition", type=IntType(nullable=False), doc="Partition of the record."),
    MetadataKey(
        key="headers",
        type=MapType(key=_STRING, value=_BYTES, nullable=False),
        writable=True,
        doc="Headers by their names; of several headers of one name the last.",
    ),
    MetadataKey(
        key="header-list",
        type=ArrayType(
            element=RowType(
                fields=(
                    RowField(name="key", type=VarCharType(length=LONGEST)),
                    RowField(name="value", type=_BYTES),
                )
            ),
            nullable=False,
        ),
        writable=True,
        doc="All headers in their order, those of one name too.",
    ),
    MetadataKey(
        key="leader-epoch",
        type=IntType(),
        doc="Epoch of the partition's leader that took the record, NULL where the broker does not say it.",
    ),
    MetadataKey(
        key="offset", type=BigIntType(nullable=False), doc="Offset of the record in its partition."
    ),
    MetadataKey(
        key="timestamp",
        type=TimestampLtzType(precision=3, nullable=False),
        writable=True,
        doc="Timestamp of the record.",
    ),
    MetadataKey(
        key="timestamp-type",
        type=VarCharType(length=LONGEST, nullable=False),
        doc="Origin of the timestamp: CreateTime, LogAppendTime or NoTimestampType.",
    ),
)
"""The metadata of records; what is writable is KafkaDynamicSink.WritableMetadata."""

METADATA_TYPES: Mapping[str, LogicalType] = {one.key: one.type for one in METADATA}

WRITABLE = tuple(one.key for one in METADATA if one.writable)
"""What a sink can write."""


def metadata_of(format_metadata: Mapping[str, LogicalType]) -> Mapping[str, LogicalType]:
    """Return the types of a table's metadata by their keys; `format_metadata` is the value format's."""
    return {**METADATA_TYPES, **{f"{VALUE_PREFIX}{key}": of for key, of in format_metadata.items()}}


def format_metadata_key(key: str) -> str | None:
    """Return the value format's name of metadata; None where it is Kafka's own."""
    return key.removeprefix(VALUE_PREFIX) if key.startswith(VALUE_PREFIX) else None
