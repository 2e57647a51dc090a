"""A session's view of functions: temporary ones hide those of the catalog, system ones hide both, as in Flink."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.catalog.errors import ObjectExistsError, UnknownObjectError, did_you_mean
from penstock.catalog.function import Function
from penstock.catalog.identifier import Identifier

if TYPE_CHECKING:
    from penstock.catalog.function_store import FunctionStore

__all__ = ["FunctionNames"]


class FunctionNames:
    """Finds functions by name (in lower case). A draft takes changes without touching the store. Not for many threads.

    `store` gives the store when it is first needed: most files define no function.
    """

    def __init__(self, store: Callable[[], FunctionStore], *, draft: bool = False) -> None:
        self._store = store
        self._draft = draft
        self._changed: dict[Identifier, Function | None] = {}
        self._temporary: dict[Identifier, Function] = {}
        self._system: dict[str, Function] = {}
        self.has_engine: Callable[[str], bool] = _nothing
        """Whether the engine has a function of this name (in lower case) that its user registered there."""

    def overlay(self) -> FunctionNames:
        """Make a draft: definitions may be tried on it."""
        made = FunctionNames(self._store, draft=True)
        made._changed = dict(self._changed)
        made._temporary, made._system = dict(self._temporary), dict(self._system)
        made.has_engine = self.has_engine
        return made

    def visible(self, catalog: str, database: str) -> Mapping[str, Function]:
        """Give what each name calls in a database."""
        place = (catalog, database)
        found = {i.name: f for i, f in self._stored().items() if (i.catalog, i.database) == place}
        found |= {i.name: f for i, f in self._temporary.items() if (i.catalog, i.database) == place}
        return found | self._system

    def listed(self) -> list[Function]:
        """List the functions of all databases, temporary and system ones too."""
        stored = {i: f for i, f in self._stored().items() if i not in self._temporary}
        return [*stored.values(), *self._temporary.values(), *self._system.values()]

    def find(self, identifier: Identifier) -> Function:
        """Give the function of a name. Raises UnknownObjectError with the nearest name."""
        found = self.visible(identifier.catalog, identifier.database)
        if identifier.name in found:
            return found[identifier.name]
        hint = (
            did_you_mean(identifier.name, found) or "SHOW USER FUNCTIONS lists those that there are"
        )
        raise UnknownObjectError(f"there is no function {identifier}", hint=hint)

    def create(self, function: Function, *, if_not_exists: bool = False) -> None:
        """Add a function; one that is there with the same code is that function. Raises ObjectExistsError."""
        identifier, temporary, system = function.identifier, function.temporary, function.system
        found = self._own(identifier, temporary=temporary, system=system)
        if found is None:
            try:
                self._put(function, before=None)
            except ObjectExistsError:  # by another process since then
                found = self._own(identifier, temporary=temporary, system=system)
                if not if_not_exists and found != function:
                    raise
        elif not if_not_exists and found != function:
            kind = _kind(temporary=temporary, system=system)
            raise ObjectExistsError(
                f"there is a {kind} {identifier.name if system else identifier} already, "
                f"with other code: {found.code}",
                hint="ALTER it, DROP it first, or write CREATE ... IF NOT EXISTS",
            )

    def alter(self, function: Function, *, if_exists: bool = False) -> None:
        """Give a function other code; its jars stay. Raises UnknownObjectError, and DefinitionError when it is
        another's by then.
        """
        identifier, temporary, system = function.identifier, function.temporary, function.system
        found = self._own(identifier, temporary=temporary, system=system)
        if found is not None:
            self._put(replace(function, jars=found.jars), before=found)
        elif not if_exists:
            raise _missing(identifier, temporary=temporary, system=system)

    def drop(
        self, identifier: Identifier, *, temporary: bool, system: bool, if_exists: bool = False
    ) -> None:
        """Remove the function of a name and kind. Raises UnknownObjectError."""
        found = self._own(identifier, temporary=temporary, system=system)
        if found is None:
            if if_exists:
                return
            raise _missing(identifier, temporary=temporary, system=system)
        if system:
            del self._system[identifier.name]
        elif temporary:
            del self._temporary[identifier]
        elif self._draft:
            self._changed[identifier] = None
        elif not self._store().remove(identifier) and not if_exists:
            raise _missing(identifier, temporary=temporary, system=system)

    def _own(self, identifier: Identifier, *, temporary: bool, system: bool) -> Function | None:
        """Find what has this name among the functions of one kind."""
        if system:
            return self._system.get(identifier.name)
        if temporary:
            return self._temporary.get(identifier)
        return self._stored().get(identifier)

    def _put(self, function: Function, *, before: Function | None) -> None:
        if function.system:
            self._system[function.name] = function
        elif function.temporary:
            self._temporary[function.identifier] = function
        elif self._draft:
            self._changed[function.identifier] = replace(function, version=None)
        else:
            self._store().put(function, before=before)

    def _stored(self) -> dict[Identifier, Function]:
        found: dict[Identifier, Function | None] = {f.identifier: f for f in self._store().listed()}
        return {i: f for i, f in (found | self._changed).items() if f is not None}


def _nothing(_: str) -> bool:
    """Know no function: no engine runs yet."""
    return False


def _missing(identifier: Identifier, *, temporary: bool, system: bool) -> UnknownObjectError:
    kind = _kind(temporary=temporary, system=system)
    shown = identifier.name if system else identifier
    return UnknownObjectError(f"there is no {kind} {shown}")


def _kind(*, temporary: bool, system: bool) -> str:
    if system:
        return "temporary system function"
    return "temporary function" if temporary else "function"
