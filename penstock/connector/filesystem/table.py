"""A filesystem table as one picklable value: settings, format, columns and partitions, checked together."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.schema import Schema
from penstock.catalog.table import Table
from penstock.connector.bad_record_options import check_against_format
from penstock.connector.changelog import ChangelogMode
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
        """Whether what cannot be decoded is left out, by the format or by `bad-records`."""
        by_format = self.format.skips_bad_records(self.settings.resolved)
        return by_format or self.settings.bad_records.leaves_out


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
    _check_insert_only(found, owner)
    found.check(in_lines, settings.resolved)
    check_against_format(
        settings.resolved, owner=owner, format_skips=found.skips_bad_records(settings.resolved)
    )
    for column in table.schema.metadata:
        check_metadata_column(column, METADATA_TYPES, owner=owner, connector="filesystem")
    return FilesystemTable(
        schema=table.schema, settings=settings, partitioning=partitioning, format=found
    )


def _check_insert_only(found: Format, owner: str) -> None:
    if found.changes is not ChangelogMode.INSERT_ONLY:
        raise UnsupportedError(
            f"{owner}: files of changes in the format '{found.identifier}' are not supported by 'filesystem'",
            hint="read changes from a topic, with 'connector' = 'kafka'; or the envelopes themselves, with "
            "'format' = 'json' and columns such as after ROW<...>",
        )
