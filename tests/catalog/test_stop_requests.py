"""Asking another runner to end, through the catalog."""

from __future__ import annotations

from penstock.catalog.definitions.leases import this_process
from penstock.catalog.store.sql_catalog import SqlCatalog


def test_a_runner_is_asked_by_the_name_of_its_pipeline(catalog: SqlCatalog) -> None:
    """Who holds it is said; a pipeline that nobody runs cannot be asked."""
    lease = catalog.leases.acquire("job/t", this_process())
    before = catalog.leases.is_asked_to_stop(lease)
    claim = catalog.leases.request_stop("job/t")

    assert not before
    assert claim is not None
    assert claim.lease == lease
    assert catalog.leases.is_asked_to_stop(lease)
    assert catalog.leases.request_stop("job/u") is None
    assert [each.lease.pipeline for each in catalog.leases.claims()] == ["job/t"]


def test_a_request_is_for_the_run_that_there_was(catalog: SqlCatalog) -> None:
    """The next runner of the pipeline is not meant."""
    first = catalog.leases.acquire("job/t", this_process())
    catalog.leases.request_stop("job/t")
    catalog.leases.release(first)
    second = catalog.leases.acquire("job/t", this_process())

    assert catalog.leases.is_asked_to_stop(first)
    assert not catalog.leases.is_asked_to_stop(second)
