"""Pipelines whose process has ended without a word: killed, or without power."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.catalog.definitions.leases import LEASE_TIMEOUT_MS, JobReport, Lease, this_process
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.information_schema.pipelines import StoredPipeline, stored_pipelines


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    """The catalog of a project."""
    return SqlCatalog(f"sqlite:///{tmp_path / 'catalog.db'}")


def reported(catalog: SqlCatalog, status: str) -> Lease:
    """A runner on another machine, which reports its pipeline with a checkpoint in the project."""
    owner = replace(this_process(), host="db-7", pid=4711)
    lease = catalog.leases.acquire("shop/totals", owner)
    catalog.leases.report_job(lease, JobReport(status=status, last_error="before", restarts=2))
    return lease


def silent(folder: Path, since_ms: int = LEASE_TIMEOUT_MS + 5_000) -> None:
    """Let time pass without a heartbeat."""
    with sqlite3.connect(folder / "catalog.db") as store:
        store.execute(f"UPDATE penstock_leases SET heartbeat_ms = heartbeat_ms - {since_ms}")
    store.close()


def shown(catalog: SqlCatalog, folder: Path) -> list[StoredPipeline]:
    """What a look finds."""
    return list(stored_pipelines(catalog.leases, folder))


@pytest.mark.parametrize("status", ["running", "restarting"])
def test_a_pipeline_whose_process_is_not_heard_of_has_failed(
    catalog: SqlCatalog, tmp_path: Path, status: str
) -> None:
    """With the process that had it; whether that is gone is known on its own machine only."""
    reported(catalog, status)
    assert [each.status for each in shown(catalog, tmp_path)] == [status]
    silent(tmp_path)

    (found,) = shown(catalog, tmp_path)

    assert (found.name, found.status, found.owner) == ("shop/totals", "failed", None)
    words = r"nothing was heard of its process \(process 4711 on db-7\) for 3\d(\.\d)? s"
    assert found.report is not None
    assert re.fullmatch(words, found.report.last_error or ""), found.report.last_error
    assert re.fullmatch(f"failed: {words}", found.sentence)


def test_a_process_that_is_known_to_be_dead_is_gone(catalog: SqlCatalog, tmp_path: Path) -> None:
    """At once, on its own machine, where another process has its id by now."""
    own = this_process()
    before = replace(own, started=(own.started or 0) - 1)
    lease = catalog.leases.acquire("shop/totals", before)
    catalog.leases.report_job(lease, JobReport(status="running"))

    (found,) = shown(catalog, tmp_path)

    start = f"failed: its process is gone (process {own.pid} on {own.host}, last sign of life "
    assert found.sentence.startswith(start)


@pytest.mark.parametrize("status", ["running", "stopped", "finished"])
def test_a_pipeline_that_was_released_has_not_failed(
    catalog: SqlCatalog, tmp_path: Path, status: str
) -> None:
    """Its process came to its end, whatever it said last."""
    catalog.leases.release(reported(catalog, status))
    silent(tmp_path)

    assert [each.status for each in shown(catalog, tmp_path)] == []


def test_one_that_ended_before_its_process_was_gone_keeps_its_end(
    catalog: SqlCatalog, tmp_path: Path
) -> None:
    """A report of the end is the last word, also where the lease was not released any more."""
    reported(catalog, "stopped")
    silent(tmp_path)

    assert shown(catalog, tmp_path) == []


def test_the_next_run_is_shown_in_its_place(catalog: SqlCatalog, tmp_path: Path) -> None:
    """The report of the one before goes with its claim."""
    reported(catalog, "running")
    silent(tmp_path)
    catalog.leases.acquire("shop/totals", this_process())

    (found,) = shown(catalog, tmp_path)

    assert (found.status, found.report) == ("running", None)
