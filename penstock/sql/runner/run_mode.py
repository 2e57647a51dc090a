"""How a run of files ends, how it is stopped, and who listens to it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from penstock.sql.settings import STOP_LIMIT_MS

if TYPE_CHECKING:
    from penstock.sql.jobs.job import Job
    from penstock.sql.runner.summary import StatementResult


class RunMode(StrEnum):
    """Whether queries end: each by its tables, all with the present data, or none."""

    BY_TABLES = "by-tables"
    AVAILABLE_NOW = "available-now"
    CONTINUOUS = "continuous"

    def ends(self, *, bounded: bool) -> bool:
        """Return whether a query over tables that all have an end, or not, is to end by itself."""
        return bounded if self is RunMode.BY_TABLES else self is RunMode.AVAILABLE_NOW


def run_mode(*, available_now: bool | None) -> RunMode:
    """Return the requested mode; None leaves it to the tables."""
    if available_now is None:
        return RunMode.BY_TABLES
    return RunMode.AVAILABLE_NOW if available_now else RunMode.CONTINUOUS


class StopRequest:
    """How often the user requested the end. A signal handler may count it up: it takes no lock.

    `limit_ms` is how long a batch in flight may take after the first request.
    """

    def __init__(self, limit_ms: int = STOP_LIMIT_MS) -> None:
        self.count = 0
        self.limit_ms = limit_ms


class Listener(Protocol):
    """Listens to a run, on the thread that runs the files."""

    def job_started(self, job: Job) -> None:
        """An INSERT runs."""

    def rows_came(self, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        """An unbounded SELECT has rows, `op` in front: their kinds."""

    def statement_ended(self, result: StatementResult) -> None:
        """A statement is over."""


class SilentListener:
    """A listener that ignores all calls."""

    def job_started(self, job: Job) -> None:
        """An INSERT runs."""

    def rows_came(self, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        """An unbounded SELECT has rows, `op` in front: their kinds."""

    def statement_ended(self, result: StatementResult) -> None:
        """A statement is over."""
