"""The state of all buckets in one task: what it stores and finds is what tasks by bucket store and find."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.connector.spark.source.buckets import bucket_numbers, combined
from penstock.sql.incremental.keyed.files import file_content, spooled_rows, state_files
from penstock.sql.incremental.keyed.files.manifest import BucketFiles, BucketId, StateFile
from penstock.sql.incremental.keyed.files.state_files import StateFiles
from penstock.sql.incremental.keyed.operator import KeyedLayout
from penstock.sql.incremental.keyed.runtime import held_rows, segment_folder
from penstock.sql.incremental.keyed.runtime.bucket_cache import BucketLocation
from penstock.sql.incremental.keyed.runtime.bucket_state import (
    AllBuckets,
    BucketState,
)
from penstock.sql.incremental.stages import COUNT
from tests.sql.incremental.keyed.memory import MB, peak_bytes
from tests.sql.incremental.keyed.oracle import WRITERS

BUCKETS = 4
LAYOUT = KeyedLayout(
    dims=(
        pa.field("v", pa.int64()),
        pa.field("k", pa.string()),
        pa.field("g", pa.int32()),
        pa.field("at", pa.timestamp("us", "UTC")),
    ),
    values=(pa.field(COUNT, pa.int64()),),
    key=("k", "g"),
    rowtime="at",
)


class States:
    """The buckets of a state, as the tasks of one batch after the other open them."""

    def __init__(self, folder: Path, layout: KeyedLayout = LAYOUT) -> None:
        self.folder, self.layout = folder, layout
        self.stored: dict[int, tuple[StateFile, ...]] = dict.fromkeys(range(BUCKETS), ())

    def open(self, batch: int) -> list[BucketState]:
        """Open all."""
        return [
            BucketState(
                BucketLocation(
                    files=StateFiles(location=str(self.folder / "state")),
                    state_id="id",
                    bucket=BucketId(stage="s", input="a", bucket=n),
                    stored=BucketFiles(files=files),
                    caches=self.folder / "caches",
                ),
                self.layout,
                batch,
                writers=WRITERS,
            )
            for n, files in self.stored.items()
        ]

    def take(self, states: list[BucketState]) -> None:
        """Close them, and take what they wrote into the state."""
        for n, state in enumerate(states):
            if state.written is not None:
                self.stored[n] = (*self.stored[n], state.written)
            state.close()


def rows_of(draw: random.Random, count: int) -> pa.Table:
    """Rows to store, of some keys and of none."""
    rows = [
        {
            "v": draw.randrange(100),
            "k": draw.choice(["a", "b", "c d", None, "", "é"]),
            "g": draw.choice([None, -1, 0, 7]),
            "at": draw.randrange(60) * 1_000_000,
            COUNT: 1,
            "__time": 0,
        }
        for _ in range(count)
    ]
    return pa.Table.from_pylist(rows, LAYOUT.schema)


def sorted_rows(rows: pa.Table) -> list[str]:
    """Rows without an order."""
    return sorted(map(repr, rows.to_pylist()))


@pytest.mark.parametrize("inserts", [False, True], ids=["added up", "inserts"])
@pytest.mark.parametrize("held", [0, 100_000], ids=["in files", "in memory"])
@pytest.mark.parametrize("hashed", [("k", "g"), ("g",)])
def test_one_task_and_tasks_by_bucket_go_on_with_each_other_s_state(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    held: int,
    hashed: tuple[str, ...],
    inserts: bool,
) -> None:
    """Rows are in the bucket of their key, in the order in which they were given; lookups find those of all."""
    monkeypatch.setattr(held_rows, "MOST_ROWS", held)
    if not held:
        monkeypatch.setattr(spooled_rows, "MOST_BYTES", 0)
    layout = replace(LAYOUT, inserts=inserts)
    draw, states, model = random.Random(held), States(tmp_path, layout), LAYOUT.schema.empty_table()
    keys = pa.table({"k": ["a", None, "", "none"], "g": pa.array([7, 0, None, 1], pa.int64())})
    asked = set(zip(*(keys.column(name).to_pylist() for name in LAYOUT.key), strict=True))
    for batch in range(6):
        rows, opened = rows_of(draw, 40), states.open(batch)
        every = AllBuckets(opened, layout, hashed)
        places = [model.column(name).to_pylist() for name in LAYOUT.key]
        is_asked = [key in asked for key in zip(*places, strict=True)]
        seconds = [at.timestamp() for at in model.column("at").to_pylist()]
        within = pa.array([10 < second <= 30 for second in seconds], pa.bool_())

        assert sorted_rows(every.rows_of(keys)) == sorted_rows(
            model.filter(pa.array(is_asked, pa.bool_()))
        )
        assert sorted_rows(every.rows_between(10_000_000, 30_000_000)) == sorted_rows(
            model.filter(within)
        )
        own = [combined(rows.column(name)) for name in hashed]
        numbers = bucket_numbers(own, rows.num_rows, BUCKETS)
        of_buckets = [rows.take(np.flatnonzero(numbers == n)) for n in range(BUCKETS)]
        if batch % 2:
            for state, part in zip(opened, of_buckets, strict=True):
                state.write(part)
        else:
            every.write(rows)
        for state, part in zip(opened, of_buckets, strict=True):
            assert (0 if state.written is None else state.written.rows) == part.num_rows
        states.take(opened)
        model = pa.concat_tables([model, rows])
    files = StateFiles(location=str(tmp_path / "state"))
    for n, stored in states.stored.items():
        bucket = BucketId(stage="s", input="a", bucket=n)
        parts = [table for file in stored for table in files.read(bucket, file, LAYOUT.schema)]
        found = pa.concat_tables([LAYOUT.schema.empty_table(), *parts])
        own = [combined(model.column(name)) for name in hashed]
        there = np.flatnonzero(bucket_numbers(own, model.num_rows, BUCKETS) == n)
        assert found.to_pylist() == model.take(there).to_pylist()


@pytest.mark.parametrize("inserts", [False, True], ids=["added up", "inserts"])
def test_one_bucket_of_many_changes_is_in_memory_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inserts: bool
) -> None:
    """Where its rows are too many to be held for the next batch: 10 MB of the 32 that are given."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "local"))
    monkeypatch.setattr(spooled_rows, "MOST_BYTES", 12 * MB)
    monkeypatch.setattr(file_content, "MOST_BYTES", MB)
    monkeypatch.setattr(state_files, "ROW_GROUP", 20_000)
    monkeypatch.setattr(held_rows, "MOST_ROWS", 1_000)
    monkeypatch.setattr(segment_folder, "MOST_BYTES", MB)
    layout = KeyedLayout(
        dims=(pa.field("k", pa.int64()), pa.field("v", pa.int64())),
        values=(pa.field(COUNT, pa.int64()),),
        key=("k",),
        inserts=inserts,
    )
    numbers = [pa.array(np.arange(n, n + 20_000)) for n in range(0, MB, 20_000)]
    given = pa.Table.from_batches(
        [pa.RecordBatch.from_arrays([part] * 4, schema=layout.schema) for part in numbers]
    )
    opened = States(tmp_path, layout).open(0)
    with peak_bytes() as taken:
        AllBuckets(opened, layout, ("k",)).write(given)
        assert taken() < 20 * MB

    assert sum(state.written.rows for state in opened if state.written) == given.num_rows


def test_nothing_is_written_for_no_change(tmp_path: Path) -> None:
    """Nor found where nothing is stored."""
    states = States(tmp_path)
    opened = states.open(0)
    every = AllBuckets(opened, LAYOUT, LAYOUT.key)
    every.write(LAYOUT.schema.empty_table())
    keys = pa.table({"k": ["a"], "g": pa.array([7], pa.int64())})

    assert [state.written for state in opened] == [None] * BUCKETS
    assert every.rows_of(keys).num_rows == every.rows_between(None, 1).num_rows == 0
