"""Keep the streaming query of an INSERT or a statement set running.

Watches it, counts its batches, restarts it, logs outages. One thread per job. Owns no lease and no restart
strategy (`sql/settings.py`); talks to Spark only through the query that `StartableQuery.start` returns.
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, replace
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from penstock.catalog.errors import PenstockError
from penstock.catalog.model.identifier import short_name
from penstock.connector.contract import Trigger
from penstock.connector.failpoints import reach
from penstock.connector.options.bad_records import bad_record_settings
from penstock.connector.options.watermark import on_future
from penstock.sql.checkpoint.failure_record import FailureRecord, failure_record, last_failures
from penstock.sql.errors.spark import is_permanent, translate
from penstock.sql.jobs.batch_counters import BatchCounters, JobBatches, LeftOutRecords
from penstock.sql.jobs.batch_history import BatchHistory
from penstock.sql.jobs.progress import (
    JobProgress,
    JobState,
    Totals,
    batch_events,
    resting_event,
    rows_out_per_second,
    rows_per_second,
)
from penstock.sql.jobs.query_start import StoppedBeforeStartError, start_in_turn
from penstock.sql.observation.pipeline import JobStatus
from penstock.sql.settings import (
    MOST_SPLITS,
    STOP_LIMIT_MS,
    Failures,
    RestartStrategy,
    after_failure,
    counted_failures,
    restart_limit,
    with_jitter,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.connector.spark.source.retry import Outage
    from penstock.sql.clock import Clock
    from penstock.sql.jobs.startable_query import StartableQuery
    from penstock.sql.observation.batch_metrics import BatchMetrics
    from penstock.sql.plan.analysed import TableScan


log = logging.getLogger(__name__)

LOOK_MS = 1_000


class OutageWatch:
    """What the sources of the query into `sink` wait for. One thread refreshes it, any other may read `current`."""

    def __init__(self, find: Callable[[], Outage | None], clock: Clock, sink: str) -> None:
        self._find = find
        self._clock = clock
        self._sink = sink
        self._looked_ms: int | None = None
        self.current: Outage | None = None

    def look(self) -> None:
        """Refresh the answer, unless it is recent."""
        now_ms = self._clock.monotonic_ms()
        if self._looked_ms is not None and now_ms - self._looked_ms < LOOK_MS:
            return
        self._looked_ms = now_ms
        before, self.current = self.current, self._find()
        if before is None and self.current is not None:
            log.warning("%s: waiting for %s", self._sink, self.current)
        elif before is not None and self.current is None:
            seconds = max(self._clock.now_ms() - before.since_ms, 0) / 1000
            log.warning("%s: %s answers again, after %.0f s", self._sink, before.what, seconds)


POLL_S = 0.1  # how long a look at the query waits for its end: below a micro-batch's floor of some 130 ms
RECORD_S = 5.0  # what a failure may take to be kept before the job goes on without

STOP_POLL_MS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorSettings:
    """How a query is to be run and kept running."""

    trigger: Trigger
    restarts: RestartStrategy
    stop_limit_ms: int = STOP_LIMIT_MS
    split_limit: int = MOST_SPLITS


class Supervisor:
    """Runs one query until it ends, is stopped, or fails permanently. `progress` may be read from any thread.

    `lost_lease` is asked at every check, and while a start waits for its turn; an error that it returns stops the
    query at once, and is a failure like any other: transient or permanent. `at_end` is called once, on the
    supervisor's thread, before `done` is set.
    """

    def __init__(
        self,
        query: StartableQuery,
        *,
        settings: SupervisorSettings,
        clock: Clock,
        lost_lease: Callable[[], PenstockError | None] = lambda: None,
        at_end: Callable[[], None] = lambda: None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._query = query
        self._chance = chance
        self._sink = short_name(query.sink)
        self._settings = settings
        self._clock = clock
        self._lost_lease = lost_lease
        self._state = JobState(
            clock, name=query.pipeline, sink=self._sink, activity="starting", at_end=at_end
        )
        self._lock = Lock()
        self._left_out = tuple(_left_out(leaf) for leaf in query.leaves)
        self._stop = Event()
        self._stop_now = Event()
        self._totals = Totals()
        self._counters = BatchCounters()
        self._batch_since_ms: int | None = None
        self._history = BatchHistory()
        self._restarts: dict[str, int] = {}
        self._last_error: str | None = None
        self._last_failures: tuple[FailureRecord, ...] = ()
        self._recording: Thread | None = None
        self._failures = Failures()
        self._began_ms = clock.monotonic_ms()
        self._outages = OutageWatch(query.outage, clock, self._sink)
        self._seen_batch: int | None = None
        self._resumed: BatchMetrics | None = None
        self.done = self._state.done

    @property
    def error(self) -> PenstockError | None:
        """The error of the job, once it has failed."""
        return self._state.error

    def progress(self) -> JobProgress:
        """Return the job's progress."""
        state = self._state.progress()
        with self._lock:
            totals, restarts, last_error = self._totals, dict(self._restarts), self._last_error
            last = totals.last or self._resumed
            failures = self._counted(runs=state.status is JobStatus.RUNNING)
        outage = None if state.status.final else self._outages.current
        known = last is not None and outage is None and state.status is not JobStatus.RESTARTING
        now_ms, moved = self._clock.now_ms(), Totals() if state.status.final else totals
        return replace(
            state,
            batches=totals.batches,
            batch_id=last.batch_id if last else None,
            rows_in=totals.rows_in,
            rows_out=totals.rows_out,
            rows_dropped=totals.rows_dropped,
            bad_records=totals.bad_records,
            records_lost=totals.records_lost,
            rows_per_second=rows_per_second(moved, now_ms),
            rows_out_per_second=rows_out_per_second(moved, now_ms),
            watermark_ms=last.watermark_ms if last else None,
            timeless=last.timeless if last else (),
            late_splits=last.late_splits if last else (),
            lag_records=last.lag_records if last and known else None,
            last_commit_ms=totals.last.committed_at_ms if totals.last else None,
            restarts=sum(restarts.values()),
            restarts_counted=failures.count,
            restart_limit=restart_limit(self._settings.restarts),
            restart_reasons=restarts,
            traits=self._query.traits,
            last_error=last_error,
            outage=outage,
        )

    def _counted(self, *, runs: bool) -> Failures:
        """Return what counts of the failures so far. A run that goes on counts by its length."""
        ran_ms = self._clock.monotonic_ms() - self._began_ms if runs else 0
        return counted_failures(self._settings.restarts, self._failures, ran_ms=ran_ms)

    def batches(self) -> JobBatches:
        """Return the job's batches in this process."""
        with self._lock:
            totals, counters, history = self._totals, self._counters, self._history
            failures = self._last_failures
            last = totals.last or self._resumed
        return JobBatches(
            sources=tuple(short_name(name) for name in self._query.sources),
            connectors=tuple(leaf.table.connector for leaf in self._query.leaves),
            counters=counters,
            last=last,
            recent=totals.recent,
            running_since_ms=None if self.done.is_set() else self._batch_since_ms,
            alignments=tuple(map(_alignment, self._query.leaves)),
            left_out=self._left_out,
            history=history,
            commits=self._query.commits.sinks(),
            offset_commits=self._query.offset_commits(),
            dead_letters=self._query.commits.dead_letters(),
            plan=self._query.plan,
            checkpoint=self._query.checkpoint,
            split_limit=self._settings.split_limit,
            failures=failures,
        )

    def start(self) -> None:
        """Start the query, here, and the thread that watches it. Raises what starting the query raises."""
        try:
            query = self._start_query()
        except StoppedBeforeStartError:
            self._state.end(JobStatus.STOPPED, None)
            return
        except Exception as error:
            failure = self._failed(error)
            self._state.end(JobStatus.FAILED, failure)
            raise failure from error
        Thread(target=self._run, args=(query,), name=f"penstock {self._sink}", daemon=True).start()

    def write(self) -> None:
        """Write the rows of INSERT .. VALUES, here; the job has ended when this returns."""
        try:
            self._query.write(self._lost_lease)
        except Exception as error:
            failure = self._failed(error)
            self._state.end(JobStatus.FAILED, failure)
            raise failure from error
        self._state.end(JobStatus.FINISHED, None)

    def request_stop(self, *, now: bool = False) -> None:
        """Request the end after the batch in flight, or without waiting for it. Returns immediately."""
        if now:
            self._stop_now.set()
        self._stop.set()

    # --- the watching thread ---------------------------------------------------------------------------

    def _run(self, query: StreamingQuery) -> None:
        try:
            self._keep_running(query)
        except Exception as error:  # a bug here must end the job visibly, not leave it "running"
            log.debug("the supervisor failed", exc_info=True)
            self._state.end(JobStatus.FAILED, self._failed(error))

    def _failed(self, error: Exception) -> PenstockError:
        """Translate the query's error, and keep it."""
        failure = translate(error)
        found = failure_record(self._clock.now_ms(), failure.code, failure.message)
        with self._lock:
            self._last_error = failure.message
            self._last_failures = last_failures(self._last_failures, [found])
        if self._query.is_stream and (self._recording is None or not self._recording.is_alive()):
            self._recording = Thread(target=self._record, name="penstock failures", daemon=True)
            self._recording.start()
            self._recording.join(RECORD_S)
        return failure

    def _record(self) -> None:
        """Keep the failures in the checkpoint, unless that may be another runner's by now.

        Its store may be what does not answer: a thread of its own waits, neither a restart nor a stop.
        """
        try:
            if self._lost_lease() is None:
                self._query.record_failures(self._last_failures)
        except Exception:  # a full disk, or no Spark any more, may be what it failed of
            log.debug("failures of %s are not kept", self._sink, exc_info=True)

    def _keep_running(self, query: StreamingQuery | None) -> None:
        while True:
            with self._lock:
                self._began_ms = self._clock.monotonic_ms()
            try:
                if query is None:
                    query = self._start_query()
                self._watch(query)
            except StoppedBeforeStartError:
                self._state.end(JobStatus.STOPPED, None)
                return
            except Exception as error:  # whatever Spark throws is translated
                ran_ms = self._clock.monotonic_ms() - self._began_ms
                failure = self._failed(error)
                log.debug("query of %s failed", self._sink, exc_info=True)
            else:
                self._state.end(
                    JobStatus.STOPPED if self._stop.is_set() else JobStatus.FINISHED, None
                )
                return
            if is_permanent(failure):
                self._state.end(JobStatus.FAILED, failure)
                return
            if self._stop.is_set():
                self._state.end(JobStatus.STOPPED, None)
                return
            decision = after_failure(self._settings.restarts, self._failures, ran_ms=ran_ms)
            if decision is None:
                self._state.end(JobStatus.FAILED, _gave_up(failure, sum(self._restarts.values())))
                return
            query = None
            with self._lock:
                self._failures = decision
            delay_ms = with_jitter(self._settings.restarts, decision.delay_ms, self._chance())
            if not self._wait_to_restart(failure, delay_ms):
                self._state.end(JobStatus.STOPPED, None)
                return

    def _start_query(self) -> StreamingQuery:
        self._seen_batch = self._batch_since_ms = None
        reach("starting")
        query = start_in_turn(
            lambda: self._query.start(self._settings.trigger, self._lost_lease),
            check=self._check_lease,
            stop=self._stop,
        )
        self._state.set(JobStatus.RUNNING, "starting")
        return query

    def _wait_to_restart(self, failure: PenstockError, delay_ms: int) -> bool:
        """Wait out the delay. False when the job is to stop instead of starting again."""
        log.warning(
            "%s: failed, starting again from its checkpoint in %.1f s: %s",
            self._sink,
            delay_ms / 1000,
            failure.message,
        )
        self._state.set(
            JobStatus.RESTARTING, f"restarting in {delay_ms / 1000:.0f} s: {failure.message}"
        )
        if self._clock.wait(self._stop, delay_ms):
            return False
        with self._lock:
            self._restarts[failure.code] = self._restarts.get(failure.code, 0) + 1
        return True

    def _watch(self, query: StreamingQuery) -> None:
        """Follow the query to its end, or stop it. Raises its error."""
        while True:
            ended = _ended(query, POLL_S)
            self._collect(query)
            self._outages.look()
            if ended:
                return
            self._check_lease(query)
            if self._stop.is_set():
                self._finish_batch(query)
                return
            status = query.status
            self._note_running(bool(status["isTriggerActive"] and status["isDataAvailable"]))
            self._state.set(JobStatus.RUNNING, str(status["message"]))

    def _note_running(self, runs: bool) -> None:
        """Note since when a batch runs; `_collect` forgets that with each batch that is over."""
        if not runs:
            self._batch_since_ms = None
        elif self._batch_since_ms is None:
            self._batch_since_ms = self._clock.now_ms()

    def _check_lease(self, query: StreamingQuery | None = None) -> None:
        """Stop the query where another runner may have the pipeline by now. Raises the reason."""
        lost = self._lost_lease()
        if lost is not None:
            if query is not None:
                query.stop()
            raise lost

    def _finish_batch(self, query: StreamingQuery) -> None:
        """Stop after the batch in flight has committed: Spark's own stop() interrupts it."""
        self._state.set(JobStatus.RUNNING, "stopping after the batch in flight")
        counted = self._counters.batches
        deadline_ms = self._clock.monotonic_ms() + self._settings.stop_limit_ms
        while not self._stop_now.is_set() and self._clock.monotonic_ms() < deadline_ms:
            if _ended(query, 0):
                break
            status = query.status
            if (
                not (status["isTriggerActive"] and status["isDataAvailable"])
                or self._counters.batches != counted
            ):
                break
            self._clock.wait(self._stop_now, STOP_POLL_MS)
            self._check_lease(query)
            self._collect(query)
        query.stop()
        self._collect(query)

    def _collect(self, query: StreamingQuery) -> None:
        """Count the batches committed since the last call, each once."""
        for event in batch_events(query, after=self._seen_batch):
            metrics = self._query.read_metrics(event)
            self._seen_batch = metrics.batch_id
            self._batch_since_ms = None
            with self._lock:
                self._totals = self._totals.add(metrics)
                self._counters = self._counters.add(metrics)
                self._history = self._history.add(metrics)
        if self._seen_batch is None and (resting := resting_event(query)) is not None:
            self._resume(resting)

    def _resume(self, event: Mapping[str, Any]) -> None:
        """Note where a query stands that found nothing to read at its start: at the last batch of its checkpoint."""
        self._seen_batch = int(event["batchId"]) - 1
        if self._seen_batch < 0:
            return
        resumed = self._query.read_metrics({**event, "batchId": self._seen_batch})
        with self._lock:
            self._resumed = resumed


def _left_out(leaf: TableScan) -> LeftOutRecords:
    return LeftOutRecords(
        undecodable=bad_record_settings(leaf.table).policy, future=on_future(leaf.table)
    )


def _alignment(leaf: TableScan) -> tuple[str, int] | None:
    return (
        None if leaf.group is None or leaf.max_drift_ms is None else (leaf.group, leaf.max_drift_ms)
    )


def _ended(query: StreamingQuery, timeout_s: float) -> bool:
    """Wait for the query's end, at most `timeout_s`. Raises its error."""
    if timeout_s == 0:
        return not query.isActive
    return bool(query.awaitTermination(timeout_s))  # type: ignore[arg-type]  # fractions work; the hint says int


def _gave_up(failure: PenstockError, restarts: int) -> PenstockError:
    if not restarts:
        return failure
    note = f"gave up after {restarts} restart{'s' if restarts > 1 else ''}"
    failure.hint = f"{failure.hint}; {note}" if failure.hint else note
    return failure
