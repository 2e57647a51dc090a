"""Transactions on both databases: queues, failures that pass, servers that are away, forks."""

from __future__ import annotations

import multiprocessing
import threading
import time
from multiprocessing.connection import Connection as Pipe

import pytest
from sqlalchemy import Connection, func, insert, select, text
from sqlalchemy.exc import IntegrityError

from penstock.catalog.definitions.leases import this_process
from penstock.catalog.errors import CatalogError
from penstock.catalog.migrations import OBJECTS
from penstock.catalog.store import postgres
from penstock.catalog.store.database import ATTEMPTS, Database, now_ms
from penstock.catalog.store.sql_catalog import SqlCatalog
from tests.catalog.conftest import Store
from tests.catalog.examples import identifier, table
from tests.postgres_server import PostgresServer, free_port

SERIALIZATION_FAILURE = (
    "DO $$ BEGIN RAISE EXCEPTION 'of another transaction' USING ERRCODE = '40001'; END $$"
)


def object_row(name: str) -> dict[str, str]:
    """A row that the database itself refuses to have twice."""
    names = {"catalog_name": "c", "database_name": "d", "object_name": name}
    return {**names, "kind": "table", "definition": "{}"}


def test_where_a_catalog_is_has_no_password_wherever_it_stood() -> None:
    """In the log-in and in the query, as libpq takes them; what is none is there."""
    url = "postgresql+psycopg://me:canary@db:1/shop?password=canary&sslpassword=canary&sslmode=require"
    database = Database(url)

    shown = "postgresql+psycopg://me:***@db:1/shop?password=***&sslmode=require&sslpassword=***"
    assert sorted(database.location.split("&")) == sorted(shown.split("&"))
    with pytest.raises(CatalogError) as caught, database.reading():
        pass
    assert "canary" not in f"{caught.value} {caught.value.hint}"


def test_a_step_is_done_again_while_another_process_is_in_the_way(store: Store) -> None:
    """What its failed attempts wrote is not there."""
    database = Database(store.url)
    attempts = []

    def step(connection: Connection) -> int:
        attempts.append(connection.scalar(select(OBJECTS.c.object_name)))
        connection.execute(insert(OBJECTS).values(object_row("a")))
        if len(attempts) < 3:
            connection.execute(insert(OBJECTS).values(object_row("a")))
        return len(attempts)

    assert database.change(step) == 3
    assert attempts == [None, None, None]
    database.close()


def test_a_step_is_not_done_again_for_ever(store: Store) -> None:
    """After ATTEMPTS it is an error in words."""
    database = Database(store.url)
    attempts = []

    def step(connection: Connection) -> None:
        attempts.append(1)
        raise IntegrityError("INSERT", {}, Exception("of another transaction"))

    with pytest.raises(CatalogError, match=f"in the way {ATTEMPTS} times") as caught:
        database.change(step)

    assert len(attempts) == ATTEMPTS
    assert caught.value.hint == "nothing was changed; try again"
    database.close()


def test_a_serialization_failure_passes(postgresql_store: Store) -> None:
    """As PostgreSQL asks of its clients; another failure does not."""
    database = Database(postgresql_store.url)
    attempts = []

    def step(connection: Connection) -> None:
        attempts.append(1)
        if len(attempts) < 3:
            connection.execute(text(SERIALIZATION_FAILURE))

    database.change(step)
    with pytest.raises(CatalogError, match="division by zero"):
        database.change(lambda connection: connection.execute(text(f"SELECT {len(attempts)} / 0")))

    assert len(attempts) == 3
    database.close()


def test_changes_of_definitions_queue_up(store: Store) -> None:
    """Each sees what the ones before it did, so that none has to be done again."""
    database = Database(store.url)
    seen: list[int] = []

    def step(connection: Connection) -> None:
        seen.append(connection.scalar(select(func.count()).select_from(OBJECTS)) or 0)
        connection.execute(insert(OBJECTS).values(object_row(f"t{seen[-1]}")))

    def work() -> None:
        for _ in range(20):
            database.change(step)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen == list(range(60))
    database.close()


def test_a_lease_does_not_wait_for_a_definition(postgresql_store: Store) -> None:
    """On a server, where it need not: a runner that cannot say that it lives loses its pipeline."""
    holder, runner = Database(postgresql_store.url), SqlCatalog(postgresql_store.url)
    lease = runner.leases.acquire("p", this_process())
    with holder.writing(queued=True):
        runner.leases.renew(lease)
        claims = runner.leases.claims()

    assert [claim.lease for claim in claims] == [lease]
    holder.close()
    runner.close()


@pytest.mark.slow
def test_a_writer_waits_a_bounded_time(
    postgresql_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process that is stopped within its transaction stops nobody for ever; reading goes on meanwhile."""
    monkeypatch.setattr(postgres, "LOCK_TIMEOUT_S", 0.1)
    holder, late = Database(postgresql_store.url), SqlCatalog(postgresql_store.url)
    late.create(table("a"))
    with holder.writing(queued=True), pytest.raises(CatalogError, match="lock timeout") as caught:
        late.create(table("b"))

    assert caught.value.hint == "another process held it for too long; try again"
    assert late.tables() == [identifier("a")]
    holder.close()
    late.close()


@pytest.mark.parametrize("use", [SqlCatalog.tables, lambda c: c.create(table())], ids=["r", "w"])
def test_a_server_that_is_away_is_an_error_in_words(use: object) -> None:
    """Without the password, and with what to do."""
    url = f"postgresql://app:hunter2@127.0.0.1:{free_port()}/penstock"
    with pytest.raises(CatalogError, match="refused") as caught:
        use(SqlCatalog(url))  # type: ignore[operator]

    assert "hunter2" not in str(caught.value)
    assert "start the server" in (caught.value.hint or "")


def test_a_connection_that_was_lost_is_made_again(
    postgres: PostgresServer, postgresql_store: Store
) -> None:
    """A server that was restarted is no reason to start again, too."""
    catalog = SqlCatalog(postgresql_store.url)
    catalog.create(table("a"))
    postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = 'app'"
    )

    assert catalog.tables() == [identifier("a")]
    catalog.close()


def test_a_catalog_is_used_after_a_fork(store: Store) -> None:
    """By parent and child, on connections of their own."""
    catalog = store.open()
    catalog.create(table("a"))
    forking = multiprocessing.get_context("fork")
    ours, theirs = forking.Pipe()
    child = forking.Process(target=create_and_tell, args=(catalog, theirs))
    child.start()
    catalog.create(table("b"))
    told = ours.recv() if ours.poll(30) else None
    child.join()

    assert told == "created"
    assert [one.name for one in catalog.tables()] == ["a", "b", "c"]
    catalog.close()


def create_and_tell(catalog: SqlCatalog, pipe: Pipe) -> None:
    """What the child does."""
    catalog.create(table("c"))
    pipe.send("created")


def test_the_clock_is_the_databases_in_milliseconds(store: Store) -> None:
    """Not cut to seconds, and of now, in UTC."""
    database = Database(store.url)
    before = time.time_ns() // 1_000_000
    read = database.change(lambda connection: [now_ms(connection) for _ in range(20)])
    after = time.time_ns() // 1_000_000

    assert before - 5 <= min(read) <= max(read) <= after + 5
    assert read == sorted(read)
    database.close()
