"""The connector `datagen`: checks a table's options and describes its scan."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.table import Table
from penstock.connector.contract import Sink
from penstock.connector.datagen.settings import read_settings
from penstock.connector.datagen.source import DatagenSource

__all__ = ["DatagenConnector"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatagenConnector:
    """Tables whose rows are made up (`Connector`). `project` is of no use to it."""

    project: Path

    @property
    def name(self) -> str:
        """The value of the option `connector`."""
        return "datagen"

    def check(self, table: Table) -> None:
        """Check options and columns. Raises OptionError, DefinitionError, UnsupportedError."""
        read_settings(table)

    def source(self, table: Table) -> DatagenSource:
        """Describe the scan. Raises as `check`."""
        return DatagenSource(settings=read_settings(table))

    def sink(self, table: Table) -> Sink:
        """Nothing can be written. Raises UnsupportedError."""
        raise UnsupportedError(
            f"table {table.identifier}: 'datagen' makes rows up and takes none",
            hint="write into a table with another connector, such as 'delta' or 'print'",
        )
