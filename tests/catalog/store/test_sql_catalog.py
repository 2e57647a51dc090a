"""The catalog in a database: what is kept, who may read it, and many processes at once."""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.catalog.definitions.contract import Catalog
from penstock.catalog.definitions.leases import (
    ASIDE_TIMEOUT_S,
    HOLDER_TIMEOUT_MS,
    LEASE_TIMEOUT_MS,
    RENEWAL_TIMEOUT_S,
    JobReport,
    this_process,
)
from penstock.catalog.errors import (
    CatalogError,
    ConfigError,
    DefinitionError,
    ObjectExistsError,
    PipelineLockedError,
    UnknownObjectError,
)
from penstock.catalog.model.namespaces import DatabaseDescriptor
from penstock.catalog.model.table import Table
from penstock.catalog.store import sqlite as sqlite_file
from penstock.catalog.store.deadline import DEADLINE_S
from penstock.catalog.store.sql_catalog import SqlCatalog
from tests.catalog.conftest import Store
from tests.catalog.examples import identifier, table, view
from tests.catalog.processes import PROCESSES, begin, together, told
from tests.catalog.workers import change_one, claim, create_many, create_same, hold


def test_definitions_outlive_the_object(store: Store) -> None:
    """Another catalog of the same URL sees them, sorted."""
    first = store.open()
    first.create(table("b"))
    first.create(table("a"))
    first.create(view("v"))
    second = store.open()

    assert second.tables() == [identifier("a"), identifier("b")]
    assert second.views("default_database") == [identifier("v")]
    assert second.tables("other") == []
    assert second.get(identifier("a")) == table("a")
    assert second.get(identifier("v")) == view("v")


def test_reading_does_not_make_a_store(sqlite_store: Store, file: Path) -> None:
    """`penstock catalog ls` in any folder leaves it as it was."""
    catalog = sqlite_store.open()
    assert catalog.tables() == []
    assert catalog.views() == []
    catalog.drop(identifier("x"), kind="table", if_exists=True)
    with pytest.raises(UnknownObjectError):
        catalog.get(identifier("x"))

    assert not file.parent.exists()


def test_the_store_is_its_users_own(sqlite_store: Store, file: Path) -> None:
    """Options may hold secrets: the folder, the file and SQLite's files beside it."""
    catalog = sqlite_store.open()
    catalog.create(table())
    reader = sqlite3.connect(file)
    reader.execute("SELECT * FROM penstock_objects").fetchall()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()}
    reader.close()

    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert modes == {"catalog.db": 0o600, "catalog.db-wal": 0o600, "catalog.db-shm": 0o600}


def test_a_folder_that_anyone_may_change_is_refused(tmp_path: Path) -> None:
    """Anyone could put another file in the catalog's place."""
    tmp_path.chmod(0o777)
    with pytest.raises(CatalogError, match="every user") as caught:
        SqlCatalog(f"sqlite:///{tmp_path / 'catalog.db'}").create(table())

    assert "chmod" in (caught.value.hint or "")
    assert list(tmp_path.iterdir()) == []


def test_a_name_is_taken_once(catalog: Catalog) -> None:
    """Tables and views share the names; REPLACE does not turn one into the other."""
    catalog.create(table())
    catalog.create(view())
    with pytest.raises(ObjectExistsError, match="there is a table"):
        catalog.create(table(connector="x"))
    with pytest.raises(ObjectExistsError, match="there is a table"):
        catalog.create(view("orders"), replace=True)
    catalog.create(table(connector="x"), if_not_exists=True)
    assert catalog.get(identifier("orders")) == table()
    catalog.create(table(connector="x"), replace=True)

    assert catalog.get(identifier("orders")) == table(connector="x")


def test_a_place_that_does_not_exist_takes_nothing(catalog: Catalog) -> None:
    """Neither a catalog nor a database is made by the way."""
    for wrong in (
        replace(identifier("t"), catalog="hive"),
        replace(identifier("t"), database="sales"),
    ):
        with pytest.raises(UnknownObjectError):
            catalog.create(replace(table(), identifier=wrong))


def test_only_what_is_there_and_of_that_kind_is_dropped(catalog: Catalog) -> None:
    """DROP TABLE of a view is an error that says what it is, and IF EXISTS makes it nothing."""
    catalog.create(view("v"))
    with pytest.raises(UnknownObjectError, match="is a view"):
        catalog.drop(identifier("v"), kind="table")
    catalog.drop(identifier("v"), kind="table", if_exists=True)
    assert catalog.views() == [identifier("v")]
    catalog.drop(identifier("v"), kind="view")
    with pytest.raises(UnknownObjectError) as caught:
        catalog.drop(identifier("v"), kind="view")

    assert catalog.views() == []
    assert "has no tables: `penstock run FILE` defines those of a file" in (caught.value.hint or "")


def test_an_unknown_name_is_an_error_with_the_nearest(catalog: Catalog) -> None:
    """Or with all there are."""
    catalog.create(table("orders"))
    with pytest.raises(UnknownObjectError) as near:
        catalog.get(identifier("oders"))
    with pytest.raises(UnknownObjectError) as far:
        catalog.get(identifier("zzz"))

    assert near.value.hint == "did you mean 'orders'?"
    assert far.value.hint == "known are: orders"


def test_an_unknown_name_that_another_database_has_is_told(catalog: Catalog) -> None:
    """Whoever forgets USE is told the whole name."""
    catalog.create_database(DatabaseDescriptor(catalog="default_catalog", name="sales"))
    catalog.create(table("orders"))
    catalog.create(replace(table(), identifier=replace(identifier("refunds"), database="sales")))
    with pytest.raises(UnknownObjectError) as caught:
        catalog.get(identifier("refunds"))

    assert caught.value.hint == "did you mean default_catalog.sales.refunds?"


@pytest.mark.slow
def test_processes_that_create_tables_at_once_lose_nothing(catalog: Catalog, store: Store) -> None:
    """From the first moment on: they race for making the store too."""
    together(create_many, [(store.url, name) for name in "abc"])

    assert len(catalog.tables()) == 45


@pytest.mark.slow
def test_of_two_that_create_one_table_one_is_told(catalog: Catalog, store: Store) -> None:
    """No table is made twice and none is silently replaced."""
    made = together(create_same, [(store.url,)] * 2)

    assert sum(made) == 15
    assert len(catalog.tables()) == 15


@pytest.mark.slow
def test_processes_that_change_one_table_lose_no_change(catalog: Catalog, store: Store) -> None:
    """Each change is of what was read, or is refused."""
    catalog.create(table())
    together(change_one, [(store.url, name) for name in "ab"])
    found = catalog.get(identifier("orders"))

    assert isinstance(found, Table)
    assert {key for key, _ in found.options} == {f"{a}{n}" for a in "ab" for n in range(10)}
    assert found.version == 21


@pytest.mark.parametrize("name", ["n" * 256, "a\0b"])
def test_a_name_that_a_database_cannot_keep_is_refused(catalog: Catalog, name: str) -> None:
    """In the same words on both; the longest that can be kept is."""
    longest = table("ü" * 255)
    catalog.create(longest)
    with pytest.raises(DefinitionError, match="the name"):
        catalog.create(table(name))
    with pytest.raises(DefinitionError, match="the name"):
        catalog.replace(longest, replace(longest, identifier=identifier(name)))
    with pytest.raises(DefinitionError, match="the name"):
        catalog.create_database(DatabaseDescriptor(catalog="default_catalog", name=name))

    assert catalog.tables() == [longest.identifier]


def test_threads_share_a_catalog(catalog: Catalog) -> None:
    """A heartbeat runs beside the session."""
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(10):
                catalog.create(table(f"{name}{number}"))
                catalog.tables()
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert len(catalog.tables()) == 30


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_catalog_may_live_in_memory(url: str) -> None:
    """For sessions that leave nothing behind; threads share it too."""
    catalog = SqlCatalog(url)
    threads = [threading.Thread(target=catalog.create, args=(table(f"t{n}"),)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(catalog.tables()) == 5


def test_a_relative_path_means_the_folder_of_then(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The process may go elsewhere later."""
    catalog = SqlCatalog("sqlite:///catalog.db")
    os.chdir(tmp_path_factory.mktemp("elsewhere"))
    catalog.create(table())

    assert (project / "catalog.db").exists()
    assert str(project) in catalog.location


# --- stores that are not ours to change -------------------------------------------------------------


def newer(file: Path) -> None:
    SqlCatalog(f"sqlite:///{file}").create(table())
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE penstock_alembic_version SET version_num = '0099'")
    connection.close()


def garbage(file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b"this is no database, but it is long enough to look like one" * 100)


def cut(file: Path) -> None:
    SqlCatalog(f"sqlite:///{file}").create(table())
    file.write_bytes(file.read_bytes()[:5000])


def foreign(file: Path) -> None:
    file.parent.mkdir()
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (newer, "newer Penstock"),
        (garbage, "not a database"),
        (cut, "malformed"),
        (foreign, "something else"),
    ],
)
@pytest.mark.parametrize(
    "use",
    [
        lambda catalog: catalog.tables(),
        lambda catalog: catalog.get(identifier("orders")),
        lambda catalog: catalog.create(table("new")),
        lambda catalog: catalog.leases.acquire("p", this_process()),
    ],
    ids=["list", "get", "create", "lease"],
)
def test_a_store_that_is_not_understood_is_left_alone(
    sqlite_store: Store,
    file: Path,
    spoil: Callable[[Path], None],
    message: str,
    use: Callable[[Catalog], object],
) -> None:
    """Reading or writing: an error in words, and not a byte changed."""
    spoil(file)
    before = file.read_bytes()
    with pytest.raises(CatalogError, match=message) as caught:
        use(sqlite_store.open())

    assert file.read_bytes() == before
    assert caught.value.hint


def test_a_disk_without_room_is_named(
    sqlite_store: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite calls it an I/O error of the disk."""
    garbage(file)
    monkeypatch.setattr(sqlite_file.shutil, "disk_usage", lambda _: SimpleNamespace(free=4096))
    with pytest.raises(CatalogError, match=r"cannot be used: .*; its disk is full"):
        sqlite_store.open().tables()

    monkeypatch.setattr(sqlite_file.shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    with pytest.raises(CatalogError) as caught:
        sqlite_store.open().tables()
    assert "full" not in caught.value.message


def test_a_definition_of_a_newer_version_is_refused_alone(catalog: Catalog, store: Store) -> None:
    """Others in the same store can still be read."""
    catalog.create(table("a"))
    catalog.create(table("b"))
    for name, text in (("a", '{"v": 2}'), ("b", '{"v": 1}')):
        store.execute(
            f"UPDATE penstock_objects SET definition = '{text}' WHERE object_name = '{name}'"
        )
    catalog.create(table("c"))
    for name in "ab":
        with pytest.raises(CatalogError):
            catalog.get(identifier(name))

    assert catalog.get(identifier("c")) == table("c")


def test_a_folder_that_cannot_be_written_is_an_error_in_words(tmp_path: Path) -> None:
    """With the way to name another place."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CatalogError, match="cannot be created") as caught:
        SqlCatalog(f"sqlite:///{tmp_path / 'file' / 'catalog.db'}").create(table())

    assert "PENSTOCK_CATALOG" in (caught.value.hint or "")


def test_a_file_that_another_process_holds_is_an_error_in_words(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a wait; reading goes on meanwhile."""
    monkeypatch.setattr("penstock.catalog.store.sqlite.BUSY_TIMEOUT_S", 0.05)
    catalog = SqlCatalog(f"sqlite:///{file}")
    catalog.create(table())
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(CatalogError, match="locked") as caught:
        catalog.create(table("late"))

    assert catalog.tables() == [identifier("orders")]
    assert "try again" in (caught.value.hint or "")
    holder.close()


@pytest.mark.parametrize(
    "url",
    ["", "catalog.db", "sqllite:///x.db", "mysql://host/db", "postgresq://app:hunter2@host/db"],
)
def test_what_is_no_url_of_a_catalog_is_refused(url: str) -> None:
    """Without showing what may be a password."""
    with pytest.raises(ConfigError) as caught:
        SqlCatalog(url)

    assert "hunter2" not in str(caught.value)
    assert "sqlite:///" in (caught.value.hint or "")


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it, and without the password."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError) as caught:
        SqlCatalog("postgresql+psycopg://app:hunter2@host/db")

    assert caught.value.hint == "pip install 'psycopg[binary]'"
    assert "hunter2" not in caught.value.message


# --- leases -----------------------------------------------------------------------------------------


def test_a_live_runner_keeps_its_pipeline(catalog: Catalog, store: Store) -> None:
    """The second one is refused and told who has it."""
    _, holder = begin(hold, store.url)
    pid, host = told(holder)
    with pytest.raises(PipelineLockedError) as caught:
        catalog.leases.acquire("p", this_process())
    catalog.leases.acquire("another", this_process())
    holder.send("end")

    assert f"process {pid} on host {host}" in caught.value.message


def test_a_dead_runner_loses_its_pipeline_at_once(catalog: Catalog, store: Store) -> None:
    """Kill -9 leaves the claim behind; nobody waits for it to run out."""
    process, holder = begin(hold, store.url)
    told(holder)
    process.kill()
    process.join()
    lease = catalog.leases.acquire("p", this_process())

    assert lease.fence == 2


def test_a_silent_runner_loses_its_pipeline_in_time(catalog: Catalog, store: Store) -> None:
    """By the database's clock; waking up, it learns who has the pipeline now."""
    slow = catalog.leases.acquire("p", this_process())
    age(store, LEASE_TIMEOUT_MS - 5_000)
    with pytest.raises(PipelineLockedError):
        catalog.leases.acquire("p", this_process())
    age(store, 10_000)
    catalog.leases.acquire("p", this_process())
    with pytest.raises(PipelineLockedError, match="has lost pipeline 'p', process"):
        catalog.leases.renew(slow)


def test_a_heartbeat_keeps_a_pipeline(catalog: Catalog, store: Store) -> None:
    """However long it runs."""
    lease = catalog.leases.acquire("p", this_process())
    for _ in range(3):
        age(store, LEASE_TIMEOUT_MS - 5_000)
        catalog.leases.renew(lease)
    age(store, LEASE_TIMEOUT_MS - 5_000)
    with pytest.raises(PipelineLockedError, match="this process"):
        catalog.leases.acquire("p", this_process())


def test_a_lease_that_was_given_back_is_free(catalog: Catalog) -> None:
    """Its fence goes on growing, and the old holder cannot renew or release the new one's."""
    first = catalog.leases.acquire("p", this_process())
    catalog.leases.release(first)
    with pytest.raises(PipelineLockedError, match="has lost"):
        catalog.leases.renew(first)
    second = catalog.leases.acquire("p", this_process())
    catalog.leases.release(first)
    catalog.leases.renew(second)

    assert (first.fence, second.fence) == (1, 2)


@pytest.mark.slow
def test_of_many_that_claim_a_pipeline_one_gets_it(store: Store) -> None:
    """Three processes, twenty pipelines, each granted once."""
    start = PROCESSES.Event()
    runners = [begin(claim, start, store.url)[1] for _ in range(3)]
    for runner in runners:
        assert told(runner) == "ready"
    start.set()
    won = [told(runner) for runner in runners]
    for runner in runners:
        runner.send("end")

    assert sum(won) == 20


def age(store: Store, by_ms: int) -> None:
    """Let time pass in the store."""
    store.execute(f"UPDATE penstock_leases SET heartbeat_ms = heartbeat_ms - {by_ms}")


def test_catalogs_that_share_leases_have_one_runner_of_a_pipeline(tmp_path: Path) -> None:
    """Their definitions are apart; leases are where `lease_url` says."""
    shared = f"sqlite:///{tmp_path / 'main.db'}"
    main = SqlCatalog(shared)
    other = SqlCatalog(f"sqlite:///{tmp_path / 'other.db'}", lease_url=shared)
    main.create(table())
    lease = other.leases.acquire("p", this_process())

    assert [claim.lease.pipeline for claim in main.leases.claims()] == ["p"]
    assert other.tables() == []
    with pytest.raises(PipelineLockedError):
        main.leases.acquire("p", this_process())
    other.leases.report_job(lease, JobReport(status="running"))
    assert [catalog.leases.job_reports()["p"].status for catalog in (main, other)] == [
        "running"
    ] * 2
    other.leases.release(lease)
    assert main.leases.claims() == []


@pytest.mark.parametrize("call", ["is_asked_to_stop", "report_job"])
def test_what_is_asked_between_renewals_has_a_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """With a renewal before and one after it, it fits into the time that a holder has."""
    catalog, left_s = SqlCatalog(f"sqlite:///{tmp_path / 'main.db'}"), []
    lease = catalog.leases.acquire("p", this_process())
    monkeypatch.setattr(
        f"penstock.catalog.store.leases._{call}",
        lambda *_: left_s.append(DEADLINE_S.get() - time.monotonic()),
    )
    if call == "report_job":
        catalog.leases.report_job(lease, JobReport(status="running"))
    else:
        catalog.leases.is_asked_to_stop(lease)

    assert 0 < left_s[0] <= ASIDE_TIMEOUT_S
    most_ms = 1_000 * (2 * RENEWAL_TIMEOUT_S + 2 * ASIDE_TIMEOUT_S + 1)
    assert most_ms < HOLDER_TIMEOUT_MS
