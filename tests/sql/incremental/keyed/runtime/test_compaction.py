"""Merges of files of keyed state beside batches that overtake them, fail and die."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Timer
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.catalog.errors import StateMismatchError
from penstock.sql.incremental.keyed.files import file_content, state_files
from penstock.sql.incremental.keyed.files.manifest import (
    MOST_FILES,
    RETAINED,
    BucketFiles,
    BucketId,
    StateFile,
    StateManifest,
    files_to_merge,
    merges_of,
)
from penstock.sql.incremental.keyed.files.state_files import StateFiles
from penstock.sql.incremental.keyed.operator import KeyedLayout
from penstock.sql.incremental.keyed.runtime import compaction as module
from penstock.sql.incremental.keyed.runtime import merged_rows
from penstock.sql.incremental.keyed.runtime.compaction import (
    MOST_BEHIND,
    OVERDUE_FILES,
)
from penstock.sql.incremental.keyed.tables import positional
from penstock.sql.incremental.stages import COUNT
from tests.sql.incremental.keyed.memory import MB, peak_bytes
from tests.sql.incremental.keyed.oracle import some_fast
from tests.sql.incremental.keyed.runtime.test_state import (
    BUCKET,
    INSERTS,
    LAYOUT,
    MemoryManifests,
    Store,
)

OTHER = BucketId(stage="s", input="a", bucket=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedFiles(StateFiles):
    """Files with a function that is called as each operation begins."""

    before: Callable[[str], None]

    def write_batches(self, *args: Any, **named: Any) -> StateFile:
        """Write, by a name that tells a merge from a batch."""
        self.before("merge" if named else "write")
        return StateFiles.write_batches(self, *args, **named)

    def delete(self, bucket: BucketId, name: str) -> None:
        """Remove."""
        self.before("delete")
        StateFiles.delete(self, bucket, name)


@dataclass
class WatchedManifests(MemoryManifests):
    """Manifests with such a function."""

    before: Callable[[str], None] = lambda _: None

    def __init__(self, found: dict[int, str], before: Callable[[str], None]) -> None:
        self.found = found
        self.before = before

    def write(self, manifest: StateManifest) -> None:
        """Write one."""
        self.before("manifest")
        MemoryManifests.write(self, manifest)

    def forget(self, batch_id: int) -> None:
        """Remove one."""
        self.before("forget")
        MemoryManifests.forget(self, batch_id)


def watched(store: Store, before: Callable[[str], None]) -> None:
    """Go on in a process that has the function called."""
    store.files = WatchedFiles(location=store.files.location, before=before)
    store.manifests = WatchedManifests(store.manifests.found, before)
    store.restart()


def names(store: Store) -> set[str]:
    """The files that are there."""
    return {path.name for path in (store.folder / "state").rglob("*.parquet")}


def named(store: Store) -> set[str]:
    """The files that a manifest names."""
    found = [store.manifests.read(batch) for batch in store.manifests.batches()]
    return {name for manifest in found if manifest for _, name in manifest.names}


def give(store: Store, changes: Counter[tuple[str | None, int]], now_ms: int = 0) -> None:
    """Run a batch, and do not wait for what is done beside."""
    state = store.open()
    state.write(store.rows(changes, now_ms))
    assert state.written is not None
    written = store.newest.with_batch(store.batch, {BUCKET: state.written})
    store.newest = store.compaction.taken(written, now_ms)
    store.manifests.write(store.newest)
    store.compaction.consider(store.newest, now_ms)
    store.batch += 1
    store.model.update(changes)


def test_batches_overtake_a_merge(tmp_path: Path) -> None:
    """It is taken into a later one; each batch that may be run again keeps its files, and merging goes on."""
    store, held, begun = Store(tmp_path), Event(), Event()

    def hold(step: str) -> None:
        if step == "merge":
            begun.set()
            assert held.wait(60)

    watched(store, hold)
    for _ in range(MOST_FILES):
        give(store, Counter({("a", 1): 1}))
    assert begun.wait(60)
    for _ in range(2 * RETAINED):
        give(store, Counter({("b", 1): 1}))
    held.set()
    assert store.compaction.wait(60)
    give(store, Counter({("b", 1): 1}))
    assert store.compaction.wait(60)

    assert len(store.newest.files[BUCKET].files) < MOST_FILES
    assert store.manifests.batches() == list(range(store.batch - RETAINED, store.batch))
    assert named(store) == names(store)
    assert store.look(["a", "b"]) == store.expected(["a", "b"])

    for _ in range(2 * MOST_FILES):
        give(store, Counter({("c d", 1): 1}))
        assert store.compaction.wait(60)
    assert len(store.newest.files[BUCKET].files) <= MOST_FILES
    assert store.compaction.failures == 0


def test_files_of_merges_say_their_columns(tmp_path: Path) -> None:
    """As those of batches do: sums in another order are not read from them."""
    store = Store(tmp_path)
    for _ in range(MOST_FILES + 1):
        store.give(Counter({("a", 1): 1}))
    merged = store.newest.files[BUCKET].files[0]
    assert merged.first < merged.last
    turned = replace(LAYOUT, dims=LAYOUT.dims[::-1])

    with pytest.raises(StateMismatchError, match="column 1 of the rows that it keeps of a is k "):
        list(store.files.read(BUCKET, merged, positional(turned)))


class KilledError(Exception):
    """The process has died: nothing that it does has an effect."""


@pytest.mark.parametrize("layout", [LAYOUT, INSERTS], ids=["added up", "inserts"])
@pytest.mark.parametrize("death", some_fast(range(1, 12), [2, 5, 8, 11]))
def test_a_process_dies_at_any_step_of_a_merge(
    tmp_path: Path, death: int, layout: KeyedLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it leaves is right for the next one, and gone in a while. Each part of a file is a step."""
    monkeypatch.setattr(merged_rows, "PART_ROWS", 1)
    monkeypatch.setattr(module, "BATCH_ROWS", 1)
    store = Store(tmp_path, layout)
    for n in range(MOST_FILES - 2):
        store.give(Counter({("abc"[n % 3], n % 2): 1}))
    steps: list[str] = []

    def die(step: str) -> None:
        if len(steps) >= death or "merge" in steps or step == "merge":
            steps.append(step)
        if len(steps) >= death:
            raise KilledError

    watched(store, die)
    died = False
    while not died:
        try:
            give(store, Counter({("a", 1): 1}))
        except KilledError:
            died = True
        store.compaction.wait(60)
        died = died or len(steps) >= death
    # the batch whose manifest is there is not run again, the one whose manifest is not is
    store.batch = max(store.manifests.batches()) + 1
    store.files = StateFiles(location=store.files.location)
    store.manifests = WatchedManifests(store.manifests.found, lambda _: None)
    store.restart()

    keys = ["a", "b", "c"]
    assert store.look(keys) == store.expected(keys)
    for _ in range(MOST_FILES):
        store.give(Counter({("b", 0): 1}))
    assert store.look(keys) == store.expected(keys)
    assert names(store) == named(store)
    assert len(merges_of(store.newest.files[BUCKET].files)) <= MOST_FILES


def test_batches_merge_what_merges_beside_leave_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However long these take, the files of a bucket have a bound."""
    store, most = Store(tmp_path), 0
    monkeypatch.setattr(store.compaction, "_merge_beside", lambda *_: None)
    for n in range(MOST_BEHIND + MOST_FILES):
        give(store, Counter({("abc"[n % 3], 1): 1}))
        assert store.compaction.wait(60)
        most = max(most, len(store.newest.files[BUCKET].files))

    assert OVERDUE_FILES < most < MOST_BEHIND
    assert len(store.newest.files[BUCKET].files) < 2 * MOST_FILES
    assert store.compaction.failures == 0
    assert "merges of keyed state lag: batch" in caplog.text
    assert store.look(["a", "b", "c"]) == store.expected(["a", "b", "c"])


def test_a_batch_waits_for_the_merge_of_its_files(tmp_path: Path) -> None:
    """One that runs beside is not done twice."""
    store, held, begun = Store(tmp_path), Event(), Event()
    merges: list[int] = []

    def hold(step: str) -> None:
        if step == "merge":
            merges.append(store.batch)
            begun.set()
            assert held.wait(60)

    watched(store, hold)
    while len(store.newest.files.get(BUCKET, BucketFiles()).files) < MOST_BEHIND - 1:
        give(store, Counter({("a", 1): 1}))
    assert begun.wait(60)
    release = Timer(0.1, held.set)
    release.start()
    give(store, Counter({("a", 1): 1}))
    release.join()

    assert len(merges) == 1
    assert len(store.newest.files[BUCKET].files) < MOST_BEHIND - MOST_FILES // 2
    assert store.look(["a"]) == store.expected(["a"])


def test_a_merge_that_fails_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its files go, no batch fails, and not every batch tries."""
    store = Store(tmp_path)
    tries: list[int] = []

    def fail(step: str) -> None:
        if step == "merge" and len(tries) < 2:
            tries.append(store.batch)
            raise OSError(28, "No space left on device")

    watched(store, fail)
    for _ in range(3 * MOST_FILES):
        give(store, Counter({("a", 1): 1}))
        assert store.compaction.wait(60)

    assert store.compaction.failures == len(tries) == 2
    assert tries[1] - tries[0] >= 10
    assert "failed (2 so far)" in caplog.text
    assert f"up to {MOST_FILES + 10} files: [Errno 28] No space" in caplog.text
    assert len(store.newest.files[BUCKET].files) <= MOST_FILES
    assert names(store) == named(store)
    assert store.look(["a"]) == store.expected(["a"])


def test_what_a_merge_that_failed_left_is_no_part_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rows are merged at once, and the first part, which the failed one has written, is to be removed."""
    monkeypatch.setattr(merged_rows, "PART_ROWS", 1)
    monkeypatch.setattr(module, "BATCH_ROWS", 1)
    store = Store(tmp_path)
    writes: list[str] = []

    def fail(step: str) -> None:
        if step == "merge":
            writes.append(step)
            if len(writes) == 2 or not is_sound:
                raise OSError(28, "No space left on device")

    is_sound = False
    watched(store, fail)
    give(store, Counter({("a", 1): 1, ("b", 1): 1}))
    while len(store.newest.files[BUCKET].files) < module.OVERDUE_FILES:
        give(store, Counter({("a", 1): 1, ("b", 1): 1}))
        assert store.compaction.wait(60)
    is_sound = True
    writes.clear()
    watched(store, fail)
    for _ in range(3):
        give(store, Counter({("a", 1): 1, ("b", 1): 1}))
        assert store.compaction.wait(60)

        assert named(store) <= names(store)
    assert len(writes) >= 4
    assert store.look(["a", "b"]) == store.expected(["a", "b"])


def test_a_merge_that_no_manifest_can_take_is_removed(tmp_path: Path) -> None:
    """A batch that goes on from other files."""
    store = Store(tmp_path)
    while not store.compaction._merged:
        give(store, Counter({("a", 1): 1}))
        assert store.compaction.wait(60)
    (merge,) = store.compaction._merged
    files = store.newest.files[BUCKET]
    other = BucketFiles(files=files.files[:-1], epoch=files.epoch)
    store.newest = StateManifest(
        state_id="id", buckets=1, batch_id=store.batch - 1, files={BUCKET: other}
    )
    store.compaction._merged = [
        module.FileMerge(bucket=BUCKET, replaced=files.files[-2:], files=merge.files)
    ]
    give(store, Counter({("a", 1): 1}))
    assert store.compaction.wait(60)

    assert not {file.name for file in merge.files} & names(store)
    assert store.newest.files[BUCKET].files[: len(other.files)] == other.files


def test_a_successor_that_ran_the_same_batch_again_is_one(tmp_path: Path) -> None:
    """Its manifest of the batch is not ours: nothing of it is removed."""
    store = Store(tmp_path)
    for _ in range(RETAINED):
        store.give(Counter({("a", 1): 1}))
    zombie, ours = store.compaction, store.newest
    store.batch -= 1
    store.model.subtract({("a", 1): 1})
    store.restart()
    store.give(Counter({("b", 1): 1}))
    there = names(store)
    zombie.consider(ours, 0)
    zombie.wait(60)
    zombie.close(60)

    assert names(store) == there
    assert store.look(["a", "b"]) == store.expected(["a", "b"])


def test_the_end_of_a_process_gives_a_merge_up(tmp_path: Path) -> None:
    """It does not wait for all of it, and batches can go on without."""
    store, held, begun = Store(tmp_path), Event(), Event()

    def hold(step: str) -> None:
        if step == "merge":
            begun.set()
            held.wait(60)

    watched(store, hold)
    for _ in range(MOST_FILES):
        give(store, Counter({("a", 1): 1}))
    assert begun.wait(60)
    store.compaction.close(0)
    held.set()
    store.compaction.close(60)
    give(store, Counter({("a", 1): 1}))

    assert store.compaction._thread is None
    assert store.look(["a"]) == store.expected(["a"])


@pytest.mark.parametrize("batches", [1, 3])
def test_runs_of_few_batches_leave_no_file_behind(tmp_path: Path, batches: int) -> None:
    """Neither those that a merge replaced in the run before, nor those of a merge that no batch came to take."""
    store = Store(tmp_path)
    for run in range(3 * OVERDUE_FILES // batches):
        store.restart()
        for n in range(batches):
            store.give(Counter({("abc"[n], run): 1}))
        store.compaction.close(60)

        assert names(store) == named(store)
    assert len(store.manifests.batches()) == RETAINED
    assert store.look(["a", "b", "c"]) == store.expected(["a", "b", "c"])


@pytest.mark.parametrize("step", ["delete", "forget"])
def test_a_run_that_dies_at_a_removal_leaves_it_to_the_next(tmp_path: Path, step: str) -> None:
    """The next one has a single batch, and knows what is left by the manifests that are left."""
    store = Store(tmp_path)
    while len(store.newest.files.get(BUCKET, BucketFiles()).files) < OVERDUE_FILES - 1:
        store.restart()
        store.give(Counter({("a", store.batch): 1}))
        store.compaction.close(60)
    died: list[int] = []

    def die(reached: str) -> None:
        if reached == step and store.batch not in died:
            died.append(store.batch)
            raise KilledError

    for _ in range(RETAINED + 1):
        watched(store, die)
        give(store, Counter({("b", store.batch): 1}))
        assert store.compaction.wait(60)
    assert died
    store.files = StateFiles(location=store.files.location)
    store.manifests = WatchedManifests(store.manifests.found, lambda _: None)
    for _ in range(RETAINED):
        store.restart()
        store.give(Counter({("a", store.batch): 1}))

    assert names(store) == named(store)
    assert len(store.newest.files[BUCKET].files) < MOST_FILES
    assert store.look(["a", "b"]) == store.expected(["a", "b"])


class Exits:
    """What is called when a process ends."""

    def __init__(self) -> None:
        self.calls: list[Callable[[float], None]] = []
        self.ended = Event()

    def register(self, call: Callable[[float], None], *_: float) -> None:
        """Have it called."""
        self.calls.append(call)

    def unregister(self, call: Callable[[float], None]) -> None:
        """Have it called no more."""
        if call in self.calls:
            # the threads of other tests end, too
            self.calls.remove(call)
            self.ended.set()


def test_an_idle_run_removes_its_merges_when_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No batch has taken them, and nothing has run beside for a while; without a merge there is nothing to do."""
    exits = Exits()
    monkeypatch.setattr(module, "atexit", exits)
    monkeypatch.setattr(module, "_IDLE_S", 0.01)
    store = Store(tmp_path)
    store.give(Counter({("a", 1): 1}))
    assert exits.ended.wait(60)
    assert exits.calls == []
    while not store.compaction._merged:
        store.give(Counter({("a", 1): 1}))
    while (thread := store.compaction._thread) is not None:
        thread.join(60)

    assert names(store) > named(store)
    for call in exits.calls:
        call(60)
    assert names(store) == named(store)
    store.give(Counter({("a", 1): 1}))
    assert store.look(["a"]) == store.expected(["a"])


def sized(name: str, batches: tuple[int, int], rows: int) -> StateFile:
    """A file of so many rows."""
    return StateFile(name=name, first=batches[0], last=batches[1], rows=rows, bytes=1)


def test_parts_of_a_merge_are_one_file_to_the_next() -> None:
    """A large bucket is written again when as many rows have come as it has, not as a part has."""
    parts = tuple(sized(f"p{n}", (0, 99), 1_000) for n in range(2 * MOST_FILES))
    batches = tuple(sized(f"b{n}", (100 + n, 100 + n), 100) for n in range(MOST_FILES))

    assert files_to_merge((*parts, *batches[:5])) == ()
    assert files_to_merge((*parts, *batches)) == batches[:-2]
    large = sized("large", (100, 199), 16_000)
    newest = tuple(sized(f"n{n}", (200 + n, 200 + n), 100) for n in range(MOST_FILES))
    assert files_to_merge((*parts, large, *newest)) == newest[:-2]
    larger = tuple(sized(f"m{n}", (200 + n, 200 + n), 20_000) for n in range(MOST_FILES))
    assert files_to_merge((*parts, large, *larger)) == (*parts, large, *larger[:-2])


def test_parts_are_bounded_in_rows_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a file."""
    batches = pa.table({"c0": pa.array(range(100), pa.int64())}).to_batches(max_chunksize=10)

    def parts() -> list[int]:
        return [sum(of.num_rows for of in part) for part in merged_rows.in_parts(batches)]

    monkeypatch.setattr(merged_rows, "PART_ROWS", 40)
    assert parts() == [40, 40, 20]
    monkeypatch.setattr(merged_rows, "PART_BYTES", 8 * 15)
    assert parts() == [20] * 5


@pytest.mark.parametrize("inserts", [False, True], ids=["added up", "inserts"])
def test_a_merge_has_a_row_group_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inserts: bool
) -> None:
    """Of 16 MB of rows that become a file of 5 MB: a bucket may be larger than memory."""
    monkeypatch.setattr(file_content, "MOST_BYTES", 64_000)
    monkeypatch.setattr(file_content, "_PIECE", 64_000)
    monkeypatch.setattr(state_files, "ROW_GROUP", 20_000)
    layout = KeyedLayout(
        dims=(pa.field("k", pa.int64()),),
        values=(pa.field(COUNT, pa.int64()),),
        key=("k",),
        inserts=inserts,
    )
    store, draw, count = Store(tmp_path, layout), np.random.default_rng(0), 20_000
    for batch in range(OVERDUE_FILES):
        keys = pa.array(draw.integers(0, 2**62, count))
        columns = [keys, pa.array([1] * count), pa.array([0] * count)]
        rows = pa.Table.from_arrays(columns, schema=positional(layout))
        file = store.files.write(BUCKET, batch, batch, rows)
        store.newest = store.newest.with_batch(batch, {BUCKET: file})
    with peak_bytes() as taken:
        merged = store.compaction.taken(store.newest, 0)
        assert taken() < 6 * MB

    first, *others = merged.files[BUCKET].files
    assert first.rows == count * (OVERDUE_FILES - 2)
    assert first.bytes > 4 * MB
    assert len(others) == 2
