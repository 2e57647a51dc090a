"""What a catalog is whose tables are found elsewhere: a folder, a database server, Spark's own catalog.

`federation.py` puts them beside the store. What opens one by its descriptor is handed in from above, as the catalog
area knows no engine and no client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.catalog.descriptor import CatalogDescriptor
from penstock.catalog.errors import UnsupportedError
from penstock.catalog.identifier import Identifier
from penstock.catalog.secret import SealedSecret
from penstock.catalog.table import Table

__all__ = ["ExternalCatalog", "NotReachedError", "OpenExternal", "Seal"]


class ExternalCatalog(Protocol):
    """Databases and tables as they are found. Every method may block on I/O.

    Every method raises ConfigError when it cannot be looked into now, NotReachedError when it must not be here.
    """

    def check(self) -> None:
        """See that it can be looked into: CREATE CATALOG asks before the catalog is there. Raises InputError."""

    def databases(self) -> Sequence[str]:
        """List its databases; the default one need not be among them."""

    def tables(self, database: str) -> Sequence[str]:
        """List the tables of a database; none where there is no such database."""

    def find(self, identifier: Identifier) -> Table | None:
        """Give a table as a definition; None where there is none. Raises UnsupportedError for types we have not."""


class NotReachedError(UnsupportedError):
    """A name is in a catalog that is not looked into here: a check of texts alone asks no server and no engine."""


Seal = Callable[[str], SealedSecret]
"""Gives a secret by its name, as it travels to what connects. Raises UnknownObjectError."""

OpenExternal = Callable[[CatalogDescriptor, Seal], ExternalCatalog]
"""Makes the catalog of a descriptor of a type in EXTERNAL, whose options refer to secrets. Opens nothing yet."""
