"""The rules bite: a product that is broken on purpose is found out within a few seeds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from penstock.connector.event_time.reports import EventTimesReader
from penstock.connector.local.messages import CheckpointTracker
from penstock.connector.source.alignment import WatermarkAggregator
from penstock.connector.source.coordinator import coordinator
from penstock.connector.source.coordinator.context import (
    SourceCoordinatorContext,
    SplitAssignmentTracker,
)
from penstock.connector.source.coordinator.discovery import DiscoveringEnumerator
from penstock.connector.source.coordinator.events import AddSplits, ReaderEvent
from penstock.connector.source.microbatch import planner as batch_planner
from penstock.connector.source.microbatch.batch_plan import BatchPlan
from penstock.connector.source.microbatch.planner import BatchPlanner
from penstock.connector.source.microbatch.read_limit import pack
from penstock.connector.source.microbatch.watermark import IdlenessTimers, combined_watermark
from penstock.connector.source.reader.reader import PausedRecords, ReaderProgress
from penstock.connector.source.reader.source_operator import SourceOperator
from penstock.connector.source.state import MAX_WATERMARK_MS
from penstock.connector.spark.source import offsets
from penstock.connector.spark.source.planning import PlanningExecutor
from tests.simulation.scheduler import SimulationError
from tests.simulation.seeds import run_seed

pytestmark = pytest.mark.simulation

SEEDS = 120
"""Within which a broken product has to be found."""


FOUND_BY = {"a split that is found while the others go on": 98}
"""The seed that found a broken product when its test was written, where that is a late one: it is run first.

Only the time hangs on it. Where it finds nothing after a change of a world, the others still do.
"""


def found(world: str, name: str, broken: Any) -> str:
    """Run seeds of a broken product until one fails; give what it says."""
    with broken:
        for seed in sorted(range(SEEDS), key=lambda seed: seed != FOUND_BY.get(name)):
            try:
                run_seed(world, seed)
            except SimulationError as error:
                return str(error).splitlines()[0]
    return f"nothing within {SEEDS} seeds"


def replaced(owner: Any, name: str, by: Callable[..., Any]) -> Any:
    """Break one method, or function of a module."""
    return mock.patch.object(owner, name, by)


def around(owner: Any, name: str, change: Callable[..., Any]) -> Any:
    """Break a method by what is done with it: `change(original, self, *arguments)`."""
    original = getattr(owner, name)
    return mock.patch.object(
        owner, name, lambda self, *rest, **named: change(original, self, *rest, **named)
    )


def nothing(*_arguments: object, **_named: object) -> None:
    """Do nothing, where something should be done."""


def without_drift(lowest_ms: int, _max_drift_ms: int) -> int:
    """A limit that lets everybody go on."""
    return min(lowest_ms * 2, MAX_WATERMARK_MS)


def drops_some_splits(send: Any, context: Any, reader: int, event: ReaderEvent) -> None:
    """Lose the splits of reader 0's second and later assignments."""
    if not (isinstance(event, AddSplits) and len(event.splits) > 1):
        send(context, reader, event)


def assigns_twice(assign: Any, enumerator: Any) -> None:
    """Forget what was assigned."""
    waiting = dict(enumerator._unassigned)
    assign(enumerator)
    enumerator._unassigned = waiting


def one_further(snapshot: Any, progress: Any, checkpoint_id: int) -> Any:
    """Hold the position after a record that was not given yet."""
    progress._positions = {split_id: at + 1 for split_id, at in progress._positions.items()}
    return snapshot(progress, checkpoint_id)


def highest_instead(update: Any, operator: Any, now_ms: int) -> None:
    """Take the fastest split for the slowest."""
    update(operator, now_ms)
    known = [o.watermark_ms for o in operator._splits.values() if o.watermark_ms is not None]
    if known:
        operator._watermark_ms = max([*known, operator._watermark_ms or 0])


def completes_early(collect: Any, ledger: Any, taken: Any) -> Any:
    """Take a checkpoint for complete with its first part."""
    done = collect(ledger, taken)
    if done is None and ledger._pending is not None:
        for reader in range(ledger._readers):
            ledger._pending.parts.setdefault(reader, taken.part)
        done = collect(ledger, taken)
    return done


def first_only(add: Any, batches: Any, splits: Any) -> None:
    """Lose all splits but the first of an assignment."""
    add(batches, splits[:1])


def quiet_whatever_comes(
    watch: Any, splits: Any, split_id: str, *, quiet: bool, now_ms: int
) -> Any:
    """Take every split for one that is caught up."""
    return watch(splits, split_id, quiet=True, now_ms=now_ms)


def the_fastest(splits: Any, before_ms: int | None, *, no_more_splits: bool) -> int | None:
    """Give Spark's own watermark: that of the split that is ahead of all."""
    if no_more_splits and all(split.finished for split in splits):
        return MAX_WATERMARK_MS
    return max((s.watermark_ms for s in splits if s.watermark_ms is not None), default=before_ms)


def at_its_end(splits: Any, before_ms: int | None, *, no_more_splits: bool) -> int | None:
    """Take the last split's assignment for the end of all."""
    if no_more_splits:
        return MAX_WATERMARK_MS
    return combined_watermark(splits, before_ms, no_more_splits=False)


def holds_nothing(watermark: Any, batches: Any, splits: Any, **_new: bool) -> Any:
    """Move the watermark to where the rows came to, whatever a split that was found since has."""
    return watermark(batches, splits, new=False)


def publishes_at_once(plan: Any, executor: Any, after: Any, limit: int | None) -> Any:
    """Publish the progress of a batch before it ran."""
    planned = plan(executor, after, limit)
    if planned is not None:
        executor.planner.commit(planned.positions)
    return planned


def overlapping(ranges: Any, tasks: int | None) -> Any:
    """Give the second half of a range to another task as well."""
    packed = pack(ranges, tasks)
    return [*packed, packed[0]] if packed else packed


def everything(_limit: int | None, backlog: Any) -> Any:
    """Share without a limit."""
    return dict(backlog)


LOCAL = {
    "a limit without the drift": (
        replaced(coordinator, "alignment_limit", without_drift),
        "the limit is",
    ),
    "idleness forgotten": (replaced(SourceOperator, "probe_idleness", nothing), "no progress"),
    "silence counted while a batch waits": (
        replaced(SourceOperator, "hold", nothing),
        "is idle after",
    ),
    "the watermark of the fastest split": (
        around(SourceOperator, "_update", highest_instead),
        "the watermark went",
    ),
    "splits lost on their way": (
        around(SourceCoordinatorContext, "send", drops_some_splits),
        "no progress|ended without",
    ),
    "splits handed out twice": (
        around(DiscoveringEnumerator, "_assign", assigns_twice),
        "is being read already|was committed, awaited|is there already",
    ),
    "splits of a failed reader kept from others": (
        replaced(SplitAssignmentTracker, "take_back", lambda *_: ()),
        "no progress|ended without",
    ),
    "splits given back that a checkpoint holds": (
        replaced(SplitAssignmentTracker, "on_checkpoint", nothing),
        "is being read already|was committed, awaited",
    ),
    "a checkpoint that is ahead of the rows": (
        around(ReaderProgress, "snapshot", one_further),
        "was committed, awaited",
    ),
    "a checkpoint complete before all have answered": (
        around(CheckpointTracker, "collect", completes_early),
        "was committed, awaited|is being read already|no progress|ended without",
    ),
    "the watermark of a reader that is gone": (
        replaced(WatermarkAggregator, "forget", nothing),
        "the group is said to be",
    ),
    "queued batches of a paused split": (
        replaced(PausedRecords, "sift", lambda _self, records, _paused: records),
        "went on above the limit",
    ),
    "nothing for a reader that registers late": (
        replaced(DiscoveringEnumerator, "add_reader", nothing),
        "no progress|ended without",
    ),
}


@pytest.mark.parametrize("name", LOCAL)
def test_a_broken_local_runtime_is_found(name: str) -> None:
    """What would lose, double or hold rows, or make a watermark lie, fails a seed by the rule it breaks."""
    broken, rule = LOCAL[name]

    assert re.search(rule, found("local", name, broken))


BATCH = {
    "a limit without the drift": (
        replaced(batch_planner, "alignment_limit", without_drift),
        "ms ahead of",
    ),
    "nobody held": (replaced(BatchPlan, "hold", nothing), "ms ahead of"),
    "idleness forgotten": (replaced(batch_planner, "is_idle", lambda *_: False), "no progress"),
    "silence of a split that has records": (
        around(IdlenessTimers, "watch", quiet_whatever_comes),
        "is idle after",
    ),
    "a read limit that nobody keeps": (
        replaced(batch_planner, "share", everything),
        "a batch takes",
    ),
    "the watermark of the fastest split": (
        replaced(batch_planner, "combined_watermark", the_fastest),
        "watermark [0-9]+ over",
    ),
    "the end before the end": (
        replaced(batch_planner, "combined_watermark", at_its_end),
        "is said to be read to its end",
    ),
    "splits lost on their way": (
        around(BatchPlanner, "add_splits", first_only),
        "no progress|is said to be read to its end",
    ),
    "ranges read twice": (replaced(offsets, "pack", overlapping), "was committed, awaited"),
    "event times of records before the last one": (
        replaced(EventTimesReader, "after", lambda *_: {}),
        "which was read before|all splits have come to",
    ),
    "a split that is found while the others go on": (
        around(BatchPlanner, "_watermark", holds_nothing),
        "watermark [0-9]+ over",
    ),
    "progress published before it is done": (
        around(PlanningExecutor, "plan", publishes_at_once),
        "published, done",
    ),
}


@pytest.mark.parametrize("name", BATCH)
def test_a_broken_batch_planner_is_found(name: str) -> None:
    """As above, for Spark's micro-batches."""
    broken, rule = BATCH[name]

    assert re.search(rule, found("batch", name, broken))
