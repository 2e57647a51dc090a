"""The engines of `benchmarks.nexmark` as processes: their names, how one is started, and the memory that it has."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from benchmarks.cpu import resident_bytes
from benchmarks.flink_environment import flink_command
from benchmarks.nexmark.orders import Place
from benchmarks.workers import Worker, running

ENGINES = {"flink": "Flink SQL", "penstock": "Penstock", "spark": "Spark alone"}
"""The first that takes part is the one that others are compared with."""
FLINK_SCRIPT = Path(__file__).resolve().parent / "flink.py"
SAMPLE_S = 0.25
"""Between two looks at the memory of an engine."""


@contextmanager
def started(name: str, place: Place, flink: Path | None) -> Iterator[Worker]:
    """Start an engine's process, which is ready when it answers; `flink` is the environment of that one."""
    Path(place.folder).mkdir(parents=True)
    given = json.dumps(asdict(place))
    if name == "flink":
        assert flink is not None, "checked before anything starts"
        command = flink_command(flink, [given], FLINK_SCRIPT)
    else:
        command = [sys.executable, "-m", "benchmarks.nexmark.engines", name, given]
    with running(command) as worker:
        yield worker


@contextmanager
def sampled_peak(pid: int, every_s: float = SAMPLE_S) -> Iterator[list[int]]:
    """Look at the memory of a process and its descendants from time to time."""
    seen, ended = [resident_bytes(pid)], threading.Event()

    def look() -> None:
        while not ended.wait(every_s):
            seen.append(resident_bytes(pid))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def progress(text: str) -> None:
    """Say what happens."""
    print(text, file=sys.stderr, flush=True)
