"""The connector `memory`: tables whose rows are kept in this process, for tests and trials of a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.catalog.model.table import Table
from penstock.catalog.options.option import STRING, Option, PrefixOption, optional, resolve
from penstock.connector.capabilities import ConnectivityCheck, LocalStore
from penstock.connector.checks import check_nothing, check_written_metadata
from penstock.connector.contract import Connector, EngineSource, Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


NAME = optional(
    STRING,
    "name",
    "the name under which rows are kept; tables of one name share them; default the table's own name",
    flink=None,
)
OPTIONS = (
    Option(
        key="connector",
        type=STRING,
        default="",
        doc="'memory': rows are kept by the process that writes them",
        required=True,
        flink=None,
    ),
    NAME,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryConnector(Connector):
    """Tables in memory (`Connector`). `project` is not used."""

    project: Path

    @property
    def name(self) -> str:
        """The value of the option `connector`."""
        return "memory"

    @property
    def options(self) -> Sequence[Option[Any] | PrefixOption]:
        """Return the options of its tables."""
        return OPTIONS

    def check(self, table: Table) -> None:
        """Check options and columns. Raises OptionError, DefinitionError."""
        _location(table)

    def connectivity_check(self, table: Table) -> ConnectivityCheck:  # noqa: ARG002  of the contract
        """There is nothing to ask."""
        return check_nothing

    @property
    def local_store(self) -> LocalStore:
        """Rows are kept under another name."""
        return MemoryStore()

    def source(self, table: Table) -> EngineSource:
        """Describe reading what was written."""
        from penstock.connector.memory.tables import MemorySource  # Spark, only where it is used

        return MemorySource(table=table, location=_location(table))

    def sink(self, table: Table) -> Sink:
        """Describe writing: appending, or upserts and deletes where it has a PRIMARY KEY."""
        from penstock.connector.memory.sink import MemorySink

        return MemorySink(table=table, location=_location(table))


def _location(table: Table) -> str:
    """Return the name that the rows are kept under. Raises OptionError, DefinitionError."""
    options = resolve(table.option_map, OPTIONS, owner=f"table {table.identifier}")
    check_written_metadata(table, "memory")
    return options.get(NAME) or str(table.identifier)


@dataclass(frozen=True, slots=True)
class MemoryStore:
    """Keeps tables of a test in memory (`LocalStore`)."""

    def moved(self, table: Table, *, folder: Path, name: str) -> Table:  # noqa: ARG002  of the contract
        """Keep the rows under `name`."""
        options = {**table.option_map, NAME.key: name}
        return replace(table, options=tuple(options.items()))

    def rows(self, table: Table, spark: SparkSession) -> list[dict[str, Any]]:  # noqa: ARG002  of the contract
        """Return the rows as they were written."""
        from penstock.connector.memory.tables import memory_table

        rows = memory_table(table.option_map[NAME.key]).rows
        return [] if rows is None else rows.to_pylist()
