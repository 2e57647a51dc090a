"""A filesystem table as one picklable value: settings, format, columns and partitions, checked together."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from penstock.catalog.schema import Schema
from penstock.catalog.table import Table
from penstock.connector.filesystem import options as o
from penstock.connector.filesystem.metadata import METADATA_TYPES
from penstock.connector.filesystem.partitions import Partitioning, partitioning_of
from penstock.connector.filesystem.settings import FilesystemSettings, read_settings
from penstock.connector.formats import Format, find_format
from penstock.connector.metadata_columns import check_metadata_column

__all__ = ["FilesystemTable", "read_table"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemTable:
    """What a table's definition says of its files. The format decodes single lines."""

    schema: Schema
    settings: FilesystemSettings
    partitioning: Partitioning
    format: Format = field(repr=False)

    @property
    def skips_bad_records(self) -> bool:
        """Whether the format leaves out what it cannot decode."""
        return self.format.skips_bad_records(self.settings.resolved)


def read_table(table: Table, project: Path) -> FilesystemTable:
    """Check a definition, without I/O. Raises OptionError, DefinitionError."""
    owner = f"table {table.identifier}"
    options = table.option_map
    # a missing format is among the missing options, all named at once
    name = options.get(o.FORMAT.key)
    found = None if name is None else find_format(name, option=o.FORMAT.key)
    formats = () if found is None else found.options()
    settings = read_settings(options, formats, owner=owner, project=project)
    assert found is not None, "the option 'format' is required"
    partitioning = partitioning_of(table, settings.default_partition)
    in_lines = [
        (column.name, column.type)
        for column in table.schema.physical
        if column.name not in table.partition_keys
    ]
    found.check(in_lines, settings.resolved)
    for column in table.schema.metadata:
        check_metadata_column(column, METADATA_TYPES, owner=owner, connector="filesystem")
    return FilesystemTable(
        schema=table.schema, settings=settings, partitioning=partitioning, format=found
    )
