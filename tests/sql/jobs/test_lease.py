"""A pipeline's lease while its job runs."""

from __future__ import annotations

import time
from threading import Event, Thread

import pytest

from penstock.catalog.definitions.leases import (
    HEARTBEAT_MS,
    HOLDER_TIMEOUT_MS,
    LEASE_TIMEOUT_MS,
    JobReport,
    Lease,
    this_process,
)
from penstock.catalog.errors import CatalogError, PipelineLockedError, QueryFailedError
from penstock.connector.contract import AvailableNow
from penstock.sql.clock import SystemClock
from penstock.sql.errors.spark import is_permanent
from penstock.sql.jobs.lease import PipelineLease, hold_leases
from penstock.sql.jobs.supervisor import Supervisor, SupervisorSettings
from penstock.sql.observation.pipeline import JobStatus
from penstock.sql.settings import ExponentialDelay
from tests.sql.run.scripted import END, MovedClock, ScriptedInsert, ScriptedQuery


class ScriptedCatalog:
    """Answers renewals from a script; after it, the test's `then` is called."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.released = 0
        self.done = []
        self.then = lambda: None

    def renew(self, lease):
        answer = self.answers.pop(0) if self.answers else self.then()
        if answer is not None:
            raise answer

    def release(self, lease):
        self.released += 1
        self.done.append("released")

    def report_job(self, lease, report):
        self.done.append(report)

    def is_asked_to_stop(self, lease):
        return False


def held(catalog):
    """A lease over the catalog, with a clock that jumps."""
    lease = Lease(pipeline="job/t", owner=this_process(), fence=1, since_ms=0)
    clock = MovedClock()
    return PipelineLease(catalog, lease, clock, renewed_ms=clock.monotonic_ms()), clock


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


def test_the_state_of_a_job_is_kept_when_it_has_changed_and_at_its_end():
    """With the renewals; before the lease is given back, as nobody may speak for the pipeline afterwards."""
    catalog = ScriptedCatalog(None, None, None)
    lease, _ = held(catalog)
    told = [
        JobReport(status="running"),
        JobReport(status="running"),
        JobReport(status="restarting"),
    ]
    last = JobReport(status="failed", last_error="no such topic")
    lease.on_report(lambda: told.pop(0) if told else last)
    catalog.then = lease.release

    lease.keep_alive()

    statuses = [done if isinstance(done, str) else done.status for done in catalog.done]
    assert statuses[:4] == ["running", "restarting", "failed", "released"]


def test_a_sentence_alone_is_stored_now_and_then():
    """Its counts change with every batch: six heartbeats are half a minute."""
    catalog = ScriptedCatalog(*[None] * 13)
    lease, _ = held(catalog)
    count = iter(range(100))
    lease.on_report(lambda: JobReport(status="running", sentence=f"{next(count)} behind"))
    catalog.then = lease.release

    lease.keep_alive()

    sentences = [done.sentence for done in catalog.done if isinstance(done, JobReport)]
    assert sentences[:3] == ["0 behind", "6 behind", "12 behind"]


def test_a_catalog_that_keeps_no_state_costs_no_lease():
    """That of a store of an earlier version, or one that was away for a moment."""

    class Catalog(ScriptedCatalog):
        def report_job(self, lease, report):
            raise CatalogError("no table")

    catalog = Catalog(None)
    lease, _ = held(catalog)
    lease.on_report(lambda: JobReport(status="running"))
    catalog.then = lease.release

    lease.keep_alive()

    assert (lease.lost(), catalog.released) == (None, 1)


@pytest.mark.parametrize("broken", ["renew", "is_asked_to_stop", "stop", "tell", "report_job"])
def test_an_unforeseen_error_does_not_end_the_renewals(broken):
    """Of the catalog's driver, of the job that is told to stop, or of what it says of itself."""

    class Catalog(ScriptedCatalog):
        renewals = 0

        def renew(self, lease):
            self.renewals += 1
            if self.renewals == 3:
                held_lease.release()
            elif broken == "renew":
                raise ZeroDivisionError

        def is_asked_to_stop(self, lease):
            return fails("is_asked_to_stop") or True

        def report_job(self, lease, report):
            fails("report_job")

    def fails(name):
        if name == broken:
            raise ZeroDivisionError

    def tell():
        fails("tell")
        return JobReport(status="running")

    catalog = Catalog()
    held_lease, _ = held(catalog)
    held_lease.on_stop_request(lambda: fails("stop"))
    held_lease.on_report(tell)

    held_lease.keep_alive()

    assert (catalog.renewals, catalog.released, held_lease.lost()) == (3, 1, None)


def test_an_unforeseen_error_of_renewals_is_named_when_the_lease_runs_out():
    """By its kind: its text may hold values."""
    catalog = ScriptedCatalog()
    lease, clock = held(catalog)
    found = []

    def answer():
        if clock.now - 1_000_000 < HOLDER_TIMEOUT_MS:
            return KeyError("secret")
        found.append(lease.lost())
        lease.release()
        return None

    catalog.then = answer
    lease.keep_alive()

    assert "KeyError" in found[0].message
    assert "secret" not in found[0].message


def test_a_renewal_comes_sooner_where_the_catalog_is_slow_beside_it():
    """A claim is confirmed from when its renewal began."""
    catalog = ScriptedCatalog(None, None)
    lease, clock = held(catalog)

    def asked(_lease):
        clock.now += 3_000
        return False

    catalog.is_asked_to_stop = asked
    catalog.then = lease.release

    lease.keep_alive()

    assert clock.waits == [HEARTBEAT_MS, HEARTBEAT_MS - 3_000, HEARTBEAT_MS - 3_000]


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


def away(lease, clock, *, until_ms=HOLDER_TIMEOUT_MS):
    """A catalog that cannot be reached, up to a time after now at which the lease is given back."""
    end = clock.now + until_ms

    def answer():
        if clock.now >= end:
            lease._released.set()
        return CatalogError("gone")

    return answer


def test_a_catalog_that_stays_away_ends_the_claim():
    """Before the claim may have run out and another runner may have begun: this one must not go on."""
    catalog = ScriptedCatalog()
    lease, clock = held(catalog)
    began, lost_at = clock.now, []
    catalog.then = away(lease, clock, until_ms=2 * LEASE_TIMEOUT_MS)
    clock.while_waiting = lambda: lost_at.append(clock.now - began) if lease.lost() else None

    lease.keep_alive()

    assert lost_at[0] == HOLDER_TIMEOUT_MS < LEASE_TIMEOUT_MS
    assert "could not be renewed for 20 s" in lease.lost().message
    assert "gone" in lease.lost().message
    assert not is_permanent(lease.lost())


def test_a_claim_that_nobody_took_meanwhile_is_confirmed_by_a_later_renewal():
    """The catalog was away for a minute, or the machine slept: the fence has not grown, so nobody else has run."""
    catalog = ScriptedCatalog()
    lease, clock = held(catalog)
    clock.while_waiting = lambda: setattr(clock, "now", clock.now + 60_000)
    seen = []

    def answer():
        seen.append(lease.lost())
        clock.while_waiting = lease._released.set

    catalog.then = answer
    lease.keep_alive()

    assert seen[0] is not None
    assert lease.lost() is None


class HangingCatalog(ScriptedCatalog):
    """Answers no renewal until the test ends, as a server behind a network that swallows answers."""

    def __init__(self):
        super().__init__()
        self.hangs, self.answer = Event(), Event()

    def renew(self, lease):
        self.hangs.set()
        self.answer.wait(30)


def test_a_lease_is_lost_in_time_while_its_renewal_hangs():
    """The look compares the time itself: the thread that renews is still waiting."""
    catalog = HangingCatalog()
    lease, clock = held(catalog)
    began = clock.now
    keeper = Thread(target=lease.keep_alive)
    keeper.start()
    assert catalog.hangs.wait(10)

    clock.now = began + HOLDER_TIMEOUT_MS - 1
    before = lease.lost()
    clock.now += 1
    after = lease.lost()
    lease.release()
    catalog.answer.set()
    keeper.join(10)

    assert before is None
    assert "the catalog has not answered" in after.message
    assert catalog.released == 0, "the job's end does not wait for a catalog that hangs"


@pytest.mark.parametrize("hours", [-5, 5])
def test_a_wall_clock_that_is_set_changes_nothing_about_a_lease(hours):
    """Neither does it last longer after a step back, nor is it lost by a step ahead."""
    catalog = ScriptedCatalog()
    lease, clock = held(catalog)
    began = clock.now
    clock.set_by_ms = hours * 3_600_000
    at_once = lease.lost()
    catalog.then = away(lease, clock)

    lease.keep_alive()

    assert at_once is None
    assert clock.now - began == HOLDER_TIMEOUT_MS
    assert lease.lost() is not None


def test_a_lease_lasts_from_the_start_of_a_renewal_on():
    """When the database noted it is not known: the answer took eight seconds."""
    catalog = ScriptedCatalog()
    lease, clock = held(catalog)

    def answer_late():
        clock.now += 8_000
        lease._released.set()

    catalog.then = answer_late
    lease.keep_alive()
    clock.now += HOLDER_TIMEOUT_MS - 8_000 - 1
    before = lease.lost()
    clock.now += 1

    assert before is None
    assert lease.lost() is not None


def test_the_machines_monotonic_clock_goes_on_while_it_sleeps():
    """On Linux that is not CLOCK_MONOTONIC, which stands still in a suspended machine."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        pytest.skip("only Linux has CLOCK_BOOTTIME")
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000

    assert 0 <= SystemClock().monotonic_ms() - before < 60_000


def test_a_query_is_not_started_again_under_a_lease_that_was_lost_meanwhile():
    """The wait before a restart may be longer than a claim lasts."""
    taken = PipelineLockedError("this process has lost pipeline 'job/t'")
    insert = ScriptedInsert([ScriptedQuery([QueryFailedError("broken")]), ScriptedQuery([0])])
    clock = MovedClock()
    lost: list[PipelineLockedError] = []
    clock.while_waiting = lambda: lost.append(taken)
    supervisor = Supervisor(
        insert,
        settings=SupervisorSettings(trigger=AvailableNow(), restarts=ExponentialDelay()),
        clock=clock,
        lost_lease=lambda: lost[0] if lost else None,
    )

    supervisor.start()

    assert supervisor.done.wait(10)
    assert supervisor.error is taken
    assert len(insert.started) == 1


def test_a_query_goes_on_when_its_lease_is_confirmed_again():
    """It is stopped while that is not known, and starts again from its checkpoint."""
    catalog = ScriptedCatalog()
    lease, clock = held(catalog)
    first = ScriptedQuery([0, lambda: setattr(clock, "now", clock.now + HOLDER_TIMEOUT_MS)])
    second = ScriptedQuery([1, END])
    clock.while_waiting = lambda: lease._note_renewed(clock.now)
    supervisor = Supervisor(
        ScriptedInsert([first, second]),
        settings=SupervisorSettings(trigger=AvailableNow(), restarts=ExponentialDelay()),
        clock=clock,
        lost_lease=lease.lost,
    )

    supervisor.start()

    assert supervisor.done.wait(10)
    assert supervisor.progress().status is JobStatus.FINISHED
    assert (first.stops, second.batches) == (1, [1])


def test_a_query_whose_last_batch_takes_long_stops_when_its_lease_is_lost():
    """A job that was asked to stop waits ten minutes for its batch, and no longer than its lease."""
    taken = PipelineLockedError("this process has lost pipeline 'job/t'")
    query = ScriptedQuery([0], busy=True)
    clock = MovedClock()
    lost: list[PipelineLockedError] = []
    clock.while_waiting = lambda: lost.append(taken)
    supervisor = Supervisor(
        ScriptedInsert([query]),
        settings=SupervisorSettings(trigger=AvailableNow(), restarts=ExponentialDelay()),
        clock=clock,
        lost_lease=lambda: lost[0] if lost else None,
    )
    query.steps.append(supervisor.request_stop)

    supervisor.start()

    assert supervisor.done.wait(10)
    assert (supervisor.error, query.stops) == (taken, 1)
    assert len(clock.waits) == 1


def test_several_leases_are_held_all_or_none():
    """The second is another's: the first is given back."""

    class Catalog(ScriptedCatalog):
        def acquire(self, pipeline, owner):
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
