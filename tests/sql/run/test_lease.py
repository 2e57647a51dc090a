"""A pipeline's lease while its job runs."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import CatalogError, PipelineLockedError
from penstock.catalog.lease import HEARTBEAT_MS, Lease, this_process
from penstock.connector.contract import AvailableNow
from penstock.sql.run.clock import SystemClock
from penstock.sql.run.lease import PipelineLease, hold_leases
from penstock.sql.run.progress import JobStatus
from penstock.sql.run.restart import ExponentialDelay
from penstock.sql.run.supervisor import Supervisor, SupervisorSettings
from tests.sql.run.scripted import MovedClock, ScriptedInsert, ScriptedQuery


class ScriptedCatalog:
    """Answers renewals from a script; after it, the test's `then` is called."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.released = 0
        self.then = lambda: None

    def renew(self, lease):
        answer = self.answers.pop(0) if self.answers else self.then()
        if answer is not None:
            raise answer

    def release(self, lease):
        self.released += 1

    def is_asked_to_stop(self, lease):
        return False


def held(catalog):
    """A lease over the catalog, with a clock that jumps."""
    lease = Lease(pipeline="job/t", owner=this_process(), fence=1, since_ms=0)
    clock = MovedClock()
    return PipelineLease(catalog, lease, clock), clock


def test_a_lease_is_renewed_until_it_is_released():
    """One renewal a heartbeat, one release however often it is asked for."""
    catalog = ScriptedCatalog(None, None)
    lease, clock = held(catalog)
    catalog.then = lease.release

    lease.keep_alive()
    lease.release()

    assert clock.waits == [HEARTBEAT_MS] * 3
    assert (catalog.released, lease.lost()) == (1, None)


def test_a_request_to_stop_is_passed_on_at_a_heartbeat():
    """To what the holder said is to be done; it keeps its lease until it gives it back."""
    catalog = ScriptedCatalog(None, None)
    catalog.is_asked_to_stop = lambda _lease: True
    lease, _ = held(catalog)
    stops = []
    lease.on_stop_request(lambda: stops.append("stop"))
    catalog.then = lease.release

    lease.keep_alive()

    assert stops[:2] == ["stop", "stop"]
    assert lease.lost() is None


def test_a_lease_that_another_took_is_lost():
    """The catalog's refusal is the reason."""
    taken = PipelineLockedError("run by process 7")
    lease, _ = held(ScriptedCatalog(None, taken))

    lease.keep_alive()

    assert lease.lost() is taken


def test_a_catalog_that_is_away_for_a_moment_costs_nothing():
    """Renewal is tried again before the claim has run out."""
    catalog = ScriptedCatalog(CatalogError("locked"), CatalogError("locked"), None)
    lease, _ = held(catalog)
    catalog.then = lease.release

    lease.keep_alive()

    assert lease.lost() is None


def test_a_catalog_that_stays_away_ends_the_claim():
    """When the claim may have run out, another runner may have begun: this one must not go on."""
    lease, clock = held(ScriptedCatalog(*[CatalogError("gone")] * 10))

    lease.keep_alive()

    assert isinstance(lease.lost(), CatalogError)
    assert len(clock.waits) == 6


def test_several_leases_are_held_all_or_none():
    """The second is another's: the first is given back."""

    class Catalog(ScriptedCatalog):
        def acquire_lease(self, pipeline, owner):
            if pipeline == "job/b":
                raise PipelineLockedError("run by process 7")
            return Lease(pipeline=pipeline, owner=owner, fence=1, since_ms=0)

    catalog = Catalog()

    with pytest.raises(PipelineLockedError):
        hold_leases(catalog, ["job/a", "job/b"], SystemClock())
    assert catalog.released == 1


def test_a_driver_that_was_paused_for_a_minute_does_nothing_more():
    """Case 16: another runner took the pipeline meanwhile; the first look after the pause stops the query for good."""
    taken = PipelineLockedError("this process has lost pipeline 'job/t'")
    lease, clock = held(ScriptedCatalog(None, taken))
    clock.while_waiting = lambda: setattr(clock, "now", clock.now + 60_000)
    query = ScriptedQuery([0, lease.keep_alive, 1])
    supervisor = Supervisor(
        ScriptedInsert([query]),
        settings=SupervisorSettings(trigger=AvailableNow(), restarts=ExponentialDelay()),
        clock=clock,
        lost_lease=lease.lost,
    )

    supervisor.start()

    assert supervisor.done.wait(10)
    assert supervisor.progress().status is JobStatus.FAILED
    assert supervisor.error is taken
    assert (query.stops, query.batches) == (1, [0])
