"""The connector `delta`: Delta tables by path, appended to exactly once, read by Spark itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.table import Table
from penstock.connector.contract import EngineSource, Sink
from penstock.connector.delta.definition import check_definition
from penstock.connector.delta.options import PATH, resolve_options, resolve_path, table_properties

__all__ = ["DeltaConnector"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaConnector:
    """Delta tables (`Connector`); relative paths are relative to `project`."""

    project: Path

    @property
    def name(self) -> str:
        """The value of the option `connector`."""
        return "delta"

    def check(self, table: Table) -> None:
        """Check options and schema, without Spark. Raises OptionError, DefinitionError, UnsupportedError."""
        resolve_options(table)
        check_definition(table)

    def source(self, table: Table) -> EngineSource:
        """Describe reading the table."""
        from penstock.connector.delta.source import DeltaSource  # Spark, only where it is used
        from penstock.connector.delta.table import Target

        options = resolve_options(table)
        location = resolve_path(options.get(PATH), self.project)
        return DeltaSource(target=Target(table=table, location=location), options=options)

    def sink(self, table: Table) -> Sink:
        """Describe appending to the table. Raises UnsupportedError for one with a PRIMARY KEY."""
        from penstock.connector.delta.sink import DeltaSink
        from penstock.connector.delta.table import Target

        if table.schema.primary_key is not None:
            raise UnsupportedError(
                f"table {table.identifier}: writing into a Delta table with a PRIMARY KEY (upserts) is not "
                "supported yet",
                hint="drop the PRIMARY KEY to append every row",
            )
        options = resolve_options(table)
        location = resolve_path(options.get(PATH), self.project)
        return DeltaSink(
            target=Target(table=table, location=location, properties=table_properties(options))
        )
