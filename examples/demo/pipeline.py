"""Runs `penstock run` as a person would, in a process of its own, and reads back what it wrote."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from penstock.connector.jvm.interrupts import interrupts_deferred

STOP_TIMEOUT_S = 20.0
"""From the request to stop at once to the end of Spark's JVM."""


class PipelineFailedError(Exception):
    """`penstock run` ended with another status than 0; it has already said why."""

    def __init__(self, status: int) -> None:
        """Keep the exit status."""
        super().__init__(f"penstock run ended with status {status}")
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came out: the runner's own summary and the tables."""

    statements: tuple[dict[str, Any], ...]
    revenue: pa.Table
    stored: int

    @property
    def read(self) -> int:
        """Rows that the windowed query read."""
        return int(self.statement("revenue")["rows_in"])

    @property
    def dropped(self) -> int:
        """Rows that the windowed query dropped as late."""
        return int(self.statement("revenue")["rows_dropped"])

    @property
    def kept(self) -> int:
        """Rows counted in the windows of the Delta table."""
        return int(pc.sum(self.revenue["orders"]).as_py() or 0)

    def by_window(self) -> dict[datetime, int]:
        """Rows counted, by start of window."""
        totals = self.revenue.group_by("window_start").aggregate([("orders", "sum")])
        starts, counts = totals["window_start"].to_pylist(), totals["orders_sum"].to_pylist()
        return dict(sorted(zip(starts, counts, strict=True)))

    def statement(self, sink: str) -> dict[str, Any]:
        """The summary of the INSERT into a table."""
        return next(
            s for s in self.statements if str(s.get("sink", "")).split(".")[-1].strip("`") == sink
        )


def run_pipeline(
    script: Path, folder: Path, variables: dict[str, str], conf: Mapping[str, str]
) -> Outcome:
    """Run the file with `folder` as project; progress goes to this process's stderr.

    Raises PipelineFailedError; on KeyboardInterrupt the run is stopped before it is passed on.
    """
    command = [
        str(Path(sys.executable).with_name("penstock")),
        "run",
        str(script),
        "--format",
        "json",
    ]
    for name, value in variables.items():
        command += ["--var", f"{name}={value}"]
    for name, value in conf.items():
        command += ["--conf", f"{name}={value}"]
    process = None
    try:
        with interrupts_deferred():
            process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        output, _ = process.communicate()
    except BaseException:
        if process is not None:
            stop(process)
        raise
    if process.returncode != 0:
        raise PipelineFailedError(process.returncode)
    revenue = DeltaTable(folder / "revenue").to_pyarrow_table().sort_by("window_start")
    return Outcome(
        statements=tuple(json.loads(output)["statements"]),
        revenue=revenue,
        stored=DeltaTable(folder / "all_orders").to_pyarrow_dataset().count_rows(),
    )


def stop(process: subprocess.Popen[str]) -> None:
    """Stop a run: Ctrl-C has reached it already on a terminal, so this is its second request and it ends at once."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
