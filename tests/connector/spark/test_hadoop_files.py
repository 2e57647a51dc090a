"""Small files on the disk of this machine, and on a file system that only Hadoop knows (viewfs, mounted on a folder)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from penstock.connector.spark import hadoop_files

MOUNT = "spark.hadoop.fs.viewfs.mounttable.penstock.link./table"


@pytest.fixture(params=["local", "viewfs"])
def folder(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty folder."""
    if request.param == "local":
        yield str(tmp_path)
        return
    key = MOUNT.removeprefix("spark.hadoop.")
    spark.conf.set(key, tmp_path.as_uri())
    yield "viewfs://penstock/table"
    spark.conf.unset(key)


def test_small_files_are_written_once_and_replaced_whole(
    spark: SparkSession, folder: str, tmp_path: Path
) -> None:
    """What is there stays, or gives way as a whole; nothing is left beside it."""
    path = f"{folder}/notes/one"
    written = [hadoop_files.write_text(spark, path, text) for text in ("first", "second")]
    first = hadoop_files.read_text(spark, path)
    hadoop_files.replace_text(spark, path, "third, ü")
    hadoop_files.replace_text(spark, f"{folder}/notes/two", "new")

    assert written == [True, False]
    assert first == "first"
    assert hadoop_files.read_text(spark, path) == "third, ü"
    assert hadoop_files.list_names(spark, f"{folder}/notes") == ["one", "two"]
    assert hadoop_files.size_of(spark, path) == len("third, ü".encode())
    assert sorted(p.name for p in (tmp_path / "notes").glob("[!.]*")) == ["one", "two"]


@pytest.mark.parametrize("fails", [False, True])
def test_an_object_is_written_under_its_name(
    monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    """It appears whole when it is closed, and a rename would be a copy; one that fails is not closed."""
    system, file, done = Mock(), Mock(), list[Any]()
    stream = system.create.return_value
    system.getUri.return_value.getScheme.return_value = "s3a"
    stream.write.side_effect = OSError("no space left") if fails else done.append
    stream.close.side_effect = lambda: done.append("closed")
    stream.abort.side_effect = lambda: done.append("aborted")
    monkeypatch.setattr(hadoop_files, "file_system", lambda *_: (system, file))
    if fails:
        with pytest.raises(OSError, match="no space left"):
            hadoop_files.replace_text(Mock(), "s3a://bucket/manifests/1.json", "text")
    else:
        hadoop_files.replace_text(Mock(), "s3a://bucket/manifests/1.json", "text")

    system.create.assert_called_once_with(file, True)
    assert done == (["aborted"] if fails else [bytearray(b"text"), "closed"])


@pytest.mark.parametrize(
    ("umask", "folder_mode", "file_mode"), [("077", 0o700, 0o600), ("027", 0o750, 0o640)]
)
def test_files_and_folders_have_the_rights_of_hadoops_umask(
    spark: SparkSession, tmp_path: Path, umask: str, folder_mode: int, file_mode: int
) -> None:
    """New and replaced files, and each folder that is made for them, however open the umask of this process is."""
    before = os.umask(0o022)
    settings = {
        "fs.permissions.umask-mode": umask,
        "fs.file.impl.disable.cache": "true",  # a file system keeps the settings that it was made with
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        hadoop_files.write_text(spark, f"{tmp_path}/a/b/new", "text")
        hadoop_files.replace_text(spark, f"{tmp_path}/a/c/replaced", "text")
    finally:
        for key in settings:
            spark.conf.unset(key)
        os.umask(before)

    made = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a").rglob("*")}
    assert len(made) == 4
    assert made == {path: folder_mode if path.is_dir() else file_mode for path in made}
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == folder_mode


def test_a_file_is_renamed_only_to_a_name_that_is_free(spark: SparkSession, folder: str) -> None:
    """Nor is one that is not there: no, on every file system."""
    for name in ("one", "two"):
        hadoop_files.write_text(spark, f"{folder}/{name}", name)
    hadoop_files.sync(spark, folder, ["one", "two"])
    taken = hadoop_files.rename(spark, f"{folder}/one", f"{folder}/two")
    free = hadoop_files.rename(spark, f"{folder}/one", f"{folder}/three")
    missing = hadoop_files.rename(spark, f"{folder}/one", f"{folder}/four")

    assert (taken, free, missing) == (False, True, False)
    assert hadoop_files.size_of(spark, f"{folder}/one") is None
    assert hadoop_files.read_text(spark, f"{folder}/two") == "two"
