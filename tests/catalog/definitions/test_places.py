"""Catalogs and databases: what the store, a session and a draft of it make of the same changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalog.definitions.contract import Catalog
from penstock.catalog.definitions.overlay import Overlay
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import (
    CatalogError,
    DefinitionError,
    InputError,
    ObjectExistsError,
    OptionError,
    UnknownObjectError,
    UnsupportedError,
)
from penstock.catalog.model.codec import (
    catalog_from_json,
    catalog_to_json,
    database_from_json,
    database_to_json,
)
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.namespaces import CatalogDescriptor, DatabaseDescriptor
from penstock.catalog.store.sql_catalog import SqlCatalog
from tests.catalog.conftest import Store
from tests.catalog.examples import identifier, table, view
from tests.catalog.strategies import comments, names, texts

KEPT = CatalogDescriptor(name="kept", options=(("type", "penstock"),))
MEMORY = CatalogDescriptor(name="memory", options=(("type", "generic_in_memory"),))
SALES = DatabaseDescriptor(catalog="default_catalog", name="sales")
ORDERS = Identifier(catalog="default_catalog", database="sales", name="orders")


@pytest.fixture(params=["store", "session", "draft"])
def catalog(request: pytest.FixtureRequest, store: Store) -> Iterator[Catalog]:
    """Each that takes changes of catalogs and databases."""
    below = store.open()
    yield below if request.param == "store" else Overlay(below, draft=request.param == "draft")
    below.close()


def test_a_table_lives_in_its_database(catalog: Catalog) -> None:
    """And goes with it."""
    catalog.create_database(SALES)
    catalog.create(replace(table("orders"), identifier=ORDERS))
    catalog.create(table("orders"))

    assert catalog.databases() == ["default_database", "sales"]
    assert catalog.tables("sales") == [ORDERS]
    with pytest.raises(DefinitionError, match="is not empty: orders"):
        catalog.drop_database("default_catalog", "sales")
    catalog.drop_database("default_catalog", "sales", cascade=True)
    assert catalog.tables() == [identifier("orders")]
    with pytest.raises(UnknownObjectError):
        catalog.get(ORDERS)
    catalog.create_database(SALES)
    assert catalog.tables("sales") == []


def test_a_catalog_has_databases_of_its_own(catalog: Catalog) -> None:
    """It is dropped once it is empty."""
    catalog.create_catalog(KEPT)
    inside = Identifier(catalog="kept", database="default_database", name="orders")
    catalog.create(replace(table("orders"), identifier=inside))

    assert [one.name for one in catalog.catalogs()] == ["default_catalog", "kept"]
    assert catalog.databases("kept") == ["default_database"]
    assert catalog.tables(catalog="kept") == [inside]
    with pytest.raises(DefinitionError, match="not empty: orders"):
        catalog.drop_catalog("kept")
    catalog.drop(inside, kind="table")
    catalog.drop_catalog("kept")
    assert [one.name for one in catalog.catalogs()] == ["default_catalog"]


def test_what_is_not_there_is_an_error_unless_said(catalog: Catalog) -> None:
    """IF EXISTS, IF NOT EXISTS; the built-in ones stay."""
    catalog.create_database(SALES)
    catalog.create_database(SALES, if_not_exists=True)
    catalog.create_catalog(KEPT)
    catalog.create_catalog(KEPT, if_not_exists=True)
    catalog.drop_database("default_catalog", "nothing", if_exists=True)
    catalog.drop_catalog("nothing", if_exists=True)
    refused: tuple[tuple[Callable[[], None], type[InputError]], ...] = (
        (lambda: catalog.create_database(SALES), ObjectExistsError),
        (lambda: catalog.create_catalog(KEPT), ObjectExistsError),
        (lambda: catalog.create_database(replace(SALES, catalog="none")), UnknownObjectError),
        (lambda: catalog.drop_database("default_catalog", "none"), UnknownObjectError),
        (lambda: catalog.drop_catalog("none"), UnknownObjectError),
        (lambda: catalog.drop_catalog("default_catalog"), DefinitionError),
        (lambda: catalog.drop_database("kept", "default_database"), DefinitionError),
    )
    for attempt, kind in refused:
        with pytest.raises(kind):
            attempt()


def test_a_change_of_what_is_no_longer_so_is_refused(catalog: Catalog) -> None:
    """Whoever read it before another wrote it is told, and nothing is lost."""
    catalog.create_database(SALES)
    named = replace(SALES, comment="of the house")
    catalog.replace_database(SALES, named)
    with pytest.raises(DefinitionError, match="changed by somebody else"):
        catalog.replace_database(SALES, replace(SALES, comment="mine"))
    (found, *_) = catalog.catalogs()
    catalog.replace_catalog(found, replace(found, comment="ours"))
    with pytest.raises(DefinitionError, match="changed by somebody else"):
        catalog.replace_catalog(found, found)

    assert catalog.database("default_catalog", "sales") == named
    assert catalog.catalogs()[0].comment == "ours"
    assert catalog.databases() == ["default_database", "sales"]


def test_a_definition_is_changed_as_a_whole_or_not_at_all(catalog: Catalog) -> None:
    """By its old value; a new name has to be free, and its database there."""
    catalog.create(table("a"))
    catalog.create(view("v"))
    changed = table("a", connector="kafka")
    catalog.replace(table("a"), changed)
    with pytest.raises(DefinitionError, match="changed by somebody else"):
        catalog.replace(table("a"), table("a", connector="delta"))
    with pytest.raises(ObjectExistsError, match="there is a view"):
        catalog.replace(changed, replace(changed, identifier=identifier("v")))
    with pytest.raises(UnknownObjectError, match="no database 'sales'"):
        catalog.replace(changed, replace(changed, identifier=ORDERS))
    with pytest.raises(UnknownObjectError):
        catalog.replace(table("gone"), table("gone", connector="kafka"))
    assert catalog.get(identifier("a")) == changed
    catalog.replace(changed, replace(changed, identifier=identifier("b")))

    assert catalog.tables() == [identifier("b")]


def test_a_database_that_cannot_be_read_is_an_error_in_words(store: Store) -> None:
    """Of another version, or no definition at all."""
    catalog = store.open()
    catalog.create_database(SALES)
    for text in ('{"v": 9}', '{"v": 1}', "nothing"):
        store.execute(f"UPDATE penstock_databases SET definition = '{text}'")
        with pytest.raises(CatalogError):
            catalog.database("default_catalog", "sales")

    assert catalog.databases() == ["default_database", "sales"]
    catalog.close()


def test_reading_and_refusing_make_no_store(file: Path) -> None:
    """Nothing is written before there is something to keep."""
    catalog = SqlCatalog(f"sqlite:///{file}")
    catalog.drop_database("default_catalog", "none", if_exists=True)
    catalog.create_database(
        DatabaseDescriptor(catalog="default_catalog", name="default_database"), if_not_exists=True
    )
    with pytest.raises(UnknownObjectError):
        catalog.drop_catalog("none")
    with pytest.raises(UnknownObjectError):
        catalog.create(replace(table("t"), identifier=ORDERS))

    assert not file.exists()


def test_a_catalog_in_memory_leaves_nothing_behind(file: Path) -> None:
    """Its tables are the session's; what is made elsewhere is kept."""
    store = SqlCatalog(f"sqlite:///{file}")
    namespace = Namespace(store)
    namespace.catalog.create_catalog(MEMORY)
    namespace.use(["memory", "default"])
    inside = namespace.resolve(["orders"])
    namespace.create(replace(table("orders"), identifier=inside))

    assert namespace.lookup(inside).identifier == inside
    assert namespace.tables() == [inside]
    assert not file.exists()
    namespace.create(table("orders"))
    assert store.tables() == [identifier("orders")]
    assert [one.name for one in store.catalogs()] == ["default_catalog"]


def test_a_draft_of_a_session_changes_neither_it_nor_the_store(file: Path) -> None:
    """Not even a catalog in memory."""
    namespace = Namespace(SqlCatalog(f"sqlite:///{file}"))
    namespace.catalog.create_catalog(MEMORY)
    draft = namespace.overlay()
    draft.catalog.create_database(replace(SALES, catalog="memory"))
    draft.catalog.create_database(SALES)
    draft.drop_catalog("memory")
    with pytest.raises(UnknownObjectError, match="no catalog 'memory'"):
        draft.databases("memory")

    assert namespace.databases("memory") == ["default"]
    assert namespace.databases() == ["default_database"]
    assert not file.exists()


def test_what_is_in_use_is_not_dropped(store: Store) -> None:
    """As in Flink."""
    namespace = Namespace(store.open())
    namespace.catalog.create_database(SALES)
    namespace.use(["sales"])
    with pytest.raises(DefinitionError, match="in use"):
        namespace.drop_database("default_catalog", "sales")
    namespace.catalog.create_catalog(KEPT)
    namespace.use(["kept", "default_database"])
    with pytest.raises(DefinitionError, match="in use"):
        namespace.drop_catalog("kept")


def test_a_temporary_table_is_changed_in_the_session(file: Path) -> None:
    """Its name too."""
    namespace = Namespace(SqlCatalog(f"sqlite:///{file}"))
    before = table("a", temporary=True)
    namespace.create(before)
    namespace.create(table("c", temporary=True))
    with pytest.raises(ObjectExistsError):
        namespace.replace(before, replace(before, identifier=identifier("c")))
    namespace.replace(before, replace(before, identifier=identifier("b")))

    assert namespace.tables() == [identifier("b"), identifier("c")]
    assert not file.exists()


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({}, OptionError, "missing: type"),
        ({"type": "generic_in_memroy"}, OptionError, "no type of a catalog"),
        ({"type": "hive"}, UnsupportedError, "'hive' is not supported"),
        ({"type": "penstock", "x": "y"}, OptionError, "unsupported option 'x'"),
        ({"type": "penstock", "default-database": ""}, OptionError, "is empty"),
    ],
)
def test_a_catalog_says_what_it_is(
    options: dict[str, str], kind: type[InputError], message: str
) -> None:
    """By its options."""
    with pytest.raises(kind, match=message):
        CatalogDescriptor(name="c", options=tuple(options.items()))


@given(st.dictionaries(names, texts, max_size=3), comments)
def test_what_is_kept_is_read_back(options: dict[str, str], comment: str | None) -> None:
    """Catalogs and databases, with options of any shape."""
    database = replace(SALES, options=tuple(options.items()), comment=comment)
    catalog = replace(KEPT, comment=comment)

    assert database_from_json("default_catalog", "sales", database_to_json(database)) == database
    assert catalog_from_json("kept", catalog_to_json(catalog)) == catalog
