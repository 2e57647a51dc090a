"""The tasks of a batch, in the order the seed decides: the product's reader, stepped, over each task's ranges."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.connector.contract import ReadRequest
from penstock.connector.event_time.reports import EventTimes, RangeReporter
from penstock.connector.source.reader.reader import EndOfInput
from penstock.connector.source.records import RecordsWithSplitIds
from penstock.connector.spark.source.offsets import TaskPartition
from tests.simulation.ledger import Row
from tests.simulation.model import ModelSource, latest_ms
from tests.simulation.scheduler import Run, Violation
from tests.simulation.stepped_reader import SteppedSourceReader

__all__ = ["run_tasks"]

MOST_TURNS = 2_000


def run_tasks(
    run: Run, source: ModelSource, tasks: Sequence[TaskPartition], may_crash: Callable[[], None]
) -> list[Row]:
    """Give the rows of a batch, by split and range; within a range as they came.

    The query may crash between two tasks (`may_crash` raises), when some have told of event times and others not.
    """
    order = list(range(len(tasks)))
    run.random.shuffle(order)
    rows: dict[tuple[str, int], list[Row]] = {}
    for index in order:
        may_crash()
        task = tasks[index]
        if len({split.split_id for split in task.splits}) < len(task.splits):
            raise Violation(f"a task has a split twice: {task.splits}")
        begins = {split.split_id: split.start for split in task.splits}
        for split_id, at in _run_task(run, source, task):
            rows.setdefault((split_id, begins[split_id]), []).append((split_id, at))
    ranges = [split.split_id for task in tasks for split in task.splits]
    if len(set(ranges)) < len(ranges):
        run.probe("split read by several tasks")
    return [row for _, of_range in sorted(rows.items()) for row in of_range]


def _run_task(run: Run, source: ModelSource, task: TaskPartition) -> list[Row]:
    request = ReadRequest(columns=("position", "time"))
    reader = SteppedSourceReader(lambda: source.open_reader(request), model=source.fetching)
    reporter = RangeReporter(task.reports, task.splits, dict(task.known_ms))
    rows: list[Row] = []
    with reader:
        reader.add_splits(task.splits)
        reader.notify_no_more_splits()
        for _ in range(MOST_TURNS):
            for fetcher in reader.stepped.fetchers:
                if run.chance(70):
                    fetcher.run_once()
            polled = reader.poll_next()
            if isinstance(polled, EndOfInput):
                return rows
            if isinstance(polled, RecordsWithSplitIds):
                for split_id, batch in polled.batches:
                    reporter.take(split_id, EventTimes(highest_ms=latest_ms(batch)))
                    rows += [(split_id, at) for at in batch.column("position").to_pylist()]
                reporter.finish(polled.finished)
    raise Violation(f"a task does not end: {task}")
