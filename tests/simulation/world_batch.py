"""The batch world: a query over Spark's source, planned, logged, run and committed as Spark does, without a Spark.

Between any two of these the query may die; it starts again from its logs' text alone, as all else was in memory.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from penstock.catalog.model.identifier import Identifier
from penstock.connector.scan import GroupMember, Scan
from penstock.connector.source.state import SourceState, decode_state
from penstock.connector.spark.errors import SparkReadableError
from penstock.connector.spark.source import planning as executor_module
from penstock.connector.spark.source import stream as stream_module
from penstock.connector.spark.source.offsets import TaskPartition
from penstock.connector.spark.source.retry import RetryPolicy
from penstock.connector.spark.source.segment_folder import FOLDER as SEEN_FILES
from penstock.connector.spark.source.stream import SplitStreamReader
from tests.simulation.batch_rules import Planned, Rules, aligned
from tests.simulation.batch_tasks import run_tasks
from tests.simulation.draw import ROWTIME, draw_batch_tables, draw_content
from tests.simulation.ledger import Ledger, Row
from tests.simulation.model import ModelSource
from tests.simulation.scheduler import Run, Violation

__all__ = ["BatchWorld", "Table", "run_batch"]

WILD_TRIGGERS = (5, 40)
CALM_TRIGGERS = 1_500
CALM_MS = 200


class CrashError(Exception):
    """The query's processes die."""


class Table:
    """One table of the query: its source process, its part of the logs, and its rows."""

    stream: SplitStreamReader

    def __init__(self, run: Run, name: str, source: ModelSource, checkpoint: Path) -> None:
        self.run = run
        self.checkpoint = checkpoint
        self.name = name
        self.source = source
        self.ledger = Ledger(source.outside)
        self.rules = Rules(run, name, source)

    def start(self, member: GroupMember | None) -> None:
        """Start the source's process."""
        scan = Scan(
            # only its name is asked for
            table=SimpleNamespace(identifier=Identifier(catalog="c", database="d", name=self.name)),  # type: ignore[arg-type]
            columns=("position", "time"),
            rowtime=ROWTIME,
            time_zone="UTC",
            project="",
            default_limit=self.run.pick((None, 40)),
            member=member,
            event_times=str(self.checkpoint / self.name),
            seen_files=str(self.checkpoint / SEEN_FILES),
        )
        self.stream = SplitStreamReader(scan, self.source, None)  # type: ignore[arg-type]  rows stay Arrow

    @property
    def done(self) -> bool:
        """Whether all that there is was read."""
        return not self.ledger.missing()


@dataclass(slots=True)
class Logs:
    """What outlives the query: the offsets of each batch as text, and how many batches are committed."""

    offsets: list[list[str]] = field(default_factory=list)
    committed: int = 0


class BatchWorld:
    """A query over one to three tables."""

    def __init__(self, run: Run, directory: Path) -> None:
        self.run = run
        self.tables = [
            Table(run, name, source, directory / "event-times")
            for name, source in draw_batch_tables(run).items()
        ]
        self.logs = Logs()
        self._directory = directory
        self._starts = 0
        self._ends = False
        self._calm = False
        self._rows: list[list[Row]] | None = None  # of the last batch, if it ran before

    def run_through(self) -> None:
        """Trigger after trigger, until all is read."""
        self._start()
        for _ in range(self.run.random.randint(*WILD_TRIGGERS)):
            self._between_triggers()
            self._attempt()
        self._calm = True
        for table in self.tables:
            table.source.outside.calm()
        for _ in range(CALM_TRIGGERS):
            if self._over():
                return
            self.run.advance(CALM_MS)
            self._attempt()
        left = {table.name: table.ledger.missing() for table in self.tables}
        raise Violation(f"no progress: after {CALM_TRIGGERS} calm triggers there is {left}")

    def _over(self) -> bool:
        if len(self.logs.offsets) > self.logs.committed or not all(t.done for t in self.tables):
            return False
        if not all(t.rules.settled for t in self.tables):
            return False
        return all(
            self.logs.offsets and table.rules.at_its_end(self._state(-1, index))
            for index, table in enumerate(self.tables)
            if table.source.bounded
        )

    def _attempt(self) -> None:
        try:
            self._trigger()
        except (CrashError, SparkReadableError) as error:
            self.run.note("crash", error)
            self.run.probe("query crashed")
            self._start()

    def _may_crash(self) -> None:
        self.run.step += 1
        if not self._calm and self.run.chance(4):
            raise CrashError

    def _between_triggers(self) -> None:
        """Time passes, records come, splits too."""
        run = self.run
        run.advance(int(run.random.random() ** 2 * 1500))
        for table in self.tables:
            outside, bounded = table.source.outside, table.source.bounded
            if run.chance(8) and not bounded:
                draw_content(run, table.source, later=True)
                run.probe("split found later")
            for split_id in outside.splits:
                if run.chance(25):
                    outside.grow(split_id, run.pick((1, 3, 10)))
            if run.chance(3):
                outside.away = 1

    # --- what Spark's MicroBatchExecution does ---

    def _start(self) -> None:
        """Start all processes anew."""
        self._starts += 1
        self._ends = self.run.chance(30)
        board = self._directory / str(self._starts)
        grouped = self.tables if len(self.tables) > 1 else []
        for table in self.tables:
            others = tuple((other.name, other.name) for other in grouped if other is not table)
            member = GroupMember(directory=str(board), name=table.name, others=others)
            table.start(member if grouped else None)
        self._prepared = False
        self.run.note("started", "until what is there is read" if self._ends else "")

    def _trigger(self) -> None:
        if self._ends and not self._prepared:
            for table in self.tables:
                table.stream.prepareForTriggerAvailableNow()
        self._prepared = True
        if len(self.logs.offsets) > self.logs.committed:
            self.run.probe("batch replayed")
            self._run_batch()
            return
        if not self._plan():
            if self._ends:
                self.run.probe("run ended by itself")
                self._start()
            return
        self._run_batch()

    def _plan(self) -> bool:
        """Ask every source for its next end; log them if one moved."""
        starts = self._starts_of_next()
        ends = []
        for table, start in zip(self.tables, starts, strict=True):
            self._may_crash()
            limit = table.stream.getDefaultReadLimit()
            end = json.dumps(table.stream.latestOffset(json.loads(start), limit))
            ends.append(end)
            table.rules.asked(decode_state(json.loads(start)), decode_state(json.loads(end)))
            if end == start:
                table.rules.nothing_new(decode_state(json.loads(start)))
            else:
                self._look(table, start, end, getattr(limit, "max_rows", None))
        if ends == starts:
            return False
        self._check_alignment(starts, ends)
        self._may_crash()
        self.logs.offsets.append(ends)
        self._rows = None
        self.run.note("logged", len(self.logs.offsets))
        self._may_crash()
        if len(self.logs.offsets) > 1:
            for table, text in zip(self.tables, self.logs.offsets[-2], strict=True):
                table.stream.commit(json.loads(text))
                table.rules.published(decode_state(json.loads(text)))
        return True

    def _check_alignment(self, starts: list[str], ends: list[str]) -> None:
        aligned(
            [
                (
                    table.rules,
                    Planned(
                        state=decode_state(json.loads(end)), now=end != start, run_ends=self._ends
                    ),
                )
                for table, start, end in zip(self.tables, starts, ends, strict=True)
            ]
        )

    def _look(self, table: Table, start: str, end: str, limit: int | None) -> None:
        before, after = decode_state(json.loads(start)), decode_state(json.loads(end))
        self.run.note("planned", table.name, [(s.split_id, s.start, s.end) for s in after.splits])
        table.rules.planned(before, after, end, limit=limit)

    def _run_batch(self) -> None:
        """Run the last logged batch and commit it."""
        index = len(self.logs.offsets) - 1
        starts = self._texts(index - 1)
        rows = []
        for table, start, end in zip(self.tables, starts, self.logs.offsets[index], strict=True):
            tasks = ()
            if start != end:
                tasks = table.stream.partitions(json.loads(start), json.loads(end))
            rows.append(self._run_tasks(table, tasks))
            self._may_crash()
        if self._rows is not None and rows != self._rows:
            raise Violation(f"a replay read {rows}, the first time it was {self._rows}")
        self._rows = rows
        self._may_crash()
        self.logs.committed += 1
        for table, of_table in zip(self.tables, rows, strict=True):
            table.ledger.commit(of_table)
        self.run.note("committed", self.logs.committed)
        self._may_crash()

    def _run_tasks(self, table: Table, tasks: Any) -> list[Row]:
        for task in tasks:
            assert isinstance(task, TaskPartition), "what the source plans"
            if task.reports is not None and task.reports.replayed:
                self.run.probe("task of a replayed batch reported")
        return run_tasks(self.run, table.source, tasks, self._may_crash)

    def _texts(self, index: int) -> list[str]:
        if index >= 0:
            return self.logs.offsets[index]
        return [json.dumps(table.stream.initialOffset()) for table in self.tables]

    def _starts_of_next(self) -> list[str]:
        return self._texts(len(self.logs.offsets) - 1)

    def _state(self, index: int, table: int) -> SourceState:
        return decode_state(json.loads(self.logs.offsets[index][table]))


class _Time:
    """The clocks of the planning executor."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def monotonic_ns(self) -> int:
        return (self._run.now_ms - 500_000) * 1_000_000

    def time_ns(self) -> int:
        return self._run.now_ms * 1_000_000


def _no_patience(**_options: float) -> RetryPolicy:
    return RetryPolicy(total_s=0.0)


@contextmanager
def _virtual(run: Run) -> Iterator[None]:
    with (
        mock.patch.object(executor_module, "time", _Time(run)),
        mock.patch.multiple(stream_module, IDLE_WAIT_S=0.0, RetryPolicy=_no_patience),
    ):
        yield


def run_batch(run: Run) -> None:
    """Run one seed in this world. Raises a Violation."""
    with tempfile.TemporaryDirectory() as directory, _virtual(run):
        BatchWorld(run, Path(directory)).run_through()
