"""The connector `delta`: Delta tables by path, appended to or upserted exactly once, read by Spark itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.catalog.model.table import Table
from penstock.catalog.options.option import Option, PrefixOption
from penstock.connector.capabilities import ConnectivityCheck, LocalStore, Publishable
from penstock.connector.contract import Connector, EngineSource, Sink
from penstock.connector.delta.definition import check_clustering, check_definition
from penstock.connector.delta.options import (
    CLUSTERING_COLUMNS,
    OPTIMIZE_INTERVAL,
    OPTIONS,
    PATH,
    SCHEMA_EVOLUTION,
    TARGET_FILE_SIZE,
    DeltaTarget,
    FileMaintenance,
    compacts,
    resolve_options,
    table_properties,
)
from penstock.connector.delta.sink import DeltaSink
from penstock.connector.delta.source import DeltaSource
from penstock.connector.row_level_dml import RowLevelEditor
from penstock.connector.urls import resolve_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DeltaConnector"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaConnector(Connector):
    """Delta tables (`Connector`); relative paths are relative to `project`."""

    project: Path

    @property
    def name(self) -> str:
        """The value of the option `connector`."""
        return "delta"

    @property
    def options(self) -> Sequence[Option[Any] | PrefixOption]:
        """Return the options of its tables."""
        return OPTIONS

    def check(self, table: Table) -> None:
        """Check options and schema, without Spark. Raises OptionError, DefinitionError, UnsupportedError."""
        options = resolve_options(table)
        check_definition(table)
        check_clustering(table, options.get(CLUSTERING_COLUMNS))

    def folder(self, table: Table) -> str | None:
        """Return where `path` leads."""
        path = table.option_map.get(PATH.key)
        return resolve_path(path, self.project) if path else None

    def options_of_provider(self, provider: str, location: str) -> Mapping[str, str] | None:
        """Return the options of Spark's Delta tables."""
        if provider.lower() != self.name:
            return None
        return {"connector": self.name, PATH.key: location}

    def connectivity_check(self, table: Table) -> ConnectivityCheck:
        """Look at the table's log."""
        from penstock.connector.delta.log.connectivity import check_log

        return partial(check_log, resolve_path(resolve_options(table).get(PATH), self.project))

    @property
    def local_store(self) -> LocalStore:
        """Tables are kept in a folder of the test."""
        return DeltaStore()

    def publishable(self, table: Table) -> Publishable:
        """Spark reads Delta tables."""
        return self._source(table)

    def source(self, table: Table) -> EngineSource:
        """Describe reading the table."""
        return self._source(table)

    def _source(self, table: Table) -> DeltaSource:
        options = resolve_options(table)
        location = resolve_path(options.get(PATH), self.project)
        return DeltaSource(target=DeltaTarget(table=table, location=location), options=options)

    def editor(self, table: Table) -> RowLevelEditor:
        """Describe changing the rows of the table in place."""
        from penstock.connector.delta.row_level_dml import (
            DeltaEditor,  # Spark, only where it is used
        )

        options = resolve_options(table)
        location = resolve_path(options.get(PATH), self.project)
        target = DeltaTarget(table=table, location=location)
        upkeep = FileMaintenance(target_file_bytes=options.get(TARGET_FILE_SIZE))
        return DeltaEditor(target=target, upkeep=upkeep)

    def sink(self, table: Table) -> Sink:
        """Describe writing into the table: appending, or upserting where it has a PRIMARY KEY."""
        options = resolve_options(table)
        location = resolve_path(options.get(PATH), self.project)
        return DeltaSink(
            target=DeltaTarget(
                table=table,
                location=location,
                properties=table_properties(options),
                clustering=options.get(CLUSTERING_COLUMNS),
            ),
            adds_columns=options.get(SCHEMA_EVOLUTION) == "add-columns",
            upkeep=FileMaintenance(
                target_file_bytes=options.get(TARGET_FILE_SIZE),
                auto_compaction=compacts(options),
                optimize_interval_ms=options.get(OPTIMIZE_INTERVAL),
            ),
        )


@dataclass(frozen=True, slots=True)
class DeltaStore:
    """Keeps tables of a test in its folder (`LocalStore`)."""

    def moved(self, table: Table, *, folder: Path, name: str) -> Table:  # noqa: ARG002  of the contract
        """Keep the rows in `folder`."""
        options = {**table.option_map, PATH.key: str(folder)}
        return replace(table, options=tuple(options.items()))

    def rows(self, table: Table, spark: SparkSession) -> list[dict[str, Any]]:
        """Return the rows that the folder holds."""
        path = table.option_map[PATH.key].removeprefix("file:")
        if not (Path(path) / "_delta_log").is_dir():
            return []
        rows: list[dict[str, Any]] = spark.read.format("delta").load(path).toArrow().to_pylist()
        return rows
