"""Stored rows that are only added: a lookup finds those of its keys, whatever happened to the segments on the disk."""

from __future__ import annotations

import math
import random
import shutil
import sys
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from penstock.catalog.errors import StateMismatchError
from penstock.sql.incremental.keyed.files import manifest
from penstock.sql.incremental.keyed.files.manifest import (
    MOST_FILES,
    BucketFiles,
    BucketId,
    StateFile,
    StateManifest,
)
from penstock.sql.incremental.keyed.files.manifest_folder import Manifests
from penstock.sql.incremental.keyed.files.state_files import StateFiles
from penstock.sql.incremental.keyed.operator import KeyedLayout
from penstock.sql.incremental.keyed.runtime import (
    bucket_cache,
    key_hashes,
    merged_rows,
    row_segments,
    segment_files,
    segment_folder,
)
from penstock.sql.incremental.keyed.runtime.bucket_cache import BucketLocation
from penstock.sql.incremental.keyed.runtime.bucket_state import BucketState
from penstock.sql.incremental.keyed.runtime.compaction import StateCompaction
from penstock.sql.incremental.stages import COUNT, TIME
from tests.sql.incremental.keyed.oracle import WRITERS, rows_in, some_fast
from tests.sql.incremental.keyed.runtime.test_state import MemoryManifests

BUCKET = BucketId(stage="s", input="a", bucket=0)
LAYOUT = KeyedLayout(
    dims=(
        pa.field("v", pa.int64()),
        pa.field("k", pa.string()),
        pa.field("n", pa.int32()),
        pa.field("at", pa.timestamp("us", "UTC")),
    ),
    values=(pa.field(COUNT, pa.int64()),),
    key=("k", "n"),
    rowtime="at",
    inserts=True,
)
Key = tuple[Any, ...]
KEYS: tuple[Key, ...] = (("a", 1), ("a", None), (None, None), ("", 0), ("a longer text", -1))


@dataclass
class Store:
    """The state of one bucket, batch by batch, beside all rows that were written."""

    folder: Path
    layout: KeyedLayout = LAYOUT
    model: list[tuple[Any, ...]] = field(default_factory=list)
    batch: int = 0
    state_id: str = "id"
    location: str = "state"

    def __post_init__(self) -> None:
        self.files = StateFiles(location=str(self.folder / self.location))
        self.newest = StateManifest(state_id=self.state_id, buckets=1, batch_id=-1)
        self.manifests = MemoryManifests()
        layouts = {("s", "a"): self.layout}
        self.compaction = StateCompaction(self.files, cast("Manifests", self.manifests), layouts)

    @property
    def segments(self) -> list[Path]:
        """The segments on the disk."""
        return sorted((self.folder / "caches").rglob("*.arrow"))

    @property
    def segment_folder(self) -> Path:
        """Their folder."""
        place = self.open()._location
        return place.segments(self.layout, None)._of.folder

    @property
    def stored(self) -> tuple[StateFile, ...]:
        """The state files."""
        return self.newest.files.get(BUCKET, BucketFiles()).files

    def open(self, ended: int | None = None) -> BucketState:
        """Open the state as the task of the next batch does."""
        place = BucketLocation(
            files=self.files,
            state_id=self.state_id,
            bucket=BUCKET,
            stored=self.newest.files.get(BUCKET, BucketFiles()),
            caches=self.folder / "caches",
        )
        return BucketState(place, self.layout, self.batch, ended=ended, writers=WRITERS)

    def look(self, keys: Sequence[Key], ended: int | None = None) -> Counter[str]:
        """Look keys up."""
        columns = list(zip(*keys, strict=True)) or [()] * len(self.layout.key)
        asked = [
            pa.array(c, of.type) for c, of in zip(columns, self.layout.key_schema, strict=True)
        ]
        state = self.open(ended)
        found = state.rows_of(pa.Table.from_arrays(asked, schema=self.layout.key_schema))
        state.close()
        assert found.schema == self.layout.schema
        return shown(found)

    def span(self, after: int | None, until: int) -> Counter[str]:
        """Look rows up by their time."""
        return shown(self.open().rows_between(after, until))

    def give(self, rows: Sequence[tuple[Any, ...]], ended: int | None = None) -> StateFile:
        """Write the rows of a batch."""
        state = self.open(ended)
        state.write(self.table(rows))
        assert state.written is not None
        manifest = self.newest.with_batch(self.batch, {BUCKET: state.written})
        until = {} if ended is None else {("s", "a"): ended}
        self.newest = self.compaction.taken(manifest, 0, until)
        self.manifests.write(self.newest)
        self.compaction.consider(self.newest, 0, until)
        assert self.compaction.wait(30)
        assert self.compaction.failures == 0
        self.batch += 1
        self.model += rows
        return state.written

    def table(self, rows: Iterable[tuple[Any, ...]]) -> pa.Table:
        """Rows as a state keeps them."""
        return rows_in(self.layout.schema, [(*row, 1, 0) for row in rows])

    def expected(self, keys: Sequence[Key]) -> Counter[str]:
        """What the model has of keys."""
        places = [self.layout.names.index(name) for name in self.layout.key]
        asked = set(map(repr, keys))
        found = (row for row in self.model if repr(tuple(row[n] for n in places)) in asked)
        return shown(self.table(found))


def shown(rows: pa.Table) -> Counter[str]:
    """Rows without an order."""
    return Counter(map(repr, rows.drop_columns([COUNT, TIME]).to_pylist()))


def drawn(draw: random.Random) -> list[tuple[Any, ...]]:
    """Random rows, equal ones among them."""
    return [
        (draw.randrange(3), *draw.choice(KEYS), draw.randrange(60))
        for _ in range(draw.randint(1, 9))
    ]


def keep(_: Store) -> None:
    """Nothing happens."""


def begin_process(_: Store) -> None:
    """Another worker goes on."""
    segment_files._processes.clear()
    bucket_cache._processes.clear()


def lose_segments(store: Store) -> None:
    """Another machine goes on."""
    shutil.rmtree(store.folder / "caches", ignore_errors=True)
    begin_process(store)


def lose_one(store: Store) -> None:
    """Another worker has removed one that this one is about to map."""
    for path in store.segments[:1]:
        path.unlink()
    begin_process(store)


def cut_one(store: Store) -> None:
    """A segment is not whole."""
    for path in store.segments[-1:]:
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content[: len(content) // 2])
    begin_process(store)


def damage_progress(store: Store) -> None:
    """The file that tells of them is not whole."""
    for path in (store.folder / "caches").rglob("segments.json"):
        path.write_text(path.read_text()[:20])


def reads_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the state files that are read from now on."""
    names: list[str] = []
    real = StateFiles.read

    def read(
        files: StateFiles, bucket: BucketId, file: StateFile, schema: pa.Schema
    ) -> Iterator[pa.Table]:
        names.append(file.name)
        return real(files, bucket, file, schema)

    monkeypatch.setattr(StateFiles, "read", read)
    return names


HAPPENS = (keep, keep, begin_process, lose_segments, lose_one, cut_one, damage_progress)


@pytest.fixture(autouse=True)
def _new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_files, "_processes", {})
    monkeypatch.setattr(bucket_cache, "_processes", defaultdict(set))
    monkeypatch.setattr(segment_folder, "MOST_SEGMENTS", 3)


@pytest.fixture(params=["hashes", "colliding hashes"])
def _hashes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "colliding hashes":
        real = key_hashes.key_hashes
        monkeypatch.setattr(row_segments, "key_hashes", lambda *of: real(*of) % np.uint64(2))


@pytest.fixture(params=["whole", "cut"])
def _sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "cut":
        monkeypatch.setattr(segment_folder, "MOST_BYTES", 2000)
        monkeypatch.setattr(merged_rows, "PART_ROWS", 30)
        monkeypatch.setattr(row_segments, "_ROWS_AT_ONCE", 2)
        monkeypatch.setattr(row_segments, "_KEYS_AT_ONCE", 2)


@pytest.mark.usefixtures("_hashes", "_sizes")
@pytest.mark.parametrize("seed", some_fast(range(3), [0]))
def test_a_lookup_finds_the_rows_of_its_keys(tmp_path: Path, seed: int) -> None:
    """Over merges, lost and damaged segments, other workers, and attempts whose file no manifest names."""
    draw, store = random.Random(seed), Store(tmp_path)
    for _ in range(2 * MOST_FILES):
        draw.choice(HAPPENS)(store)
        asked = draw.sample(KEYS, draw.randint(0, len(KEYS)))
        after, until = draw.choice([None, -1, 0, 20]), draw.randrange(60)
        within = [r for r in store.model if r[-1] <= until and (after is None or r[-1] > after)]

        assert store.look(asked) == store.expected(asked)
        assert store.span(after, until) == shown(store.table(within))

        attempt = store.open()
        attempt.write(store.table(drawn(draw)))
        _ = attempt.written
        store.give(drawn(draw))

    assert store.look(KEYS) == store.expected(KEYS)
    assert len(store.stored) <= 3 * MOST_FILES // 2


FLOATS = replace(
    LAYOUT,
    dims=(pa.field("k", pa.float64()), pa.field("l", pa.list_(pa.int32()))),
    key=("k", "l"),
    rowtime=None,
)


@pytest.mark.usefixtures("_hashes")
def test_keys_are_compared_as_duckdb_groups_them(tmp_path: Path) -> None:
    """One NaN, one zero, NULL equals NULL, in values of a nested type, too."""
    store = Store(tmp_path, FLOATS)
    other_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    store.give([(other_nan, [1]), (0.0, [1]), (None, [1, None]), (2.0, None), (2.0, [])])

    assert store.look([(math.nan, [1])]) == Counter(["{'k': nan, 'l': [1]}"])
    assert store.look([(-0.0, [1])]) == Counter(["{'k': 0.0, 'l': [1]}"])
    assert store.look([(None, [1, None])]) == Counter(["{'k': None, 'l': [1, None]}"])
    assert store.look([(2.0, None)]) == Counter(["{'k': 2.0, 'l': None}"])
    assert store.look([(2.0, []), (1.0, None)]) == Counter(["{'k': 2.0, 'l': []}"])


def test_all_rows_are_found_without_a_key(tmp_path: Path) -> None:
    """A join by a condition alone compares all."""
    store = Store(tmp_path, replace(LAYOUT, key=()))
    store.give([(1, "a", 1, 0)])
    store.give([(2, None, None, 0)])
    state = store.open()

    assert shown(state.rows_of(pa.table({}))) == shown(store.table(store.model))


def test_what_a_task_wrote_is_not_read_again(tmp_path: Path) -> None:
    """Another worker maps it, also behind a merge of state files; only a segment that is gone is made of the files."""
    store = Store(tmp_path)
    for n in range(2 * MOST_FILES):
        written = store.give([(n, "a", 1, 0)])
        (path,) = (tmp_path / "state").rglob(written.name)
        content = path.read_bytes()
        path.unlink()
        begin_process(store)

        assert store.look([("a", 1)]) == store.expected([("a", 1)])

        path.write_bytes(content)
    assert len(store.stored) < MOST_FILES


def test_segments_become_one(tmp_path: Path) -> None:
    """So that a lookup searches few; those that they were made of are removed."""
    store = Store(tmp_path)
    for n in range(20):
        store.give([(n, "a", 1, 0)])
        store.look([("a", 1)])

        # and the one that the next batch takes
        assert len(store.segments) <= 4


def test_files_that_are_not_as_written_are_named(tmp_path: Path) -> None:
    """Where a segment has to be made of them."""
    store = Store(tmp_path)
    written = store.give([(1, "a", 1, 0)])
    lose_segments(store)
    (path,) = (tmp_path / "state").rglob(written.name)
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(StateMismatchError, match=f"{written.name} is not as it was written"):
        store.look([("a", 1)])
    path.unlink()
    with pytest.raises(StateMismatchError, match=f"{written.name} is missing"):
        store.look([("a", 1)])


def test_a_disk_that_is_full_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are looked up in memory then."""

    def full(*_: object) -> None:
        raise OSError("no space left")

    store = Store(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(segment_files.StoredSegments, "write", full)
        store.give([(1, "a", 1, 0)])
        store.give([(2, "a", 1, 0)])

        assert store.look([("a", 1)]) == store.expected([("a", 1)])
        assert not store.segments
    assert store.look([("a", 1)]) == store.expected([("a", 1)])
    assert store.segments


def test_rows_that_have_ended_leave_segments_and_files(tmp_path: Path) -> None:
    """The segment of rows that have all ended, the others where segments or files become one."""
    store = Store(tmp_path, replace(LAYOUT, ends="at"))
    found = Counter[str]()
    for n in range(2 * MOST_FILES):
        store.give([(n, "a", 1, 2 * n), (n, "a", 1, 2 * n + 100)], ended=n)
        needed = [row for row in store.model if row[-1] > n]
        found = store.look([("a", 1)], ended=n)

        assert found >= shown(store.table(needed))
    assert found.total() < len(store.model)
    assert sum(file.rows for file in store.stored) < len(store.model)
    assert store.newest.files[BUCKET].epoch == 0


def test_segments_of_another_form_are_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version of DuckDB may hash a text otherwise."""
    store = Store(tmp_path)
    store.give([(1, "a", 1, 0)])
    store.look([("a", 1)])
    before = store.segments
    begin_process(store)
    monkeypatch.setattr("duckdb.__version__", "another")

    assert store.look([("a", 1)]) == store.expected([("a", 1)])
    assert store.segments != before


def test_a_worker_lets_segments_go_that_others_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would take room on the disk for as long as it has them mapped."""
    store, other = Store(tmp_path), segment_files.MappedSegments()
    store.give([(0, "a", 1, 0)])
    store.look([("a", 1)])
    own = segment_files.mapped_segments()
    with monkeypatch.context() as patch:
        patch.setattr(segment_files, "mapped_segments", lambda: other)
        for n in range(1, 4):
            store.give([(n, "a", 1, 0)])
            store.look([("a", 1)])
    store.look([("a", 1)])
    mapped = {name for names in own._folders.values() for name in names}

    assert mapped == {path.name for path in store.segments}


def mapped_files(folder: Path) -> int:
    """Files below a folder that this process has mapped, as the system counts them."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    return len({line.split(maxsplit=5)[-1] for line in maps.splitlines() if str(folder) in line})


@pytest.mark.skipif(sys.platform != "linux", reason="Linux lists what is mapped")
@pytest.mark.parametrize("happens", [keep, begin_process])
def test_a_side_that_is_never_looked_up_has_few_segments(
    tmp_path: Path, happens: Callable[[Store], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one has that each batch looks up, and whoever looks it up then reads no state file."""
    store = Store(tmp_path)
    for n in range(100):
        store.give([(n, "a", n % 3, 0)])
        happens(store)

        assert len(store.segments) <= 8
        assert len(segment_files.mapped_segments().names(store.segment_folder)) <= 8
        assert mapped_files(tmp_path) <= 8
    reads = reads_of(monkeypatch)

    assert store.look([("a", 1)]) == store.expected([("a", 1)])
    assert not reads


def test_segments_of_which_many_before_are_gone_are_not_left(tmp_path: Path) -> None:
    """Nobody could take them up without the others; the lookup that comes leaves segments again."""
    store = Store(tmp_path)
    for n in range(2):
        store.give([(n, "a", 1, 0)])
    lose_segments(store)
    for n in range(2, 30):
        store.give([(n, "a", 1, 0)])

        assert len(store.segments) <= 4
    assert not store.segments
    assert store.look([("a", 1)]) == store.expected([("a", 1)])
    store.give([(30, "a", 1, 0)])
    assert len(store.segments) == 2
    assert store.look([("a", 1)]) == store.expected([("a", 1)])


def test_a_process_keeps_so_many_segments_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of one folder alone: the system counts them by process."""
    monkeypatch.setattr(segment_files, "_MAPPED", 4)
    mapped, segment = segment_files.MappedSegments(), cast("row_segments.RowSegment", None)
    for folder in (Path("a"), Path("b")):
        for n in range(10):
            mapped.put(folder, str(n), segment)

    assert mapped.names(Path("a")) == frozenset()
    assert mapped.names(Path("b")) == frozenset("6789")


def test_a_segment_that_another_worker_removes_is_read_from_its_state_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at it and its use, where this process has let its mapping go meanwhile."""
    store = Store(tmp_path)
    for n in range(3):
        store.give([(n, "a", 1, 0)])
    removed: list[str] = []
    of_file = segment_files.StoredSegments.left

    def left(
        files: segment_files.StoredSegments, file: StateFile
    ) -> segment_files.SegmentFile | None:
        entry = of_file(files, file)
        if entry is not None:
            files.remove([entry.name])
            removed.append(entry.name)
        return entry

    monkeypatch.setattr(segment_files.StoredSegments, "left", left)

    assert store.look([("a", 1)]) == store.expected([("a", 1)])
    assert removed


def test_a_bucket_is_never_in_memory_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where segments begin anew: each that is made is written before the next one."""
    alive: list[weakref.ref[row_segments.RowSegment]] = []
    most = 0

    class Watched(row_segments.RowSegment):
        """One that is in memory."""

        @classmethod
        def of(cls, *of: Any) -> row_segments.RowSegment:
            made = super().of(*of)
            alive.append(weakref.ref(made))
            return made

    real = segment_files.StoredSegments.write

    def write(files: segment_files.StoredSegments, *of: Any) -> segment_files.SegmentFile:
        nonlocal most
        most = max(most, sum(one() is not None for one in alive))
        return real(files, *of)

    store = Store(tmp_path)
    with monkeypatch.context() as patch:
        # as many state files as it takes are not merged
        patch.setattr(manifest, "MOST_FILES", 1000)
        for n in range(50):
            store.give([(n, "a", i, 0) for i in range(20)])
    assert len(store.stored) == 50
    lose_segments(store)
    monkeypatch.setattr(segment_folder, "MOST_BYTES", 2000)
    monkeypatch.setattr(segment_folder, "RowSegment", Watched)
    monkeypatch.setattr(segment_files.StoredSegments, "write", write)

    assert store.look([("a", 1)]) == store.expected([("a", 1)])
    assert len(alive) > 10
    assert 1 <= most <= 2


def test_a_state_file_that_cannot_be_read_leaves_the_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task is tried again, and needs that file alone; nothing of the first attempt takes room."""
    monkeypatch.setattr(segment_folder, "MOST_BYTES", 2000)
    store = Store(tmp_path)
    written = [store.give([(n, "a", n, 0)]) for n in range(2)]
    store.look([("a", 1)])
    before = store.segments
    for batch in range(3):
        written.append(store.give([(n, "a", batch, 0) for n in range(40)]))
        for path in set(store.segments) - set(before):
            path.unlink()
    begin_process(store)
    real, failing = StateFiles.read, {written[-1].name}

    def read(
        files: StateFiles, bucket: BucketId, file: StateFile, schema: pa.Schema
    ) -> Iterator[pa.Table]:
        if file.name in failing:
            failing.clear()
            raise TimeoutError("the store does not answer")
        return real(files, bucket, file, schema)

    with monkeypatch.context() as patch:
        patch.setattr(StateFiles, "read", read)
        with pytest.raises(TimeoutError):
            store.look([("a", 1)])
    reads = reads_of(monkeypatch)

    assert store.segments == before
    assert store.look([("a", 1)]) == store.expected([("a", 1)])
    assert reads == [file.name for file in written[2:]]


@pytest.mark.parametrize("of", ["rows of files", "rows of segments", "segments"])
@pytest.mark.parametrize("ended", [10, None])
def test_rows_that_ended_are_there_for_an_older_copy_of_the_checkpoint(
    tmp_path: Path, of: str, ended: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are left out of segments: a time before needs them, and one that is not known yet may."""
    if of == "segments":
        monkeypatch.setattr(segment_folder, "MOST_SEGMENTS", 100)
    store = Store(tmp_path, replace(LAYOUT, ends="at"))
    store.give([(0, "a", 1, 20), (1, "a", 1, 30)])
    for n in range(4):
        store.give([(n, "a", 1, 40), (n, "a", 1, 100)])
    if of == "rows of files":
        lose_segments(store)

    found = store.look([("a", 1)], ended=50)
    assert found.total() < len(store.model)
    # a batch that leaves none out
    store.give([(9, "a", 1, 200)])
    store.look([("a", 1)], ended=50)
    begin_process(store)

    assert store.look([("a", 1)], ended=ended) == store.expected([("a", 1)])


def test_copies_of_a_checkpoint_have_segments_of_their_own(tmp_path: Path) -> None:
    """The state has one id in both; what one has done since is not the other's."""
    store = Store(tmp_path)
    store.give([(0, "a", 1, 0)])
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    copy = Store(tmp_path, model=[*store.model], batch=store.batch, location="copy")
    copy.newest = store.newest
    for one in (store, copy):
        one.look([("a", 1)])
    for _ in range(4):
        store.give([(1, "a", 1, 0)])
        store.look([("a", 1)])

    assert copy.segment_folder != store.segment_folder
    assert len([*copy.segment_folder.glob("*.arrow")]) == 1
    assert copy.look([("a", 1)]) == copy.expected([("a", 1)])


@pytest.mark.parametrize("place", [0.1, 0.5, 0.999])
@pytest.mark.parametrize("are_named", [False, True])
def test_a_bit_that_is_flipped_makes_no_wrong_row(
    tmp_path: Path, place: float, *, are_named: bool
) -> None:
    """A worker that did not write a segment reads all of it once; also one that the file of JSON does not name yet."""
    store = Store(tmp_path)
    store.give([(n, "a", 1, n) for n in range(100)])
    if are_named:
        store.look([("a", 1)])
    (path,) = store.segments
    content = bytearray(path.read_bytes())
    content[int(len(content) * place)] ^= 4
    # another file: the one of before is mapped
    path.unlink()
    path.write_bytes(content)
    begin_process(store)

    assert store.look([("a", 1)]) == store.expected([("a", 1)])
    assert store.span(None, 100) == shown(store.table(store.model))


def test_what_a_process_wrote_or_has_checked_is_not_read_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for each process, also where it is mapped again; what is gone is forgotten."""
    checked: list[int] = []
    real = segment_files._checksum

    def checksum(content: pa.MemoryMappedFile, end: int) -> bytes:
        checked.append(end)
        return real(content, end)

    store = Store(tmp_path)
    store.give([(1, "a", 1, 0)])
    monkeypatch.setattr(segment_files, "_checksum", checksum)
    store.look([("a", 1)])
    assert not checked
    begin_process(store)
    store.look([("a", 1)])
    mapped = segment_files.mapped_segments()
    mapped._folders.clear()
    store.look([("a", 1)])
    assert len(checked) == 1

    mapped.retain(store.segment_folder, ())
    assert not mapped.is_checked(store.segment_folder, store.segments[0].name)


def test_segments_stay_where_the_newest_file_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest does not name it any more; rows of the files before last for longer."""
    store = Store(tmp_path, replace(LAYOUT, ends="at"))
    for n in range(3):
        store.give([(n, "a", 1, 100)])
    store.look([("a", 1)], ended=0)
    assert len(store.segments) == 1, "those of files are gone"
    store.give([(3, "a", 1, 5)])
    store.look([("a", 1)], ended=0)
    store.give([(4, "a", 1, 100)], ended=10)
    assert len(store.stored) == 4
    reads = reads_of(monkeypatch)

    needed = shown(store.table(row for row in store.model if row[-1] > 10))
    assert store.look([("a", 1)], ended=10) == needed
    assert not reads


def test_segments_of_what_the_checkpoint_has_not_done_begin_anew(tmp_path: Path) -> None:
    """A copy of an earlier time was put back in one application, and its next batches write other rows, or none."""
    store = Store(tmp_path, replace(LAYOUT, ends="at"))
    store.give([(0, "a", 1, 100)])
    earlier, model, batch = store.newest, [*store.model], store.batch
    store.give([(1, "a", 1, 100)])
    store.look([("a", 1)], ended=0)
    store.newest, store.model, store.batch = earlier, model, batch

    assert store.look([("a", 1)], ended=0) == store.expected([("a", 1)])
    store.give([(2, "a", 1, 100)])
    assert store.look([("a", 1)], ended=0) == store.expected([("a", 1)])


@pytest.mark.parametrize("fails", ["segments.json", "any segment"])
def test_a_full_disk_leaves_what_was_there(
    tmp_path: Path, fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing half-way takes room on it: what names segments is written last, and others of them go all the same."""

    def begun(path: Path, text: str) -> int:
        path.write_bytes(text[:5].encode())
        raise OSError("no space left")

    def full(*_: object) -> None:
        raise OSError("no space left")

    store = Store(tmp_path)
    for n in range(2):
        store.give([(n, "a", 1, 0)])
    store.look([("a", 1)])
    (store.segment_folder / "attempt.arrow").touch()
    store.give([(2, "a", 1, 0)])
    before = {path.name for path in store.segment_folder.iterdir()}
    with monkeypatch.context() as patch:
        if fails == "segments.json":
            patch.setattr(Path, "write_text", begun)
        else:
            patch.setattr(segment_files.StoredSegments, "write", full)
        assert store.look([("a", 1)]) == store.expected([("a", 1)])
    after = {path.name for path in store.segment_folder.iterdir()}

    assert after == before - {"attempt.arrow"}
    assert store.look([("a", 1)]) == store.expected([("a", 1)])
    assert len(store.segments) == 1


def test_segments_of_other_times_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch in which the watermark moves looks for rows of a short time, which few segments have."""
    monkeypatch.setattr(segment_folder, "MOST_SEGMENTS", 100)
    store = Store(tmp_path)
    for n in range(5):
        store.give([(n, "a", 1, 10 * n + 1), (n, "a", 2, 10 * n + 9)])
    searched: list[int] = []
    real = row_segments._rows_within

    def within(times: pa.Array, *of: Any) -> Any:
        searched.append(len(times))
        return real(times, *of)

    monkeypatch.setattr(row_segments, "_rows_within", within)
    for happens in (keep, begin_process):
        happens(store)
        for after, until, segments in (
            (9, 21, 2),
            (9, 20, 1),
            (9, 11, 1),
            (None, 0, 0),
            (None, 1, 1),
            (48, 99, 1),
            (49, 99, 0),
        ):
            searched.clear()
            expected = [row for row in store.model if row[-1] <= until and row[-1] > (after or -1)]
            assert store.span(after, until) == shown(store.table(expected))
            assert len(searched) == segments


def test_rows_without_a_time_are_of_no_span(tmp_path: Path) -> None:
    """A segment of them alone is not read."""
    store = Store(tmp_path)
    store.give([(1, "a", 1, None)])
    store.give([(2, "a", 1, None), (3, "a", 1, 5)])
    begin_process(store)

    assert store.span(None, 9) == shown(store.table(store.model[-1:]))


def test_segments_of_a_state_that_began_again_are_removed(tmp_path: Path) -> None:
    """The state at the same place has another id then; that of another checkpoint stays, and one that still runs goes on."""
    before, other = Store(tmp_path, state_id="before"), Store(tmp_path, location="other")
    for store in (before, other):
        store.give([(1, "a", 1, 0)])
        store.look([("a", 1)])
    store = Store(tmp_path, state_id="id")
    store.give([(2, "a", 1, 0)])
    own = segment_files.mapped_segments()

    assert not before.segment_folder.exists()
    assert not own.names(before.segment_folder)
    assert own.names(other.segment_folder) == {
        path.name for path in other.segment_folder.glob("*.arrow")
    }
    assert store.look([("a", 1)]) == store.expected([("a", 1)])
    assert before.look([("a", 1)]) == before.expected([("a", 1)])
    assert store.look([("a", 1)]) == store.expected([("a", 1)])


def test_a_start_of_a_query_leaves_the_segments_of_a_side_that_is_not_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch does not know which rows have ended; the next one does, and uses the segments."""
    store = Store(tmp_path, replace(LAYOUT, ends="at"))
    for n in range(4):
        store.give([(n, "a", 1, 40), (n, "a", 1, 100)])
    lose_segments(store)
    assert store.look([("a", 1)], ended=50).total() < len(store.model)
    store.give([(4, "a", 1, 100)])
    reads = reads_of(monkeypatch)

    needed = shown(store.table(row for row in store.model if row[-1] > 50))
    assert store.look([("a", 1)], ended=50) == needed
    assert not reads
