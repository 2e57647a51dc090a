"""Every catalog keeps the contract: stores on each database, overlays, what is in memory, what is federated."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.catalog.definitions.contract import Catalog
from penstock.catalog.definitions.empty_catalog import EmptyCatalog
from penstock.catalog.definitions.federated import ExternalCatalog, FederatedCatalog
from penstock.catalog.definitions.overlay import Overlay
from penstock.catalog.model.namespaces import CatalogDescriptor
from tests.catalog.conftest import Store
from tests.contract.catalog import CatalogContract, DefinitionsContract, ReaderContract

MEMORY = CatalogDescriptor(name="memory", options=(("type", "generic_in_memory"),))


def nothing_elsewhere(descriptor: CatalogDescriptor, _seal: object) -> ExternalCatalog:
    """Open no external catalog: a test has none."""
    raise AssertionError(f"asked for {descriptor}")


@pytest.fixture
def below(sqlite_store: Store) -> Iterator[Catalog]:
    """A store."""
    made = sqlite_store.open()
    yield made
    made.close()


class TestSqlCatalog(CatalogContract):
    """A store, on SQLite and on PostgreSQL (the fixture `catalog` of the folder)."""


class TestOverlay(CatalogContract):
    """A session's overlay, and an isolated one."""

    @pytest.fixture(params=["session", "isolated"])
    def catalog(self, below: Catalog, request: pytest.FixtureRequest) -> Catalog:
        return Overlay(below, isolated=request.param == "isolated")


class TestOverlayOfOverlay(CatalogContract):
    """What a check of a shell's statement works on."""

    @pytest.fixture
    def catalog(self, below: Catalog) -> Catalog:
        return Overlay(below, isolated=False).overlay().overlay()


class TestFederatedCatalog(CatalogContract):
    """The catalog of a session, and an isolated overlay of it."""

    @pytest.fixture(params=["session", "isolated"])
    def catalog(self, below: Catalog, request: pytest.FixtureRequest) -> Catalog:
        made = FederatedCatalog(below, nothing_elsewhere, lambda: 0)
        return made if request.param == "session" else made.overlay()


class TestInMemory(DefinitionsContract):
    """A catalog of the type generic_in_memory, of an overlay and of a federated catalog."""

    HOME = "memory"
    DATABASE = "default"

    @pytest.fixture(params=["overlay", "federated"])
    def catalog(self, below: Catalog, request: pytest.FixtureRequest) -> Catalog:
        made: Catalog = (
            Overlay(below, isolated=False)
            if request.param == "overlay"
            else FederatedCatalog(below, nothing_elsewhere, lambda: 0)
        )
        made.create_catalog(MEMORY)
        return made


class TestEmptyCatalog(ReaderContract):
    """The catalog of a project that was not run yet."""

    @pytest.fixture
    def catalog(self) -> Catalog:
        return EmptyCatalog()


class TestDraftOfEmptyCatalog(DefinitionsContract):
    """What `penstock validate` works on in a new project."""

    @pytest.fixture
    def catalog(self) -> Catalog:
        return Overlay(EmptyCatalog(), isolated=True)
