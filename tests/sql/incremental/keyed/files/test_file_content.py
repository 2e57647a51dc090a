"""Files of keyed state of any size: a row group is in memory at once, and what goes wrong leaves nothing behind."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import fs

from penstock.catalog.errors import StateMismatchError
from penstock.connector.storage import Folder
from penstock.sql.incremental.keyed.files import file_content, state_files
from penstock.sql.incremental.keyed.files.manifest import BucketId, StateFile
from penstock.sql.incremental.keyed.files.state_files import StateFiles, row_groups
from tests.sql.incremental.keyed.memory import MB, peak_bytes

BUCKET = BucketId(stage="group_1", input="feed_0", bucket=0)
SCHEMA = pa.schema([("c0", pa.int64()), ("c1", pa.int64())], metadata={"said": "of columns"})
GROUP = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The files below a folder, and the folder of the executor."""

    files: StateFiles
    folder: Path
    local: Path
    is_local: bool

    def names(self) -> list[str]:
        """What is in both."""
        return sorted(
            path.name for below in (self.folder, self.local) for path in below.rglob("*.*")
        )


@pytest.fixture(params=["local", "remote"])
def disk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """On a local disk, and in a file system that is none to pyarrow, as an object store."""
    local, folder = tmp_path / "executor", tmp_path / "state"
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(local))
    if request.param == "remote":
        system = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
        opened = Folder(system=system, path="state", shown="state")
        monkeypatch.setattr(state_files, "open_folder", lambda *_, **__: opened)
    return Disk(
        files=StateFiles(location=str(folder)),
        folder=folder,
        local=local,
        is_local=request.param == "local",
    )


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are large from 64 kB on, and row groups are small."""
    monkeypatch.setattr(file_content, "MOST_BYTES", 64_000)
    monkeypatch.setattr(file_content, "_PIECE", 50_000)
    monkeypatch.setattr(state_files, "ROW_GROUP", GROUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Rows that compress to no less, and are made as they are read."""

    groups: int
    schema: pa.Schema = SCHEMA

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Make them."""
        draw = np.random.default_rng(0)
        for _ in range(self.groups):
            columns = [pa.array(draw.integers(0, 2**62, GROUP)) for _ in self.schema]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def write(disk: Disk, groups: int = 5) -> StateFile:
    """Write a file of so many row groups."""
    return disk.files.write_batches(BUCKET, 3, 4, Drawn(groups=groups))


def read(disk: Disk, file: StateFile) -> pa.Table:
    """Read all of a file."""
    return pa.concat_tables(disk.files.read(BUCKET, file, SCHEMA))


@pytest.mark.usefixtures("large")
def test_a_row_group_is_in_memory_at_once(disk: Disk) -> None:
    """Of a file of 16 MB that is written and read; it took more than twice as much to write it as a whole."""
    first = write(disk, 1)  # what is imported at the first use is not of a file
    read(disk, first)
    disk.files.delete(BUCKET, first.name)
    with peak_bytes() as taken:
        file = write(disk, 50)
        assert taken() < 6 * MB
    with peak_bytes() as taken:
        rows = sum(part.num_rows for part in disk.files.read(BUCKET, file, SCHEMA))
        assert taken() < 6 * MB

    assert file.rows == rows == 50 * GROUP
    assert file.bytes > 12 * MB
    assert disk.names() == [file.name]


@pytest.mark.parametrize("most", [64_000, 8 * MB])
def test_a_file_is_the_same_however_large(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Whether it was in memory or on the disk first, and read so: its name tells its content."""
    whole = write(disk)
    monkeypatch.setattr(file_content, "MOST_BYTES", most)
    file = write(disk)

    assert file == whole
    assert read(disk, file).equals(pa.Table.from_batches(list(Drawn(groups=5))))
    assert disk.names() == [file.name]


def test_a_small_file_costs_no_other(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of most batches are small: a local one is synced, and its folder."""
    write(disk, 1)
    synced: list[int] = []

    def open_none(*_: object) -> None:
        raise AssertionError("a file that is not needed")

    monkeypatch.setattr(file_content, "open_temporary", open_none)
    monkeypatch.setattr(state_files, "open_temporary", open_none)
    monkeypatch.setattr(os, "fsync", synced.append)
    file = write(disk)

    assert read(disk, file).num_rows == file.rows == 5 * GROUP
    assert len(synced) == (2 if disk.is_local else 0)


def cut(path: Path) -> None:
    """The end is missing."""
    path.write_bytes(path.read_bytes()[:-1])


def change(path: Path) -> None:
    """A bit is another one."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def lengthen(path: Path) -> None:
    """There is more behind."""
    path.write_bytes(path.read_bytes() * 2)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut, "is not as it was written"),
        (change, "is not as it was written"),
        (lengthen, "is not as it was written"),
        (Path.unlink, "is missing"),
    ],
    ids=["cut", "changed", "longer", "missing"],
)
@pytest.mark.parametrize("most", [64_000, 8 * MB])
def test_a_file_that_is_not_as_it_was_written_is_refused(
    disk: Disk,
    monkeypatch: pytest.MonkeyPatch,
    most: int,
    damage: Callable[[Path], None],
    said: str,
) -> None:
    """Before any row of it is read."""
    monkeypatch.setattr(file_content, "MOST_BYTES", most)
    file = write(disk)
    damage(disk.folder / BUCKET.folder / file.name)

    with pytest.raises(StateMismatchError, match=said):
        next(disk.files.read(BUCKET, file, SCHEMA))
    assert disk.names() in ([file.name], [])


@pytest.mark.usefixtures("large")
def test_a_full_disk_leaves_nothing(disk: Disk) -> None:
    """As it is written, and read by way of the local disk. A limit on the size of files stands for the disk."""
    with files_of_at_most(MB), pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        write(disk)
    assert disk.names() == []

    file = write(disk)
    if not disk.is_local:
        with files_of_at_most(MB), pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            read(disk, file)
    assert disk.names() == [file.name]


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let files of this process grow so far."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("large")
def test_rows_that_end_with_an_error_leave_nothing(disk: Disk) -> None:
    """As those of a merge whose process ends, or which reads a damaged file."""

    class Failing:
        schema = SCHEMA

        def __iter__(self) -> Iterator[pa.RecordBatch]:
            yield from Drawn(groups=3)
            raise InterruptedError("no more of them")

    with pytest.raises(InterruptedError, match="no more of them"):
        disk.files.write_batches(BUCKET, 3, 4, Failing(), writer="merge.0")
    assert disk.names() == []


def test_row_groups_are_bounded_in_rows_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches are put together, and large ones cut."""
    monkeypatch.setattr(state_files, "ROW_GROUP", 30)

    def sizes(*batches: int) -> list[int]:
        rows = [pa.record_batch({"c0": pa.array(range(n), pa.int64())}) for n in batches]
        groups = list(row_groups(rows))
        assert pa.concat_tables(groups).equals(pa.Table.from_batches(rows))
        return [group.num_rows for group in groups]

    assert sizes(10, 10, 10, 10) == [30, 10]
    assert sizes(70, 25) == [30, 30, 30, 5]
    assert sizes(30) == [30]
    monkeypatch.setattr(state_files, "ROW_GROUP_BYTES", 8 * 20)
    assert sizes(50, 5) == [20, 20, 15]
    monkeypatch.setattr(state_files, "ROW_GROUP_BYTES", 1)
    assert sizes(3) == [1, 1, 1]


def test_a_file_without_rows_has_its_columns(disk: Disk) -> None:
    """Whoever reads it puts its parts together."""
    file = disk.files.write(BUCKET, 0, 0, SCHEMA.empty_table())

    assert file.rows == 0
    assert read(disk, file).equals(SCHEMA.empty_table())
