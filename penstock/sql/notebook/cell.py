"""Run the statements of a cell: all are checked first, then run in order.

The jobs of its INSERTs are drawn until they end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from penstock.catalog.errors import PenstockError
from penstock.sql.check.script_check import CheckedScript, check_scripts
from penstock.sql.clock import Clock, SystemClock
from penstock.sql.errors.render import ErrorFormat, Severity, show_error
from penstock.sql.notebook.live import follow, heads_of
from penstock.sql.notebook.options import CellOptions
from penstock.sql.notebook.screen import Screen
from penstock.sql.notebook.views import Head, JobsView, Note, TableView
from penstock.sql.runner.plan import plan_scripts
from penstock.sql.runner.run import ScriptRun
from penstock.sql.runner.run_mode import RunMode
from penstock.sql.runner.select import collect_rows
from penstock.sql.runner.summary import StatementResult, StatementStatus
from penstock.sql.script.files import ScriptFile
from penstock.sql.statements.statement import Select

if TYPE_CHECKING:
    from penstock.sql.jobs.job import Job
    from penstock.sql.notebook.screen import OutputArea
    from penstock.sql.session.session import Session


REDRAW_MS = 500


class JobsPanel:
    """Jobs on display. `add` is called by the thread that runs the cell."""

    def __init__(self, screen: Screen, clock: Clock) -> None:
        self._screen = screen
        self._clock = clock
        self._lock = Lock()
        self._jobs: list[Job] = []
        self._output: OutputArea | None = None
        self._thread: Thread | None = None

    def add(self, job: Job) -> None:
        """Show a job from now on."""
        with self._lock:
            self._jobs.append(job)
        if self._output is None:
            self._output = self._screen(self._view())
            self._thread = Thread(target=self._draw, name="penstock cell", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Wait until the jobs have ended and are drawn so."""
        if self._thread is not None:
            self._thread.join()

    def _draw(self) -> None:
        assert self._output is not None, "made before the thread"
        never = Event()
        while True:
            # asked before the view is made, so that the last view is of their end
            ended = all(job.wait(0) for job in self._known())
            self._output.update(self._view(), last=ended)
            if ended:
                return
            self._clock.wait(never, REDRAW_MS)

    def _known(self) -> tuple[Job, ...]:
        with self._lock:
            return tuple(self._jobs)

    def _view(self) -> JobsView:
        jobs = self._known()
        errors = [job.exception for job in jobs]
        return JobsView(
            jobs=tuple(job.observed for job in jobs),
            now_ms=self._clock.now_ms(),
            errors=tuple(show_error(e, ErrorFormat.FULL) for e in errors if e is not None),
        )


NAME = "cell"
"""What places of errors name as the file, and the pipeline of INSERTs that have no `pipeline.name`."""

CellResult = Any
"""What a statement leaves for Python: the frame of a SELECT, the job of an INSERT, None of others."""


def run_cell(text: str, session: Session, options: CellOptions, screen: Screen) -> CellResult:
    """Run a cell and show its results; an error is shown with its place, and ends the cell.

    Returns the frame of the last SELECT or the job of the last INSERT, whichever is later; None where there is none.
    """
    cell = Cell(session, options, screen, SystemClock())
    try:
        cell.run(text)
    except PenstockError as error:
        screen(Note(text=show_error(error, ErrorFormat.FULL), is_error=True))
    except KeyboardInterrupt:
        screen(Note(text="interrupted; jobs of this cell finish their batch and stop"))
    return cell.value


class Cell:
    """One run of a cell. `value` is what its statements have left so far."""

    def __init__(
        self, session: Session, options: CellOptions, screen: Screen, clock: Clock
    ) -> None:
        self._session = session
        self._options = options
        self._screen = screen
        self._clock = clock
        self._panel = JobsPanel(screen, clock)
        self.value: CellResult = None

    def run(self, text: str) -> None:
        """Check all statements, then run them. Raises InputErrors before anything is started, RunError later."""
        for script in self._checked(text):
            for one in script.statements:
                if isinstance(one.statement, Select):
                    self._select(one.statement)
                else:
                    self._statement(replace(script, statements=(one,)))

    def job_started(self, job: Job) -> None:
        """Show an INSERT's job (`Listener`)."""
        self.value = job
        self._panel.add(job)

    def rows_came(self, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        """Nothing: SELECTs are shown by the cell itself (`Listener`)."""

    def statement_ended(self, result: StatementResult) -> None:
        """Show the rows of a SHOW, or that a statement is done (`Listener`); a job shows itself."""
        if result.status is not StatementStatus.FINISHED:
            return
        if result.rows is not None:
            heads = tuple(Head(name=name) for name in result.rows.columns)
            self._screen(TableView(heads=heads, rows=result.rows.rows, more=result.rows.truncated))
        elif result.batches is None:
            done = " ".join(filter(None, (result.kind, result.subject)))
            self._screen(Note(text=f"{done}: done"))

    def _checked(self, text: str) -> tuple[CheckedScript, ...]:
        session = self._session
        project = session.project
        checked = check_scripts(
            (ScriptFile(name=NAME, text=text),),
            session.context,
            variables={**project.variables, **self._options.variables},
            env=project.environment,
            folders=project.folders,
        )
        for warning in (one for script in checked for one in script.warnings):
            text = show_error(warning, ErrorFormat.FULL, severity=Severity.WARNING)
            self._screen(Note(text=text.rstrip()))
        return plan_scripts(checked, session.spark, session.context)

    def _statement(self, script: CheckedScript) -> None:
        session = self._session
        mode = RunMode.AVAILABLE_NOW if self._options.available_now else RunMode.BY_TABLES
        run = ScriptRun(session.context, mode=mode, listener=self, clock=self._clock)
        try:
            run.run((script,), wait=False)
        finally:
            session.take_over(run.jobs)
        if run.error is not None:
            raise run.error

    def _select(self, statement: Select) -> None:
        selected = self._session.select(statement)
        if selected.live is not None:
            follow(selected.live, self._options, self._screen, self._clock)
            # the frame of a maintained query is that of its feeds, which is no answer
            self.value = None if selected.live.query.maintained is not None else selected.frame
            return
        found = collect_rows(
            selected.frame,
            limit=self._options.limit,
            cancelled=lambda: False,
            clock=self._clock,
        )
        assert found is not None, "nobody cancels it"
        self._screen(
            TableView(
                heads=heads_of(selected.frame),
                rows=found.rows,
                more=found.truncated,
                limit=self._options.limit,
            )
        )
        self.value = selected.frame
