"""The connector `jdbc`: checks a table's definition and describes its source and sink. Opens no connection."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.model.table import Table
from penstock.connector.contract import Connector, EngineSource, Sink
from penstock.connector.jdbc.settings import (
    read_jdbc_table,
    read_lookup_settings,
    read_scan_settings,
)

__all__ = ["JdbcConnector"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcConnector(Connector):
    """Tables of databases (`Connector`); a SQLite file's relative path is relative to `project`."""

    project: Path

    @property
    def name(self) -> str:
        """The value of the option `connector`."""
        return "jdbc"

    def check(self, table: Table) -> None:
        """Check options and columns, without I/O. Raises OptionError, DefinitionError, UnsupportedError."""
        read_jdbc_table(table, self.project)
        read_scan_settings(table)
        read_lookup_settings(table)

    def source(self, table: Table) -> EngineSource:
        """Describe reading what the table holds. Raises as `check`."""
        from penstock.connector.jdbc.source import JdbcSource  # Spark, only where it is used

        return JdbcSource(
            table=read_jdbc_table(table, self.project),
            settings=read_scan_settings(table),
            lookups=read_lookup_settings(table),
        )

    def sink(self, table: Table) -> Sink:
        """Describe writing into the table. Raises as `check`."""
        from penstock.connector.jdbc.sink import JdbcSink  # Spark, only where it is used

        return JdbcSink(table=read_jdbc_table(table, self.project))
