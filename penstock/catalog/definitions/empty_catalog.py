"""The catalog of a project that was not run yet, for reading: no database is opened.

Nor is SQLAlchemy loaded: that was a quarter of the time of a check of a small file.
"""

# ruff: noqa: ARG002 - there is nothing to do with what methods are given

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from penstock.catalog.definitions.contract import Change, ObjectKind
from penstock.catalog.definitions.ddl_rules import find_catalog, find_database, unknown_object
from penstock.catalog.definitions.leases import Claim, JobReport, Lease, Owner
from penstock.catalog.errors import CatalogError
from penstock.catalog.model.function import Function
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.namespaces import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    CatalogDescriptor,
    DatabaseDescriptor,
    default_catalog,
    implied_database,
)
from penstock.catalog.model.table import Table, View
from penstock.catalog.secrets.crypto import KeyRing, SealedSecret, new_key
from penstock.catalog.secrets.store import SecretInfo, unknown


class EmptyCatalog:
    """A catalog (`contract.Catalog`) with nothing in it, as `SqlCatalog` where the store is not there yet.

    Overlays over it change; every method of its own that would change something raises CatalogError.
    """

    default_catalog = DEFAULT_CATALOG
    default_database = DEFAULT_DATABASE

    def __init__(self) -> None:
        self.functions = _NoFunctions()
        self.secrets = _NoSecrets()
        self.leases = _NoLeases()

    def catalogs(self) -> list[CatalogDescriptor]:
        """List the default catalog."""
        return [replace(default_catalog(), version=0)]

    def databases(self, catalog: str | None = None) -> list[str]:
        """List the default database. Raises UnknownObjectError."""
        return [find_catalog(catalog or DEFAULT_CATALOG, self).default_database]

    def database(self, catalog: str, name: str) -> DatabaseDescriptor:
        """Describe the default database. Raises UnknownObjectError."""
        descriptor = find_catalog(catalog, self)
        find_database(catalog, name, self)
        return replace(implied_database(descriptor), version=0)

    def tables(self, database: str | None = None, catalog: str | None = None) -> list[Identifier]:
        """List no tables."""
        return []

    def views(self, database: str | None = None, catalog: str | None = None) -> list[Identifier]:
        """List no views."""
        return []

    def get(self, identifier: Identifier) -> Table | View:
        """Raise UnknownObjectError."""
        raise unknown_object(identifier, ())

    def kind(self, identifier: Identifier) -> ObjectKind | None:
        """Return None: every name is free."""
        return None

    def history(
        self, name: Identifier | tuple[str, ...] | None = None, *, limit: int | None = None
    ) -> list[Change]:
        """List no changes."""
        return []

    def create(
        self, obj: Table | View, *, if_not_exists: bool = False, replace: bool = False
    ) -> None:
        """Raise CatalogError."""
        _refuse()

    def drop(self, identifier: Identifier, *, kind: ObjectKind, if_exists: bool = False) -> None:
        """Raise CatalogError."""
        _refuse()

    def replace(self, before: Table | View, after: Table | View) -> None:
        """Raise CatalogError."""
        _refuse()

    def create_catalog(self, new: CatalogDescriptor, *, if_not_exists: bool = False) -> None:
        """Raise CatalogError."""
        _refuse()

    def replace_catalog(self, before: CatalogDescriptor, after: CatalogDescriptor) -> None:
        """Raise CatalogError."""
        _refuse()

    def drop_catalog(self, name: str, *, if_exists: bool = False) -> None:
        """Raise CatalogError."""
        _refuse()

    def create_database(self, new: DatabaseDescriptor, *, if_not_exists: bool = False) -> None:
        """Raise CatalogError."""
        _refuse()

    def replace_database(self, before: DatabaseDescriptor, after: DatabaseDescriptor) -> None:
        """Raise CatalogError."""
        _refuse()

    def drop_database(
        self, catalog: str, name: str, *, if_exists: bool = False, cascade: bool = False
    ) -> None:
        """Raise CatalogError."""
        _refuse()


class _NoFunctions:
    """No functions (`contract.FunctionStore`)."""

    def listed(self) -> list[Function]:
        return []

    def put(self, function: Function, *, before: Function | None = None) -> None:
        _refuse()

    def remove(self, identifier: Identifier) -> bool:
        return False


class _NoLeases:
    """No leases (`contract.Leases`): nothing runs over a catalog that is not there."""

    def acquire(self, pipeline: str, owner: Owner) -> Lease:
        _refuse()

    def renew(self, lease: Lease) -> None:
        _refuse()

    def release(self, lease: Lease) -> None:
        _refuse()

    def claims(self) -> list[Claim]:
        return []

    def request_stop(self, pipeline: str) -> Claim | None:
        return None

    def is_asked_to_stop(self, lease: Lease) -> bool:
        _refuse()

    def report_job(self, lease: Lease, report: JobReport) -> None:
        _refuse()

    def job_reports(self) -> dict[str, JobReport]:
        return {}


class _NoSecrets:
    """No secrets (`secrets.store.SecretStore`); values are sealed with a key that is not stored."""

    def __init__(self) -> None:
        self._keys = KeyRing(keys=(new_key(),))

    def listed(self) -> list[SecretInfo]:
        return []

    def create(self, name: str, value: str, *, if_not_exists: bool = False) -> None:
        _refuse()

    def alter(self, name: str, value: str) -> None:
        raise unknown(name, ())

    def drop(self, name: str, *, if_exists: bool = False) -> None:
        if not if_exists:
            raise unknown(name, ())

    def sealed(self, name: str) -> SealedSecret:
        raise unknown(name, ())

    def seal(self, name: str, value: str) -> SealedSecret:
        return SealedSecret(
            name=name, token=self._keys.encrypt(value, name=name), key_id=self._keys.current_id
        )


def _refuse() -> NoReturn:
    raise CatalogError("there is no catalog yet, and who looks at it does not make one")
