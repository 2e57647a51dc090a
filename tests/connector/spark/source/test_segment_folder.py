"""Which files of a watched folder were read, in files beside the checkpoint: whatever offset a query resumes from."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.catalog.errors import SinkError, StateMismatchError
from penstock.connector.scan import Scan
from penstock.connector.source.coordinator.pull import PullingEnumerator, SeenSplits
from penstock.connector.source.state import SourceState, decode_state, encode_state
from penstock.connector.spark import durable_files
from penstock.connector.spark.source import segment_folder
from penstock.connector.spark.source.planning import PlanningExecutor
from penstock.connector.spark.source.segment_folder import FOLDER, OFFSETS, open_segment_folder
from penstock.connector.spark.storage_access import store_of
from penstock.connector.storage import BY_ITSELF, StorageAccess
from tests.connector.filesystem.tables import file_source, file_table
from tests.connector.source.coordinating import Job, World

if TYPE_CHECKING:
    from tests.s3_server import S3Server


class Query:
    """A query over a watched folder: its checkpoint as Spark has it, and what it should have seen at each offset."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.folder: set[str] = set()
        self.seen: dict[int, set[str]] = {-1: set()}
        self.job = self.start(-1)

    @property
    def last(self) -> int:
        """The newest offset."""
        return max(self.seen)

    def start(self, number: int, folder: set[str] | None = None) -> Job:
        """Begin where an offset says; nothing is listed yet."""
        text = self.path(number).read_text() if number >= 0 else "v1\n{}\n"
        lines = text.splitlines()
        state = json.loads(lines[2])["coordinator"] if number >= 0 else None
        world = World().add(*sorted(self.folder if folder is None else folder))
        if folder is None:
            self.world = world
        return Job(
            partial(PullingEnumerator, planner=world, interval_ms=1000),
            state=state,
            open_segment_files=lambda: open_segment_folder(str(self.checkpoint / FOLDER)),
        )

    def path(self, number: int) -> Path:
        """Give the file of an offset."""
        return self.checkpoint / OFFSETS / str(number)

    def read_new(self, job: Job) -> set[str]:
        """List, and read all that there is."""
        before = set(job.ids(0))
        if job.scheduled:
            job.tick()
        else:
            job.start().register(0)
        job.request(*[0] * (len(self.folder | self.seen[self.last]) + 3))
        if job.failure is not None:
            raise job.failure
        return set(job.ids(0)) - before

    def batch(self) -> None:
        """Plan a batch, and let Spark log it."""
        self.world.owners.clear()
        self.world.add(*sorted(self.folder))
        new = self.read_new(self.job)
        assert new == self.folder - self.seen[self.last]
        number = self.last + 1
        self.log(number, self.job.checkpoint(number))
        self.seen[number] = self.seen[number - 1] | self.folder

    def log(self, number: int, state: Any) -> None:
        """Write an offset as Spark does, with a source that has none yet beside it."""
        self.path(number).parent.mkdir(exist_ok=True, parents=True)
        line = json.dumps({"version": 2, "coordinator": state}, separators=(",", ":"))
        self.path(number).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{line}\n-')

    def purge(self, retain: int) -> None:
        """Let Spark forget old offsets."""
        for number in [n for n in self.seen if 0 <= n < self.last - retain]:
            self.path(number).unlink()
            del self.seen[number]


@pytest.fixture(autouse=True)
def _cleans_at_each_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_folder, "CLEAN_EVERY", 1)


@pytest.fixture
def checkpoint() -> Iterator[Path]:
    """A checkpoint directory."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path) / "checkpoint"


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["come", "come", "remove", "batch", "batch", "crash", "back", "purge", "copy", "double"]
        ),
        st.integers(0, 60),
    ),
    max_size=30,
)


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_every_offset_of_the_log_gives_what_was_seen_by_it(steps: list[tuple[str, int]]) -> None:
    """After crashes between file and offset, offsets taken back, a second runner, a moved checkpoint, old ones purged."""
    with tempfile.TemporaryDirectory() as path, pytest.MonkeyPatch.context() as patch:
        patch.setattr(durable_files, "sync", lambda _: None)  # the disk is not what is tested
        query = Query(Path(path) / "0")
        for index, (step, number) in enumerate(steps):
            take(query, step, number, Path(path) / f"{index + 1}")
        every = query.folder | query.seen[query.last] | {"file-never"}
        for number, seen in query.seen.items():
            again = query.start(number, every)
            assert query.read_new(again) == every - seen


def take(query: Query, step: str, number: int, elsewhere: Path) -> None:
    """Let something happen to a query."""
    match step:
        case "come":
            query.folder |= {f"file-{number}", f"other-{number}"}
        case "remove":
            query.folder.discard(f"file-{number}")
        case "batch":
            query.batch()
        case "crash":
            # a batch is planned, its file written, and never logged
            query.read_new(query.start(query.last, query.folder | {f"lost-{number}"}))
            query.job = query.start(query.last)
        case "back":
            for later in [n for n in query.seen if n > max(min(query.seen), query.last - number)]:
                query.path(later).unlink()
                del query.seen[later]
            query.job = query.start(query.last)
        case "purge":
            query.purge(number % 4)
        case "copy" if query.checkpoint.exists():
            shutil.copytree(query.checkpoint, elsewhere)
            query.batch()  # the other one goes on, which is not the copy's
            del query.seen[query.last]
            query.checkpoint = elsewhere
            query.job = query.start(query.last)
        case "double":
            double = query.start(query.last, query.folder | {f"double-{number}"})
            query.batch()
            query.read_new(double)


def test_a_batch_is_logged_after_its_files_are_there(checkpoint: Path) -> None:
    """As soon as a split can be asked for, its name is in a file."""
    query = Query(checkpoint)
    query.world.add("file-1")
    query.job.start()
    (name,) = query.job.checkpoint(1)["enumerator"]["seen"]["segments"]

    assert (checkpoint / FOLDER / name).stat().st_size == 16


def test_a_lost_file_is_refused_by_name(checkpoint: Path) -> None:
    """Of the newest offset; nothing is read."""
    query = Query(checkpoint)
    query.folder = {"file-1"}
    query.batch()
    (file,) = (checkpoint / FOLDER).iterdir()
    file.unlink()

    with pytest.raises(StateMismatchError, match=f"{FOLDER}/{file.name} is not there"):
        query.read_new(query.start(0))


def test_what_no_offset_names_is_removed_with_the_log(checkpoint: Path) -> None:
    """However many batches there were: 16 bytes a file in the end, and what the offsets that are kept need."""
    query = Query(checkpoint)
    for number in range(120):
        query.folder.add(f"file-{number}")
        query.batch()
        query.purge(2)

    assert len(list((checkpoint / FOLDER).iterdir())) <= 8
    assert sum(p.stat().st_size for p in (checkpoint / FOLDER).iterdir()) < 3 * 16 * 120


def test_a_log_that_cannot_be_read_stops_the_cleaning_and_not_the_query(
    checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is removed on a guess."""
    query = Query(checkpoint)
    query.folder = {"file-1"}
    query.batch()
    query.path(0).write_bytes(b"v1\n{}\n\xff")
    query.folder.add("file-2")
    query.batch()

    assert "cannot be cleaned" in caplog.text
    assert len(list((checkpoint / FOLDER).iterdir())) == 2


def test_files_of_other_chains_are_left_alone(checkpoint: Path) -> None:
    """A table that is read twice by a query is planned by two processes, which have the folder in common."""
    one, other = Query(checkpoint), Query(checkpoint)
    for number in range(20):
        one.folder.add(f"file-{number}")
        one.batch()
        other.folder.add(f"other-{number}")
        # the log has the other's offsets in a line that comes later
        new = other.read_new(other.start(-1, other.folder))
        assert new == other.folder
    chains = {p.name.partition("-")[0] for p in (checkpoint / FOLDER).iterdir()}

    assert len(chains) == 21


@pytest.mark.parametrize("version", [1, 3])
def test_an_older_checkpoint_goes_on_in_files(checkpoint: Path, version: int) -> None:
    """Names or hashes in the offset itself; they stay there until something new comes."""
    old = [f"file-{number}" for number in range(50)]
    query = Query(checkpoint)
    query.folder = set(old)
    seen: Any = old if version == 1 else SeenSplits.of(old).snapshot()
    enumerator = {"kind": "pulling", "version": version, "listed": True, "seen": seen}
    query.log(0, {"version": 1, "enumerator": {**enumerator, "unassigned": []}})
    query.seen[0] = set(old)
    query.job = query.start(0)
    query.batch()
    unchanged = query.path(1).stat().st_size
    query.folder.add("new")
    query.batch()
    after = query.start(2, query.folder | {"newer"})

    assert unchanged > 50 * 10
    assert query.path(2).stat().st_size < 500
    assert query.read_new(after) == {"newer"}


def test_an_offset_has_the_same_size_for_ten_files_and_for_thousands(checkpoint: Path) -> None:
    """It grew by eleven bytes a file."""
    sizes = []
    for count in (10, 20_000):
        query = Query(checkpoint / str(count))
        query.folder = {f"day=2026-11-22/part-{number:08}.json" for number in range(count)}
        query.batch()
        sizes.append(query.path(0).stat().st_size)

    assert sizes[1] - sizes[0] <= len("20000") - len("10")


def test_a_checkpoint_whose_folder_cannot_be_opened_is_not_gone_on_with(checkpoint: Path) -> None:
    """It may be open again at the next start."""
    query = Query(checkpoint)
    query.folder = {"file-1"}
    query.batch()
    state = json.loads(query.path(0).read_text().splitlines()[2])["coordinator"]

    with pytest.raises(SinkError, match="their folder cannot be opened"):
        Job(partial(PullingEnumerator, planner=World(), interval_ms=1000), state=state)


def test_a_file_system_that_pyarrow_does_not_know_leaves_it_to_the_offsets() -> None:
    """Spark may know more of them."""
    assert open_segment_folder("dbfs:/checkpoints/job/seen-files") is None


def test_a_folder_that_cannot_be_written_fails_the_query(checkpoint: Path) -> None:
    """By name; no offset is given."""
    checkpoint.mkdir()
    (checkpoint / FOLDER).write_text("in the way")
    query = Query(checkpoint)
    query.folder = {"file-1"}

    with pytest.raises(SinkError, match=f"cannot be kept in {checkpoint / FOLDER}"):
        query.batch()


def planned_twice(folder: Path, seen_files: str, access: StorageAccess) -> list[list[str]]:
    """Plan a batch of each of two files in a folder, the second by another process; the files of each are returned."""
    folder.mkdir()
    options = {"source.monitor-interval": "1 ms"}
    scan = Scan(
        table=file_table(folder, options),
        columns=("id",),
        rowtime=None,
        time_zone="UTC",
        project="/",
        seen_files=seen_files,
        access=access,
    )
    state, read = SourceState(), []
    for name in ("a.json", "b.json"):
        (folder / name).write_text('{"id": 1}\n')
        executor = PlanningExecutor(scan, file_source(folder, options))
        planned = executor.plan(state, None)
        executor.close()
        assert planned is not None
        state = decode_state(json.loads(json.dumps(encode_state(planned))))
        read.append([split.split_id for split in state.splits])
    return read


def test_planning_of_a_query_keeps_what_it_saw_in_its_checkpoint(tmp_path: Path) -> None:
    """A restart reads what came since; an offset is text that Spark compares."""
    seen = tmp_path / "checkpoint" / FOLDER

    assert planned_twice(tmp_path / "in", str(seen), BY_ITSELF) == [["a.json"], ["b.json"]]
    assert len(list(seen.iterdir())) == 2


def test_planning_opens_a_store_by_the_keys_that_its_scan_has(tmp_path: Path, s3: S3Server) -> None:
    """They are from Hadoop's configuration; nothing stands in the environment."""
    seen = f"s3a://penstock/job/{FOLDER}"
    store = store_of(seen, s3.settings)
    assert store is not None
    read = planned_twice(tmp_path / "in", seen, StorageAccess(stores=(store,)))

    assert read == [["a.json"], ["b.json"]]
    assert len(s3.keys(f"job/{FOLDER}/")) == 2
    assert not s3.refused
