"""Keyed state on files: a task finds what was written as of the batch before, whatever happened to its cache."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from threading import Event
from typing import Any, cast

import pyarrow as pa
import pytest

from penstock.catalog.errors import StateMismatchError
from penstock.sql.incremental.keyed.files.manifest import (
    MOST_FILES,
    RETAINED,
    BucketFiles,
    BucketId,
    StateFile,
    StateManifest,
    files_to_merge,
)
from penstock.sql.incremental.keyed.files.manifest_folder import Manifests
from penstock.sql.incremental.keyed.files.state_files import StateFiles
from penstock.sql.incremental.keyed.operator import KeyedLayout
from penstock.sql.incremental.keyed.runtime import bucket_cache, held_rows
from penstock.sql.incremental.keyed.runtime.bucket_cache import BucketLocation
from penstock.sql.incremental.keyed.runtime.bucket_state import BucketState
from penstock.sql.incremental.keyed.runtime.compaction import (
    OVERDUE_FILES,
    StateCompaction,
)
from penstock.sql.incremental.stages import COUNT
from tests.sql.incremental.keyed.oracle import WRITERS, some_fast

BUCKET = BucketId(stage="s", input="a", bucket=0)
LAYOUT = KeyedLayout(
    dims=(pa.field("k", pa.string()), pa.field('odd "name"', pa.timestamp("us", "UTC"))),
    values=(pa.field("total", pa.decimal128(20, 2)), pa.field(COUNT, pa.int64())),
    key=("k",),
)
INSERTS = replace(LAYOUT, values=LAYOUT.values[-1:], inserts=True)
KEYS: tuple[str | None, ...] = ("a", "b", "c d", None, "")
Row = tuple[str | None, int]


class MemoryManifests:
    """Manifests as those of a checkpoint, without Spark."""

    def __init__(self) -> None:
        self.found: dict[int, str] = {}

    def batches(self) -> Sequence[int]:
        """List the batches that have one."""
        return sorted(self.found)

    def read(self, batch_id: int) -> StateManifest | None:
        """Read that of a batch."""
        text = self.found.get(batch_id)
        return None if text is None else StateManifest.from_value(json.loads(text))

    def write(self, manifest: StateManifest) -> None:
        """Write one."""
        self.found[manifest.batch_id] = manifest.to_text()

    def behind(self, batch_id: int) -> dict[int, StateManifest | None]:
        """Read those of batches behind one."""
        return {batch: self.read(batch) for batch in self.batches() if batch > batch_id}

    @property
    def ended(self) -> bool:
        """Spark is not needed."""
        return False

    def forget(self, batch_id: int) -> None:
        """Remove one."""
        del self.found[batch_id]


@dataclass
class Store:
    """The state of one bucket, batch by batch, beside a model of it."""

    folder: Path
    layout: KeyedLayout = LAYOUT
    manifests: MemoryManifests = field(default_factory=MemoryManifests)
    model: Counter[Row] = field(default_factory=Counter)
    batch: int = 0

    def __post_init__(self) -> None:
        self.files = StateFiles(location=str(self.folder / "state"))
        self.newest = StateManifest(state_id="id", buckets=1, batch_id=-1)
        self.restart()

    def restart(self) -> None:
        """Go on in a new process, from the newest manifest."""
        layouts = {("s", "a"): self.layout}
        self.compaction = StateCompaction(self.files, cast("Manifests", self.manifests), layouts)
        self.newest = self.manifests.read(self.batch - 1) or self.newest

    @property
    def caches(self) -> Path:
        """The folder of caches."""
        return self.folder / "caches"

    def open(self) -> BucketState:
        """Open the state as the task of the next batch does."""
        place = BucketLocation(
            files=self.files,
            state_id=self.newest.state_id,
            bucket=BUCKET,
            stored=self.newest.files.get(BUCKET, BucketFiles()),
            caches=self.caches,
        )
        return BucketState(place, self.layout, self.batch, writers=WRITERS)

    def look(self, keys: Sequence[str | None]) -> Counter[Row]:
        """Look keys up, as rows and their count."""
        state = self.open()
        try:
            rows = state.rows_of(pa.table({"k": pa.array(keys, pa.string())})).to_pylist()
        finally:
            state.close()
        return self._counted(rows)

    def span(self, after: int | None, until: int) -> Counter[Row]:
        """Look rows up by their time, in seconds, as rows and their count."""
        state = self.open()
        try:
            earliest = None if after is None else after * 1_000_000
            rows = state.rows_between(earliest, until * 1_000_000).to_pylist()
        finally:
            state.close()
        return self._counted(rows)

    @staticmethod
    def _counted(rows: Sequence[Mapping[str, Any]]) -> Counter[Row]:
        found: Counter[Row] = Counter()
        for row in rows:
            key = (row["k"], int(row['odd "name"'].timestamp()))
            found[key] += row[COUNT]
            assert row.get("total") in (Decimal(row[COUNT]) / 4, None)
        return Counter({row: count for row, count in found.items() if count})

    def give(self, changes: Counter[Row], now_ms: int = 0) -> StateFile:
        """Run a batch that looks its keys up, and adds changes."""
        state = self.open()
        state.rows_of(pa.table({"k": pa.array(sorted({k or "" for k, _ in changes}))}))
        state.write(self.rows(changes, now_ms))
        assert state.written is not None
        state.close()
        with_batch = self.newest.with_batch(self.batch, {BUCKET: state.written})
        self.newest = self.compaction.taken(with_batch, now_ms)
        self.manifests.write(self.newest)
        self.compaction.consider(self.newest, now_ms)
        assert self.compaction.wait(30)
        assert self.compaction.failures == 0
        self.batch += 1
        self.model.update(changes)
        return state.written

    def rows(self, changes: Counter[Row], now_ms: int) -> pa.Table:
        """Rows as a state keeps them."""
        ordered = sorted(changes.items(), key=repr)
        columns = [
            pa.array([k for (k, _), _ in ordered], pa.string()),
            pa.array([v * 1_000_000 for (_, v), _ in ordered], pa.timestamp("us", "UTC")),
            pa.array([Decimal(n) / 4 for _, n in ordered], pa.decimal128(20, 2)),
            pa.array([n for _, n in ordered], pa.int64()),
            pa.array([now_ms] * len(ordered), pa.int64()),
        ]
        rows = pa.Table.from_arrays(columns, schema=LAYOUT.schema)
        return rows.select(self.layout.schema.names)

    def expected(self, keys: Sequence[str | None]) -> Counter[Row]:
        """What the model has of keys."""
        return Counter({row: n for row, n in self.model.items() if n and row[0] in keys})


def drawn(draw: random.Random, model: Counter[Row]) -> Counter[Row]:
    """Random changes; no row is there less than no time."""
    changes: Counter[Row] = Counter()
    for _ in range(draw.randint(1, 6)):
        row = (draw.choice(KEYS), draw.randrange(4))
        there = model[row] + changes[row]
        changes[row] += draw.choice([1, 2, -1 if there > 0 else 1, -there if there else 3])
    return changes


def lose_cache(store: Store) -> None:
    """Another machine goes on."""
    shutil.rmtree(store.caches, ignore_errors=True)


def damage_cache(store: Store) -> None:
    """The cache was being written as the machine stopped."""
    for path in store.caches.rglob("*.duckdb"):
        path.write_bytes(path.read_bytes()[:5000])


@contextmanager
def holding(code: str) -> Iterator[None]:
    """Run Python beside, which says when it has begun, until the block ends."""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        yield
        process.communicate()


def keep(_: Store) -> None:
    """Nothing happens."""


@pytest.fixture(autouse=True, params=[-1])
def most_held_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many rows of a bucket are held in memory; -1: none, the cache on disk has all."""
    monkeypatch.setattr(held_rows, "MOST_ROWS", request.param)
    monkeypatch.setattr(held_rows, "_processes", {})
    most: int = request.param
    return most


in_memory_too = pytest.mark.parametrize(
    "most_held_rows", some_fast([-1, 6, 1000], [6]), indirect=True
)
"""All rows in the cache on disk, the newest in memory, all in memory."""


@in_memory_too
@pytest.mark.parametrize("seed", some_fast(range(2), [0]))
def test_a_state_is_what_was_written(tmp_path: Path, seed: int) -> None:
    """Over merges, lost and damaged caches, new processes and attempts whose file no manifest names."""
    draw, store = random.Random(seed), Store(tmp_path)
    for _ in range(2 * MOST_FILES):
        draw.choice([keep, keep, keep, lose_cache, damage_cache, Store.restart])(store)
        asked = draw.sample(KEYS, draw.randint(0, len(KEYS)))

        assert store.look(asked) == store.expected(asked)

        attempt = store.open()
        attempt.rows_of(pa.table({"k": pa.array(["a"])}))
        attempt.write(store.rows(drawn(draw, store.model), 0))
        _ = attempt.written
        attempt.close()
        store.give(drawn(draw, store.model))
    files = store.newest.files[BUCKET].files

    assert store.look(KEYS) == store.expected(KEYS)
    assert len(files) <= MOST_FILES
    assert len(store.manifests.found) == RETAINED


@in_memory_too
@pytest.mark.parametrize("seed", some_fast(range(2), [0]))
def test_rows_are_found_by_their_time(tmp_path: Path, seed: int) -> None:
    """Of any key, later than one bound and up to the other; over merges, lost and damaged caches."""
    draw, store = random.Random(seed), Store(tmp_path, replace(LAYOUT, rowtime='odd "name"'))
    for _ in range(2 * MOST_FILES):
        draw.choice([keep, keep, keep, lose_cache, damage_cache, Store.restart])(store)
        after, until = draw.choice([None, -1, 0, 1]), draw.randrange(4)
        within = {
            row: n
            for row, n in store.model.items()
            if n and row[1] <= until and (after is None or row[1] > after)
        }

        assert store.span(after, until) == within

        store.give(drawn(draw, store.model))


def test_an_attempt_that_runs_again_writes_the_same_file(tmp_path: Path) -> None:
    """So the manifest names what is there, whichever attempt reported."""
    store = Store(tmp_path)
    changes = Counter({("a", 1): 2, (None, 2): 1})
    first = store.open()
    first.write(store.rows(changes, 7))

    assert store.give(changes, 7) == first.written


def test_caches_that_another_process_has_open_are_not_needed(tmp_path: Path) -> None:
    """A worker that was paused keeps its lock."""
    store = Store(tmp_path)
    store.give(Counter({("a", 1): 1}))
    store.look(["a"])
    (cache,) = store.caches.rglob("*.duckdb")
    code = f"import duckdb, sys; c = duckdb.connect({str(cache)!r}); print('open', flush=True); sys.stdin.read()"
    with holding(code):
        assert store.look(["a"]) == {("a", 1): 1}

    store.give(Counter({("a", 1): 1}))

    assert store.look(["a"]) == {("a", 1): 2}


def test_a_cache_of_another_state_is_not_taken(tmp_path: Path) -> None:
    """A checkpoint that was begun again at the same place has another id."""
    store = Store(tmp_path)
    store.give(Counter({("a", 1): 5}))
    store.look(["a"])
    other = Store(tmp_path)
    other.newest = StateManifest(state_id="other", buckets=1, batch_id=-1)
    other.give(Counter({("a", 1): 1}))

    assert other.look(["a"]) == {("a", 1): 1}
    # nobody takes that one again
    assert [path.parent.name for path in store.caches.rglob("*.duckdb")] == ["other"]


def test_small_states_need_no_cache_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a worker wrote itself it does not read again, until others take the place of it in memory."""
    monkeypatch.setattr(held_rows, "MOST_ROWS", 100)
    store, other = Store(tmp_path / "a"), Store(tmp_path / "b")
    written = store.give(Counter({("a", 1): 5}))
    (path,) = (tmp_path / "a" / "state").rglob(written.name)
    path.unlink()

    assert store.look(["a"]) == {("a", 1): 5}
    assert not store.caches.exists()

    monkeypatch.setattr(held_rows, "MOST_BYTES", 1)
    other.give(Counter({("a", 1): 1}))

    with pytest.raises(StateMismatchError, match="is missing"):
        store.look(["a"])


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """And so is one that is missing, or that holds other columns."""
    store = Store(tmp_path)
    written = store.give(Counter({("a", 1): 5}))
    held_rows._processes.clear()
    (path,) = (tmp_path / "state").rglob(written.name)
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(StateMismatchError, match=f"{written.name} is not as it was written"):
        store.look(["a"])
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(StateMismatchError, match="is not as it was written"):
        store.look(["a"])
    path.unlink()
    with pytest.raises(StateMismatchError, match="is missing"):
        store.look(["a"])
    path.write_bytes(content)
    store.layout = KeyedLayout(dims=LAYOUT.dims[:1], values=LAYOUT.values, key=("k",))
    with pytest.raises(StateMismatchError, match="column 2 of the rows that it keeps of"):
        store.look(["a"])


@in_memory_too
def test_expired_rows_go_and_those_that_are_counted_on_stay(tmp_path: Path) -> None:
    """A batch subtracts what it found, also while a merge that drops it is under way."""
    layout = KeyedLayout(
        dims=LAYOUT.dims, values=LAYOUT.values, key=("k",), time_to_live_ms=10, by_row=False
    )
    store = Store(tmp_path, layout)
    store.give(Counter({("a", 1): 5, ("b", 1): 7}), now_ms=0)
    while not store.compaction._merged:
        store.give(Counter({("c d", 2): 1}), now_ms=100)
    # the batch that is in flight has found the expired row, and subtracts it
    store.give(Counter({("a", 1): -4}), now_ms=101)
    del store.model["b", 1]

    assert store.newest.files[BUCKET].epoch == 1
    assert store.look(KEYS) == store.expected(KEYS)
    lose_cache(store)
    assert store.look(KEYS) == store.expected(KEYS)


def test_files_of_failed_attempts_are_removed(tmp_path: Path) -> None:
    """In a while, by the process that found them as it began; and files that were merged."""
    store = Store(tmp_path)
    store.give(Counter({("a", 1): 1}))
    attempt = store.open()
    attempt.write(store.rows(Counter({("b", 1): 1}), 0))
    assert attempt.written is not None
    store.give(Counter({("a", 1): 1}))
    store.restart()
    for _ in range(2 * MOST_FILES):
        store.give(Counter({("a", 1): 1}))
    there = {path.name for path in (tmp_path / "state").rglob("*.parquet")}
    named = {
        name
        for batch in store.manifests.batches()
        for _, name in (store.manifests.read(batch) or store.newest).names
    }

    assert attempt.written.name not in there
    assert there == named


def test_a_checkpoint_that_lost_its_newest_batches_goes_on_with_merges(tmp_path: Path) -> None:
    """After a loss of power, or as a copy over the folder: there are manifests of batches that it runs again."""
    store = Store(tmp_path)
    for _ in range(6):
        store.give(Counter({("a", 1): 1}))
    checkpoint = store.model.copy()
    for _ in range(RETAINED - 1):
        store.give(Counter({("b", 2): 1}))
    store.batch, store.model = 6, checkpoint
    store.restart()
    for _ in range(2 * MOST_FILES):
        store.give(Counter({("a", 1): 1}))

    assert len(store.newest.files[BUCKET].files) <= MOST_FILES
    assert len(store.manifests.batches()) == RETAINED
    assert store.look(KEYS) == store.expected(KEYS)


def test_a_zombie_removes_nothing(tmp_path: Path) -> None:
    """It finds the manifest of its successor."""
    store = Store(tmp_path)
    for _ in range(5):
        store.give(Counter({("a", 1): 1}))
    zombie, before = store.compaction, store.newest
    store.restart()
    store.give(Counter({("a", 1): 1}))
    there = set(store.manifests.found)
    zombie.consider(before, 0)

    assert zombie.wait(30)
    assert set(store.manifests.found) == there
    assert store.look(["a"]) == {("a", 1): 6}


@pytest.mark.parametrize("most_held_rows", [30], indirect=True)
def test_a_merge_of_new_files_leaves_a_cache_what_it_has_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first file has most rows: to read it again takes seconds of a large state, every few batches."""
    monkeypatch.setattr(bucket_cache, "_FEWEST_ADDED", 100)
    store, read = Store(tmp_path), Counter[str]()

    def counting(
        self: StateFiles,
        bucket: BucketId,
        file: StateFile,
        schema: pa.Schema,
        plain=StateFiles.read,
    ) -> Iterator[pa.Table]:
        read[file.name] += 1
        return plain(self, bucket, file, schema)

    monkeypatch.setattr(StateFiles, "read", counting)
    first = store.give(Counter({(f"of the first {n}", n): 1 for n in range(2_000)}))
    merged = set()
    for batch in range(4 * MOST_FILES):
        store.give(Counter({(key, batch): 1 for key in KEYS if key}))
        merged |= {file.name for file in store.newest.files[BUCKET].files if file.first < file.last}
        asked = [*KEYS, f"of the first {batch}"]
        assert store.look(asked) == store.expected(asked)

    assert len(merged) > 3
    assert read[first.name] == 1


@pytest.mark.slow
def test_runs_of_one_batch_each_merge_too(tmp_path: Path) -> None:
    """None of them lives to take what was merged beside it."""
    store = Store(tmp_path)
    for _ in range(OVERDUE_FILES + 1):
        store.restart()
        store.give(Counter({("a", 1): 1}))

    assert len(store.newest.files[BUCKET].files) < OVERDUE_FILES
    assert store.look(["a"]) == {("a", 1): OVERDUE_FILES + 1}


def test_each_row_is_merged_a_logarithmic_number_of_times() -> None:
    """A large file waits until as many rows have come behind it."""
    files: tuple[StateFile, ...] = ()
    written = 0
    for batch in range(4096):
        files = (*files, StateFile(name=str(batch), first=batch, last=batch, rows=10, bytes=1))
        run = files_to_merge(files)
        if run:
            rows = sum(file.rows for file in run)
            written += rows
            merged = StateFile(
                name=f"m{batch}", first=run[0].first, last=run[-1].last, rows=rows, bytes=1
            )
            start = files.index(run[0])
            files = (*files[:start], merged, *files[start + len(run) :])
        assert len(files) <= MOST_FILES + 1

    assert written <= 8 * 4096 * 10


@pytest.mark.parametrize("layout", [LAYOUT, INSERTS])
def test_a_file_is_written_while_the_operator_goes_on(tmp_path: Path, layout: KeyedLayout) -> None:
    """It is there once it is asked for; what went wrong is raised then."""
    store, go_on = Store(tmp_path, layout), Event()
    rows = store.rows(Counter({("a", 1): 1}), 0)
    (tmp_path / "file").touch()
    wrong = StateFiles(location=str(tmp_path / "file" / "state"))
    with ThreadPoolExecutor(1) as writers:
        writers.submit(go_on.wait, 30)
        state, failing = (
            BucketState(
                BucketLocation(
                    files=files,
                    state_id="id",
                    bucket=BUCKET,
                    stored=BucketFiles(),
                    caches=store.caches,
                ),
                layout,
                0,
                writers=writers,
            )
            for files in (store.files, wrong)
        )
        state.write(rows)
        failing.write(rows)
        assert not (tmp_path / "state").exists()
        go_on.set()
        file = state.written
        state.close()

        assert file is not None
        assert store.files.names(BUCKET) == (file.name,)
        assert state.written == file
        with pytest.raises(OSError, match="file"):
            _ = failing.written
