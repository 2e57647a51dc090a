"""Processes that a test ends as it likes, and a clock that moves at each wait."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from penstock.sql.processes.child import Lines, ProcessPlan
from penstock.sql.processes.reports import MARK_VARIABLE
from penstock.sql.processes.supervisor import ProcessOutput, ProjectSupervisor
from penstock.sql.runner.run_mode import StopRequest
from penstock.sql.settings import ExponentialDelay, RestartStrategy

STRATEGY = ExponentialDelay(attempts=2, jitter=0.0)


class SteppingClock:
    """A clock whose time passes in `wait` alone; each wait calls the next step of the test.

    The wall clock is `ahead_ms` ahead of the monotonic one: a test may set it.
    """

    def __init__(self, steps: dict[int, Callable[[], None]]) -> None:
        self.ms = 0
        self.ahead_ms = 0
        self._steps = dict(steps)

    def now_ms(self) -> int:
        """Return the time that the wall clock shows."""
        return self.ms + self.ahead_ms

    def monotonic_ms(self) -> int:
        """Return the time."""
        return self.ms

    def wait(self, event: Event, timeout_ms: int) -> bool:
        """Let the time pass, and run the steps whose time has come."""
        self.ms += timeout_ms
        assert self.ms < 10_000_000, "the supervisor does not end"
        for at_ms in sorted(each for each in self._steps if each <= self.ms):
            self._steps.pop(at_ms)()
        return event.is_set()


@dataclass
class ScriptedChild:
    """A process that ends when the test says so."""

    plan: ProcessPlan
    lines: Lines
    pid: int
    ended: int | None = None
    stops: int = 0
    killed: bool = False
    closed: bool = False
    stops_by_itself: bool = True

    @property
    def pids(self) -> tuple[int, ...]:
        """Its id."""
        return (self.pid,)

    def status(self) -> int | None:
        """Return the status, once there is one."""
        return self.ended

    def request_stop(self) -> None:
        """Count the request; the process ends, unless it hangs."""
        self.stops += 1
        if self.stops_by_itself:
            self.ended = 0

    def kill(self) -> None:
        """End it."""
        self.killed, self.ended = True, -9

    def close(self) -> None:
        """Note it."""
        self.closed = True

    def report(self, name: str, **fields: object) -> None:
        """Report a pipeline."""
        document = {"time": "", "name": name, "status": "running", "mark": self.plan.mark, **fields}
        self.lines.logged(json.dumps(document))


@dataclass
class Project:
    """A supervisor over scripted processes, with what they log."""

    names: tuple[str, ...]
    restarts: RestartStrategy = STRATEGY
    most_starting: int = 8
    stop: StopRequest = field(default_factory=StopRequest)
    children: list[ScriptedChild] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    steps: dict[int, Callable[[], None]] = field(default_factory=dict)
    disk_full: bool = False
    refuse: dict[str, OSError] = field(default_factory=dict)
    after: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clock = SteppingClock({})
        self.supervisor = ProjectSupervisor(
            [self._plan(name) for name in self.names],
            launch=self._launch,
            output=ProcessOutput(
                printed=lambda name, line: self.printed.append(f"{name} | {line}"),
                logged=self._logged,
            ),
            clock=self.clock,
            stop=self.stop,
            stop_limit_ms=60_000,
            most_starting=self.most_starting,
            chance=lambda: 0.5,
        )

    def run(self, steps: dict[int, Callable[[], None]]) -> None:
        """Run until all have ended; `steps` happen at their times."""
        self.clock._steps = dict(steps)
        self.supervisor.run()

    def children_of(self, name: str) -> list[ScriptedChild]:
        """Return the processes of a file, in the order of their starts."""
        return [child for child in self.children if child.plan.name == name]

    def end(self, name: str, status: int) -> Callable[[], None]:
        """Make a step in which the running process of a file ends."""

        def step() -> None:
            self.children_of(name)[-1].ended = status

        return step

    def request_stop(self) -> None:
        """Request the end, once more."""
        self.stop.count += 1

    def _logged(self, name: str, line: str) -> None:
        if self.disk_full:
            raise OSError(28, "No space left on device")
        self.log.append(f"{name} | {line}")

    def _launch(self, plan: ProcessPlan, lines: Lines) -> ScriptedChild:
        if plan.name in self.refuse:
            raise self.refuse[plan.name]
        child = ScriptedChild(plan=plan, lines=lines, pid=100 + len(self.children))
        self.children.append(child)
        return child

    def _plan(self, name: str) -> ProcessPlan:
        return ProcessPlan(
            name=name,
            command=("run", name),
            folder=Path(),
            environment={MARK_VARIABLE: f"mark of {name}"},
            pipelines=(f"shop/{Path(name).stem}",),
            restarts=self.restarts,
            grace_s=1.0,
            after=self.after.get(name, ()),
        )
