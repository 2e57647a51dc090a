"""Runs `penstock run` with the words that a person would type, in this process, and reads back what it wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from penstock.sql.cli.commands.app import app
from penstock.sql.errors.exit_status import ExitStatus


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


def run_pipeline(script: Path, folder: Path, variables: Mapping[str, str]) -> Outcome:
    """Run the file in `folder`, the working directory, on the Spark that runs; progress goes to stderr.

    Raises PipelineFailedError, and KeyboardInterrupt once an interrupted run has stopped.
    """
    words = ["run", str(script), "--format", "json"]
    for name, value in variables.items():
        words += ["--var", f"{name}={value}"]
    output = StringIO()
    with redirect_stdout(output):
        status = app(words, standalone_mode=False)
    if status == ExitStatus.INTERRUPTED:
        raise KeyboardInterrupt
    if status:
        raise PipelineFailedError(status)
    revenue = DeltaTable(folder / "revenue").to_pyarrow_table().sort_by("window_start")
    return Outcome(
        statements=tuple(json.loads(output.getvalue())["statements"]),
        revenue=revenue,
        stored=DeltaTable(folder / "all_orders").to_pyarrow_dataset().count_rows(),
    )
