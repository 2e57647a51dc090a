"""Processes of the operating system: their lines, their end, and what becomes of them without their parent."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import pytest

from penstock.sql.clock import SystemClock
from penstock.sql.processes import child as child_module
from penstock.sql.processes.child import JOIN_MS, ChildProcess, ProcessPlan, child_environment
from penstock.sql.settings import DEFAULT_RESTART
from tests.integration.pipeline import wait_until

END_S = 30


@dataclass
class Collected:
    """Lines by stream; `came` is set with the first."""

    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)
    came: Event = field(default_factory=Event)

    def printed(self, line: str) -> None:
        """Keep it."""
        self.out.append(line)
        self.came.set()

    def logged(self, line: str) -> None:
        """Keep it."""
        self.err.append(line)
        self.came.set()


def plan(program: str, folder: Path, grace_s: float = 5.0) -> ProcessPlan:
    """A process that runs a program of Python."""
    return ProcessPlan(
        name="a.sql",
        command=(sys.executable, "-c", program),
        folder=folder,
        environment=child_environment(),
        pipelines=(),
        restarts=DEFAULT_RESTART,
        grace_s=grace_s,
    )


def ended(child: ChildProcess) -> int:
    """Wait for the end; gives the status."""
    wait_until(lambda: child.status() is not None, seconds=END_S, what="the process ends")
    child.close()
    status = child.status()
    assert status is not None
    return status


def test_lines_of_both_streams_are_read_to_the_last(tmp_path: Path) -> None:
    """Also what is no UTF-8, and a line without an end."""
    lines = Collected()
    program = (
        "import os, sys; print(os.getcwd()); sys.stderr.write('one\\n');"
        "sys.stderr.flush(); os.write(2, b'\\xff two'); sys.exit(7)"
    )

    assert ended(ChildProcess(plan(program, tmp_path), lines)) == 7
    assert lines.out == [str(tmp_path)]
    assert lines.err == ["one", "\ufffd two"]


def test_the_end_does_not_wait_long_for_who_holds_the_pipes(tmp_path: Path) -> None:
    """A grandchild has both open: the supervisor looks at no other process meanwhile."""
    lines = Collected()
    program = (
        "import subprocess, sys; program = 'import signal; signal.pause()';"
        "other = subprocess.Popen([sys.executable, '-c', program]); print(other.pid)"
    )
    child = ChildProcess(plan(program, tmp_path), lines)
    assert lines.came.wait(END_S)
    wait_until(lambda: child.status() is not None, seconds=END_S, what="the process ends")
    clock = SystemClock()
    before_ms = clock.monotonic_ms()

    child.close()

    took_ms = clock.monotonic_ms() - before_ms
    os.kill(int(lines.out[0]), signal.SIGKILL)
    assert JOIN_MS <= took_ms < 2 * JOIN_MS


def test_a_request_to_stop_is_sigterm_and_a_kill_is_reported_as_one(tmp_path: Path) -> None:
    """The status is the negative signal, as `subprocess` has it."""
    program = "import signal, sys; print('up'); signal.pause()"
    asked, killed = Collected(), Collected()
    first = ChildProcess(plan(program, tmp_path), asked)
    second = ChildProcess(plan(program, tmp_path), killed)
    assert asked.came.wait(END_S)
    assert killed.came.wait(END_S)

    first.request_stop()
    second.kill()

    assert ended(first) == -signal.SIGTERM
    assert ended(second) == -signal.SIGKILL


def test_a_terminal_s_interrupt_does_not_reach_it(tmp_path: Path) -> None:
    """It is in a session of its own."""
    lines = Collected()
    child = ChildProcess(plan("import os; print(os.getsid(0))", tmp_path), lines)

    assert ended(child) == 0
    assert lines.out == [str(child.pid)]


class Refusing(Collected):
    """Nobody reads what it passes on."""

    def printed(self, line: str) -> None:
        """Fail as a closed pipe does."""
        raise BrokenPipeError(line)


def test_a_process_does_not_wait_for_who_reads_its_lines(tmp_path: Path) -> None:
    """More lines than a pipe holds are read though none can be passed on."""
    program = "[print('x' * 99) for _ in range(5_000)]"

    assert ended(ChildProcess(plan(program, tmp_path), Refusing())) == 0


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that a child has started."""
    found: list[subprocess.Popen[bytes]] = []

    class Kept(subprocess.Popen[bytes]):
        def __init__(self, *arguments: object, **more: object) -> None:
            super().__init__(*arguments, **more)  # type: ignore[call-overload]
            found.append(self)

    monkeypatch.setattr(child_module.subprocess, "Popen", Kept)
    return found


WAITS = "import signal; signal.pause()"


def test_a_process_whose_watchdog_does_not_start_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[subprocess.Popen[bytes]]
) -> None:
    """It would run on without anybody who knows of it; its pipes are closed, too."""
    monkeypatch.setattr(child_module, "_watchdog_command", lambda: ["/no/such/program"])

    with pytest.raises(FileNotFoundError):
        ChildProcess(plan(WAITS, tmp_path), Collected())

    (process,) = started
    assert process.returncode == -signal.SIGKILL
    assert process.stdout is not None
    assert process.stdout.closed


def test_a_process_whose_lines_nobody_can_read_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[subprocess.Popen[bytes]]
) -> None:
    """Where the system has no thread left, with the error that it has for a process."""

    class Refused:
        def __init__(self, **_: object) -> None:
            pass

        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(child_module, "Thread", Refused)

    with pytest.raises(OSError, match="can't start new thread") as caught:
        ChildProcess(plan(WAITS, tmp_path), Collected())

    assert caught.value.errno == errno.EAGAIN
    assert [process.returncode for process in started] == [-signal.SIGKILL] * 2


PARENT = """
import os, sys, threading
sys.path[:0] = {path!r}
from pathlib import Path
from tests.sql.processes.test_child import Collected, ChildProcess, plan
lines = Collected()
child = ChildProcess(plan({program!r}, Path('.'), grace_s=0.5), lines)
assert lines.came.wait(30)
print(child.pid, flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("heeds", [True, False], ids=["heeds SIGTERM", "hangs"])
def test_it_ends_with_a_parent_that_is_killed(tmp_path: Path, heeds: bool) -> None:
    """By SIGTERM, and by SIGKILL after the time that its plan gives it."""
    ignore = "" if heeds else "signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    program = f"import signal; {ignore} print('up', flush=True); signal.pause()"
    text = PARENT.format(path=sys.path, program=program)
    parent = subprocess.Popen(
        [sys.executable, "-c", text], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())

    parent.kill()
    parent.wait()
    parent.stdout.close()

    wait_until(lambda: not _runs(pid), seconds=END_S, what="the child ends with its parent")


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    return state != "Z"


def test_options_of_the_supervisor_are_not_its_processes_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A port cannot be served twice."""
    monkeypatch.setenv("PENSTOCK_METRICS_PORT", "9090")
    monkeypatch.setenv("PENSTOCK_TARGET", "prod")

    found = child_environment()

    assert "PENSTOCK_METRICS_PORT" not in found
    assert found["PENSTOCK_TARGET"] == "prod"
