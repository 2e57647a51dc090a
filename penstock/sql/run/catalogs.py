"""Opens a catalog for SQL: the store, and beside it the catalogs whose tables are found elsewhere.

Which kinds of those there are is said here; the catalog area knows none of their clients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.catalog.contract import Catalog
from penstock.catalog.descriptor import DELTA_PATH, JDBC, SPARK, CatalogDescriptor
from penstock.catalog.external import ExternalCatalog, Seal
from penstock.catalog.federation import Federation
from penstock.catalog.names import Namespace
from penstock.catalog.references import sealed_text
from penstock.sql.run.clock import SystemClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession  # noqa: TC004 - a check without a JVM loads this module

__all__ = ["ExternalKinds", "open_names"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalKinds:
    """Makes the catalog of a descriptor (`OpenExternal`). Paths are relative to `project`.

    `spark` gives the session, starting it if need be; None: Spark is not to be asked. `offline`: nobody is, but
    folders of this machine are looked into.
    """

    project: Path
    spark: Callable[[], SparkSession] | None = None
    offline: bool = False

    def __call__(self, descriptor: CatalogDescriptor, seal: Seal) -> ExternalCatalog:
        """Make it; nothing is opened yet, and clients are loaded for the kind that is asked for alone."""
        if descriptor.type == DELTA_PATH:
            from penstock.connector.delta.catalog import DeltaFolder

            return DeltaFolder(descriptor=descriptor, project=self.project, offline=self.offline)
        if descriptor.type == JDBC:
            from penstock.connector.jdbc.catalog import JdbcServer

            return JdbcServer(
                descriptor=descriptor,
                project=self.project,
                seal=lambda text: sealed_text(text, seal),
                offline=self.offline,
            )
        assert descriptor.type == SPARK, f"the store keeps the tables of {descriptor}"
        from penstock.connector.spark.catalog import SparkCatalog

        return SparkCatalog(descriptor=descriptor, spark=self.spark, offline=self.offline)


def open_names(
    store: Catalog,
    project: Path,
    *,
    spark: Callable[[], SparkSession] | None = None,
    offline: bool = False,
) -> Namespace:
    """Open a session's names over a store. `spark` and `offline` are those of `ExternalKinds`."""
    kinds = ExternalKinds(project=project, spark=spark, offline=offline)
    return Namespace(Federation(store, kinds, SystemClock().now_ms))
