"""A filesystem table that is written, as one checked value: where, how, by which columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from penstock.catalog.errors import DefinitionError, UnsupportedError
from penstock.catalog.identifier import quote
from penstock.catalog.schema import Schema
from penstock.catalog.table import Table
from penstock.connector.filesystem import options as o
from penstock.connector.filesystem.location import is_hidden
from penstock.connector.filesystem.partitions import partitioning_of
from penstock.connector.filesystem.settings import read_settings
from penstock.connector.filesystem.sink_formats import (
    WRITTEN_ONLY,
    FileFormat,
    file_format,
    written_options,
)
from penstock.connector.filesystem.sink_settings import SinkOptions, read_sink_options
from penstock.connector.formats import find_format

__all__ = ["FileTarget", "is_written_only", "read_target"]

# Hadoop's names of file systems where they are not pyarrow's
_HADOOP_SCHEMES = {"s3": "s3a", "gcs": "gs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTarget:
    """What a definition says of the files to write. `root` is a Hadoop URL or an absolute path, `shown` for messages.

    `default_partition` stands in a folder's name in the place of NULL.
    """

    owner: str
    schema: Schema
    root: str = field(repr=False)
    shown: str
    format: FileFormat
    partition_keys: tuple[str, ...]
    default_partition: str
    options: SinkOptions


def is_written_only(table: Table) -> bool:
    """Tell whether the table's format is one that is not read here."""
    return table.option_map.get(o.FORMAT.key) in WRITTEN_ONLY


def read_target(table: Table, project: Path) -> FileTarget:
    """Check a definition for writing, without I/O. Raises OptionError, DefinitionError, UnsupportedError."""
    owner = f"table {table.identifier}"
    options = table.option_map
    name = options.get(o.FORMAT.key)
    if name in WRITTEN_ONLY:
        formats = written_options(name)
    else:
        formats = () if name is None else find_format(name, option=o.FORMAT.key).options()
    settings = read_settings(options, formats, owner=owner, project=project)
    assert name is not None, "the option 'format' is required"
    partitioning = partitioning_of(table, settings.default_partition)
    _check_columns(table, owner)
    fields = [
        (column.name, column.type)
        for column in table.schema.physical
        if column.name not in table.partition_keys
    ]
    scheme, colon, rest = settings.location.text.partition("://")
    return FileTarget(
        owner=owner,
        schema=table.schema,
        root=f"{_HADOOP_SCHEMES.get(scheme, scheme)}{colon}{rest}".rstrip("/") or "/",
        shown=settings.location.shown,
        format=file_format(name, fields, settings.resolved, owner=owner),
        partition_keys=table.partition_keys,
        default_partition=settings.default_partition,
        options=read_sink_options(
            settings.resolved, partitioned=bool(partitioning.columns), owner=owner
        ),
    )


def _check_columns(table: Table, owner: str) -> None:
    for column in table.schema.metadata:
        if not column.virtual:
            raise DefinitionError(
                f"{owner}: metadata column {quote(column.name)} cannot be written: files have it by themselves",
                hint="declare it METADATA VIRTUAL",
            )
    for name in table.partition_keys:
        if is_hidden(name):
            raise UnsupportedError(
                f"{owner} is PARTITIONED BY {quote(name)}, whose folders nobody would read",
                hint="folders that begin with '_' or '.' are taken for unfinished; choose another name",
            )
    if len(table.partition_keys) == len(table.schema.physical):
        raise DefinitionError(
            f"{owner} is PARTITIONED BY all of its columns", hint="leave one to be stored in files"
        )
