"""Runs `penstock` as a person does, in a process of its own, and looks at what it leaves behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from tests.delta_tables import read_delta

COMMAND = (sys.executable, "-c", "from penstock.sql.cli.commands.app import main; main()")


SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 0.5
"""Between two questions; those that query a table would take the processor from what they wait for."""


def wait_until(condition: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Wait for a condition; fails with `what` after the deadline. One that takes long to ask is asked less often."""
    deadline = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        if condition():
            return
        now = time.monotonic()
        assert now < deadline, f"not within {seconds} s: {what}"
        time.sleep(min(max(SHORTEST_PAUSE_S, 2 * (now - asked)), LONGEST_PAUSE_S))


def descendants(pid: int) -> list[int]:
    """Give the processes that a process started, and those that they started (Linux)."""
    parents: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = status.read_text().rpartition(")")[2].split()
            parents.setdefault(int(fields[1]), []).append(int(status.parent.name))
    found = list(parents.get(pid, ()))
    for child in found:
        found += parents.get(child, ())
    return found


@dataclass
class Pipeline:
    """A `penstock run` of one file in a project folder. `wrapper` is a command that runs the one behind it."""

    project: Path
    script: Path
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    wrapper: Sequence[str] = ()
    command: Sequence[str] = field(default=COMMAND, kw_only=True)
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> subprocess.Popen[bytes]:
        """Start it, in a process group of its own."""
        log = (self.project / "run.log").open("ab")
        self.process = subprocess.Popen(
            [
                *self.wrapper,
                *self.command,
                "run",
                str(self.script),
                "--progress",
                "none",
                "--format",
                "json",
                *self.arguments,
            ],
            cwd=self.project,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"} | dict(self.environment),
        )
        return self.process

    def kill(self, *, everything: bool = True) -> None:
        """Kill -9: the driver with its JVM and workers, or its Python process alone."""
        assert self.process is not None
        # the JVM has a session of its own, so that a terminal's Ctrl-C does not reach it
        victims = descendants(self.process.pid) if everything else []
        self.process.kill()
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(30)

    def finish(self, seconds: float) -> dict[str, Any]:
        """Wait for its end; gives its JSON summary. Fails with the log when it went wrong."""
        assert self.process is not None
        out, _ = self.process.communicate(timeout=seconds)
        assert self.process.returncode == 0, (out.decode() + self.log)[-6000:]
        summary: dict[str, Any] = json.loads(out)
        return summary

    @property
    def log(self) -> str:
        """What the runs wrote to stderr so far."""
        return (self.project / "run.log").read_text(encoding="utf-8", errors="replace")

    def batches(self, sink: str) -> int:
        """Count the batches that the checkpoint of a sink has committed."""
        commits = self.project / ".penstock" / "checkpoints" / self.script.stem / sink / "commits"
        numbers = [int(f.name) for f in commits.glob("*") if f.name.isdigit()]
        return max(numbers, default=-1) + 1


def delta_rows(table: Path, query: str) -> list[tuple[Any, ...]]:
    """Query a Delta table without Spark; `{table}` in the query stands for it."""
    rows = read_delta(table)  # noqa: F841  found by DuckDB by its name
    return duckdb.sql(query.format(table="rows")).fetchall()
