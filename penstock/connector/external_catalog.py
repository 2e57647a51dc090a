"""What an external catalog may ask of the session that opens it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.catalog.definitions.federated import ExternalCatalog, Seal
from penstock.catalog.model.namespaces import CatalogDescriptor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession  # noqa: TC004 - a check without a JVM loads this module

__all__ = ["CatalogAccess", "MakeExternalCatalog"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogAccess:
    """Relative paths are relative to `project`; `seal` gives secrets.

    `spark` gives the session, starting it if need be; None: Spark must not be asked. `offline`: no server is asked,
    but folders of this machine are read.
    """

    project: Path
    seal: Seal
    spark: Callable[[], SparkSession] | None
    offline: bool


MakeExternalCatalog = Callable[[CatalogDescriptor, CatalogAccess], ExternalCatalog]
"""Makes the catalog of a descriptor; opens nothing yet."""
