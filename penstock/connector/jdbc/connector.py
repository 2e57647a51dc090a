"""The connector `jdbc`: checks a table's definition and describes its source and sink. Opens no connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from penstock.catalog.model.table import Table
from penstock.catalog.options.option import Option, PrefixOption
from penstock.connector.capabilities import ConnectivityCheck, Dataset
from penstock.connector.contract import Connector, EngineSource, Sink
from penstock.connector.jdbc.options import OPTIONS
from penstock.connector.jdbc.settings import (
    read_jdbc_table,
    read_lookup_settings,
    read_scan_settings,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcConnector(Connector):
    """Tables of databases (`Connector`); a SQLite file's relative path is relative to `project`."""

    project: Path

    @property
    def name(self) -> str:
        """The value of the option `connector`."""
        return "jdbc"

    @property
    def options(self) -> Sequence[Option[Any] | PrefixOption]:
        """Return the options of its tables."""
        return OPTIONS

    def check(self, table: Table) -> None:
        """Check options and columns, without I/O. Raises OptionError, DefinitionError, UnsupportedError."""
        read_jdbc_table(table, self.project)
        read_scan_settings(table)
        read_lookup_settings(table)

    def datasets(self, table: Table) -> Sequence[Dataset]:
        """The database's table; of SQLite its file."""
        found = read_jdbc_table(table, self.project)
        address = found.address
        if address.host is None:
            return (Dataset(namespace="file", name=f"{address.database}/{found.name}"),)
        server = address.host if address.port is None else f"{address.host}:{address.port}"
        schema = found.database_schema or "public"
        name = f"{address.database}.{schema}.{found.name}"
        return (Dataset(namespace=f"postgres://{server}", name=name),)

    def connectivity_check(self, table: Table) -> ConnectivityCheck:
        """Ask the database for the table."""
        from penstock.connector.jdbc.source import check_table

        return partial(check_table, read_jdbc_table(table, self.project))

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
