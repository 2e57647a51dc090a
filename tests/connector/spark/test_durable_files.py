"""Small files that survive a loss of power: synced before they get their names, and their folders after."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier, Thread

import pytest

from penstock.connector.source.segments import Segment, SegmentName
from penstock.connector.spark import durable_files
from penstock.connector.spark.source.segment_folder import FOLDER, open_segment_folder


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was synced and named, in order, by the names of files; those of temporary ones are `tmp`."""
    seen: list[str] = []
    sync, link, rename = os.fsync, os.link, os.replace

    def short(path: object) -> str:
        name = Path(str(path)).name
        return "tmp" if name.endswith(".tmp") else name

    def synced(descriptor: int) -> None:
        seen.append(f"sync {short(Path(f'/proc/self/fd/{descriptor}').readlink())}")
        sync(descriptor)

    def linked(source: Path, target: Path) -> None:
        seen.append(f"{short(source)} is {short(target)}")
        link(source, target)

    def replaced(source: Path, target: Path) -> None:
        seen.append(f"{short(source)} is {short(target)}")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", linked)
    monkeypatch.setattr(os, "replace", replaced)
    return seen


def test_a_new_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, steps: list[str]) -> None:
    """And its name, with those of new folders, before the call returns."""
    path = tmp_path / "a" / "b" / "manifest.json"
    written = durable_files.write_new(path, b"text")

    assert written
    assert path.read_bytes() == b"text"
    assert steps == [
        f"sync {tmp_path.name}",
        "sync a",
        "sync tmp",
        "tmp is manifest.json",
        "sync b",
    ]
    assert list(path.parent.iterdir()) == [path]


def test_the_folders_of_a_partition_are_synced_up_to_the_root_of_the_table(
    tmp_path: Path, steps: list[str]
) -> None:
    """The first file of a year made two of them: the name of the upper one is in the root."""
    names = ["year=2026/month=11/one", "year=2026/month=12/two"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("rows")
    durable_files.sync_below(tmp_path, names)

    assert steps == [
        "sync one",
        "sync two",
        "sync month=12",
        "sync month=11",
        "sync year=2026",
        f"sync {tmp_path.name}",
    ]


def test_a_file_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    """The first content stays, and nothing is left beside it."""
    path = tmp_path / "manifest.json"
    first = durable_files.write_new(path, b"first")
    second = durable_files.write_new(path, b"second")

    assert (first, second) == (True, False)
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("links", [True, False])
def test_of_two_that_write_one_file_at_once_one_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    """By a hard link; on a file system without them by a lock."""
    if not links:
        refuse_links(monkeypatch)
    path, results = tmp_path / "manifest.json", []
    number = 8
    barrier = Barrier(number)

    def write(content: bytes) -> None:
        barrier.wait()
        results.append((durable_files.write_new(path, content), content))

    threads = [Thread(target=write, args=(str(n).encode(),)) for n in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    write_again = durable_files.write_new(path, b"later")

    assert [content for written, content in results if written] == [path.read_bytes()]
    assert not write_again
    assert list(tmp_path.iterdir()) == [path]


def refuse_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """As exFAT and some network drives do."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)


def test_a_writer_that_is_paused_before_its_rename_keeps_others_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without hard links: a rename would replace what another wrote meanwhile, and both would have decided."""
    refuse_links(monkeypatch)
    monkeypatch.setattr(durable_files, "LOCK_POLL_S", 0)
    path, rename, others = tmp_path / "manifest.json", Path.rename, []

    def paused(temporary: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "rename", rename)
        with pytest.raises(OSError, match="another process is writing here") as caught:
            durable_files.write_new(path, b"other")
        others.append(caught.value.filename)
        return rename(temporary, target)

    monkeypatch.setattr(Path, "rename", paused)
    written = durable_files.write_new(path, b"first")

    assert written
    assert path.read_bytes() == b"first"
    assert others == [str(tmp_path / ".manifest.json.lock")]
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_replaced_in_one_step(tmp_path: Path, steps: list[str]) -> None:
    """Never away in between; Hadoop's checksum of the old content goes."""
    path = tmp_path / "note"
    path.write_bytes(b"old")
    (tmp_path / ".note.crc").write_bytes(b"of the old")
    durable_files.replace(path, b"new")

    assert path.read_bytes() == b"new"
    assert steps == ["sync tmp", "tmp is note", f"sync {tmp_path.name}"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_replacement_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full: nothing is left of the attempt."""
    path = tmp_path / "note"
    path.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        durable_files.replace(path, b"new")
    with pytest.raises(OSError, match="No space"):
        durable_files.write_new(tmp_path / "other", b"new")

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("write", [durable_files.write_new, durable_files.replace])
@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_files_and_folders_have_the_rights_that_hadoop_would_give_them(
    tmp_path: Path, write: Callable[..., object], umask: int
) -> None:
    """The umask of this process may only take from them."""
    path = tmp_path / "folder" / "note"
    with process_umask(0):
        write(path, b"text", umask)

    assert rights(path) == 0o666 & ~umask
    assert rights(path.parent) == 0o777 & ~umask


@pytest.mark.parametrize("own", [0o022, 0o077])
@pytest.mark.parametrize("mode", [0o755, 0o750, 0o700])
def test_a_file_that_planning_keeps_can_be_read_by_whoever_reads_its_checkpoint(
    tmp_path: Path, mode: int, own: int
) -> None:
    """Hadoop gave the checkpoint its rights; a process of Spark's may have another umask, and has no session."""
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    checkpoint.chmod(mode)
    folder = open_segment_folder(str(checkpoint / FOLDER))
    assert folder is not None
    name = SegmentName(chain="0" * 16, serial=1, kind="base", count=0, digest="0" * 32)
    segment = Segment(name=name, content=b"x")
    with process_umask(own):
        folder.write([segment], [segment])

    assert rights(checkpoint / FOLDER) == mode
    assert rights(checkpoint / FOLDER / str(name)) == mode & 0o666


@contextmanager
def process_umask(umask: int) -> Iterator[None]:
    before = os.umask(umask)
    try:
        yield
    finally:
        os.umask(before)


def rights(path: Path) -> int:
    return path.stat().st_mode & 0o777
