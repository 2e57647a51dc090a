"""What sinks report of their commits: a table's version, files, transactions, dead letters. Counted for metrics.

A sink adds to `MicroBatch.commits` when a commit is done, on the thread that runs batches; others read the sums.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from threading import Lock

DURATION_BOUNDS_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the buckets of commit durations; one more bucket has what is longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCommit:
    """A commit of a sink, or what it did of it. `sink` is empty for the only one of a query.

    `took_s` is the time of the commit alone, without the rows; `version` that of the table after it, `files` those that
    it added. `transactions` were committed, `dead_letters` were kept, by the table read.
    """

    sink: str = ""
    took_s: float | None = None
    version: int | None = None
    files: int = 0
    transactions: int = 0
    dead_letters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitTotals:
    """The sums of one sink's commits. `durations` counts them by bucket of DURATION_BOUNDS_S."""

    durations: tuple[int, ...] = (0,) * (len(DURATION_BOUNDS_S) + 1)
    took_s: float = 0.0
    version: int | None = None
    files: int = 0
    transactions: int = 0

    def add(self, commit: SinkCommit) -> CommitTotals:
        """Count a commit."""
        durations = self.durations
        if commit.took_s is not None:
            bucket = bisect_left(DURATION_BOUNDS_S, commit.took_s)
            durations = tuple(n + (i == bucket) for i, n in enumerate(durations))
        return replace(
            self,
            durations=durations,
            took_s=self.took_s + (commit.took_s or 0.0),
            version=self.version if commit.version is None else commit.version,
            files=self.files + commit.files,
            transactions=self.transactions + commit.transactions,
        )


class CommitLog:
    """The commits of one query in this process. Written by the thread that runs batches, read from any."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._sinks: dict[str, CommitTotals] = {}
        self._dead_letters: dict[str, int] = {}

    def add(self, commit: SinkCommit) -> None:
        """Count a commit."""
        with self._lock:
            if not commit.dead_letters:
                before = self._sinks.get(commit.sink, CommitTotals())
                self._sinks[commit.sink] = before.add(commit)
            for table, count in commit.dead_letters.items():
                self._dead_letters[table] = self._dead_letters.get(table, 0) + count

    def sinks(self) -> Mapping[str, CommitTotals]:
        """Return the sums by sink."""
        with self._lock:
            return dict(self._sinks)

    def dead_letters(self) -> Mapping[str, int]:
        """Return how many records were kept as dead letters, by the table that they were read from."""
        with self._lock:
            return dict(self._dead_letters)
