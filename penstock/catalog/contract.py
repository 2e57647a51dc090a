"""What a catalog is: the protocol and its promises. `store.py` keeps one in a database, `names.py` drafts over one."""

from __future__ import annotations

from typing import Literal, Protocol

from penstock.catalog.identifier import Identifier
from penstock.catalog.lease import Lease, Owner
from penstock.catalog.table import Table, View

__all__ = [
    "DEFAULT_CATALOG",
    "DEFAULT_DATABASE",
    "Catalog",
    "ObjectKind",
    "kind_of",
]

DEFAULT_CATALOG = "default_catalog"
DEFAULT_DATABASE = "default_database"

ObjectKind = Literal["table", "view"]


class Catalog(Protocol):
    """Keeps definitions, and the leases of running pipelines. Every method may block on I/O.

    Tables and views share one space of names. A change is there as a whole or not at all, and a change that
    another process made is seen by the next call. Every method raises CatalogError when the store cannot be used.
    """

    @property
    def default_catalog(self) -> str:
        """The catalog that a session starts in."""

    @property
    def default_database(self) -> str:
        """The database that a session starts in."""

    def databases(self) -> list[str]:
        """List the databases of the default catalog, sorted."""

    def tables(self, database: str | None = None) -> list[Identifier]:
        """List the tables, sorted; those of one database when it is given."""

    def views(self, database: str | None = None) -> list[Identifier]:
        """List the views, sorted; those of one database when it is given."""

    def get(self, identifier: Identifier) -> Table | View:
        """Give a definition. Raises UnknownObjectError with the nearest name."""

    def create(
        self, obj: Table | View, *, if_not_exists: bool = False, replace: bool = False
    ) -> None:
        """Add a definition, or with `replace` change the one of that name and kind.

        Raises ObjectExistsError, and UnknownObjectError when the database does not exist.
        """

    def drop(self, identifier: Identifier, *, kind: ObjectKind, if_exists: bool = False) -> None:
        """Remove a definition; what the table's connector holds stays. Raises UnknownObjectError."""

    def acquire_lease(self, pipeline: str, owner: Owner) -> Lease:
        """Claim a pipeline. Raises PipelineLockedError, which names the holder, when another runner has it."""

    def renew(self, lease: Lease) -> None:
        """Say that the holder lives; due every HEARTBEAT_MS. Raises PipelineLockedError when the lease is lost."""

    def release(self, lease: Lease) -> None:
        """Give a lease back; one that was lost is left alone."""


def kind_of(obj: Table | View) -> ObjectKind:
    """Tell a table from a view in the word that SQL uses."""
    return "table" if isinstance(obj, Table) else "view"
