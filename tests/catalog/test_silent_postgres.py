"""A PostgreSQL whose answers never come: every call ends within a stated time, and the next one may work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Event

import pytest
from sqlalchemy.exc import OperationalError

from penstock.catalog.definitions.leases import HOLDER_TIMEOUT_MS, RENEWAL_TIMEOUT_S, this_process
from penstock.catalog.errors import CatalogError, PipelineLockedError
from penstock.catalog.store.deadline import answers_within
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.clock import SystemClock
from penstock.sql.jobs.lease import hold_lease
from tests.catalog.conftest import Store
from tests.faults.proxy import FAIR, Proxy, Weather
from tests.postgres_server import PostgresServer

ROUND_TRIPS = 2
"""A wait in vain, and what is done besides on a machine that is busy."""


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[Proxy]:
    """In front of the server."""
    made = Proxy(seed=1)
    made.listen()
    made.forward(postgres.port)
    yield made
    made.close()


@pytest.fixture
def remote(proxy: Proxy, postgres: PostgresServer, postgresql_store: Store) -> Iterator[SqlCatalog]:
    """A catalog by way of the proxy."""
    made = SqlCatalog(postgresql_store.url.replace(f":{postgres.port}/", f":{proxy.port}/"))
    yield made
    made.close()


@pytest.mark.slow
def test_a_renewal_without_an_answer_ends_within_its_deadline(
    remote: SqlCatalog, proxy: Proxy
) -> None:
    """The connection looks alive, as its other end acknowledges every byte; the next renewal has a new one."""
    lease = remote.leases.acquire("job/t", this_process())
    proxy.weather = Weather(deaf=True)
    began = time.monotonic()
    with pytest.raises(CatalogError, match=r"not answered|timeout expired") as caught:
        remote.leases.renew(lease)
    took_s = time.monotonic() - began
    proxy.weather = FAIR
    remote.leases.renew(lease)

    assert not isinstance(caught.value, PipelineLockedError)
    assert took_s < ROUND_TRIPS * RENEWAL_TIMEOUT_S
    assert len(remote.leases.claims()) == 1


@pytest.mark.slow
def test_every_other_call_ends_as_well(remote: SqlCatalog, proxy: Proxy) -> None:
    """After a longer time; a connection that is being used says how long it has waited."""
    remote.leases.acquire("job/t", this_process())
    with answers_within(1), remote._database.reading() as connection:
        assert connection is not None
        proxy.weather = Weather(deaf=True)
        with pytest.raises(OperationalError, match="has not answered for 1 s"):
            connection.exec_driver_sql("SELECT 1")


def test_a_statement_that_waits_in_the_server_is_ended_there(remote: SqlCatalog) -> None:
    """Locks, statements and transactions that stand still have limits in each connection of ours."""
    remote.leases.acquire("job/t", this_process())
    with remote._database.reading() as connection:
        assert connection is not None
        told = [
            connection.exec_driver_sql(f"SHOW {name}").scalar()
            for name in (
                "lock_timeout",
                "statement_timeout",
                "idle_in_transaction_session_timeout",
            )
        ]

    assert told == ["10s", "12s", "1min"]


@pytest.mark.faults
def test_a_runner_behind_a_database_that_answers_nothing_stops_before_another_may_begin(
    remote: SqlCatalog, proxy: Proxy
) -> None:
    """By the real clock: after 20 s, while the claim in the database lasts 30 s."""
    lease = hold_lease(remote.leases, "job/t", SystemClock())
    proxy.weather = Weather(deaf=True)
    began = time.monotonic()
    while lease.lost() is None and time.monotonic() - began < 60:
        Event().wait(0.1)
    took_s = time.monotonic() - began
    lease.release()

    assert took_s == pytest.approx(HOLDER_TIMEOUT_MS / 1000, abs=5.5)
    assert lease.lost() is not None
    assert time.monotonic() - began < took_s + 1, "giving the lease back waits for nobody"
