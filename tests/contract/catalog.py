"""What every catalog does (`contract.Catalog`), as tests that each implementation runs through.

A subclass gives the fixture `catalog`, an empty one; HOME and DATABASE are where its definitions are made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.catalog.definitions.contract import Catalog
from penstock.catalog.definitions.leases import JobReport, this_process
from penstock.catalog.errors import (
    DefinitionError,
    InputError,
    ObjectExistsError,
    PipelineLockedError,
    UnknownObjectError,
)
from penstock.catalog.model.function import Function, Language
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.namespaces import CatalogDescriptor, DatabaseDescriptor
from penstock.catalog.model.table import Table, View
from tests.catalog import examples

__all__ = ["CatalogContract", "DefinitionsContract", "ReaderContract"]

KEPT = CatalogDescriptor(name="kept", options=(("type", "penstock"),))


class ReaderContract:
    """What a catalog answers that holds nothing."""

    HOME = "default_catalog"
    DATABASE = "default_database"

    def test_the_default_catalog_and_its_database_are_there(self, catalog: Catalog) -> None:
        """Before anything was created."""
        (found,) = [one for one in catalog.catalogs() if one.name == catalog.default_catalog]

        assert found.default_database == catalog.default_database
        assert catalog.default_database in catalog.databases()
        assert catalog.database(catalog.default_catalog, catalog.default_database).name == (
            catalog.default_database
        )

    def test_an_empty_catalog_lists_nothing(self, catalog: Catalog) -> None:
        """Neither tables nor views, of one place or of all."""
        assert catalog.tables() == catalog.views() == []
        assert catalog.tables(self.DATABASE, self.HOME) == catalog.views(catalog=self.HOME) == []
        assert catalog.functions.listed() == []
        assert catalog.secrets.listed() == []
        assert catalog.leases.claims() == []
        assert catalog.leases.job_reports() == {}

    def test_a_name_that_is_free_has_no_kind_and_no_history(self, catalog: Catalog) -> None:
        """And is an error where its definition is asked for."""
        free = Identifier(catalog=self.HOME, database=self.DATABASE, name="nothing")

        assert catalog.kind(free) is None
        assert catalog.history(free) == []
        with pytest.raises(UnknownObjectError, match="nothing"):
            catalog.get(free)

    def test_places_that_are_not_there_are_named_with_the_nearest(self, catalog: Catalog) -> None:
        """A catalog and a database."""
        with pytest.raises(UnknownObjectError, match="no catalog 'defaul_catalog'") as unknown:
            catalog.databases("defaul_catalog")
        with pytest.raises(UnknownObjectError, match="no database") as unknown_database:
            catalog.database(self.HOME, f"{self.DATABASE}s")

        assert unknown.value.hint == "did you mean 'default_catalog'?"
        assert unknown_database.value.hint == f"did you mean '{self.DATABASE}'?"

    def test_a_pipeline_that_nobody_runs_is_not_stopped(self, catalog: Catalog) -> None:
        """Nor is a claim made up for it."""
        assert catalog.leases.request_stop("job/t") is None


class DefinitionsContract(ReaderContract):
    """What a catalog does with definitions, in the database DATABASE of the catalog HOME."""

    def named(self, name: str, database: str | None = None) -> Identifier:
        """Return a name in a database, without one in DATABASE."""
        return Identifier(catalog=self.HOME, database=database or self.DATABASE, name=name)

    def table(self, name: str = "orders", database: str | None = None, **options: str) -> Table:
        """Return a table of one column."""
        return replace(examples.table(name, **options), identifier=self.named(name, database))

    def view(self, name: str = "totals") -> View:
        """Return a view."""
        return replace(examples.view(name), identifier=self.named(name))

    def sales(self) -> DatabaseDescriptor:
        """Return a database beside the default one."""
        return DatabaseDescriptor(catalog=self.HOME, name="sales")

    def test_what_is_created_is_found(self, catalog: Catalog) -> None:
        """By its name, its kind and in its lists, which are sorted."""
        for obj in (self.table("b"), self.view("v"), self.table("a", connector="kafka")):
            catalog.create(obj)

        assert catalog.get(self.named("a")) == self.table("a", connector="kafka")
        assert catalog.get(self.named("v")) == self.view("v")
        assert [catalog.kind(self.named(name)) for name in "abvz"] == [
            "table",
            "table",
            "view",
            None,
        ]
        assert catalog.tables(self.DATABASE, self.HOME) == [self.named("a"), self.named("b")]
        assert catalog.views(catalog=self.HOME) == [self.named("v")]

    def test_a_name_is_taken_once(self, catalog: Catalog) -> None:
        """Tables and views share their names; OR REPLACE is for what is of the same kind."""
        catalog.create(self.table())
        catalog.create(self.table(connector="kafka"), if_not_exists=True)
        with pytest.raises(ObjectExistsError):
            catalog.create(self.table())
        with pytest.raises(ObjectExistsError):
            catalog.create(self.view("orders"))
        with pytest.raises(InputError):
            catalog.create(self.view("orders"), replace=True)

        assert catalog.get(self.named("orders")) == self.table()
        catalog.create(self.table(connector="kafka"), replace=True)
        assert catalog.get(self.named("orders")) == self.table(connector="kafka")

    def test_what_is_dropped_is_gone(self, catalog: Catalog) -> None:
        """By its kind; IF EXISTS asks whether it is there."""
        catalog.create(self.table())
        with pytest.raises(InputError):
            catalog.drop(self.named("orders"), kind="view")
        catalog.drop(self.named("orders"), kind="table")
        catalog.drop(self.named("orders"), kind="table", if_exists=True)
        with pytest.raises(UnknownObjectError):
            catalog.drop(self.named("orders"), kind="table")

        assert catalog.tables() == []
        catalog.create(self.view("orders"))
        assert catalog.kind(self.named("orders")) == "view"

    def test_a_definition_is_changed_as_a_whole_or_not_at_all(self, catalog: Catalog) -> None:
        """By its old value; a new name has to be free, and its database there."""
        catalog.create(self.table("a"))
        catalog.create(self.view("v"))
        changed = self.table("a", connector="kafka")
        catalog.replace(self.table("a"), changed)
        with pytest.raises(DefinitionError, match="changed by another process"):
            catalog.replace(self.table("a"), self.table("a", connector="delta"))
        with pytest.raises(ObjectExistsError, match="there is a view"):
            catalog.replace(changed, replace(changed, identifier=self.named("v")))
        with pytest.raises(UnknownObjectError, match="no database 'sales'"):
            catalog.replace(changed, replace(changed, identifier=self.named("a", "sales")))
        with pytest.raises(UnknownObjectError):
            catalog.replace(self.table("gone"), self.table("gone", connector="kafka"))
        assert catalog.get(self.named("a")) == changed
        catalog.replace(changed, replace(changed, identifier=self.named("b")))

        assert catalog.tables() == [self.named("b")]

    def test_an_unknown_name_is_named_with_the_nearest(self, catalog: Catalog) -> None:
        """Of the same database."""
        catalog.create(self.table("orders"))
        with pytest.raises(UnknownObjectError) as caught:
            catalog.get(self.named("order"))

        assert caught.value.hint == "did you mean 'orders'?"

    def test_a_table_lives_in_its_database(self, catalog: Catalog) -> None:
        """And goes with it."""
        catalog.create_database(self.sales())
        catalog.create(self.table("orders", "sales"))
        catalog.create(self.table("orders"))

        assert catalog.databases(self.HOME) == sorted([self.DATABASE, "sales"])
        assert catalog.tables("sales", self.HOME) == [self.named("orders", "sales")]
        with pytest.raises(DefinitionError, match="is not empty: orders"):
            catalog.drop_database(self.HOME, "sales")
        catalog.drop_database(self.HOME, "sales", cascade=True)
        assert catalog.tables() == [self.named("orders")]
        with pytest.raises(UnknownObjectError):
            catalog.get(self.named("orders", "sales"))
        catalog.create_database(self.sales())
        assert catalog.tables("sales", self.HOME) == []

    def test_a_table_needs_its_database(self, catalog: Catalog) -> None:
        """One that is not there is named."""
        with pytest.raises(UnknownObjectError, match="no database 'sales'"):
            catalog.create(self.table("orders", "sales"))

    def test_a_database_is_created_changed_and_dropped(self, catalog: Catalog) -> None:
        """By its old value; the default one stays."""
        catalog.create_database(self.sales())
        catalog.create_database(self.sales(), if_not_exists=True)
        named = replace(self.sales(), comment="of the house", options=(("owner", "x"),))
        catalog.replace_database(self.sales(), named)
        refused: tuple[tuple[Callable[[], None], type[InputError]], ...] = (
            (lambda: catalog.create_database(self.sales()), ObjectExistsError),
            (lambda: catalog.create_database(replace(named, catalog="none")), UnknownObjectError),
            (lambda: catalog.replace_database(self.sales(), named), DefinitionError),
            (lambda: catalog.drop_database(self.HOME, "none"), UnknownObjectError),
            (lambda: catalog.drop_database(self.HOME, self.DATABASE), DefinitionError),
        )
        for attempt, kind in refused:
            with pytest.raises(kind):
                attempt()

        assert catalog.database(self.HOME, "sales") == named
        catalog.drop_database(self.HOME, "sales")
        catalog.drop_database(self.HOME, "sales", if_exists=True)
        assert catalog.databases(self.HOME) == [self.DATABASE]


class CatalogContract(DefinitionsContract):
    """What a catalog does that keeps catalogs of any type, functions, secrets and leases."""

    def test_a_catalog_has_databases_of_its_own(self, catalog: Catalog) -> None:
        """It is dropped once it is empty."""
        catalog.create_catalog(KEPT)
        inside = Identifier(catalog="kept", database="default_database", name="orders")
        catalog.create(replace(self.table(), identifier=inside))

        assert [one.name for one in catalog.catalogs()] == ["default_catalog", "kept"]
        assert catalog.databases("kept") == ["default_database"]
        assert catalog.tables(catalog="kept") == [inside]
        with pytest.raises(DefinitionError, match="not empty: orders"):
            catalog.drop_catalog("kept")
        catalog.drop(inside, kind="table")
        catalog.drop_catalog("kept")
        assert [one.name for one in catalog.catalogs()] == ["default_catalog"]

    def test_a_catalog_is_created_changed_and_dropped(self, catalog: Catalog) -> None:
        """By its old value; the default one stays."""
        catalog.create_catalog(KEPT)
        catalog.create_catalog(KEPT, if_not_exists=True)
        catalog.drop_catalog("nothing", if_exists=True)
        (found, *_) = catalog.catalogs()
        catalog.replace_catalog(found, replace(found, comment="ours"))
        refused: tuple[tuple[Callable[[], None], type[InputError]], ...] = (
            (lambda: catalog.create_catalog(KEPT), ObjectExistsError),
            (lambda: catalog.replace_catalog(found, found), DefinitionError),
            (lambda: catalog.drop_catalog("none"), UnknownObjectError),
            (lambda: catalog.drop_catalog("default_catalog"), DefinitionError),
        )
        for attempt, kind in refused:
            with pytest.raises(kind):
                attempt()

        assert catalog.catalogs()[0].comment == "ours"

    def test_functions_are_changed_by_what_they_were(self, catalog: Catalog) -> None:
        """And removed once."""
        first = Function(identifier=self.named("half"), code="m.half", language=Language.PYTHON)
        second = replace(first, code="m.third")
        catalog.functions.put(first)
        with pytest.raises(ObjectExistsError):
            catalog.functions.put(first)
        catalog.functions.put(second, before=first)
        with pytest.raises(DefinitionError):
            catalog.functions.put(first, before=first)

        assert catalog.functions.listed() == [second]
        assert catalog.functions.remove(first.identifier)
        assert not catalog.functions.remove(first.identifier)

    def test_a_pipeline_has_one_runner(self, catalog: Catalog) -> None:
        """Who asks second is told who has it; a released one may be claimed again."""
        lease = catalog.leases.acquire("job/t", this_process())
        with pytest.raises(PipelineLockedError):
            catalog.leases.acquire("job/t", this_process())
        catalog.leases.renew(lease)
        catalog.leases.report_job(lease, JobReport(status="running"))

        assert [claim.lease.pipeline for claim in catalog.leases.claims()] == ["job/t"]
        assert catalog.leases.job_reports()["job/t"].status == "running"
        assert not catalog.leases.is_asked_to_stop(lease)
        assert catalog.leases.request_stop("job/t") is not None
        assert catalog.leases.is_asked_to_stop(lease)
        catalog.leases.release(lease)
        assert catalog.leases.claims() == []
        with pytest.raises(PipelineLockedError):
            catalog.leases.renew(lease)
        assert catalog.leases.acquire("job/t", this_process()).fence > lease.fence
