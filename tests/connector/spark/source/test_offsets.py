"""The tasks of a batch, planned from its end offset alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.connector.source.split import TaskSize
from penstock.connector.source.state import SourceState, SplitState
from penstock.connector.spark.source.offsets import plan_partitions
from tests.connector.filesystem.tables import file_source, planned, planning, write
from tests.connector.source.planned_source import Listing

STATE = SourceState(
    splits=(SplitState(split_id="t-0", owner="t", start=0, end=7),), clock_ms=1_000_000
)


@pytest.mark.parametrize(
    ("state", "max_future_ms", "tracks_event_time", "expected"),
    [
        (STATE, 500, True, 1_000_500),
        (STATE, 900, True, 1_000_900),
        (STATE, None, True, None),
        (STATE, 500, False, None),
        (SourceState(splits=STATE.splits), 500, True, None),
    ],
    ids=["bound", "a changed option", "off", "no rowtime", "an offset without a clock"],
)
def test_tasks_get_the_bound_that_the_offset_and_the_option_give(
    state: SourceState, max_future_ms: int | None, *, tracks_event_time: bool, expected: int | None
) -> None:
    """A replay decides alike, and a batch that failed for a record of the future goes on under a changed option."""
    (task,) = plan_partitions(
        state,
        Listing({"t-0": 0}),
        tasks=None,
        tracks_event_time=tracks_event_time,
        max_future_ms=max_future_ms,
    )

    assert task.not_after_ms == expected


def test_every_task_knows_how_many_records_its_batch_can_have_at_most() -> None:
    """By the positions of all its ranges, however they are cut."""
    splits = (*STATE.splits, SplitState(split_id="t-1", owner="t", start=5, end=9))
    tasks = plan_partitions(
        SourceState(splits=splits),
        Listing({"t-0": 0, "t-1": 0}),
        tasks=3,
        tracks_event_time=False,
    )

    assert len(tasks) == 3
    assert {task.batch_positions for task in tasks} == {11}


def test_slots_have_whole_splits_or_none() -> None:
    """Each is a task, with its number, whether it has anything to read; a batch without records has them, too."""
    splits = (*STATE.splits, SplitState(split_id="t-1", owner="t", start=5, end=9))

    def slots(*states: SplitState) -> list[tuple[int | None, list[str]]]:
        tasks = plan_partitions(
            SourceState(splits=states),
            Listing({"t-0": 0, "t-1": 0}),
            tasks=1,
            tracks_event_time=False,
            slots=3,
        )
        return [(task.slot, [split.split_id for split in task.splits]) for task in tasks]

    assert slots(*splits) == [(0, ["t-0"]), (1, ["t-1"]), (2, [])]
    assert slots() == [(0, []), (1, []), (2, [])]


def test_small_splits_share_a_task_with_all_that_tasks_know_of_each() -> None:
    """A batch of few records is one task; places, watermarks and positions stay those of its splits."""
    splits = tuple(
        SplitState(split_id=f"t-{n}", owner="t", start=10, end=10 + size, watermark_ms=n)
        for n, size in enumerate([3, 0, 5, 9_000, 9_000])
    )
    state = SourceState(splits=splits, watermark_ms=1, watermark_before_ms=0)
    planned_tasks = plan_partitions(
        state,
        Listing({f"t-{n}": 0 for n in range(5)}),
        tasks=None,
        tracks_event_time=True,
        size=TaskSize(positions=10_000, opening=100),
    )

    assert [
        [(s.split_id, s.start, s.stop, place) for s, place in zip(t.splits, t.numbers, strict=True)]
        for t in planned_tasks
    ] == [
        [("t-0", 10, 13, 0), ("t-2", 10, 15, 1), ("t-3", 10, 9_010, 2)],
        [("t-4", 10, 9_010, 3)],
    ]
    assert [task.known_ms for task in planned_tasks] == [
        (("t-0", 0), ("t-2", 2), ("t-3", 3)),
        (("t-4", 4),),
    ]
    assert [task.heartbeat for task in planned_tasks] == [True, False]
    assert {task.batch_positions for task in planned_tasks} == {18_008}


def test_compressed_files_are_tasks_of_their_own(tmp_path: Path) -> None:
    """Their one position tells nothing of their size; plain files of some bytes share a task."""
    names = ("a.json", "b.json.gz", "c.json.gz", "d.json", "e.json")
    for name in names:
        write(tmp_path / name, '{"id": 1}')
    source = file_source(tmp_path)
    planner = planning(source)
    found = planned(planner)
    states = [SplitState(split_id=i, owner=i, start=a, end=b) for i, (a, b) in found.items()]
    tasks = plan_partitions(
        SourceState(splits=tuple(sorted(states, key=lambda s: s.split_id))),
        planner,
        tasks=None,
        tracks_event_time=False,
        size=source.task_size,
    )

    assert [[split.split_id for split in task.splits] for task in tasks] == [
        ["a.json"],
        ["b.json.gz"],
        ["c.json.gz"],
        ["d.json", "e.json"],
    ]


def test_the_one_position_of_a_compressed_file_bounds_nothing(tmp_path: Path) -> None:
    """It stands for any number of records."""
    write(tmp_path / "a.json.gz", '{"id": 1}')
    planner = planning(file_source(tmp_path))
    ranges = planned(planner)
    states = [SplitState(split_id=i, owner=i, start=a, end=b) for i, (a, b) in ranges.items()]
    (task,) = plan_partitions(
        SourceState(splits=tuple(states)), planner, tasks=None, tracks_event_time=False
    )

    assert task.batch_positions is not None
    assert task.batch_positions > 1 << 60


@pytest.mark.parametrize(
    ("tasks", "places"),
    [
        (None, [("t-0", 0, 0), ("t-1", 5, 1)]),
        (1, [("t-0", 0, 0), ("t-1", 5, 1)]),
        (3, [("t-0", 0, 0), ("t-0", 4, 1), ("t-1", 5, 2), ("t-1", 6, 3)]),
    ],
)
def test_tasks_know_the_places_of_their_ranges_in_the_batch(
    tasks: int | None, places: Sequence[tuple[str, int, int]]
) -> None:
    """However the ranges are dealt to tasks: a replay by another number of cores gives rows the same order.

    Also where a record has many rows, so that those of one range have more than its positions.
    """
    splits = (*STATE.splits, SplitState(split_id="t-1", owner="t", start=5, end=9))
    listing = Listing({"t-0": 0, "t-1": 0})
    planned_tasks = plan_partitions(
        SourceState(splits=splits), listing, tasks=tasks, tracks_event_time=False
    )

    found = [
        (split.split_id, split.start, place)
        for task in planned_tasks
        for split, place in zip(task.splits, task.numbers, strict=True)
    ]
    assert found == places
