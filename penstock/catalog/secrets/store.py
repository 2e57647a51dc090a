"""Secrets: the protocol of what keeps them, and an overlay over it. `catalog/store/secrets.py` keeps them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from penstock.catalog.errors import (
    DefinitionError,
    ObjectExistsError,
    UnknownObjectError,
    did_you_mean,
)
from penstock.catalog.secrets.crypto import SealedSecret, check_value

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,254}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretInfo:
    """What may be shown of a secret. Times are epoch ms by the database's clock."""

    name: str
    key_id: str
    created_ms: int
    changed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """What a rotation did: secrets that were encrypted again, and their new key."""

    secrets: int
    key_id: str
    new_key: bool


class SecretStore(Protocol):
    """Keeps secrets, of one space of names in the whole catalog. Every method may block on I/O.

    Every method raises CatalogError, those that encrypt or decrypt ConfigError where the key is missing.
    """

    def listed(self) -> list[SecretInfo]:
        """List the secrets, sorted by name."""

    def create(self, name: str, value: str, *, if_not_exists: bool = False) -> None:
        """Add a secret. Raises ObjectExistsError, DefinitionError for a name or value that will not do."""

    def alter(self, name: str, value: str) -> None:
        """Change the value of a secret. Raises UnknownObjectError, DefinitionError."""

    def drop(self, name: str, *, if_exists: bool = False) -> None:
        """Remove a secret; tables that refer to it stay. Raises UnknownObjectError."""

    def sealed(self, name: str) -> SealedSecret:
        """Return a secret, encrypted for a process that connects. Raises UnknownObjectError."""

    def seal(self, name: str, value: str) -> SealedSecret:
        """Return a value in the same form without keeping it; makes the key where there is none yet."""


class OverlaySecrets:
    """Secrets over others, whose changes stay here, in memory (`SecretStore`). Not for many threads."""

    def __init__(self, base: Callable[[], SecretStore]) -> None:
        self._base = base
        # None: there below, and dropped here
        self._changes: dict[str, str | None] = {}

    def listed(self) -> list[SecretInfo]:
        """List the secrets, sorted by name; overlays have no times yet."""
        found = {info.name: info for info in self._base().listed()}
        for name, value in self._changes.items():
            found.pop(name, None)
            if value is not None:
                found[name] = SecretInfo(name=name, key_id="", created_ms=0, changed_ms=0)
        return [found[name] for name in sorted(found)]

    def create(self, name: str, value: str, *, if_not_exists: bool = False) -> None:
        """Add a secret. Raises ObjectExistsError, DefinitionError."""
        check_name(name)
        check_value(name, value)
        if name not in self._names():
            self._changes[name] = value
        elif not if_not_exists:
            raise taken(name)

    def alter(self, name: str, value: str) -> None:
        """Change the value of a secret. Raises UnknownObjectError, DefinitionError."""
        check_value(name, value)
        self._check_known(name)
        self._changes[name] = value

    def drop(self, name: str, *, if_exists: bool = False) -> None:
        """Remove a secret. Raises UnknownObjectError."""
        if not if_exists:
            self._check_known(name)
        self._changes[name] = None

    def sealed(self, name: str) -> SealedSecret:
        """Return a secret, encrypted for a process that connects. Raises UnknownObjectError."""
        self._check_known(name)
        value = self._changes.get(name)
        return self._base().sealed(name) if value is None else self.seal(name, value)

    def seal(self, name: str, value: str) -> SealedSecret:
        """Return a value in the same form without keeping it."""
        return self._base().seal(name, value)

    def _names(self) -> list[str]:
        return [info.name for info in self.listed()]

    def _check_known(self, name: str) -> None:
        known = self._names()
        if name not in known:
            raise unknown(name, known)


def check_name(name: str) -> None:
    """Check the name of a new secret. Raises DefinitionError."""
    if not _NAME.fullmatch(name):
        raise DefinitionError(
            f"'{name}' cannot be the name of a secret",
            hint="names have letters, digits, '_', '.' and '-', at most 255, and begin with a letter or '_'",
        )


def taken(name: str) -> ObjectExistsError:
    """Return the error for a name that another secret has."""
    return ObjectExistsError(
        f"there is a secret '{name}' already",
        hint=f"ALTER SECRET {name} AS '...' changes it, CREATE SECRET IF NOT EXISTS leaves it",
    )


def unknown(name: str, known: Iterable[str]) -> UnknownObjectError:
    """Return the error for an unknown name, with the nearest one."""
    return UnknownObjectError(
        f"there is no secret '{name}'",
        hint=did_you_mean(name, known) or f"CREATE SECRET {name} AS '...'",
    )
