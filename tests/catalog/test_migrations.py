"""Which version a store has, and how an older one is brought up to date."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from setuptools import find_packages
from sqlalchemy import Engine, create_engine, inspect

from penstock.catalog import migrations
from penstock.catalog.definitions.leases import Lease, Owner, this_process
from penstock.catalog.errors import CatalogError
from penstock.catalog.migrations.tables import HEAD, METADATA, MIN_READER, STEP
from penstock.catalog.migrations.upgrade import migrate
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.namespaces import DatabaseDescriptor
from penstock.catalog.model.table import ComputedColumn, MetadataColumn, Table
from penstock.catalog.store.sql_catalog import SqlCatalog
from tests.catalog.conftest import Store
from tests.catalog.examples import identifier, table
from tests.catalog.processes import together
from tests.catalog.workers import first_use, upgrade_and_use

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(migrations.__file__).parent

LEGACY = (Path(__file__).parent / "store_v3.sql").read_text(encoding="utf-8")
"""A store as the last Penstock without Alembic wrote it."""

SINCE = {
    2: ("penstock_catalogs", "penstock_databases"),
    3: ("penstock_functions", "penstock_stop_requests"),
}


def make_legacy(store: Store, version: int) -> None:
    """Make a store of a version before Alembic."""
    for statement in LEGACY.split(";\n"):
        if statement.strip():
            store.execute(statement)
    store.execute("UPDATE penstock_leases SET heartbeat_ms = 0")  # its runner is gone
    for later in range(version + 1, 4):
        store.execute(f"DELETE FROM penstock_schema_version WHERE version = {later}")
        for name in SINCE[later]:
            store.execute(f"DROP TABLE {name}")


def make_fourth(store: Store) -> None:
    """Make a store as the last Penstock left it whose version was that of its readers as well."""
    store.open().create(table())
    for name in ("penstock_alembic_step", "penstock_job_states"):
        store.execute(f"DROP TABLE {name}")
    store.execute("UPDATE penstock_alembic_version SET version_num = '0004'")


def make_fifth(store: Store) -> None:
    """Make a store as the last Penstock left it whose job reports had no rows that were left out."""
    store.open().create(table())
    for column in ("late_rows", "bad_records", "sentence"):
        store.execute(f"ALTER TABLE penstock_job_states DROP COLUMN {column}")
    store.execute("UPDATE penstock_alembic_step SET version_num = '0005'")


def make_sixth(store: Store) -> None:
    """Make a store as the last Penstock left it whose job reports had no sentence."""
    store.open().create(table())
    store.execute("ALTER TABLE penstock_job_states DROP COLUMN sentence")
    store.execute("UPDATE penstock_alembic_step SET version_num = '0006'")


def check_contents(catalog: SqlCatalog, version: int) -> None:
    """See that everything in a legacy store is read."""
    orders = catalog.get(identifier("orders"))
    assert isinstance(orders, Table)
    assert orders.option_map == {"connector": "kafka", "topic": "o'r\"ders ü"}
    assert [type(column) for column in orders.schema.columns[2:]] == [
        MetadataColumn,
        ComputedColumn,
    ]
    assert orders.schema.watermark is not None
    assert catalog.views() == [
        Identifier(catalog="default_catalog", database="sales", name="totals")
    ]
    assert catalog.leases.claims() == []
    if version >= 2:
        assert [(c.name, c.comment) for c in catalog.catalogs()][1:] == [("kept", "of the house")]
        assert catalog.database("default_catalog", "sales").comment == "it's ours"
    if version >= 3:
        assert [f.code for f in catalog.functions.listed()] == ["shop.discount"]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_store_of_the_time_before_alembic_is_taken_over(store: Store, version: int) -> None:
    """It is read as it is; what is written first brings it up to date, and everything is still there."""
    make_legacy(store, version)
    catalog = store.open()
    check_contents(catalog, version)
    before = catalog.get(identifier("orders"))
    untouched = store.execute("SELECT max(version) FROM penstock_schema_version")
    if store.is_server:
        with pytest.raises(CatalogError, match="not upgraded in passing"):
            catalog.create(table("new"))
        catalog.upgrade()
    catalog.create(table("new"))
    check_contents(catalog, version)
    after = catalog.get(identifier("orders"))
    catalog.replace(after, table("orders"))

    assert (before.version, after.version) == (None, 1)
    assert untouched == [(version,)]
    assert catalog.history()[-1].name[2] == "new"
    assert catalog.history(identifier("orders"))[0].version == 2
    assert store.execute("SELECT version_num FROM penstock_alembic_step") == [(f"{HEAD:04}",)]
    assert store.execute("SELECT version_num FROM penstock_alembic_version") == [
        (f"{MIN_READER:04}",)
    ]
    # the Penstock of that time says that this one is newer
    assert store.execute("SELECT max(version) FROM penstock_schema_version") == [(4,)]
    catalog.close()


def test_a_store_of_the_first_version_has_one_catalog_and_one_database(store: Store) -> None:
    """Until something is written."""
    make_legacy(store, 1)
    catalog = store.open()
    names = [one.name for one in catalog.catalogs()]
    databases = catalog.databases()
    functions = catalog.functions.listed()
    history = catalog.history()
    catalog.upgrade()
    catalog.create_database(DatabaseDescriptor(catalog="default_catalog", name="more"))

    assert (names, databases, functions, history) == (
        ["default_catalog"],
        ["default_database"],
        [],
        [],
    )
    assert catalog.databases() == ["default_database", "more"]
    catalog.close()


def test_a_lease_of_an_older_store_is_kept(store: Store) -> None:
    """Its fence goes on growing."""
    make_legacy(store, 3)
    catalog = store.open()

    assert catalog.leases.acquire("job/t", this_process()).fence == 2
    catalog.close()


@pytest.mark.slow
def test_processes_that_migrate_at_once_do_it_once(store: Store) -> None:
    """One does, the others see it done; from nothing, and from an older store."""
    made = together(first_use, [(store.url, name) for name in "abc"])
    tables = store.open().tables()

    assert made == [None] * 3
    assert [one.name for one in tables] == ["a", "b", "c"]
    assert store.execute("SELECT count(*) FROM penstock_alembic_version") == [(1,)]


@pytest.mark.slow
def test_processes_that_take_an_older_store_over_at_once_do_it_once(store: Store) -> None:
    """As above."""
    make_legacy(store, 2)
    together(upgrade_and_use, [(store.url, name) for name in "abc"])
    catalog = store.open()

    assert len(catalog.tables()) == 5
    check_contents(catalog, 2)
    catalog.close()


def engine_of(store: Store) -> Engine:
    """Return an engine past the catalog."""
    return create_engine(store.url.replace("postgresql:", "postgresql+psycopg:"))


def make_by_steps(store: Store) -> None:
    """Make an empty store by the steps that bring older ones up to date."""
    store.execute("SELECT 1")  # makes the folder
    engine = engine_of(store)
    with engine.begin() as connection:
        assert migrate(connection)
    engine.dispose()


def shape_of(store: Store) -> dict[str, object]:
    """Return what is to be the same in all stores that are up to date: names, types, keys, indexes, versions."""
    engine = engine_of(store)
    with engine.connect() as connection:
        found = inspect(connection)
        shape: dict[str, object] = {
            name: (
                [
                    (column["name"], str(column["type"]), column["nullable"], column["default"])
                    for column in found.get_columns(name)
                ],
                found.get_pk_constraint(name)["constrained_columns"],
                found.get_unique_constraints(name),
                found.get_indexes(name),
            )
            for name in found.get_table_names()
        }
    engine.dispose()
    for name in ("penstock_alembic_step", "penstock_alembic_version", "penstock_schema_version"):
        shape[f"rows of {name}"] = store.execute(f"SELECT * FROM {name}")
    return shape


def test_a_new_store_is_what_the_steps_would_have_made(store: Store) -> None:
    """It is made at once, without them: its tables in their order of columns, and the numbers that others read."""
    store.open().upgrade()
    at_once = shape_of(store)
    for name in METADATA.tables:
        store.execute(f"DROP TABLE {name}")
    make_by_steps(store)

    assert at_once == shape_of(store)
    assert at_once.keys() >= METADATA.tables.keys()


def test_the_steps_make_the_tables_that_the_code_uses(store: Store) -> None:
    """And end at the version that the code calls up to date."""
    make_by_steps(store)
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    script = ScriptDirectory.from_config(config)
    engine = engine_of(store)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": STEP.name})
        differences = [
            difference
            for difference in compare_metadata(context, METADATA)
            if difference[0] != "remove_table" or difference[1].name.startswith("penstock_")
        ]
    engine.dispose()

    assert differences == []
    assert script.get_heads() == [f"{HEAD:04}"]
    assert len(list(script.walk_revisions())) == HEAD


def test_a_wheel_holds_the_steps() -> None:
    """They are modules of packages that setuptools finds, not data beside them."""
    found = find_packages(str(ROOT), include=["penstock", "penstock.*"])

    assert "penstock.catalog.migrations.versions" in found
    assert len(list((FOLDER / "versions").glob("0*.py"))) == HEAD


@pytest.mark.slow
def test_alembic_is_loaded_where_something_is_migrated_alone(sqlite_store: Store) -> None:
    """Not by reading, not by making a store, and not by writing to one that is up to date: it takes long to load."""
    code = (
        "import sys; from penstock.catalog.store.sql_catalog import SqlCatalog; from tests.catalog.examples import table; "
        "catalog = SqlCatalog(sys.argv[1]); catalog.tables(); catalog.create(table('a')); catalog.create(table('b')); "
        "print('alembic' in sys.modules, len(catalog.tables()))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, sqlite_store.url],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert told.stdout.split() == ["False", "2"]


def test_a_newer_store_is_used_as_long_as_it_allows(store: Store) -> None:
    """Its steps added something that this Penstock does not know of; leases are renewed, definitions changed."""
    store.open().create(table("a"))
    catalog = store.open()
    lease = catalog.leases.acquire("job/t", this_process())
    store.execute("UPDATE penstock_alembic_step SET version_num = '0099'")
    store.execute("ALTER TABLE penstock_leases ADD COLUMN novelty VARCHAR(10)")
    catalog.leases.renew(lease)
    catalog.create(table("b"))
    catalog.upgrade()

    assert catalog.version() == 99
    assert [one.name for one in catalog.tables()] == ["a", "b"]
    assert [claim.lease for claim in catalog.leases.claims()] == [lease]
    assert store.execute("SELECT version_num FROM penstock_alembic_step") == [("0099",)]
    catalog.close()


def test_a_store_of_the_version_before_is_used_as_it_is_on_a_server(store: Store) -> None:
    """Definitions and leases are written to it; nothing of it is changed in passing, which on SQLite costs nobody."""
    make_fourth(store)
    catalog = store.open()
    lease = catalog.leases.acquire("job/t", this_process())
    catalog.leases.renew(lease)
    catalog.create(table("b"))
    catalog.leases.release(lease)

    assert catalog.version() == (4 if store.is_server else HEAD)
    catalog.upgrade()
    assert catalog.version() == HEAD
    assert len(catalog.tables()) == 2
    catalog.close()


def test_a_heartbeat_changes_no_tables(store: Store) -> None:
    """What a newer Penstock does in passing happens where somebody asked it for something."""
    make_fourth(store)
    store.execute(
        "INSERT INTO penstock_leases (pipeline, fence, token, host, pid, boot_id, since_ms, heartbeat_ms) "
        "VALUES ('job/t', 1, 'x', 'elsewhere', 1, '', 0, 0)"
    )
    catalog = store.open()
    owner = Owner(host="elsewhere", pid=1, boot_id="", token="x")
    lease = Lease(pipeline="job/t", owner=owner, fence=1, since_ms=0)
    catalog.leases.renew(lease)
    catalog.leases.release(lease)

    assert catalog.version() == 4
    catalog.close()


def test_a_file_whose_runners_would_stop_is_not_upgraded_in_passing(sqlite_store: Store) -> None:
    """They are named; once they have ended it is."""
    make_legacy(sqlite_store, 3)
    catalog = sqlite_store.open()
    sqlite_store.execute(
        "UPDATE penstock_leases SET token = 'x', host = 'elsewhere', "
        "heartbeat_ms = CAST(strftime('%s', 'now') AS INTEGER) * 1000"
    )
    (claim,) = catalog.leases.claims()
    with pytest.raises(CatalogError, match=claim.lease.pipeline) as caught:
        catalog.create(table("new"))
    before = catalog.version()
    catalog.leases.release(claim.lease)
    catalog.create(table("new"))

    assert "penstock catalog upgrade" in (caught.value.hint or "")
    assert (before, catalog.version()) == (3, HEAD)
    catalog.close()


def test_steps_since_the_fourth_only_add(sqlite_store: Store) -> None:
    """An older process goes on with the store: its columns stay, and new ones may be left out of a row."""
    shapes = []
    for version in range(MIN_READER, HEAD + 1):
        engine = create_engine(sqlite_store.url.replace("catalog", f"catalog{version}"))
        Path(engine.url.database or "").parent.mkdir(parents=True, exist_ok=True)
        with engine.begin() as connection:
            config = Config()
            config.set_main_option("script_location", str(FOLDER))
            config.attributes["connection"] = connection
            command.upgrade(config, f"{version:04}")
            found = inspect(connection)
            shapes.append(
                {
                    (name, column["name"]): (
                        str(column["type"]),
                        column["nullable"] or column["default"] is not None,
                    )
                    for name in found.get_table_names()
                    for column in found.get_columns(name)
                }
            )
        engine.dispose()

    for before, after in pairwise(shapes):
        assert {key: after.get(key) for key in before} == before
        tables = {name for name, _ in before}
        assert all(
            optional
            for (name, _), (_, optional) in (after.items() - before.items())
            if name in tables
        )


def without_a_version(store: Store) -> None:
    store.open().create(table())
    store.execute("DELETE FROM penstock_alembic_version")


def newer(store: Store) -> None:
    store.open().create(table())
    store.execute("UPDATE penstock_alembic_version SET version_num = '0099'")
    store.execute("UPDATE penstock_alembic_step SET version_num = '0099'")


def before_its_lowest_reader(store: Store) -> None:
    """As a Penstock leaves it that cannot keep those of today."""
    make_fourth(store)
    store.execute("UPDATE penstock_alembic_version SET version_num = '0099'")


def newer_legacy(store: Store) -> None:
    make_legacy(store, 3)
    store.execute("INSERT INTO penstock_schema_version VALUES (4)")


@pytest.mark.parametrize(
    "spoil", [without_a_version, newer, before_its_lowest_reader, newer_legacy]
)
def test_a_store_of_an_unknown_version_is_left_alone(
    store: Store, file: Path, spoil: Callable[[Store], None]
) -> None:
    """An error in words; on SQLite not a byte is changed."""
    spoil(store)
    content = file.read_bytes() if file.exists() else None
    before = store.execute("SELECT * FROM penstock_objects ORDER BY object_name")
    catalog = store.open()
    for use in (catalog.tables, lambda: catalog.create(table("new"))):
        with pytest.raises(CatalogError, match="newer Penstock") as caught:
            use()
        assert "this one was not changed" in (caught.value.hint or "")

    assert (file.read_bytes() if file.exists() else None) == content
    assert store.execute("SELECT * FROM penstock_objects ORDER BY object_name") == before
    catalog.close()
