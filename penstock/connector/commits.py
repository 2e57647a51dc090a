"""What is reported of commits, for metrics: of sinks a table's version, files, transactions, dead letters; of sources
the offsets of consumer groups.

A sink adds to `MicroBatch.commits` when a commit is done, on the thread that runs batches; others read the sums. A
source runs in another process, which counts in a file.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Protocol, runtime_checkable

DURATION_BOUNDS_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the buckets of commit durations; one more bucket has what is longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCommit:
    """A commit of a sink, or what it did of it. `sink` is empty for the only one of a query.

    `took_s` is the time of the commit alone, without the rows; `version` that of the table after it, `files` those that
    it added. `transactions` were committed; `failed_transactions` are those of a batch whose write failed: some of them
    may be committed all the same. `dead_letters` were kept, by the table read.
    """

    sink: str = ""
    took_s: float | None = None
    version: int | None = None
    files: int = 0
    transactions: int | None = None
    failed_transactions: int = 0
    dead_letters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitTotals:
    """The sums of one sink's commits. `durations` counts them by bucket of DURATION_BOUNDS_S.

    `transactions` is None of a sink that writes in none.
    """

    durations: tuple[int, ...] = (0,) * (len(DURATION_BOUNDS_S) + 1)
    took_s: float = 0.0
    version: int | None = None
    files: int = 0
    transactions: int | None = None
    failed_transactions: int = 0

    def add(self, commit: SinkCommit) -> CommitTotals:
        """Count a commit."""
        durations = self.durations
        if commit.took_s is not None:
            bucket = bisect_left(DURATION_BOUNDS_S, commit.took_s)
            durations = tuple(n + (i == bucket) for i, n in enumerate(durations))
        transactions = self.transactions
        if commit.transactions is not None:
            transactions = (transactions or 0) + commit.transactions
        return replace(
            self,
            durations=durations,
            took_s=self.took_s + (commit.took_s or 0.0),
            version=self.version if commit.version is None else commit.version,
            files=self.files + commit.files,
            transactions=transactions,
            failed_transactions=self.failed_transactions + commit.failed_transactions,
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

    @contextmanager
    def transactions(self, sink: str, count: int) -> Iterator[None]:
        """Count the transactions that the block commits, or that it fails to; there are 0 before the first."""
        self.add(SinkCommit(sink=sink, transactions=0))
        try:
            yield
        except BaseException:
            self.add(SinkCommit(sink=sink, failed_transactions=count))
            raise
        self.add(SinkCommit(sink=sink, transactions=count))

    def sinks(self) -> Mapping[str, CommitTotals]:
        """Return the sums by sink."""
        with self._lock:
            return dict(self._sinks)

    def dead_letters(self) -> Mapping[str, int]:
        """Return how many records were kept as dead letters, by the table that they were read from."""
        with self._lock:
            return dict(self._dead_letters)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommits:
    """How commits of a consumer group's offsets ended. `skipped` were not sent, as the one before was under way."""

    ok: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: OffsetCommits) -> OffsetCommits:
        return OffsetCommits(
            ok=self.ok + other.ok,
            failed=self.failed + other.failed,
            skipped=self.skipped + other.skipped,
        )


@runtime_checkable
class CommitsOffsets(Protocol):
    """A metadata client that commits offsets to a consumer group."""

    @property
    def offset_commits(self) -> OffsetCommits | None:
        """How its commits ended so far; None where it commits none."""
        ...

    def commit_owed(self) -> None:
        """Commit again, without waiting, the newest offsets where they were skipped or failed."""
        ...


class OffsetCommitsFile:
    """Where one source of a running query counts its commits, beside the file in which it says what it waits for."""

    def __init__(self, outage_file: Path) -> None:
        self._path = outage_file.with_suffix(".commits")
        self._noted: OffsetCommits | None = None
        self._before = OffsetCommits()

    def note(self, commits: OffsetCommits) -> None:
        """Write how the commits of this process ended, added to those of an earlier start of the query."""
        if commits == self._noted:
            return
        if self._noted is None:
            self._before = self.read() or OffsetCommits()
        self._noted = commits
        temporary = self._path.with_suffix(".commits-new")
        temporary.touch(mode=0o600)
        temporary.write_text(json.dumps(asdict(self._before + commits)), encoding="utf-8")
        temporary.replace(self._path)

    def read(self) -> OffsetCommits | None:
        """Return the counts; None where the source has none."""
        try:
            return OffsetCommits(**json.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
