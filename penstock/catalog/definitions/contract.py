"""What a catalog is, and the promises of each method: definitions, their history, and the stores beside them.

`DefinitionReader` finds definitions, `Definitions` changes them, `FunctionStore` keeps users' functions, in a namespace
of their own as in Flink, `Leases` the leases of running pipelines. A `Change` says who changed what, and when.
`store/sql_catalog.py` keeps all of it in a database; `Overlay`, `FederatedCatalog` and `EmptyCatalog` are the other
catalogs. tests/contract/catalog.py is what all of them have to do.
"""

from __future__ import annotations

import getpass
import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Literal, Protocol

from penstock.catalog.definitions.leases import Claim, JobReport, Lease, Owner
from penstock.catalog.model.function import Function
from penstock.catalog.model.identifier import Identifier, quote
from penstock.catalog.model.namespaces import (
    CatalogDescriptor,
    DatabaseDescriptor,
)
from penstock.catalog.model.table import Table, View
from penstock.catalog.secrets.store import SecretStore

Definition = Table | View | Function | CatalogDescriptor | DatabaseDescriptor
"""Whatever a catalog keeps, and keeps the history of."""


class Action(StrEnum):
    """What was done."""

    CREATE = "create"
    REPLACE = "replace"
    RENAME = "rename"
    DROP = "drop"
    PURGE = "purge"


_PAST = {
    Action.CREATE: "created",
    Action.REPLACE: "changed",
    Action.RENAME: "renamed",
    Action.DROP: "dropped",
    Action.PURGE: "recorded changes removed",
}


class ChangeKind(StrEnum):
    """What something is, in SQL's word."""

    TABLE = "table"
    VIEW = "view"
    FUNCTION = "function"
    DATABASE = "database"
    CATALOG = "catalog"


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who changes something: `user@host`, and the process's id there."""

    name: str
    process: int

    def __str__(self) -> str:
        return f"{self.name} (process {self.process})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A definition that this Penstock cannot read, with its error."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change. `name` has one part for a catalog, two for a database, three for what is in one.

    `version` is the one that the change made: it grows with each change of a name, over drops too. `at_ms` is epoch
    ms by the database's clock. `before` is None for what was created, `after` for what was dropped; `renamed_to` is
    the new name of what was renamed.
    """

    name: tuple[str, ...]
    kind: ChangeKind
    action: Action
    version: int
    at_ms: int
    author: Author
    before: Definition | Unreadable | None = None
    after: Definition | Unreadable | None = None
    renamed_to: tuple[str, ...] | None = None

    @property
    def title(self) -> str:
        """The name as SQL writes it."""
        return ".".join(quote(part) for part in self.name)

    @property
    def when(self) -> str:
        """The time in words, with its time zone."""
        return datetime.fromtimestamp(self.at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

    def __str__(self) -> str:
        done = _PAST[self.action]
        if self.renamed_to is not None:
            done += f" to {'.'.join(quote(part) for part in self.renamed_to)}"
        return f"{done} by {self.author} at {self.when}"


def this_author() -> Author:
    """Name this process and its user."""
    return Author(name=_user_at_host(), process=os.getpid())


@cache
def _user_at_host() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that has no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


class FunctionStore(Protocol):
    """Keeps functions. Every method may block on I/O and raise CatalogError."""

    def listed(self) -> list[Function]:
        """List all functions, sorted by name."""

    def put(self, function: Function, *, before: Function | None = None) -> None:
        """Add a function, or change the one that was `before`.

        Raises ObjectExistsError for an addition that exists, UnknownObjectError for a change of a missing one, and
        DefinitionError for one that is no longer `before`.
        """

    def remove(self, identifier: Identifier) -> bool:
        """Remove a function. Returns whether there was one."""


ObjectKind = Literal["table", "view"]


class Leases(Protocol):
    """Keeps the leases of running pipelines, requests to stop them and their job reports. Safe to use from any thread.

    Every method may block on I/O and raise CatalogError.
    """

    def acquire(self, pipeline: str, owner: Owner) -> Lease:
        """Claim a pipeline. Raises PipelineLockedError, which names the holder, when another runner has it."""

    def renew(self, lease: Lease) -> None:
        """Renew the lease; due every HEARTBEAT_MS. Raises PipelineLockedError when the lease is lost."""

    def release(self, lease: Lease) -> None:
        """Release a lease; one that was lost is left alone."""

    def claims(self) -> list[Claim]:
        """List the claims of live runners, by pipeline."""

    def request_stop(self, pipeline: str) -> Claim | None:
        """Request that the runner of a pipeline ends; it learns of that when it renews its lease.
        None where there is none.
        """

    def is_asked_to_stop(self, lease: Lease) -> bool:
        """Return whether a stop was requested of the run that holds `lease`."""

    def report_job(self, lease: Lease, report: JobReport) -> None:
        """Store the job report of a lease's holder; the report of one that lost it is ignored."""

    def job_reports(self) -> dict[str, JobReport]:
        """Return the last job report of each pipeline, by pipeline."""


class DefinitionReader(Protocol):
    """Finds definitions: what a check of names needs. Every method may block on I/O and raise CatalogError.

    Tables and views share one space of names.
    """

    def catalogs(self) -> list[CatalogDescriptor]:
        """List the catalogs, sorted by name; the default one is always there."""

    def databases(self, catalog: str | None = None) -> list[str]:
        """List the databases of a catalog (None: the default one), sorted. Raises UnknownObjectError."""

    def database(self, catalog: str, name: str) -> DatabaseDescriptor:
        """Describe a database. Raises UnknownObjectError."""

    def tables(self, database: str | None = None, catalog: str | None = None) -> list[Identifier]:
        """List the tables, sorted; those of one database, or of one catalog, when it is given."""

    def views(self, database: str | None = None, catalog: str | None = None) -> list[Identifier]:
        """List the views, sorted; those of one database, or of one catalog, when it is given."""

    def get(self, identifier: Identifier) -> Table | View:
        """Return a definition. Raises UnknownObjectError with the nearest name."""

    def kind(self, identifier: Identifier) -> ObjectKind | None:
        """Return the kind of what has a name; None for a name that is free, without looking for a near one."""


class Definitions(DefinitionReader, Protocol):
    """Keeps definitions. Every method may block on I/O and raise CatalogError.

    A change is atomic, and a change of another process is visible to the next call.

    A definition from a store carries a `version`, which grows with each change of the name and is no part of its
    value; None where nothing is stored. A `replace` is refused when the stored version is another than that of
    `before`, and so is a `create` with `replace` of a definition derived from another version.
    """

    def create(
        self, obj: Table | View, *, if_not_exists: bool = False, replace: bool = False
    ) -> None:
        """Add a definition, or with `replace` change the one of that name and kind.

        Raises ObjectExistsError, and UnknownObjectError when the database does not exist.
        """

    def drop(self, identifier: Identifier, *, kind: ObjectKind, if_exists: bool = False) -> None:
        """Remove a definition; what the table's connector holds stays. Raises UnknownObjectError."""

    def replace(self, before: Table | View, after: Table | View) -> None:
        """Change a definition, its name too if `after` has another.

        Raises DefinitionError when it is no longer `before`, ObjectExistsError when the new name is taken,
        UnknownObjectError when it, or the new database, does not exist.
        """

    def create_catalog(self, new: CatalogDescriptor, *, if_not_exists: bool = False) -> None:
        """Add a catalog. Raises ObjectExistsError."""

    def replace_catalog(self, before: CatalogDescriptor, after: CatalogDescriptor) -> None:
        """Change a catalog's options or comment. Raises DefinitionError when it is no longer `before`."""

    def drop_catalog(self, name: str, *, if_exists: bool = False) -> None:
        """Remove a catalog that holds nothing. Raises UnknownObjectError, DefinitionError."""

    def create_database(self, new: DatabaseDescriptor, *, if_not_exists: bool = False) -> None:
        """Add a database. Raises ObjectExistsError, and UnknownObjectError when the catalog does not exist."""

    def replace_database(self, before: DatabaseDescriptor, after: DatabaseDescriptor) -> None:
        """Change a database's options or comment. Raises DefinitionError when it is no longer `before`."""

    def drop_database(
        self, catalog: str, name: str, *, if_exists: bool = False, cascade: bool = False
    ) -> None:
        """Remove a database; with `cascade` what is in it too. Raises UnknownObjectError, DefinitionError."""


class Catalog(Definitions, Protocol):
    """Definitions with their history, and what is kept beside them."""

    @property
    def default_catalog(self) -> str:
        """The catalog that a session starts in."""

    @property
    def default_database(self) -> str:
        """The database that a session starts in."""

    @property
    def functions(self) -> FunctionStore:
        """The functions that users have registered."""

    @property
    def secrets(self) -> SecretStore:
        """What options refer to by `${secret:name}`."""

    @property
    def leases(self) -> Leases:
        """The leases of running pipelines; an overlay has those of its base."""

    def history(
        self, name: Identifier | tuple[str, ...] | None = None, *, limit: int | None = None
    ) -> list[Change]:
        """List the changes of what has, or had, a name (None: all changes), the newest first; at most `limit`.

        A database is named by its catalog and itself, a catalog by itself.
        """


def kind_of(obj: Table | View) -> ObjectKind:
    """Return SQL's word for the kind: table or view."""
    return "table" if isinstance(obj, Table) else "view"
