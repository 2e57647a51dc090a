"""Catalogs and databases beside the contract of all catalogs (tests/contract/catalog.py)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from tests.catalog.examples import identifier, table
from tests.catalog.strategies import comments, names, texts

KEPT = CatalogDescriptor(name="kept", options=(("type", "penstock"),))
MEMORY = CatalogDescriptor(name="memory", options=(("type", "generic_in_memory"),))
SALES = DatabaseDescriptor(catalog="default_catalog", name="sales")
ORDERS = Identifier(catalog="default_catalog", database="sales", name="orders")


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
    overlay = namespace.overlay()
    overlay.catalog.create_database(replace(SALES, catalog="memory"))
    overlay.catalog.create_database(SALES)
    overlay.drop_catalog("memory")
    with pytest.raises(UnknownObjectError, match="no catalog 'memory'"):
        overlay.databases("memory")

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
