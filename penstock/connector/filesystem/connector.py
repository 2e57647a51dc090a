"""The connector `filesystem`: checks a table's definition, describes its scan and its sink. Touches no file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.table import Table
from penstock.catalog.options.option import Option, PrefixOption
from penstock.connector.capabilities import (
    ConnectivityCheck,
    MetadataKey,
    Publishable,
    TableAccess,
    TableEditor,
)
from penstock.connector.checks import counted, list_splits
from penstock.connector.contract import Connector, Sink
from penstock.connector.filesystem.sink.target import (
    is_written_only,
    read_target,
    written_formats,
)
from penstock.connector.filesystem.source.source import FilesystemSource
from penstock.connector.filesystem.table.options import FORMAT, OPTIONS, PATH
from penstock.connector.filesystem.table.split import METADATA
from penstock.connector.filesystem.table.table import read_table
from penstock.connector.options.bad_records import BAD_RECORD_OPTIONS
from penstock.connector.options.watermark import WATERMARK_OPTIONS
from penstock.connector.urls import table_folder

_CONVERTED = "make lines of JSON of them once, such as with DuckDB: COPY (FROM 'in.parquet') TO 'folder/in.json'"
_WRITTEN_ONLY = {
    "csv": "read the lines, one column line STRING and 'format' = 'raw', and split them in a view: "
    "CAST(SPLIT_INDEX(line, ',', 0) AS INT) AS id, ..."
}
"""The operations on existing files of a format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemConnector(Connector):
    """Tables of files (`Connector`); relative paths are relative to `project`."""

    project: Path

    @property
    def name(self) -> str:
        """The value of the option `connector`."""
        return "filesystem"

    @property
    def options(self) -> Sequence[Option[Any] | PrefixOption]:
        """Return the options of its tables."""
        return (*OPTIONS, *WATERMARK_OPTIONS, *BAD_RECORD_OPTIONS)

    @property
    def metadata(self) -> Sequence[MetadataKey]:
        """Return the metadata of files."""
        return METADATA

    @property
    def own_formats(self) -> Mapping[str, Sequence[Option[Any]]]:
        """Return the formats of files that are written only."""
        return written_formats()

    def check(self, table: Table) -> None:
        """Check options, format and columns, without I/O. Raises OptionError, DefinitionError."""
        if is_written_only(table):
            read_target(table, self.project)
        else:
            read_table(table, self.project)

    def folder(self, table: Table) -> str | None:
        """Return where `path` leads."""
        return table_folder(table, PATH.key, self.project)

    def connectivity_check(self, table: Table) -> ConnectivityCheck:
        """Count the files."""

        def check(access: TableAccess) -> str:
            del access
            _, extents = list_splits(self.source(table))
            return counted(len(extents), "file")

        return check

    def publishable(self, table: Table) -> Publishable | None:
        """Describe files of a format that only Spark reads here; others are read by splits."""
        if not is_written_only(table):
            return None
        from penstock.connector.filesystem.sink.relation import WrittenFiles

        return WrittenFiles(table=table, target=read_target(table, self.project))

    def source(self, table: Table) -> FilesystemSource:
        """Describe the scan. Raises as `check`, and UnsupportedError for a format that is written only."""
        if is_written_only(table):
            raise UnsupportedError(
                f"table {table.identifier}: files of the format '{table.option_map[FORMAT.key]}' are written, not read",
                hint=f"{_WRITTEN_ONLY.get(table.option_map[FORMAT.key], _CONVERTED)}; 'json' and 'raw' files are read, "
                "and a table with 'connector' = 'delta'",
            )
        return FilesystemSource(table=read_table(table, self.project))

    def editor(self, table: Table) -> TableEditor:
        """Describe replacing files. Raises as `sink`."""
        from penstock.connector.filesystem.sink.sink import FilesystemSink

        return FilesystemSink(target=read_target(table, self.project))

    def sink(self, table: Table) -> Sink:
        """Describe writing files. Raises as `check`, and UnsupportedError for what is not done when writing."""
        from penstock.connector.filesystem.sink.sink import (
            FilesystemSink,  # Spark, only where it is used
        )

        return FilesystemSink(target=read_target(table, self.project))
