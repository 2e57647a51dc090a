"""The context of a statement that finishes at once: names, settings, jobs, Spark; and the catalogs opened for it.

The kinds of external catalogs are listed here; the catalog layer knows none of their clients.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.catalog.definitions.contract import Catalog
from penstock.catalog.definitions.external import ExternalCatalog, Seal
from penstock.catalog.definitions.federated import FederatedCatalog
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.model.namespaces import DELTA_PATH, JDBC, SPARK, CatalogDescriptor
from penstock.catalog.options.references import sealed_text
from penstock.sql.clock import SystemClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession  # noqa: TC004 - a check without a JVM loads this module

    from penstock.sql.jobs.job import Job  # noqa: TC004 - a check without a JVM loads this module

__all__ = ["ExternalKinds", "SessionContext", "open_names"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalKinds:
    """Makes the catalog of a descriptor (`OpenExternal`). Paths are relative to `project`.

    `spark` gives the session, starting it if need be; None: Spark must not be asked. `offline`: no server is asked,
    but folders of this machine are read.
    """

    project: Path
    spark: Callable[[], SparkSession] | None = None
    offline: bool = False

    def __call__(self, descriptor: CatalogDescriptor, seal: Seal) -> ExternalCatalog:
        """Make it; nothing is opened yet, and clients are loaded for the kind that is asked for alone."""
        if descriptor.type == DELTA_PATH:
            from penstock.connector.delta.log.catalog import DeltaCatalog

            return DeltaCatalog(descriptor=descriptor, project=self.project, offline=self.offline)
        if descriptor.type == JDBC:
            from penstock.connector.jdbc.catalog import JdbcCatalog

            return JdbcCatalog(
                descriptor=descriptor,
                project=self.project,
                seal=lambda text: sealed_text(text, seal),
                offline=self.offline,
            )
        assert descriptor.type == SPARK, f"the store keeps the tables of {descriptor}"
        from penstock.connector.spark_catalog.catalog import SparkCatalog

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
    return Namespace(FederatedCatalog(store, kinds, SystemClock().now_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContext:
    """Where a statement takes effect. `jobs` are those of this session or run.

    `spark` starts Spark where it does not run yet: only statements that need it ask.
    """

    namespace: Namespace
    settings: MutableMapping[str, str]
    project: Path
    spark: Callable[[], SparkSession]
    jobs: Sequence[Job] = ()
