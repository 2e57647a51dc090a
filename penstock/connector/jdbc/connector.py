"""The connector `jdbc`: checks a table's definition and describes its sink. Opens no connection."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.table import Table
from penstock.connector.contract import Sink, SplitSource
from penstock.connector.jdbc.settings import read_jdbc_table

__all__ = ["JdbcConnector"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcConnector:
    """Tables of databases (`Connector`); a SQLite file's relative path is relative to `project`."""

    project: Path

    @property
    def name(self) -> str:
        """The value of the option `connector`."""
        return "jdbc"

    def check(self, table: Table) -> None:
        """Check options and columns, without I/O. Raises OptionError, DefinitionError, UnsupportedError."""
        read_jdbc_table(table, self.project)

    def source(self, table: Table) -> SplitSource:
        """Databases are only written. Raises UnsupportedError."""
        raise UnsupportedError(
            f"table {table.identifier}: the connector 'jdbc' cannot be read yet",
            hint="bring the rows in through a topic, or through a table with 'connector' = 'delta'",
        )

    def sink(self, table: Table) -> Sink:
        """Describe writing into the table. Raises as `check`."""
        from penstock.connector.jdbc.sink import JdbcSink  # Spark, only where it is used

        return JdbcSink(table=read_jdbc_table(table, self.project))
