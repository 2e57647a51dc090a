"""Claims whose heartbeats are in the future, as the database's clock was set back since."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.catalog.definitions.contract import Catalog
from penstock.catalog.definitions.leases import LEASE_TIMEOUT_MS, Owner, this_process
from penstock.catalog.errors import PipelineLockedError
from tests.catalog.conftest import Store


def age(store: Store, by_ms: int) -> None:
    """Let time pass in the store."""
    store.execute(f"UPDATE penstock_leases SET heartbeat_ms = heartbeat_ms - {by_ms}")


def other_machine() -> Owner:
    """A runner that nobody can ask whether it lives."""
    return replace(this_process(), host="another", pid=4711)


def test_a_claim_from_before_the_clock_was_set_back_lapses_in_its_time(
    catalog: Catalog, store: Store
) -> None:
    """Seen first, it is watched: without a heartbeat since then it is taken over, not an hour later."""
    catalog.leases.acquire("p", other_machine())
    age(store, -3_600_000)
    with pytest.raises(PipelineLockedError):
        catalog.leases.acquire("p", this_process())
    age(store, LEASE_TIMEOUT_MS - 5_000)
    with pytest.raises(PipelineLockedError):
        catalog.leases.acquire("p", this_process())
    age(store, 10_000)

    assert catalog.leases.acquire("p", this_process()).fence == 2


def test_a_live_runner_keeps_its_pipeline_where_the_clock_was_set_back(
    catalog: Catalog, store: Store
) -> None:
    """Whoever asks for it: its heartbeats go on, by the same clock."""
    lease = catalog.leases.acquire("p", other_machine())
    age(store, -3_600_000)
    for _ in range(3):
        with pytest.raises(PipelineLockedError):
            catalog.leases.acquire("p", this_process())
        age(store, LEASE_TIMEOUT_MS - 5_000)
        catalog.leases.renew(lease)

    with pytest.raises(PipelineLockedError):
        catalog.leases.acquire("p", this_process())


def test_clocks_that_differ_a_little_change_no_claim(catalog: Catalog, store: Store) -> None:
    """As those of two machines on a network drive: the heartbeat stays as its runner wrote it."""
    catalog.leases.acquire("p", other_machine())
    age(store, 5_000 - LEASE_TIMEOUT_MS)
    with pytest.raises(PipelineLockedError):
        catalog.leases.acquire("p", this_process())
    (claim,) = catalog.leases.claims()

    assert claim.age_ms < 10_000 - LEASE_TIMEOUT_MS
