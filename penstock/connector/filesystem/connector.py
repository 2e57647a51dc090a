"""The connector `filesystem`: checks a table's definition and describes its scan. Touches no file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.table import Table
from penstock.connector.contract import Sink
from penstock.connector.filesystem.source import FilesystemSource
from penstock.connector.filesystem.table import read_table

__all__ = ["FilesystemConnector"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemConnector:
    """Tables of files (`Connector`); relative paths are relative to `project`."""

    project: Path

    @property
    def name(self) -> str:
        """The value of the option `connector`."""
        return "filesystem"

    def check(self, table: Table) -> None:
        """Check options, format and columns, without I/O. Raises OptionError, DefinitionError."""
        read_table(table, self.project)

    def source(self, table: Table) -> FilesystemSource:
        """Describe the scan. Raises as `check`."""
        return FilesystemSource(table=read_table(table, self.project))

    def sink(self, table: Table) -> Sink:
        """Files are only read. Raises UnsupportedError."""
        raise UnsupportedError(
            f"table {table.identifier}: the connector 'filesystem' cannot be written",
            hint="write to a table with 'connector' = 'delta', whose files are part of a transaction",
        )
