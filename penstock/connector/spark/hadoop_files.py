"""Small text files on any file system that Spark's Hadoop knows: local paths, HDFS, object stores."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

__all__ = [
    "delete",
    "list_files",
    "list_names",
    "make_directory",
    "read_text",
    "rename",
    "write_text",
]


def read_text(spark: SparkSession, path: str) -> str | None:
    """Read a UTF-8 file; None where there is none."""
    system, file = _file(spark, path)
    if not system.exists(file):
        return None
    stream = system.open(file)
    try:
        return bytes(stream.readAllBytes()).decode("utf-8")
    finally:
        stream.close()


def write_text(spark: SparkSession, path: str, text: str) -> None:
    """Write a UTF-8 file that is there whole or not at all; one that is there already stays."""
    system, file = _file(spark, path)
    temporary = file.suffix(".tmp")
    stream = system.create(temporary, True)
    try:
        stream.write(bytearray(text.encode("utf-8")))
    finally:
        stream.close()
    system.rename(temporary, file)


def list_names(spark: SparkSession, path: str) -> list[str]:
    """Give the names of what is in a directory, sorted; empty where there is no such directory."""
    system, directory = _file(spark, path)
    if not system.exists(directory):
        return []
    return sorted(status.getPath().getName() for status in system.listStatus(directory))


def rename(spark: SparkSession, path: str, target: str) -> bool:
    """Give a file or directory another name on its file system. Tells whether that was done: not where one is there."""
    system, file = _file(spark, path)
    _, other = _file(spark, target)
    return not system.exists(other) and bool(system.rename(file, other))


def delete(spark: SparkSession, path: str) -> None:
    """Remove a file, or a directory with all that is in it; nothing happens where there is none."""
    system, file = _file(spark, path)
    system.delete(file, True)


def _file(spark: SparkSession, path: str) -> tuple[Any, Any]:
    jvm = spark._jvm  # noqa: SLF001  PySpark has no public door to Hadoop's file systems
    assert jvm is not None, "checkpoints need a classic Spark session"
    hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
    conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
    return hadoop_path.getFileSystem(conf), hadoop_path


def list_files(spark: SparkSession, path: str) -> dict[str, int]:
    """Give the files below a directory: paths inside it with slashes, in bytes each; empty where there is none."""
    system, directory = _file(spark, path)
    if not system.exists(directory):
        return {}
    root = system.resolvePath(directory).toUri().getPath().rstrip("/")
    found = {}
    listed = system.listFiles(directory, True)
    while listed.hasNext():
        status = listed.next()
        whole = str(status.getPath().toUri().getPath())
        found[whole.removeprefix(f"{root}/")] = int(status.getLen())
    return found


def make_directory(spark: SparkSession, path: str) -> bool:
    """Make a directory and those above it. False where a file is in the way."""
    system, directory = _file(spark, path)
    if system.exists(directory):
        return bool(system.getFileStatus(directory).isDirectory())
    return bool(system.mkdirs(directory))
