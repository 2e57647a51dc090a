"""What keeps the functions that users have registered: a space of names of their own, as in Flink."""

from __future__ import annotations

from typing import Protocol

from penstock.catalog.function import Function
from penstock.catalog.identifier import Identifier

__all__ = ["FunctionStore"]


class FunctionStore(Protocol):
    """Keeps functions. Every method may block on I/O and raise CatalogError."""

    def listed(self) -> list[Function]:
        """List all functions, sorted by name."""

    def put(self, function: Function, *, before: Function | None = None) -> None:
        """Add a function, or change what was `before`, and is so no longer.

        Raises ObjectExistsError for one to add that is there, UnknownObjectError for one to change that is not, and
        DefinitionError for one that is no longer `before`.
        """

    def remove(self, identifier: Identifier) -> bool:
        """Remove a function. Tells whether there was one."""
