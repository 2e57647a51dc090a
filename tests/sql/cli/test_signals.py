"""Signals of a run in a process of its own: it ends, whatever the main thread waits for."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys
from threading import Event
from penstock.sql.cli import signals
from penstock.sql.cli.signals import StopSignals
from penstock.sql.runner.run_mode import StopRequest

signals.AT_ONCE_LIMIT_S = 0.1
request = StopRequest(limit_ms={limit_ms})
with StopSignals(request) as stop:
    stop.listen()
    for number in {numbers}:
        os.kill(os.getpid(), number)
    if {waits}:
        Event().wait(30)
print("ended by itself", request.count)
"""


def ended(*, numbers: str, limit_ms: int, waits: bool) -> subprocess.CompletedProcess[str]:
    """Run the program; it gets these signals and then waits, or not."""
    text = PROGRAM.format(numbers=numbers, limit_ms=limit_ms, waits=waits)
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("number", ["signal.SIGTERM", "signal.SIGINT"])
def test_what_does_not_stop_in_time_is_left(number: str) -> None:
    """After the limit of its batch, and what stopping takes; the status is that of an interrupted command."""
    found = ended(numbers=f"[{number}]", limit_ms=100, waits=True)

    assert (found.returncode, found.stdout) == (130, "")
    assert "stopping after the batch in flight" in found.stderr
    assert "did not end in time" in found.stderr


def test_a_second_signal_does_not_wait_for_the_limit() -> None:
    """Nor a third one for anything."""
    second = ended(numbers="[signal.SIGTERM] * 2", limit_ms=600_000, waits=True)
    third = ended(numbers="[signal.SIGTERM] * 3", limit_ms=600_000, waits=True)

    assert (second.returncode, third.returncode) == (130, 130)
    assert "stopping at once" in second.stderr


def test_what_stops_in_time_ends_by_itself() -> None:
    """The limit is over with it."""
    found = ended(numbers="[signal.SIGTERM]", limit_ms=100, waits=False)

    assert (found.returncode, found.stdout) == (0, "ended by itself 1\n")
