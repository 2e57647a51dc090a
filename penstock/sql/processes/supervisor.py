"""Keep the processes of a project's pipelines running: start, restart, stop. One failure stops no other.

The decisions are `process_end.py`'s; this performs them. `run` works on one thread; what it knows may be read from any.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Event, Lock
from typing import TYPE_CHECKING

from penstock.sql.checkpoint.failure_record import FailureRecord, failure_record, last_failures
from penstock.sql.clock import Clock, duration_text
from penstock.sql.errors.exit_status import ExitStatus
from penstock.sql.observation.pipeline import JobStatus
from penstock.sql.processes.child import Child, Launch, ProcessPlan
from penstock.sql.processes.orphans import OrphanReaper, is_first
from penstock.sql.processes.process_end import (
    Ended,
    ProcessState,
    StartsAgain,
    after_end,
    after_refusal,
    after_stop,
)
from penstock.sql.processes.reports import MetricsReport, PageReport, PipelineReport, read_report
from penstock.sql.settings import Failures, counted_failures, restart_limit, with_jitter
from penstock.sql.ui.documents.fields import Document
from penstock.sql.ui.documents.trend import aged_trend

if TYPE_CHECKING:
    from penstock.sql.runner.run_mode import StopRequest


LOOK_MS = 200
"""Time between two looks at the processes."""

PASS_ON_MS = 15_000
"""What a process gets beyond the limit of its batch, and then again after the second request to stop."""

START_MS = 30_000
"""How long a process counts as one that starts: one that waits for its broker holds up no other for longer."""

SPEED_MS = 10_000
"""How long a speed holds without another report: there is one for each batch, at most a second later."""

_ERROR = ("error[", "error:")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessView:
    """A process at an instant. `documents` are the last ones of its pipelines, by name.

    `exit_status` is that of the last process, once it has ended. Of its `restarts` those that are `restarts_counted`
    may be `restart_limit` many, None where that is not known. `failures` are the last ends of the process that were
    failures.
    """

    name: str
    state: ProcessState
    pipelines: tuple[str, ...]
    pid: int | None = None
    restarts: int = 0
    restarts_counted: int = 0
    restart_limit: int | None = None
    reason: str | None = None
    exit_status: int | None = None
    starts_again_ms: int | None = None
    metrics_url: str | None = None
    page_url: str | None = None
    documents: Mapping[str, Document] = field(default_factory=dict)
    failures: tuple[FailureRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOutput:
    """Where lines go, each with the name of its process: what is printed, and what is logged."""

    printed: Callable[[str, str], None]
    logged: Callable[[str, str], None]


class _Reported:
    """What a process has reported since it was started (`Lines`). Safe to use from any thread."""

    def __init__(self, plan: ProcessPlan, output: ProcessOutput, clock: Clock) -> None:
        self._name = plan.name
        self._mark = plan.mark
        self._output = output
        self._clock = clock
        self._lock = Lock()
        self._documents: dict[str, tuple[Document, int]] = {}
        self._metrics_url: str | None = None
        self._page_url: str | None = None
        self._error: str | None = None

    def printed(self, line: str) -> None:
        self._output.printed(self._name, line)

    def logged(self, line: str) -> None:
        report = read_report(line, self._mark)
        with self._lock:
            match report:
                case PipelineReport():
                    self._documents[report.name] = (report.document, self._clock.monotonic_ms())
                case MetricsReport():
                    self._metrics_url = report.url
                case PageReport():
                    self._page_url = report.url
                case None if line.lstrip().startswith(_ERROR):
                    self._error = line.strip()
        if report is None:
            self._output.logged(self._name, line)

    @property
    def error(self) -> str | None:
        """The last error that it logged."""
        with self._lock:
            return self._error

    @property
    def runs(self) -> bool:
        """Whether a pipeline had not ended when it was reported last."""
        with self._lock:
            statuses = [str(document["status"]) for document, _ in self._documents.values()]
        return not all(JobStatus(status).final for status in statuses)

    def add_to(self, view: ProcessView) -> ProcessView:
        """Add what the process has reported; one that has reported a pipeline runs."""
        with self._lock:
            reported, url, page_url = dict(self._documents), self._metrics_url, self._page_url
        now_ms = self._clock.monotonic_ms()
        own = {name: _at(document, now_ms - at_ms) for name, (document, at_ms) in reported.items()}
        runs = bool(own) and view.state is ProcessState.STARTING
        state = ProcessState.RUNNING if runs else view.state
        documents = {**view.documents, **own}
        return replace(view, state=state, documents=documents, metrics_url=url, page_url=page_url)


def _at(document: Document, age_ms: int) -> Document:
    """Return a report as of now: without another one no batch has come, so that nothing is read."""
    if age_ms < SPEED_MS:
        return document
    stopped = {speed: 0.0 for speed in _SPEEDS if speed in document}
    return document | stopped | aged_trend(document, age_ms)


_OF_PIPELINES = frozenset({ExitStatus.FAILED, ExitStatus.WRONG_INPUT})
"""The exit statuses by which a process tells that a pipeline has failed."""

_SPEEDS = ("rows_per_second", "rows_per_second_out")


def _starting_again(documents: Mapping[str, Document]) -> dict[str, Document]:
    """Return the documents of a process that ended and starts again: what had failed in it starts again, too."""
    return {
        name: one | {"status": "restarting"} if one.get("status") == JobStatus.FAILED else one
        for name, one in documents.items()
    }


class _Supervised:
    """A process and those that follow it. Changed by the supervisor's thread alone.

    `began_ms` and `due_ms`, when the next one starts, are times of the monotonic clock, which decisions go by: the
    wall clock may be set, by an hour as where a machine boots without its battery. Views have the time of the wall.
    """

    def __init__(self, plan: ProcessPlan, output: ProcessOutput, clock: Clock) -> None:
        self.plan = plan
        self._clock = clock
        self.view = ProcessView(
            name=plan.name, state=ProcessState.WAITING, pipelines=plan.pipelines
        )
        self.reported = _Reported(plan, output, clock)
        self.child: Child | None = None
        self.failures = Failures()
        self.began_ms = 0
        self.due_ms: int | None = None
        self.stops_sent = 0
        self.killed = False

    def current(self) -> ProcessView:
        """Return what is known now; from any thread."""
        due_ms = self.due_ms
        left_ms = None if due_ms is None else due_ms - self._clock.monotonic_ms()
        starts_again_ms = None if left_ms is None else self._clock.now_ms() + left_ms
        strategy, ran_ms = self.plan.restarts, self._clock.monotonic_ms() - self.began_ms
        ran_ms = 0 if self.child is None else ran_ms
        return replace(
            self.reported.add_to(self.view),
            starts_again_ms=starts_again_ms,
            restarts_counted=counted_failures(strategy, self.failures, ran_ms=ran_ms).count,
            restart_limit=restart_limit(strategy),
        )


class ProjectSupervisor:
    """Runs processes until each has ended for good. `run` is called once.

    `stop_limit_ms` is how long a batch in flight may take once the end is requested; `stop` counts the requests.
    `most_starting` start at a time, as each start takes a core for seconds.
    """

    def __init__(
        self,
        plans: Sequence[ProcessPlan],
        *,
        launch: Launch,
        output: ProcessOutput,
        clock: Clock,
        stop: StopRequest,
        stop_limit_ms: int,
        most_starting: int,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._launch = launch
        self._output = output
        self._clock = clock
        self._stop = stop
        self._stop_limit_ms = stop_limit_ms
        self._most_starting = most_starting
        self._chance = chance
        self._never = Event()
        self._orphans = OrphanReaper(clock)
        self._stop_since_ms: int | None = None
        self._processes = [_Supervised(plan, output, clock) for plan in plans]

    def processes(self) -> list[ProcessView]:
        """Return each process as it is now, in the order of their files; from any thread."""
        return [each.current() for each in self._processes]

    def run(self) -> None:
        """Start all, and return once none runs or will run. The processes are ended where this is interrupted."""
        try:
            while not all(each.view.state.final for each in self._processes):
                self._look()
                self._clock.wait(self._never, LOOK_MS)
        finally:
            for each in self._processes:
                if each.child is not None:
                    each.child.kill()
                    each.child.close()

    def _look(self) -> None:
        if self._stop.count and self._stop_since_ms is None:
            self._stop_since_ms = self._clock.monotonic_ms()
        for each in self._processes:
            try:
                if each.child is not None:
                    self._look_at(each, each.child)
                elif not each.view.state.final:
                    self._start_or_stop(each)
            except Exception as error:  # noqa: BLE001  a bug in what is decided of one must not end the others
                self._give_up(each, error)
        if is_first():
            self._orphans.reap(self._own_pids())

    def _give_up(self, each: _Supervised, error: Exception) -> None:
        """End a process of which nothing can be decided."""
        child, each.child, each.due_ms = each.child, None, None
        reason = f"its supervisor failed: {type(error).__name__}: {error}"
        each.view = replace(
            each.view, state=ProcessState.FAILED, reason=reason, pid=None, documents={}
        )
        each.reported = _Reported(each.plan, self._output, self._clock)
        self._log(each.plan.name, f"failed for good: {reason}")
        if child is not None:
            with suppress(Exception):
                child.kill()
                child.close()

    def _log(self, name: str, line: str) -> None:
        """Log a line. A full disk, or a reader that is gone, must not end what runs."""
        with suppress(OSError):
            self._output.logged(name, line)

    def _own_pids(self) -> set[int]:
        children = (each.child for each in self._processes if each.child is not None)
        return {pid for child in children for pid in child.pids}

    def _start_or_stop(self, each: _Supervised) -> None:
        """Start a process whose time has come; one that is not to run any more is stopped."""
        due_ms = each.due_ms
        if self._stop.count:
            each.due_ms = None
            each.view = replace(each.view, state=ProcessState.STOPPED)
        elif due_ms is not None:
            if self._clock.monotonic_ms() >= due_ms and self._starting() < self._most_starting:
                self._start(each)
        elif not self._waits(each) and self._starting() < self._most_starting:
            self._start(each)

    def _starting(self) -> int:
        """Count the processes that were started and have not reported yet."""
        since_ms = self._clock.monotonic_ms() - START_MS
        return sum(
            1
            for each in self._processes
            if each.child is not None
            and each.began_ms > since_ms
            and each.current().state is ProcessState.STARTING
        )

    def _waits(self, each: _Supervised) -> bool:
        """Return whether a process that this one comes after has not run yet."""
        return any(
            other.plan.name in each.plan.after
            and not other.view.state.final
            and other.current().state is not ProcessState.RUNNING
            for other in self._processes
        )

    def _start(self, each: _Supervised) -> None:
        again = each.due_ms is not None
        restarts = each.view.restarts + int(again)
        # what the one before reported stays until this one reports
        before = each.reported.add_to(each.view).documents if again else {}
        each.reported = _Reported(each.plan, self._output, self._clock)
        each.began_ms = self._clock.monotonic_ms()
        try:
            each.child = self._launch(each.plan, each.reported)
        except OSError as error:
            refused = replace(each.view, restarts=restarts, exit_status=None, documents=before)
            decision = after_refusal(error, restarts=each.plan.restarts, before=each.failures)
            self._decided(each, refused, decision)
            return
        each.due_ms = None
        each.view = replace(
            each.view,
            state=ProcessState.STARTING,
            pid=each.child.pid,
            restarts=restarts,
            reason=each.view.reason if again else None,
            exit_status=None,
            documents={name: one | {"status": "restarting"} for name, one in before.items()},
        )

    def _look_at(self, each: _Supervised, child: Child) -> None:
        status = child.status()
        if status is None:
            self._pass_on_stop(each, child)
            return
        child.close()
        each.child = None
        self._ended(each, status)

    def _ended(self, each: _Supervised, status: int) -> None:
        view = replace(
            each.reported.add_to(each.view),
            pid=None,
            exit_status=status,
            metrics_url=None,
            page_url=None,
        )
        error = each.reported.error
        decision = (
            after_stop(status, left_running=each.reported.runs, killed=each.killed, error=error)
            if each.stops_sent
            else after_end(
                status,
                restarts=each.plan.restarts,
                before=each.failures,
                ran_ms=self._clock.monotonic_ms() - each.began_ms,
                error=error,
            )
        )
        self._decided(each, view, decision)

    def _decided(self, each: _Supervised, view: ProcessView, decision: Ended | StartsAgain) -> None:
        view = replace(view, failures=self._failures(view, decision))
        match decision:
            case Ended(state=state, reason=reason):
                each.due_ms = None
                each.view = replace(view, state=state, reason=reason)
                if state is ProcessState.FAILED:
                    self._log(each.plan.name, f"failed for good: {reason}")
            case StartsAgain():
                each.failures = decision.failures
                delay_ms = with_jitter(
                    each.plan.restarts, decision.failures.delay_ms, self._chance()
                )
                each.due_ms = self._clock.monotonic_ms() + delay_ms
                each.view = replace(
                    view,
                    state=ProcessState.RESTARTING,
                    reason=decision.reason,
                    documents=_starting_again(view.documents),
                )
                # the view has it all; what has failed is not to be seen again
                each.reported = _Reported(each.plan, self._output, self._clock)
                again = f"{decision.reason}; starts again in {duration_text(delay_ms)}"
                self._log(each.plan.name, again)

    def _failures(
        self, view: ProcessView, decision: Ended | StartsAgain
    ) -> tuple[FailureRecord, ...]:
        """Return the failures of a process with its end, where it died: of others its pipelines keep their own."""
        if decision.reason is None or view.exit_status in _OF_PIPELINES:
            return view.failures
        found = failure_record(self._clock.now_ms(), None, decision.reason)
        return last_failures(view.failures, [found])

    def _pass_on_stop(self, each: _Supervised, child: Child) -> None:
        """Request the end as often as it was requested here, and once more, then kill, where it takes too long."""
        if self._stop_since_ms is None:
            return
        over_ms = self._clock.monotonic_ms() - self._stop_since_ms - self._stop_limit_ms
        wanted = min(self._stop.count, 2)
        if over_ms > PASS_ON_MS:
            wanted = 2
        if each.stops_sent < wanted:
            each.stops_sent += 1
            child.request_stop()
        elif over_ms > 2 * PASS_ON_MS:
            self._log(each.plan.name, "did not stop in time: it is killed")
            each.killed = True
            child.kill()
