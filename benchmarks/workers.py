"""Processes of a benchmark that wait for orders on standard input, and answer each with a line of JSON."""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
END_S = 60
ANSWER_S = 1800
"""For one answer, the start of a process on a busy machine among them; later ones do not come."""


class LostWorkerError(Exception):
    """A process ended without an answer, or gave none in time."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A running process."""

    process: subprocess.Popen[str]

    def ask(self, order: str, *, within_s: float = ANSWER_S) -> dict[str, Any]:
        """Send an order and wait for its answer. Raises LostWorkerError."""
        assert self.process.stdin is not None, "started with a pipe"
        with suppress(BrokenPipeError):  # its end is what `answer` finds
            self.process.stdin.write(order + "\n")
            self.process.stdin.flush()
        return self.answer(within_s=within_s)

    def answer(self, *, within_s: float = ANSWER_S) -> dict[str, Any]:
        """Read the next line that it says. Raises LostWorkerError, and kills one that says nothing."""
        assert self.process.stdout is not None, "started with a pipe"
        # it says one line at a time, so none is in the buffer of the stream
        if not select.select([self.process.stdout], [], [], within_s)[0]:
            self.process.kill()
            raise LostWorkerError(f"it gave no answer within {within_s:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            raise LostWorkerError(f"it ended with status {self.process.wait()}")
        try:
            result: dict[str, Any] = json.loads(line)
        except json.JSONDecodeError:
            raise LostWorkerError(f"it answered {line.strip()!r}") from None
        return result

    def end_orders(self) -> None:
        """Close its standard input, at whose end the process ends."""
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):
                self.process.stdin.close()


@contextmanager
def running(
    command: Sequence[str], *, checkout: Path = ROOT, variables: Mapping[str, str] | None = None
) -> Iterator[Worker]:
    """Start a process in a checkout, whose code its own processes of Python import too; end it."""
    process = subprocess.Popen(
        command,
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout)} | dict(variables or {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    worker = Worker(process)
    try:
        yield worker
    finally:
        worker.end_orders()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
