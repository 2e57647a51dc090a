"""The catalog that is not there yet: it answers as a store that was never written, and takes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.catalog.definitions.contract import Catalog
from penstock.catalog.definitions.empty_catalog import EmptyCatalog
from penstock.catalog.definitions.leases import this_process
from penstock.catalog.errors import CatalogError, UnknownObjectError
from penstock.catalog.model.namespaces import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    DatabaseDescriptor,
    default_catalog,
)
from penstock.catalog.store.sql_catalog import SqlCatalog
from tests.catalog.examples import identifier, table

NAME = identifier("t")

READS: tuple[Callable[[Catalog], object], ...] = (
    lambda catalog: catalog.default_catalog,
    lambda catalog: catalog.default_database,
    lambda catalog: catalog.catalogs(),
    lambda catalog: catalog.catalogs()[0].version,
    lambda catalog: catalog.databases(),
    lambda catalog: catalog.databases("other"),
    lambda catalog: catalog.database(DEFAULT_CATALOG, DEFAULT_DATABASE),
    lambda catalog: catalog.database(DEFAULT_CATALOG, "sales"),
    lambda catalog: catalog.tables(),
    lambda catalog: catalog.views(DEFAULT_DATABASE),
    lambda catalog: catalog.get(NAME),
    lambda catalog: catalog.kind(NAME),
    lambda catalog: catalog.history(NAME, limit=3),
    lambda catalog: catalog.leases.claims(),
    lambda catalog: catalog.functions.listed(),
    lambda catalog: catalog.secrets.listed(),
    lambda catalog: catalog.secrets.sealed("s"),
)

CHANGES: tuple[Callable[[Catalog], object], ...] = (
    lambda catalog: catalog.create(table("t")),
    lambda catalog: catalog.replace(table("t"), table("t")),
    lambda catalog: catalog.drop(NAME, kind="table"),
    lambda catalog: catalog.create_catalog(default_catalog()),
    lambda catalog: catalog.drop_catalog("c"),
    lambda catalog: catalog.create_database(DatabaseDescriptor(catalog=DEFAULT_CATALOG, name="d")),
    lambda catalog: catalog.drop_database(DEFAULT_CATALOG, "d"),
    lambda catalog: catalog.leases.acquire("p", this_process()),
    lambda catalog: catalog.secrets.create("s", "value"),
)


def answer(ask: Callable[[Catalog], object], catalog: Catalog) -> object:
    """What a catalog says, or the error that it raises."""
    try:
        return ask(catalog)
    except UnknownObjectError as error:
        return error.message, error.hint


@pytest.mark.parametrize("ask", READS)
def test_it_answers_as_a_store_that_is_not_there(
    ask: Callable[[Catalog], object], tmp_path: Path
) -> None:
    """Every question has the answer of a database that nobody made."""
    stored = SqlCatalog(f"sqlite:///{tmp_path / 'catalog.db'}")
    assert answer(ask, EmptyCatalog()) == answer(ask, stored)


@pytest.mark.parametrize("change", CHANGES)
def test_it_takes_nothing(change: Callable[[Catalog], object]) -> None:
    """What would be lost is refused."""
    with pytest.raises(CatalogError, match="there is no catalog yet"):
        change(EmptyCatalog())


def test_a_value_is_sealed_without_a_key_file() -> None:
    """As an overlay asks for: the text does not show the value, and nothing is written anywhere."""
    sealed = EmptyCatalog().secrets.seal("s", "geheim")
    assert sealed.key_file is None
    assert "geheim" not in sealed.token
