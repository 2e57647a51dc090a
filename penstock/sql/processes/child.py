"""A pipeline's process: started in a session of its own, its lines read by threads, ended with its parent.

A watchdog beside it (`connector/jvm/parent_watchdog.py`) stops it where this process has died: no pipeline outlives
its supervisor.
"""

from __future__ import annotations

import errno
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import IO, Protocol

from penstock.connector.jvm import parent_watchdog
from penstock.connector.jvm.interrupts import interrupts_deferred
from penstock.sql.clock import SystemClock
from penstock.sql.processes.reports import MARK_VARIABLE
from penstock.sql.settings import RestartStrategy

JOIN_MS = 2_000
"""How long the end waits for the last lines of both streams: a grandchild may hold the pipes open.

The supervisor looks at no other process meanwhile. What comes later is logged all the same.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPlan:
    """A process to run: `name` is its file's, or `project` for all; `pipelines` those that are known before it runs.

    `grace_s` is what the process gets to stop in once its supervisor has died. It starts once those named by `after`
    run, or have ended.
    """

    name: str
    command: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str] = field(repr=False)
    pipelines: tuple[str, ...]
    restarts: RestartStrategy
    grace_s: float
    after: tuple[str, ...] = ()

    @property
    def mark(self) -> str | None:
        """What its reports have, which nobody else knows who writes onto the same stderr."""
        return self.environment.get(MARK_VARIABLE)


class Lines(Protocol):
    """Takes the lines of a process, on threads of their own."""

    def printed(self, line: str) -> None:
        """A line of its stdout."""

    def logged(self, line: str) -> None:
        """A line of its stderr."""


class Child(Protocol):
    """A process that was started."""

    @property
    def pid(self) -> int:
        """The id of the process."""

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of all processes that are waited for here."""

    def status(self) -> int | None:
        """Return the exit status; None while it runs."""

    def request_stop(self) -> None:
        """Request the end after the batch in flight; the second time at once."""

    def kill(self) -> None:
        """End it at once."""

    def close(self) -> None:
        """Read its last lines, and end what belongs to it. Called once it has ended."""


Launch = Callable[[ProcessPlan, Lines], Child]
"""Starts a process. Raises OSError."""


class ChildProcess:
    """A process of the operating system (`Child`)."""

    def __init__(self, plan: ProcessPlan, lines: Lines) -> None:
        with interrupts_deferred():
            self._process = subprocess.Popen(
                plan.command,
                cwd=plan.folder,
                env=dict(plan.environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # a terminal's Ctrl-C is for the supervisor, which passes it on
            )
            try:
                self._watchdog = subprocess.Popen(
                    [*_watchdog_command(), str(self._process.pid), str(plan.grace_s)],
                    stdin=subprocess.PIPE,
                    start_new_session=True,
                )
            except BaseException:
                # nobody would know of it, nor end it with this process
                _end(self._process)
                raise
        try:
            self._readers = _readers(self._process, plan.name, lines)
        except RuntimeError as error:  # Python's for a thread that the system refuses
            _end(self._watchdog)
            _end(self._process)
            raise OSError(errno.EAGAIN, str(error)) from error

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of the process and its watchdog."""
        return (self._process.pid, self._watchdog.pid)

    def status(self) -> int | None:
        """Return the exit status; None while it runs."""
        return self._process.poll()

    def request_stop(self) -> None:
        """Request the end after the batch in flight; the second time at once."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once; its Java process ends with it."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Read its last lines, and end the watchdog, which would stop another process of the same id."""
        self._watchdog.kill()
        self._watchdog.wait()
        if self._watchdog.stdin is not None:
            with suppress(OSError):
                self._watchdog.stdin.close()
        clock = SystemClock()
        until_ms = clock.monotonic_ms() + JOIN_MS
        for reader in self._readers:
            reader.join(max(until_ms - clock.monotonic_ms(), 0) / 1000)


def _watchdog_command() -> Sequence[str]:
    return (sys.executable, "-I", "-S", str(parent_watchdog.__file__))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process at once, and close its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _readers(process: subprocess.Popen[bytes], name: str, lines: Lines) -> list[Thread]:
    """Read both streams. Raises RuntimeError where there is no thread for it."""
    assert process.stdout is not None, "a pipe"
    assert process.stderr is not None, "a pipe"
    return [
        _reading(process.stdout, lines.printed, f"penstock out {name}"),
        _reading(process.stderr, lines.logged, f"penstock log {name}"),
    ]


def _reading(stream: IO[bytes], take: Callable[[str], None], name: str) -> Thread:
    """Read a stream to its end on a thread, line by line."""

    def read() -> None:
        with stream:
            for line in stream:
                # whoever read our own output may be gone; a process must not wait for that
                with suppress(OSError):
                    take(line.decode("utf-8", "replace").rstrip("\r\n"))

    thread = Thread(target=read, name=name, daemon=True)
    thread.start()
    return thread


PRIVATE_OPTIONS = (
    "PENSTOCK_FORMAT",
    "PENSTOCK_PROGRESS",
    "PENSTOCK_PROGRESS_INTERVAL",
    "PENSTOCK_METRICS_PORT",
    "PENSTOCK_METRICS_HOST",
    "PENSTOCK_RUN_UI_PORT",
    "PENSTOCK_UI_HOST",
    "PENSTOCK_UI_TOKEN_FILE",
    "PENSTOCK_UI_TLS_CERT",
    "PENSTOCK_UI_TLS_KEY",
    "PENSTOCK_DRY_RUN",
    "PENSTOCK_KEEP_GOING",
    "PENSTOCK_FROM_SCRATCH",
    "PENSTOCK_OUTPUT_FORMAT",
    "NOTIFY_SOCKET",
)
"""Options of the supervisor's own, which its processes do not take from the environment."""


def child_environment() -> dict[str, str]:
    """Return the environment of a process: this one's, without what is the supervisor's own, with a mark of its own."""
    left = {key: value for key, value in os.environ.items() if key not in PRIVATE_OPTIONS}
    return left | {"PYTHONUNBUFFERED": "1", MARK_VARIABLE: secrets.token_hex(16)}
