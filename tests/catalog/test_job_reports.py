"""What runners say of their jobs, as others read it in the catalog."""

from __future__ import annotations

from dataclasses import replace

from penstock.catalog.definitions.leases import JobReport, this_process
from penstock.catalog.migrations import HEAD
from penstock.catalog.store.sql_catalog import SqlCatalog
from tests.catalog.conftest import Store
from tests.catalog.test_migrations import make_fifth, make_fourth, make_sixth

BROKEN = JobReport(
    status="restarting",
    restarts=7,
    last_error="the disk is full",
    waiting_for="Kafka at b:9092 (Connection refused)",
    waiting_since_ms=1_700_000_000_000,
    late_rows=12,
    bad_records=3,
    sentence="waits for Kafka at b:9092",
)


def test_the_last_report_of_a_runner_is_kept(catalog: SqlCatalog) -> None:
    """With when the runner began; it outlives the lease."""
    lease = catalog.leases.acquire("job/t", this_process())
    catalog.leases.report_job(lease, JobReport(status="running"))
    catalog.leases.report_job(lease, BROKEN)
    catalog.leases.release(lease)
    (found,) = catalog.leases.job_reports().items()

    assert found == ("job/t", BROKEN)
    assert found[1].sentence == BROKEN.sentence
    assert found[1].since_ms == lease.since_ms
    assert 0 <= found[1].age_ms < 600_000


def test_rows_left_out_are_not_known_of_a_runner_of_the_version_before(catalog: SqlCatalog) -> None:
    """Its rows have no such columns, which is not the same as none left out."""
    lease = catalog.leases.acquire("job/t", this_process())
    catalog.leases.report_job(lease, JobReport(status="running"))
    (found,) = catalog.leases.job_reports().values()

    assert (found.late_rows, found.bad_records, found.sentence) == (None, None, None)


def test_a_store_of_the_version_before_keeps_reports_without_rows_left_out(store: Store) -> None:
    """A runner changes no tables; what such a store has columns for is kept."""
    make_fifth(store)
    catalog = store.open()
    lease = catalog.leases.acquire("job/t", this_process())
    catalog.leases.report_job(lease, BROKEN)
    before = catalog.version(), catalog.leases.job_reports()["job/t"]
    catalog.upgrade()
    catalog.leases.report_job(lease, BROKEN)
    after = catalog.version(), catalog.leases.job_reports()["job/t"]
    catalog.close()

    if store.is_server:
        assert before == (5, replace(BROKEN, late_rows=None, bad_records=None))
    assert after == (HEAD, BROKEN)


def test_a_store_of_the_version_before_keeps_reports_without_a_sentence(store: Store) -> None:
    """All else of them is kept."""
    make_sixth(store)
    catalog = store.open()
    lease = catalog.leases.acquire("job/t", this_process())
    catalog.leases.report_job(lease, BROKEN)
    before = catalog.leases.job_reports()["job/t"]
    catalog.upgrade()
    catalog.leases.report_job(lease, BROKEN)
    after = catalog.leases.job_reports()["job/t"]
    catalog.close()

    assert before == BROKEN
    if store.is_server:
        assert before.sentence is None
    assert after.sentence == BROKEN.sentence


def test_a_report_is_of_one_grant(catalog: SqlCatalog) -> None:
    """Nothing of it holds for the next runner, and one that has lost its lease says nothing any more."""
    first = catalog.leases.acquire("job/t", this_process())
    catalog.leases.report_job(first, BROKEN)
    catalog.leases.release(first)
    second = catalog.leases.acquire("job/t", this_process())
    recreated = catalog.leases.job_reports()
    catalog.leases.report_job(first, BROKEN)
    late = catalog.leases.job_reports()
    catalog.leases.report_job(second, JobReport(status="running"))

    assert (recreated, late) == ({}, {})
    assert catalog.leases.job_reports() == {"job/t": JobReport(status="running")}


def test_a_store_of_the_version_before_goes_without(store: Store) -> None:
    """On a server it is not upgraded in passing, and a runner runs all the same."""
    make_fourth(store)
    catalog = store.open()
    lease = catalog.leases.acquire("job/t", this_process())
    catalog.leases.report_job(lease, BROKEN)

    assert catalog.leases.job_reports() == ({} if store.is_server else {"job/t": BROKEN})
    catalog.close()
