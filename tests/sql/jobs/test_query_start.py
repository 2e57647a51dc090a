"""The streaming queries of a process start one after the other."""

from __future__ import annotations

from threading import Barrier, Event, Lock, Thread

import pytest

from penstock.catalog.errors import PipelineLockedError
from penstock.connector.contract import AvailableNow
from penstock.sql.errors.spark import SlowStartError, translate
from penstock.sql.jobs.query_start import ATTEMPTS, PAUSE_MS, StartQueue
from penstock.sql.jobs.supervisor import Supervisor, SupervisorSettings
from penstock.sql.observation.pipeline import JobStatus
from penstock.sql.settings import ExponentialDelay, FixedDelay, with_jitter
from tests.sql.run.scripted import END, MovedClock, ScriptedInsert, ScriptedQuery

LATE = (
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
    "Timed out while waiting for the Python worker to connect back"
)


class StartingQuery:
    """A query whose sources are there after some looks at it, or whose Python process comes too late."""

    def __init__(self, looks=1, *, error=None, ready=None):
        self.looks = looks
        self.error = error
        self.ready = ready or (lambda: None)

    @property
    def isActive(self):  # noqa: N802  as pyspark spells it
        return self.error is None

    @property
    def status(self):
        self.looks -= 1
        if self.looks < 0:
            self.ready()
            return {"message": "Getting offsets from a source"}
        return {"message": "Initializing sources"}

    def exception(self):
        return None if self.error is None else RuntimeError(self.error)


def test_queries_start_one_after_the_other():
    """The next one begins when the Python processes of the one before are there, not when Spark says it started."""
    queue, lock, at_once, most = StartQueue(), Lock(), [0], [0]
    together = Barrier(5)

    def starting():
        with lock:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
        return StartingQuery(looks=2, ready=ready)

    def ready():
        with lock:
            at_once[0] -= 1

    def start():
        together.wait(10)
        queue.start(starting)

    threads = [Thread(target=start) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert (most, at_once) == ([1], [0])


def test_a_query_whose_python_process_comes_too_late_is_tried_again():
    """After pauses that grow and differ by chance, and not for ever."""
    clock, made = MovedClock(), [StartingQuery(error=LATE), StartingQuery(error=LATE)]
    queue = StartQueue(clock, chance=lambda: 0.5)
    last = StartingQuery(looks=0)
    queries = [*made, last]

    started = queue.start(lambda: queries.pop(0))

    assert started is last
    assert clock.waits == [round(PAUSE_MS * 1.25), round(2 * PAUSE_MS * 1.25)]


def test_a_machine_short_of_cpu_is_named_with_the_queries_that_start():
    """Not Spark's words, of a worker that does not connect back."""
    queue, attempts = StartQueue(MovedClock()), []
    others, held = Event(), Event()

    def hold():
        held.set()
        others.wait(30)
        return StartingQuery(looks=0)

    first = Thread(target=lambda: queue.start(hold))
    first.start()
    assert held.wait(10)

    def late():
        attempts.append(1)
        return StartingQuery(error=LATE)

    found = []

    def second():
        with pytest.raises(SlowStartError) as caught:
            queue.start(late)
        found.append(caught.value)

    thread = Thread(target=second)
    thread.start()
    while queue._count(0) < 2:
        Event().wait(0.01)
    others.set()
    thread.join(30)
    first.join(30)

    (error,) = found
    assert error.message.startswith("the machine is short of CPU: a Python worker of Spark did not")
    assert f"in {ATTEMPTS} attempts" in error.message
    assert "more CPU" in error.hint
    assert len(attempts) == ATTEMPTS


def test_another_failure_is_the_querys():
    """Whoever watches it finds out, and decides."""
    failed = StartingQuery(error="[STREAM_FAILED] Division by zero")

    assert StartQueue(MovedClock()).start(lambda: failed) is failed


@pytest.mark.parametrize(
    "text", [LATE, "org.apache.spark.SparkException: Python worker failed to connect back."]
)
def test_a_python_worker_that_is_late_means_a_machine_short_of_cpu(text):
    """Wherever Spark says so; it passes."""
    error = translate(RuntimeError(text))

    assert isinstance(error, SlowStartError)
    assert error.message.startswith("the machine is short of CPU")
    assert not error.permanent


def test_what_failed_together_does_not_start_together():
    """Delays differ by chance, within Flink's factor; the next one grows without it."""
    strategy = ExponentialDelay()

    assert [with_jitter(strategy, 1_000, chance) for chance in (0.0, 0.5, 1.0)] == [
        900,
        1_000,
        1_100,
    ]
    assert with_jitter(FixedDelay(), 1_000, 0.0) == 1_000


def test_a_supervised_query_waits_for_its_turn(monkeypatch):
    """Starts and restarts alike."""
    turns = []

    def start_in_turn(start, **_):
        turns.append(1)
        return start()

    monkeypatch.setattr("penstock.sql.jobs.supervisor.start_in_turn", start_in_turn)
    supervisor = Supervisor(
        ScriptedInsert([ScriptedQuery([RuntimeError("broken")]), ScriptedQuery([0, END])]),
        settings=SupervisorSettings(trigger=AvailableNow(), restarts=ExponentialDelay()),
        clock=MovedClock(),
    )

    supervisor.start()

    assert supervisor.done.wait(10)
    assert len(turns) == 2


@pytest.fixture
def queue(monkeypatch):
    """The process's queue, in which another query starts that hangs until the test ends."""
    made, starting, end = StartQueue(), Event(), Event()

    def hang():
        starting.set()
        end.wait(60)
        return StartingQuery(looks=0)

    monkeypatch.setattr("penstock.sql.jobs.query_start._QUEUE", made)
    thread = Thread(target=lambda: made.start(hang))
    thread.start()
    assert starting.wait(10)
    yield made
    end.set()
    thread.join(10)


def supervised(starts, lost_lease):
    return Supervisor(
        ScriptedInsert(starts),
        settings=SupervisorSettings(trigger=AvailableNow(), restarts=ExponentialDelay()),
        clock=MovedClock(),
        lost_lease=lost_lease,
    )


def test_a_query_that_loses_its_lease_while_it_waits_for_its_turn_is_not_started(queue):
    """Another process may run the pipeline by then; nor does it wait for a start that hangs."""
    taken, asked = PipelineLockedError("run by process 7"), []

    def lost_lease():
        asked.append(1)
        return taken if len(asked) > 1 else None

    query = ScriptedQuery([END])
    supervisor, found = supervised([query], lost_lease), []

    def start():
        with pytest.raises(PipelineLockedError) as caught:
            supervisor.start()
        found.append(caught.value)

    thread = Thread(target=start)
    thread.start()
    thread.join(10)

    assert found == [taken]
    assert supervisor._query.starts == [query]
    assert supervisor.progress().status is JobStatus.FAILED


def test_a_lease_that_is_lost_when_the_turn_comes_is_seen():
    """It is asked for inside the turn, as nothing says how long the wait was."""
    started = []

    def check():
        raise PipelineLockedError("run by process 7")

    with pytest.raises(PipelineLockedError):
        StartQueue(MovedClock()).start(lambda: started.append(1), check=check)

    assert started == []


def test_a_query_that_waits_for_its_turn_can_be_stopped(queue):
    """It has not started, and does not; the job ends as stopped."""
    query = ScriptedQuery([END])
    supervisor = supervised([query], lambda: None)
    thread = Thread(target=supervisor.start)
    thread.start()
    while queue._count(0) < 2:
        Event().wait(0.01)
    supervisor.request_stop()
    thread.join(10)

    assert supervisor.done.is_set()
    assert supervisor._query.starts == [query]
    assert (supervisor.progress().status, supervisor.error) == (JobStatus.STOPPED, None)
