"""Who changed what in a catalog, and when: the values, and the message of a conflict."""

from __future__ import annotations

import getpass
import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache

from penstock.catalog.model.function import Function
from penstock.catalog.model.identifier import quote
from penstock.catalog.model.namespaces import CatalogDescriptor, DatabaseDescriptor
from penstock.catalog.model.table import Table, View

__all__ = ["Action", "Author", "Change", "ChangeKind", "Definition", "Unreadable", "this_author"]

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
