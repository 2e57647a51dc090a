"""The context of all statements of a session: names, settings, jobs, Spark; and the catalogs opened for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.catalog.definitions.contract import Catalog, Leases
from penstock.catalog.definitions.federated import ExternalCatalog, FederatedCatalog, Seal
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.model.namespaces import CatalogDescriptor
from penstock.connector.capabilities import CatalogAccess
from penstock.connector.registry import external_catalog
from penstock.sql.clock import SystemClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession  # noqa: TC004 - a check without a JVM loads this module

    from penstock.sql.jobs.job import Job  # noqa: TC004 - a check without a JVM loads this module


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
        access = CatalogAccess(
            project=self.project, seal=seal, spark=self.spark, offline=self.offline
        )
        return external_catalog(descriptor.type)(descriptor, access)


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


def _without_spark() -> SparkSession:
    """Refuse to start Spark: the context is one of a check, which plans nothing in Spark."""
    raise AssertionError("a context without Spark was asked for it")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContext:
    """What statements take effect on: one for a session, a shell, a run of files, a test case, a check.

    The parts change in place: SET changes `settings`, definitions change `namespace` and the catalog below it, `jobs`
    are those that have been started. `spark` starts Spark where it does not run yet: only statements that need it ask.
    """

    namespace: Namespace
    project: Path
    settings: dict[str, str] = field(default_factory=dict)
    spark: Callable[[], SparkSession] = _without_spark
    jobs: Sequence[Job] = ()

    @property
    def leases(self) -> Leases:
        """The leases of running pipelines, of the catalog's."""
        return self.namespace.catalog.leases

    def overlay(self) -> SessionContext:
        """Return a context whose definitions and settings reach neither this one nor the catalog."""
        return replace(self, namespace=self.namespace.overlay(), settings=dict(self.settings))
