"""Local files of the Spark that tests share are as Hadoop's own file system makes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.connector.spark.internals import file_system, java_array, java_session, jvm_of
from tests.conftest import HAS_OWN_LOCAL_FILES
from tests.local_files import CLASSES

HADOOPS = {
    "fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    "fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.LocalFs",
}

pytestmark = pytest.mark.skipif(not HAS_OWN_LOCAL_FILES, reason="Spark has Hadoop's own")


def left(spark: SparkSession, folder: Path, classes: Mapping[str, str], umask: str) -> Any:
    """Make, rename and look at files; returns what is there, with rights and links."""
    jvm, fs = jvm_of(spark), jvm_of(spark).org.apache.hadoop.fs
    settings = jvm.org.apache.hadoop.conf.Configuration(
        java_session(spark).sparkContext().hadoopConfiguration()
    )
    for name, value in {**classes, "fs.permissions.umask-mode": umask}.items():
        settings.set(name, value)
    at = jvm.java.net.URI(folder.as_uri())
    system, context = (
        fs.FileSystem.newInstance(at, settings),
        fs.FileContext.getFileContext(at, settings),
    )

    def path(name: str) -> Any:
        return fs.Path(str(folder / name))

    system.mkdirs(path("one/two"))
    with_text = system.create(path("one/first"))
    with_text.writeBytes("text")
    with_text.close()
    context.rename(path("one/first"), path("one/second"), java_array(spark, fs.Options.Rename))
    (folder / "link").symlink_to("one/second")
    (folder / "nowhere").symlink_to("one/third")
    links = [
        context.getFileLinkStatus(path(name)).isSymlink()
        for name in ("link", "nowhere", "one/second")
    ]
    found = [(str(p.relative_to(folder)), oct(p.lstat().st_mode)) for p in folder.rglob("*")]
    return sorted(found), links, context.getFileLinkStatus(path("one/second")).getLen()


@pytest.mark.parametrize("umask", ["022", "077"])
def test_rights_checksums_and_links_are_hadoops(
    spark: SparkSession, tmp_path: Path, umask: str
) -> None:
    """Of folders, files and those that are renamed, by both of Hadoop's interfaces."""
    for name in ("ours", "hadoops"):
        (tmp_path / name).mkdir()
    ours = left(spark, tmp_path / "ours", CLASSES, umask)

    assert ours == left(spark, tmp_path / "hadoops", HADOOPS, umask)
    assert len(ours[0]) == 6
    assert ours[1] == [True, True, False]


def test_spark_takes_them(spark: SparkSession, tmp_path: Path) -> None:
    """Also for the files of a session."""
    system, _ = file_system(spark, str(tmp_path))

    assert system.getClass().getName() == CLASSES["fs.file.impl"]
