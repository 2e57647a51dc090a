"""What a catalog promises to those who define and look up tables, and to those who run pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from penstock.catalog.identifier import Identifier
from penstock.catalog.lease import Lease, Owner
from penstock.catalog.table import Table, View

__all__ = ["DEFAULT_CATALOG", "DEFAULT_DATABASE", "Catalog", "Kind"]

DEFAULT_CATALOG = "default_catalog"
DEFAULT_DATABASE = "default_database"

Kind = Literal["table", "view"]


class Catalog(Protocol):
    """Keeps tables and views past the end of a process. Several processes may use one at once."""

    def tables(self) -> Sequence[Identifier]:
        """List all tables, sorted."""

    def views(self) -> Sequence[Identifier]:
        """List all views, sorted."""

    def find(self, identifier: Identifier) -> Table | View | None:
        """Find a table or view; None when there is none."""

    def get(self, identifier: Identifier) -> Table | View:
        """Find a table or view. Raises UnknownObjectError with the nearest name."""

    def create(
        self, value: Table | View, *, if_not_exists: bool = False, replace: bool = False
    ) -> None:
        """Keep a new table or view. Raises ObjectExistsError when the name is taken."""

    def drop(self, identifier: Identifier, *, kind: Kind, if_exists: bool = False) -> None:
        """Forget a table or view. Raises UnknownObjectError when there is none of that kind."""

    def acquire_lease(self, pipeline: str, owner: Owner) -> Lease:
        """Take a pipeline for one runner. Raises PipelineLockedError, naming the runner that has it."""

    def renew_lease(self, lease: Lease) -> bool:
        """Say that the runner lives. False when the lease was taken over: the runner must stop at once."""

    def release_lease(self, lease: Lease) -> None:
        """Give a pipeline back; harmless when it was taken over."""
