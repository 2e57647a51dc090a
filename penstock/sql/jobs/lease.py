"""Hold the lease of a pipeline while its job runs, and the lease of a table for one bounded INSERT at a time.

A bounded INSERT has no checkpoint and no pipeline: without the table's lease nothing would separate two of them, or an
interrupted one from a running one. Streaming INSERTs hold the lease of their pipeline and ignore this one.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from penstock.catalog.definitions.leases import (
    HEARTBEAT_MS,
    HOLDER_TIMEOUT_MS,
    LEASE_TIMEOUT_MS,
    SENTENCE_MS,
    Lease,
    repeats,
    this_process,
    unconfirmed,
)
from penstock.catalog.errors import (
    CatalogError,
    PenstockError,
    PipelineLockedError,
    StateMismatchError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.catalog.definitions.contract import Leases
    from penstock.catalog.definitions.leases import JobReport
    from penstock.sql.clock import Clock
    from penstock.sql.jobs.startable_query import StartableQuery


log = logging.getLogger(__name__)

RETRY_MS = 1_000
"""The delay after a failed renewal before the next one."""


class PipelineLease:
    """A lease that is kept alive until `release`. Safe to use from any thread.

    `renewed_ms` is the monotonic time at which the claim was asked for: its timeout counts from there.
    """

    def __init__(self, leases: Leases, lease: Lease, clock: Clock, *, renewed_ms: int) -> None:
        self._leases = leases
        self._lease = lease
        self._clock = clock
        self._lock = Lock()
        self._released = Event()
        self._renewed_ms = renewed_ms
        self._lost: PenstockError | None = None
        self._failure: PenstockError | None = None
        self._stop: Callable[[], None] = lambda: None
        self._current_report: Callable[[], JobReport | None] = lambda: None
        self._stored_report: JobReport | None = None
        self._stored_ms = 0

    def lost(self) -> PenstockError | None:
        """Return why this process must not work on the pipeline; None while it may. Never waits for the catalog.

        The time is compared here, since the renewing thread may hang. PipelineLockedError is permanent; after
        QueryFailedError a renewal may still find that no other process has taken the lease.
        """
        with self._lock:
            if self._lost is not None:
                return self._lost
            silent_ms = self._clock.monotonic_ms() - self._renewed_ms
            return (
                unconfirmed(self._lease, self._failure) if silent_ms >= HOLDER_TIMEOUT_MS else None
            )

    def expires_ms(self) -> int:
        """Return when this process stops its work unless the lease is renewed before (epoch ms)."""
        with self._lock:
            silent_ms = self._clock.monotonic_ms() - self._renewed_ms
        return self._clock.now_ms() + HOLDER_TIMEOUT_MS - silent_ms

    def check_repeated(self) -> None:
        """Raise StateMismatchError where the same statement was cut off: whether it was committed is unknown here.

        It is refused once: the next process finds the claim released.
        """
        before = self._lease.taken_over
        if before is None or not repeats(self._lease):
            return
        since = datetime.fromtimestamp(before.since_ms / 1000, UTC).strftime(
            "%Y-%m-%d %H:%M:%S UTC"
        )
        raise StateMismatchError(
            f"this statement was cut off before: process {before.owner.pid} on host {before.owner.host} began it at "
            f"{since} and did not end it; its rows may be in the table already",
            hint="nothing was written now. Look at the table, and run the statement again where the rows are missing: "
            "it is refused once",
        )

    def on_stop_request(self, stop: Callable[[], None]) -> None:
        """Register `stop`, which the renewing thread calls each time that the catalog requests the end."""
        with self._lock:
            self._stop = stop

    def on_report(self, report: Callable[[], JobReport]) -> None:
        """Store what `report` returns in the catalog, at each renewal where it has changed and before the release."""
        with self._lock:
            self._current_report = report

    def keep_alive(self) -> None:
        """Renew until the release, or until another has the lease, on the calling thread.

        An unreachable store is retried; `lost` says meanwhile whether the lease still holds.
        """
        pause_ms = HEARTBEAT_MS
        while not self._clock.wait(self._released, pause_ms):
            began_ms = self._clock.monotonic_ms()
            try:
                self._leases.renew(self._lease)
            except PipelineLockedError as error:
                self._lose(error)
                return
            except Exception as error:  # a thread that ends would let the lease run out
                log.debug("no renewal of %s", self._lease.pipeline, exc_info=True)
                pause_ms = RETRY_MS
                self._note_failure(error)
                continue
            self._note_renewed(began_ms)
            self._beside(self._pass_on_stop)
            self._beside(self._report)
            # what came beside may have taken seconds, which the next renewal does not have
            took_ms = self._clock.monotonic_ms() - began_ms
            pause_ms = max(HEARTBEAT_MS - took_ms, RETRY_MS)

    def release(self) -> None:
        """Release the lease; a second call does nothing. One that may be another's expires by itself."""
        if self._released.is_set():
            return
        self._released.set()
        if self.lost() is not None:
            return  # nor does the job's end wait for a catalog that does not answer
        self._beside(self._report)
        try:
            self._leases.release(self._lease)
        except PenstockError as error:
            log.warning("the lease of %s runs out by itself: %s", self._lease.pipeline, error)

    def _note_renewed(self, began_ms: int) -> None:
        """Count from the start of the renewal: the time of the database's commit is unknown here."""
        with self._lock:
            self._renewed_ms, self._failure = began_ms, None

    def _note_failure(self, error: Exception) -> None:
        if not isinstance(error, PenstockError):
            # not its text, in which there may be values
            error = CatalogError(f"the renewal failed of {type(error).__name__}")
        with self._lock:
            first, self._failure = self._failure is None, error
        if first:
            log.warning("the lease of %s could not be renewed: %s", self._lease.pipeline, error)

    def _beside(self, step: Callable[[], None]) -> None:
        """Run an action beside the renewal: if it fails, the lease is still renewed, and the action
        is retried after that.
        """
        try:
            step()
        except Exception as error:
            why = error if isinstance(error, PenstockError) else type(error).__name__
            log.debug("beside the lease of %s: %s", self._lease.pipeline, why, exc_info=True)

    def _pass_on_stop(self) -> None:
        if self._leases.is_asked_to_stop(self._lease):
            with self._lock:
                stop = self._stop
            stop()

    def _report(self) -> None:
        with self._lock:
            report = self._current_report
        current = report()
        if current is None or not self._is_news(current):
            return
        # where it fails, others see an older state until the next heartbeat
        self._leases.report_job(self._lease, current)
        self._stored_report, self._stored_ms = current, self._clock.monotonic_ms()

    def _is_news(self, report: JobReport) -> bool:
        """Return whether a report is to be stored: it has changed, or its sentence has and the stored one is old."""
        stored = self._stored_report
        if stored is None or report != stored:
            return True
        is_old = self._clock.monotonic_ms() - self._stored_ms >= SENTENCE_MS
        return is_old and report.sentence != stored.sentence

    def _lose(self, error: PenstockError) -> None:
        with self._lock:
            self._lost = error


def hold_lease(
    leases: Leases, pipeline: str, clock: Clock, *, statement: str = ""
) -> PipelineLease:
    """Claim a pipeline and renew the claim. Raises PipelineLockedError, which names the runner that has it.

    `statement` is the digest of a statement that runs under it.
    """
    asked_ms = clock.monotonic_ms()
    lease = leases.acquire(pipeline, this_process(statement))
    held = PipelineLease(leases, lease, clock, renewed_ms=asked_ms)
    Thread(target=held.keep_alive, name=f"penstock lease {pipeline}", daemon=True).start()
    return held


def hold_leases(leases: Leases, pipelines: Iterable[str], clock: Clock) -> dict[str, PipelineLease]:
    """Claim several pipelines, atomically. Raises PipelineLockedError, which names the runner that has one."""
    held: dict[str, PipelineLease] = {}
    try:
        for pipeline in pipelines:
            held[pipeline] = hold_lease(leases, pipeline, clock)
    except BaseException:
        for lease in held.values():
            lease.release()
        raise
    return held


WAIT_MS = 10_000
"""How long a statement waits for the previous one, which usually takes a second."""

LOOK_MS = 100

LONGEST_NAME = 512
"""Of a lease, in the catalog's tables."""


def write_once(query: StartableQuery, leases: Leases, clock: Clock) -> None:
    """Prepare the target of INSERT .. VALUES or INSERT OVERWRITE and write its rows, under the table's lease.

    Raises PipelineLockedError, StateMismatchError for a statement that was cut off before, and what the query raises.
    """
    with table_lease(leases, query.sink, clock, statement=query.statement_digest) as held:
        query.prepare()
        held.check_repeated()
        query.write(held.lost)


@contextmanager
def table_lease(
    leases: Leases, table: str, clock: Clock, *, statement: str = ""
) -> Iterator[PipelineLease]:
    """Hold the lease of a table; waits a short time for another statement's end. Raises PipelineLockedError."""
    held = _acquired(leases, table, clock, statement)
    try:
        yield held
    finally:
        held.release()


def lease_name(table: str) -> str:
    """Name the lease of a table, as SHOW JOBS lists it."""
    name = f"INSERT INTO {table}"
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: LONGEST_NAME - 17]} {digest}"


def _acquired(leases: Leases, table: str, clock: Clock, statement: str) -> PipelineLease:
    name = lease_name(table)
    for _ in range(WAIT_MS // LOOK_MS):
        try:
            return hold_lease(leases, name, clock, statement=statement)
        except PipelineLockedError:
            clock.wait(Event(), LOOK_MS)
    try:
        return hold_lease(leases, name, clock, statement=statement)
    except PipelineLockedError as error:
        raise _written_by_another(leases, table) from error


def _written_by_another(leases: Leases, table: str) -> PipelineLockedError:
    owners = [c.lease.owner for c in leases.claims() if c.lease.pipeline == lease_name(table)]
    by = f" of process {owners[0].pid} on host {owners[0].host}" if owners else ""
    return PipelineLockedError(
        f"another INSERT{by} writes into table {table}, and was not done after {WAIT_MS // 1000} s",
        hint="nothing was written; run this one again when that is done. Should that machine be gone, its claim ends "
        f"{LEASE_TIMEOUT_MS // 1000} s after its last sign of life",
    )
