"""A pipeline to which things happen: started with failpoints, killed or frozen at a moment that the test chooses."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.connector.failpoints import FOLDER_VARIABLE, VARIABLE
from tests.integration.pipeline import Pipeline, descendants, wait_until

REACHED_S = 600
"""A failpoint is reached within this time, the start of Spark on a busy machine included, or not at all."""

CATCH_UP_S = 180
"""A run without faults is at its end within this time, the start of Spark included."""


@dataclass
class FaultyPipeline(Pipeline):
    """A `penstock run` of one file, and what befalls it."""

    _jvms: dict[int, int] = field(default_factory=dict, init=False)

    def start_with(self, failpoints: str) -> None:
        """Start it with failpoints, each taken by one process only."""
        self.taken.mkdir(exist_ok=True)
        for mark in self.taken.iterdir():
            mark.unlink()
        self.environment = {VARIABLE: failpoints, FOLDER_VARIABLE: str(self.taken)}
        self.start()

    def start_clean(self) -> None:
        """Start it without failpoints."""
        self.environment = {}
        self.start()

    def hold_at(self, name: str, *, visit: int = 1) -> int:
        """Start it and wait until a process waits at a failpoint, at its `visit`-th time; gives that process's id."""
        self.gate.touch()
        self.start_with(f"{name}=wait:{self.gate}@{visit}")
        return self.until_taken(name)

    def let_go(self) -> None:
        """Let the process that waits go on."""
        self.gate.unlink()

    def until_taken(self, name: str) -> int:
        """Wait until the action of a failpoint is taken; gives the id of the process that took it."""
        mark = self.taken / name
        self.until(lambda: mark.exists() and mark.read_text() != "", f"failpoint {name}", REACHED_S)
        return int(mark.read_text())

    def until(self, condition: Callable[[], bool], what: str, seconds: float = CATCH_UP_S) -> None:
        """Wait for a condition while the pipeline runs; fails with its log when it ends or the time is over."""
        assert self.process is not None

        def met() -> bool:
            if condition():
                return True
            assert self.process is not None
            assert self.process.poll() is None, f"it ended before {what}: {self.log[-4000:]}"
            return False

        wait_until(met, seconds=seconds, what=what)

    def catch_up(self) -> dict[str, Any]:
        """Run it once more without faults, to the end of its tables; gives its summary."""
        self.start_clean()
        return self.finish(CATCH_UP_S)

    def end(self, seconds: float = CATCH_UP_S) -> tuple[int, dict[str, Any]]:
        """Wait for its end, whatever it is; gives exit status and JSON document (empty where it wrote none)."""
        assert self.process is not None
        out, _ = self.process.communicate(timeout=seconds)
        return self.process.returncode, json.loads(out) if out.strip() else {}

    def pause(self, seconds: float) -> None:
        """Let a time pass that a test has drawn: the moment of a fault. Fails when the pipeline ends meanwhile."""
        assert self.process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        assert self.process.poll() is None, f"it ended before its fault: {self.log[-4000:]}"

    def kill_all_but(self, spared: int) -> None:
        """Kill -9 the driver with its JVM and workers, except one of these."""
        assert self.process is not None
        victims = [self.process.pid, *descendants(self.process.pid)]
        _signal([pid for pid in victims if pid != spared], signal.SIGKILL)
        self.process.wait(30)

    def freeze(self) -> list[int]:
        """Stop the driver with its JVM and workers (SIGSTOP); gives them, for `thaw`."""
        assert self.process is not None
        frozen = [self.process.pid, *descendants(self.process.pid)]
        _signal(frozen, signal.SIGSTOP)
        return frozen

    @property
    def jvm(self) -> int:
        """The driver's JVM. Looked for once a process of the driver: a look takes some milliseconds."""
        assert self.process is not None
        if self.process.pid not in self._jvms:
            (self._jvms[self.process.pid],) = (
                pid
                for pid in descendants(self.process.pid)
                if Path(f"/proc/{pid}/comm").read_text() == "java\n"
            )
        return self._jvms[self.process.pid]

    @property
    def taken(self) -> Path:
        """Folder of the actions that were taken."""
        return self.project / "taken"

    @property
    def gate(self) -> Path:
        """The file whose removal lets a held process go on."""
        return self.project / "gate"

    def checkpoint(self, sink: str) -> Path:
        """The checkpoint of the INSERT into a table."""
        return self.project / ".penstock" / "checkpoints" / self.script.stem / sink

    def logged(self, sink: str, log: str) -> list[int]:
        """The batches in one of the checkpoint's logs, `offsets` or `commits`, in order."""
        folder = self.checkpoint(sink) / log
        return sorted(int(file.name) for file in folder.glob("*") if file.name.isdigit())


def thaw(frozen: list[int]) -> None:
    """Let frozen processes go on."""
    _signal(frozen, signal.SIGCONT)


def _signal(processes: list[int], number: int) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def versions(table: Path) -> int:
    """Count the versions of a Delta table, 0 where there is none yet."""
    return len(list((table / "_delta_log").glob("*.json")))


def transactions(table: Path) -> list[int]:
    """Give the batch of each commit that a query made to a Delta table, in the order of the commits."""
    found: list[int] = []
    for file in sorted((table / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        found += [action["txn"]["version"] for action in actions if "txn" in action]
    return found


def spark_log(project: Path) -> str:
    """Read what Spark logged in all runs of a project."""
    return "".join(file.read_text() for file in (project / ".penstock").rglob("spark-*.log"))
