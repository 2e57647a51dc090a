"""Tests for catalogs whose tables are found elsewhere, beside the store: what is found, what may be defined there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from penstock.catalog.definitions.federated import (
    REMEMBERED_MS,
    FederatedCatalog,
    NotReachedError,
    Seal,
    with_location,
)
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import (
    ConfigError,
    DefinitionError,
    ObjectExistsError,
    UnknownObjectError,
    UnsupportedError,
)
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.namespaces import CatalogDescriptor, DatabaseDescriptor
from penstock.catalog.model.table import PrimaryKey, Schema, Table, View
from penstock.catalog.store.sql_catalog import SqlCatalog
from tests.catalog.examples import columns

ORDERS = Identifier(catalog="lake", database="sales", name="orders")
DELTA = CatalogDescriptor(name="lake", options=(("type", "delta-path"), ("path", "lake")))
SERVER = CatalogDescriptor(
    name="pg",
    options=(
        ("type", "jdbc"),
        ("base-url", "jdbc:postgresql://db:5432"),
        ("default-database", "shop"),
    ),
)


def table(identifier: Identifier, **types: str) -> Table:
    return Table(
        identifier=identifier,
        schema=Schema(columns=columns(**(types or {"id": "BIGINT"}))),
        options=(
            ("connector", "delta"),
            ("path", f"lake/{identifier.database}/{identifier.name}"),
        ),
    )


@dataclass
class Elsewhere:
    """Catalogs that hold what a test puts there; `asked` is what was looked for."""

    held: dict[tuple[str, str], list[str]] = field(
        default_factory=lambda: {("lake", "sales"): ["orders"], ("pg", "shop"): ["customers"]}
    )
    away: Exception | None = None
    asked: list[Identifier] = field(default_factory=list)
    now_ms: int = 0

    def __call__(self, descriptor: CatalogDescriptor, _seal: Seal) -> Found:
        return Found(self, descriptor.name)


@dataclass
class Found:
    """One of them (`ExternalCatalog`)."""

    all: Elsewhere
    name: str

    def check(self) -> None:
        if self.all.away is not None:
            raise self.all.away

    def databases(self) -> Sequence[str]:
        self.check()
        return [database for catalog, database in self.all.held if catalog == self.name]

    def tables(self, database: str) -> Sequence[str]:
        self.check()
        return self.all.held.get((self.name, database), [])

    def find(self, identifier: Identifier) -> Table | None:
        self.check()
        self.all.asked.append(identifier)
        return table(identifier) if identifier.name in self.tables(identifier.database) else None


@pytest.fixture
def elsewhere() -> Elsewhere:
    """What the catalogs of a test hold."""
    return Elsewhere()


@pytest.fixture
def names(elsewhere: Elsewhere, tmp_path: Path) -> Namespace:
    """A session's names with a folder `lake` and a server `pg`."""
    store = SqlCatalog(f"sqlite:///{tmp_path}/catalog.db")
    names = Namespace(FederatedCatalog(store, elsewhere, lambda: elsewhere.now_ms))
    names.catalog.create_catalog(DELTA)
    names.catalog.create_catalog(SERVER)
    return names


def test_what_is_found_elsewhere_is_listed_and_looked_up(names: Namespace) -> None:
    """Its databases and tables are there without a definition in the store."""
    assert names.catalogs() == ["default_catalog", "lake", "pg"]
    assert names.databases("lake") == ["default", "sales"]
    assert [str(one) for one in names.tables("sales", "lake")] == ["lake.sales.orders"]
    assert names.lookup(ORDERS) == table(ORDERS)
    names.use(("pg", "shop"))
    assert names.lookup(names.resolve(("customers",))).identifier.catalog == "pg"


def test_a_name_that_is_not_there_gets_the_nearest_that_is(names: Namespace) -> None:
    """As for tables of the store."""
    with pytest.raises(UnknownObjectError) as caught:
        names.lookup(replace(ORDERS, name="order"))
    assert caught.value.hint == "did you mean 'orders'?"
    with pytest.raises(UnknownObjectError, match="no database 'sale'"):
        names.lookup(replace(ORDERS, database="sale"))


def test_a_catalog_that_cannot_be_looked_into_is_not_created(
    names: Namespace, elsewhere: Elsewhere
) -> None:
    """CREATE CATALOG fails before the store has it; a check of texts lets what it may not ask pass."""
    elsewhere.away = ConfigError("no such folder")
    new = replace(DELTA, name="other")

    with pytest.raises(ConfigError, match="no such folder"):
        names.catalog.create_catalog(new)
    assert "other" not in names.catalogs()
    elsewhere.away = NotReachedError("not asked here")
    overlay = names.overlay()
    overlay.catalog.create_catalog(new)
    assert "other" in overlay.catalogs()


def test_a_definition_in_a_folder_goes_before_what_is_found(names: Namespace) -> None:
    """A key is added to a table that has none in its log, and a new session has it."""
    found = names.lookup(ORDERS)
    assert isinstance(found, Table)
    schema = Schema(columns=columns(id="BIGINT NOT NULL"), primary_key=PrimaryKey(columns=("id",)))

    names.replace(found, replace(found, schema=schema))

    again = names.lookup(ORDERS)
    assert isinstance(again, Table)
    assert again.schema == schema
    assert [one.name for one in names.tables("sales", "lake")] == ["orders"]


def test_tables_and_views_are_created_in_a_folder(names: Namespace) -> None:
    """They are kept in the store until a query writes the table; a view stays there."""
    new = replace(ORDERS, name="returns")
    names.create(table(new))
    names.create(View(identifier=replace(ORDERS, name="latest"), query="SELECT 1 AS a"))

    assert [one.name for one in names.tables("sales", "lake")] == ["orders", "returns"]
    assert [one.name for one in names.views("sales", "lake")] == ["latest"]
    with pytest.raises(ObjectExistsError):
        names.create(table(ORDERS))
    names.create(table(ORDERS), if_not_exists=True)
    names.drop(new, kind="table")
    assert [one.name for one in names.tables("sales", "lake")] == ["orders"]


def test_data_is_never_dropped(names: Namespace) -> None:
    """DROP of a table or a database that is found says what to do instead."""
    with pytest.raises(DefinitionError, match="does not remove"):
        names.drop(ORDERS, kind="table")
    with pytest.raises(DefinitionError, match="is a folder"):
        names.drop_database("lake", "sales", cascade=True)
    with pytest.raises(UnsupportedError, match="cannot be renamed"):
        names.replace(table(ORDERS), table(replace(ORDERS, name="o")))


def test_nothing_is_defined_in_catalogs_that_only_show(names: Namespace) -> None:
    """A database's tables are made in the database."""
    customers = Identifier(catalog="pg", database="shop", name="customers")
    found = names.lookup(customers)
    changes: list[Callable[[], None]] = [
        lambda: names.create(table(replace(customers, name="new"))),
        lambda: names.replace(found, found),
        lambda: names.drop(customers, kind="table"),
        lambda: names.catalog.create_database(DatabaseDescriptor(catalog="pg", name="new")),
        lambda: names.drop_database("pg", "shop"),
    ]

    for change in changes:
        with pytest.raises(UnsupportedError, match="of type 'jdbc'"):
            change()


def test_the_catalog_goes_though_tables_are_found_in_it(names: Namespace) -> None:
    """What the store keeps in it has to go first."""
    names.create(View(identifier=replace(ORDERS, name="latest"), query="SELECT 1 AS a"))

    names.drop_catalog("pg")
    with pytest.raises(DefinitionError, match="not empty: latest"):
        names.drop_catalog("lake")
    assert names.catalogs() == ["default_catalog", "lake"]


def test_a_draft_sees_a_catalog_that_it_creates(elsewhere: Elsewhere) -> None:
    """A file creates a catalog and reads from it; the store has neither."""
    names = Namespace(FederatedCatalog(SqlCatalog("sqlite://"), elsewhere, lambda: 0))
    overlay = names.overlay()
    overlay.catalog.create_catalog(DELTA)
    inner = overlay.overlay()

    assert inner.lookup(ORDERS) == table(ORDERS)
    inner.create(table(replace(ORDERS, name="returns")))
    assert [one.name for one in inner.tables("sales", "lake")] == ["orders", "returns"]
    assert [one.name for one in overlay.tables("sales", "lake")] == ["orders"]
    assert names.catalogs() == ["default_catalog"]


def test_a_draft_looks_once(names: Namespace, elsewhere: Elsewhere) -> None:
    """A thousand statements ask the folder once for a table."""
    overlay = names.overlay()

    for _ in range(1000):
        overlay.overlay().lookup(ORDERS)

    assert elsewhere.asked == [ORDERS]


def test_a_session_looks_again_after_a_while(names: Namespace, elsewhere: Elsewhere) -> None:
    """A statement asks many times for a table; what was not there is always looked for again."""
    names.lookup(ORDERS)
    names.lookup(ORDERS)
    assert elsewhere.asked == [ORDERS]

    elsewhere.now_ms = REMEMBERED_MS
    names.lookup(ORDERS)
    assert elsewhere.asked == [ORDERS] * 2
    new = replace(ORDERS, name="new")
    with pytest.raises(UnknownObjectError):
        names.lookup(new)
    elsewhere.held["lake", "sales"].append("new")
    assert names.lookup(new).identifier == new


def test_a_table_gets_the_place_that_its_catalog_says(names: Namespace) -> None:
    """The path is the folder's; another one, or another connector, is refused."""
    schema = Schema(columns=columns(id="BIGINT"))
    bare = Table(identifier=replace(ORDERS, name="new"), schema=schema)
    root = Table(identifier=replace(ORDERS, database="default", name="new"), schema=schema)

    assert with_location(bare, names.catalog).option_map == {
        "connector": "delta",
        "path": "lake/sales/new",
    }
    assert with_location(root, names.catalog).option_map["path"] == "lake/new"
    for option in (("path", "elsewhere"), ("connector", "kafka")):
        with pytest.raises(DefinitionError, match="says '"):
            with_location(replace(bare, options=(option,)), names.catalog)
    with pytest.raises(DefinitionError, match="no name of a folder"):
        with_location(replace(bare, identifier=replace(ORDERS, name="../up")), names.catalog)


def test_every_catalog_has_an_information_schema(names: Namespace) -> None:
    """USE and whole names find it, SHOW DATABASES leaves it out, and nothing is changed in it."""
    asked = Identifier(catalog="pg", database="information_schema", name="tables")

    assert names.lookup(asked).identifier == asked
    assert "information_schema" not in names.databases("pg")
    names.use(("information_schema",))
    assert "columns" in [one.name for one in names.tables()]
    with pytest.raises(UnknownObjectError, match="no table or view") as caught:
        names.lookup(names.resolve(("tabels",)))
    assert caught.value.hint == "did you mean 'tables'?"
    with pytest.raises(UnknownObjectError, match="no catalog 'nope'"):
        names.lookup(replace(asked, catalog="nope"))
    for change in (
        lambda: names.create(table(replace(asked, catalog="default_catalog", name="mine"))),
        lambda: names.create(replace(table(asked), temporary=True)),
        lambda: names.drop(asked, kind="table"),
        lambda: names.catalog.create_database(
            DatabaseDescriptor(catalog="default_catalog", name="information_schema")
        ),
    ):
        with pytest.raises(DefinitionError, match="only read"):
            change()


def test_a_catalog_is_altered_only_to_what_can_be_looked_into(
    names: Namespace, elsewhere: Elsewhere
) -> None:
    """The path of a folder stays, as definitions in the store have it."""
    moved = replace(DELTA, options=(("type", "delta-path"), ("path", "other")))
    server = names.catalog.catalogs()[2]
    renamed = replace(server, options=(*server.options, ("username", "u"), ("password", "p")))

    with pytest.raises(UnsupportedError, match="'path' cannot be changed"):
        names.catalog.replace_catalog(DELTA, moved)
    elsewhere.away = ConfigError("the server is away")
    with pytest.raises(ConfigError, match="is away"):
        names.catalog.replace_catalog(server, renamed)
    elsewhere.away = None
    names.catalog.replace_catalog(server, renamed)
    assert names.catalog.catalogs()[2].option_map["username"] == "u"


def test_a_name_that_is_found_elsewhere_is_taken(names: Namespace) -> None:
    """Its kind is told like that of a stored one, and so is that of the schema's own tables."""
    inside = replace(ORDERS, database="information_schema", name="tables")

    kinds = [names.catalog.kind(one) for one in (ORDERS, replace(ORDERS, name="nothing"), inside)]
    assert kinds == ["table", None, "table"]
    assert names.overlay().catalog.kind(ORDERS) == "table"
