"""How a job's query is watched, counted, restarted and stopped. The query follows a script, the clock jumps."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from threading import Event

import pytest

from penstock.catalog.errors import (
    BadRecordError,
    BrokerUnavailableError,
    PipelineLockedError,
    QueryFailedError,
    StateMismatchError,
    encode_failure,
)
from penstock.catalog.masking import keep_secret
from penstock.connector.contract import AvailableNow
from penstock.connector.spark.source.retry import Outage
from penstock.sql.jobs import supervisor
from penstock.sql.jobs.job import report_of
from penstock.sql.jobs.observation import ObservedJob
from penstock.sql.jobs.supervisor import Supervisor, SupervisorSettings
from penstock.sql.observation.pipeline import JobStatus
from penstock.sql.settings import DEFAULT_RESTART, ExponentialDelay, NoRestart
from tests.sql.run.scripted import END, IDLE, MovedClock, ScriptedInsert, ScriptedQuery

BROKER_GONE = RuntimeError(
    "[STREAM_FAILED] Query terminated with exception: "
    + encode_failure(BrokerUnavailableError("the broker localhost:9092 does not answer"))
)


class Run:
    """A supervisor over a script, run to its end."""

    def __init__(self, *starts, restarts=DEFAULT_RESTART, rows=None, **changes):
        self.insert = ScriptedInsert(starts=list(starts), rows=rows or {})
        self.clock = MovedClock()
        self.ends = 0
        settings = SupervisorSettings(
            trigger=AvailableNow(), restarts=restarts, stop_limit_ms=1_000
        )
        self.supervisor = Supervisor(
            self.insert,
            settings=settings,
            clock=self.clock,
            at_end=self._count_end,
            chance=lambda: 0.5,
            **changes,
        )

    def _count_end(self):
        self.ends += 1

    def to_end(self):
        self.supervisor.start()
        assert self.supervisor.done.wait(10), "the job did not end"
        return self.supervisor.progress()


def test_a_job_has_the_number_of_splits_up_to_which_each_has_series():
    """As its file's settings had it at the start."""
    settings = SupervisorSettings(
        trigger=AvailableNow(), restarts=DEFAULT_RESTART, split_limit=10_000
    )
    asked = Supervisor(ScriptedInsert(starts=[]), settings=settings, clock=MovedClock())

    assert asked.batches().split_limit == 10_000
    assert Run().supervisor.batches().split_limit == 100


def test_a_query_that_ends_by_itself_finishes_the_job():
    """Every batch is counted, and the end is told once."""
    run = Run(ScriptedQuery([0, 1, 2, END]), rows={0: 5, 1: 6, 2: 7})

    progress = run.to_end()

    assert (progress.status, progress.batches, progress.rows_in) == (JobStatus.FINISHED, 3, 18)
    assert progress.watermark_ms == 2_000
    assert run.ends == 1
    assert run.supervisor.error is None


def test_batches_between_two_looks_are_not_lost():
    """When the last batch is not the next one, those between are fetched from what Spark keeps."""
    progress = Run(ScriptedQuery([[0, 1, 2, 3], [4, 5], END])).to_end()

    assert (progress.batches, progress.rows_in) == (6, 60)


@pytest.mark.parametrize(
    ("steps", "batches"),
    [
        ([0, IDLE, 1, END], 2),
        ([0, IDLE, IDLE, [1, 2], END], 3),
        ([[0, 1], IDLE, 2, IDLE, END], 3),
    ],
    ids=["one", "two", "last"],
)
def test_an_event_of_a_query_that_waits_is_of_no_batch(steps, batches):
    """Spark sends it under the number that the next batch will have: that one counts all the same."""
    progress = Run(ScriptedQuery(steps)).to_end()

    assert (progress.batches, progress.rows_in) == (batches, 10 * batches)


def resting(query: ScriptedQuery, next_batch: int):
    """A step: Spark tells of a query that found nothing to read before this batch."""

    def step():
        query.events.append({"batchId": next_batch, "durationMs": {"latestOffset": 50}})

    return step


def test_a_query_that_finds_nothing_to_read_has_the_last_batch_of_its_checkpoint():
    """It counts none, and is not said to have committed one; the next batch counts as any other."""
    seen = []
    query = ScriptedQuery([])
    run = Run(query)

    def look():
        seen.append((run.supervisor.progress(), run.supervisor.batches()))

    query.steps = [resting(query, 5), look, resting(query, 5), 5, look, END]
    run.to_end()

    (rests, its), (reads, batches) = seen
    assert (rests.batch_id, rests.batches, rests.rows_in) == (4, 0, 0)
    assert (rests.lag_records, rests.watermark_ms, rests.last_commit_ms) == (0, 4_000, None)
    assert its.last is not None
    assert (its.last.batch_id, its.recent, its.counters.batches) == (4, (), 0)
    assert (reads.batch_id, reads.batches, reads.rows_in) == (5, 1, 10)
    assert [each.batch_id for each in batches.recent] == [5]


def test_a_query_without_a_batch_in_its_checkpoint_has_none():
    """Its first event is of batch 0, which has not run."""
    query = ScriptedQuery([])
    run = Run(query)
    query.steps = [resting(query, 0), resting(query, 0), END]

    progress = run.to_end()

    assert (progress.batch_id, progress.batches, progress.lag_records) == (None, 0, None)


def test_a_transient_failure_restarts_from_the_checkpoint_and_counts_on():
    """The batch that was in flight runs again under its id and counts once; the delay grows."""
    run = Run(
        ScriptedQuery([0, 1, BROKER_GONE]),
        ScriptedQuery([BROKER_GONE]),
        ScriptedQuery([1, 2, END]),
        rows={0: 10, 1: 20, 2: 30},
    )

    progress = run.to_end()

    assert (progress.status, progress.restarts) == (JobStatus.FINISHED, 2)
    assert progress.restart_reasons == {BrokerUnavailableError.code: 2}
    assert (progress.batches, progress.rows_in) == (3, 60)
    assert run.clock.waits == [1_000, 2_000]
    assert run.insert.started == [AvailableNow()] * 3


def test_a_failing_start_after_a_failure_is_a_failure_too():
    """Starting again may fail as well, and is tried again."""
    run = Run(
        ScriptedQuery([BROKER_GONE]), BrokerUnavailableError("still gone"), ScriptedQuery([END])
    )

    assert run.to_end().status is JobStatus.FINISHED
    assert run.clock.waits == [1_000, 2_000]


def test_the_first_start_fails_in_the_callers_hands():
    """What is wrong at the start is raised there; no thread is left."""
    run = Run(StateMismatchError("the checkpoint is of another query"))

    with pytest.raises(StateMismatchError, match="another query"):
        run.supervisor.start()
    assert run.supervisor.progress().status is JobStatus.FAILED
    assert run.ends == 1


def test_bad_data_fails_the_job_at_once():
    """A permanent error found in Spark's text is not tried again."""
    text = "[STREAM_FAILED] ... Traceback ...\nRuntimeError: x " + encode_failure(
        BadRecordError("topic orders, partition 3, offset 12: not JSON", hint="skip them")
    )
    run = Run(ScriptedQuery([0, RuntimeError(text)]))

    assert run.to_end().status is JobStatus.FAILED
    assert isinstance(run.supervisor.error, BadRecordError)
    assert run.supervisor.error.hint == "skip them"
    assert run.clock.waits == []


def test_after_its_last_attempt_the_job_fails_and_says_how_often_it_tried():
    """The limit of restarts is a limit."""
    run = Run(
        *(ScriptedQuery([BROKER_GONE]) for _ in range(3)), restarts=ExponentialDelay(attempts=2)
    )

    assert run.to_end().status is JobStatus.FAILED
    assert isinstance(run.supervisor.error, BrokerUnavailableError)
    assert "gave up after 2 restarts" in run.supervisor.error.hint


def test_a_clock_that_is_set_ahead_makes_no_count_new():
    """A run is as long as it was, whatever the wall clock says; one that ran for long would count from 0."""
    ahead = ScriptedQuery([])
    run = Run(
        ScriptedQuery([BROKER_GONE]), ahead, restarts=ExponentialDelay(attempts=1, jitter=0.0)
    )
    ahead.steps = [lambda: setattr(run.clock, "set_by_ms", 86_400_000), BROKER_GONE]

    progress = run.to_end()

    assert (progress.status, progress.restarts) == (JobStatus.FAILED, 1)
    assert progress.seconds == 1.0


def test_without_restarts_the_first_failure_is_the_jobs():
    """`none` means none."""
    run = Run(ScriptedQuery([RuntimeError("something")]), restarts=NoRestart())

    assert run.to_end().status is JobStatus.FAILED
    assert isinstance(run.supervisor.error, QueryFailedError)


def test_a_stop_lets_the_batch_in_flight_finish():
    """Spark's stop() comes only after the batch has committed, and that batch is counted."""
    query = ScriptedQuery([], busy=True)
    run = Run(query)
    query.steps = [0, run.supervisor.request_stop, lambda: None, lambda: None, 1]

    progress = run.to_end()

    assert (progress.status, progress.batches, query.stops) == (JobStatus.STOPPED, 2, 1)
    assert query.batches == [0, 1]


def test_a_stop_does_not_wait_where_nothing_is_in_flight():
    """A query that waits for data is stopped at once."""
    query = ScriptedQuery([])
    run = Run(query)
    query.steps = [0, run.supervisor.request_stop]

    assert run.to_end().status is JobStatus.STOPPED
    assert (query.stops, run.clock.waits) == (1, [])


def test_a_stop_now_does_not_wait_for_the_batch():
    """Asked once more, the query is stopped in the middle of its batch."""
    query = ScriptedQuery([], busy=True)
    run = Run(query)
    at_once = partial(run.supervisor.request_stop, now=True)
    query.steps = [0, run.supervisor.request_stop, at_once]

    assert run.to_end().status is JobStatus.STOPPED
    assert (query.batches, query.stops) == ([0], 1)


def test_a_stop_waits_for_a_batch_only_up_to_its_limit():
    """A batch that does not end is interrupted."""
    query = ScriptedQuery([], busy=True)
    run = Run(query)
    query.steps = [0, run.supervisor.request_stop]

    assert run.to_end().status is JobStatus.STOPPED
    assert sum(run.clock.waits) == 1_000


def test_a_stop_while_waiting_to_restart_ends_the_wait():
    """A job between two attempts stops without another one."""
    run = Run(ScriptedQuery([0, BROKER_GONE]))
    run.clock.while_waiting = run.supervisor.request_stop

    progress = run.to_end()

    assert (progress.status, progress.batches) == (JobStatus.STOPPED, 1)
    assert len(run.insert.started) == 1


def test_a_lost_lease_stops_the_query_for_good():
    """When another runner has the pipeline, this one stops and does not try again."""
    query = ScriptedQuery([0, 1])
    taken = PipelineLockedError("host b, process 7 has the pipeline")
    run = Run(query, lost_lease=lambda: taken if run.insert.started else None)

    assert run.to_end().status is JobStatus.FAILED
    assert isinstance(run.supervisor.error, PipelineLockedError)
    assert (query.stops, len(run.insert.started)) == (1, 1)


def test_insert_values_is_over_when_it_is_written():
    """A batch insert has no query and no batches."""
    run = Run(None)

    run.supervisor.write()

    assert run.supervisor.done.is_set()
    assert run.supervisor.progress().status is JobStatus.FINISHED


def test_the_sink_is_named_as_a_person_would():
    """The default catalog and database go without saying."""
    run = Run(ScriptedQuery([END]))

    assert run.to_end().sink == "totals"


def test_restarts_that_count_are_those_since_the_last_long_run():
    """Of as many as the strategy allows; all of them stay known."""
    told = []

    def look():
        progress = run.supervisor.progress()
        told.append((progress.restarts, progress.restarts_counted, progress.restart_limit))

    def run_on():
        run.clock.now += 600_000

    run = Run(
        ScriptedQuery([look, BROKER_GONE]), ScriptedQuery([look, run_on, look, BROKER_GONE]),
        ScriptedQuery([look, END]), restarts=ExponentialDelay(attempts=3),
    )  # fmt: skip
    run.to_end()

    assert told == [(0, 0, 3), (1, 1, 3), (1, 0, 3), (2, 1, 3)]


def test_what_a_query_failed_of_is_known_while_it_runs_again():
    """And how often; a job that failed for good says its last error too."""
    told = []

    def look():
        told.append(run.supervisor.progress())

    run = Run(ScriptedQuery([BROKER_GONE]), ScriptedQuery([0, look, END]))
    run.to_end()
    failing = Run(RuntimeError("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"))
    with pytest.raises(QueryFailedError):
        failing.supervisor.start()
    failed = failing.supervisor.progress()

    assert (told[0].status, told[0].restarts) == (JobStatus.RUNNING, 1)
    assert told[0].last_error == "the broker localhost:9092 does not answer"
    assert (failed.status, failed.last_error) == (JobStatus.FAILED, "Division by zero.")


def test_each_failure_is_kept_with_its_time_and_code():
    """In the checkpoint, and for who looks at the job; restarts overwrite none, and no secret is in them."""
    keep_secret("hunter2-of-a-sink")
    run = Run(
        ScriptedQuery([BROKER_GONE]), RuntimeError("log-in with hunter2-of-a-sink failed"),
        ScriptedQuery([END]),
    )  # fmt: skip
    run.to_end()
    first, second = run.insert.failures

    assert (first.at_ms, first.message) == (1_000_000, "the broker localhost:9092 does not answer")
    assert (first.code, second.code) == (BrokerUnavailableError("").code, QueryFailedError("").code)
    assert second.at_ms == 1_001_000
    assert "hunter2" not in second.message
    assert run.supervisor.batches().failures == (first, second)


@pytest.mark.parametrize("lost", [True, False], ids=["lease lost", "disk full"])
def test_a_failure_that_cannot_be_kept_is_known_all_the_same(lost):
    """The checkpoint may be another runner's by now; on a full disk nothing is written."""
    gone = PipelineLockedError("another process has it")
    run = Run(
        ScriptedQuery([0, BROKER_GONE]),
        restarts=NoRestart(),
        lost_lease=lambda: gone if lost and run.insert.started else None,
    )
    run.insert.keeps_failures = lost

    assert run.to_end().status is JobStatus.FAILED
    assert run.insert.failures == []
    assert len(run.supervisor.batches().failures) == 1


def test_a_failure_that_once_could_not_be_kept_is_kept_with_the_next():
    """As on a disk that was full for a while."""
    run = Run(ScriptedQuery([BROKER_GONE]), ScriptedQuery([BROKER_GONE]), ScriptedQuery([END]))
    run.insert.keeps_failures = False
    run.clock.while_waiting = lambda: setattr(run.insert, "keeps_failures", True)
    run.to_end()

    assert run.insert.failures == list(run.supervisor.batches().failures)
    assert len(run.insert.failures) == 2


def test_a_store_that_does_not_answer_holds_up_no_restart(monkeypatch):
    """It may be what the query failed of; and the time that it takes is none that the query ran."""
    monkeypatch.setattr(supervisor, "RECORD_S", 0.01)
    answers = Event()
    run = Run(ScriptedQuery([BROKER_GONE]), ScriptedQuery([END]))
    run.insert.while_recording = lambda: answers.wait(60)
    try:
        last = run.to_end()
    finally:
        answers.set()

    assert (last.status, last.restarts) == (JobStatus.FINISHED, 1)


def test_the_time_that_a_failure_takes_to_be_kept_is_none_of_the_run():
    """A run of ten minutes would have made the count of restarts new."""
    run = Run(
        *(ScriptedQuery([BROKER_GONE]) for _ in range(3)),
        restarts=replace(DEFAULT_RESTART, attempts=1),
    )
    run.insert.while_recording = lambda: setattr(run.clock, "now", run.clock.now + 600_000)

    assert run.to_end().status is JobStatus.FAILED
    assert len(run.insert.started) == 2


def test_nothing_is_behind_while_nobody_knows(caplog):
    """A broker that is away is in the progress and in the log, and so is its return."""
    outage = Outage(what="Kafka at b:9092", since_ms=1_000_000, reason="Connection refused")
    told = []

    def look():
        told.append(run.supervisor.progress())
        run.clock.now += 1_000

    run = Run(ScriptedQuery([0, look, look, look, END]))
    run.insert.outages = [None, outage, outage, None]
    run.to_end()

    assert [(one.outage, one.lag_records) for one in told] == [
        (None, 0),
        (outage, None),
        (outage, None),
    ]
    assert caplog.messages == [
        "totals: waiting for Kafka at b:9092 (Connection refused)",
        "totals: Kafka at b:9092 answers again, after 3 s",
    ]


def test_nothing_is_behind_while_a_query_waits_to_start_again():
    """What it knew is of before its failure."""
    run = Run(ScriptedQuery([0, BROKER_GONE]), ScriptedQuery([1, END]))
    told = []
    run.clock.while_waiting = lambda: told.append(run.supervisor.progress())
    last = run.to_end()

    assert [(one.status, one.lag_records) for one in told] == [(JobStatus.RESTARTING, None)]
    assert last.lag_records == 0


def test_no_secret_is_in_what_others_see_of_a_job():
    """The catalog is read by more people than the runner's log."""
    progress = Run(ScriptedQuery([END])).to_end()
    keep_secret("hunter2-hunter2")
    wrong = replace(
        progress, status=JobStatus.FAILED, last_error="log-in with hunter2-hunter2 failed"
    )
    told = report_of(ObservedJob(progress=wrong), 0)

    assert told.status == "failed"
    assert told.last_error == "log-in with ****** failed"
    assert told.sentence == "failed: log-in with ****** failed"


def test_a_batch_that_runs_is_seen_until_it_is_over():
    """Spark sends no event while a batch hangs, its status says that one runs."""
    seen = []
    query = ScriptedQuery([], busy=True)
    run = Run(query)

    def look():
        seen.append(run.supervisor.batches().running_since_ms)

    query.steps += [look, look, look, look, look, 3, look, END]
    run.to_end()

    assert seen[0] is None
    assert run.clock.now in seen
    assert run.supervisor.batches().running_since_ms is None
    assert run.supervisor.batches().counters.batches == 1
